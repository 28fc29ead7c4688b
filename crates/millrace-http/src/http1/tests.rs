use super::*;

/// Feeds `text` in pieces of `step` bytes; the answer, and what is left of the input.
fn read(text: &str, step: usize) -> Result<Option<(Answer, usize)>, TransportError> {
    let mut reader = AnswerReader::default();
    let mut input = BytesMut::new();
    let mut pieces = text.as_bytes().chunks(step);
    loop {
        if let Some(answer) = reader.advance(&mut input)? {
            let rest = pieces.map(<[u8]>::len).sum::<usize>() + input.len();
            return Ok(Some((answer, rest)));
        }
        match pieces.next() {
            Some(piece) => input.extend_from_slice(piece),
            None => return Ok(reader.end(&mut input).map(|answer| (answer, 0))),
        }
    }
}

fn whole(text: &str) -> Answer {
    let (answer, rest) = read(text, 1).unwrap().unwrap();
    assert_eq!(rest, 0);
    for step in [2, 3, 7, 1000] {
        let (same, rest) = read(text, step).unwrap().unwrap();
        assert_eq!(
            (same.status, &same.body, same.closes),
            (answer.status, &answer.body, answer.closes)
        );
        assert_eq!(rest, 0);
    }
    answer
}

#[test]
fn answers_end_by_length_chunks_or_the_end_of_the_connection() {
    let sized = whole("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let chunked = whole(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: 1\r\n\r\n",
    );
    let until_close = whole("HTTP/1.0 500 No\r\n\r\nhello");
    let empty = whole("HTTP/1.1 204 No Content\r\n\r\n");

    assert_eq!((sized.status, &*sized.body, sized.closes), (200, &b"hello"[..], false));
    assert_eq!((&*chunked.body, chunked.closes), (&b"hello"[..], false));
    assert_eq!(
        (until_close.status, &*until_close.body, until_close.closes),
        (500, &b"hello"[..], true)
    );
    assert!(empty.body.is_empty());
}

#[test]
fn interim_answers_are_skipped_and_the_next_answer_is_left_alone() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP";
    let (answer, rest) = read(text, 4).unwrap().unwrap();
    assert_eq!((&*answer.body, rest), (&b"x"[..], 4));
}

#[test]
fn connection_and_retry_after_are_read() {
    let closes = |headers: &str| {
        let version = if headers.starts_with('0') { "1.0" } else { "1.1" };
        let headers = headers.trim_start_matches('0');
        whole(&format!("HTTP/{version} 503 x\r\ncontent-length: 0\r\n{headers}\r\n")).closes
    };
    assert!(closes("Connection: close\r\n"));
    assert!(closes("connection: x, CLOSE\r\n"));
    assert!(!closes("connection: keep-alive\r\n"));
    assert!(closes("0"));
    assert!(!closes("0Connection: Keep-Alive\r\n"));
    let late = whole("HTTP/1.1 503 x\r\ncontent-length: 0\r\nretry-after: 3\r\n\r\n");
    assert_eq!(late.retry_after, Some(Duration::from_secs(3)));
    assert_eq!((late.header("Retry-After"), late.header("x-none")), (Some("3"), None));
}

#[test]
fn retry_after_is_a_number_of_seconds_or_a_date() {
    // RFC 9110's example, five seconds before it.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 5);
    let seconds = |text: &str| retry_after(text.as_bytes(), now).map(|time| time.as_secs());

    assert_eq!(seconds("120"), Some(120));
    assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(5));
    assert_eq!(seconds("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
    assert_eq!(seconds("soon"), None);
    assert_eq!(seconds("-1"), None);
}

#[test]
fn what_is_no_answer_is_refused() {
    let bad = [
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
    ];
    for text in bad {
        assert!(read(text, 1000).is_err(), "{text}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
    assert!(read(&endless, 1000).is_err());
    assert!(read("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", 9).unwrap().is_none());
}

#[test]
fn a_head_holds_no_line_breaks_but_its_own() {
    let mut head = Head::new("POST", "/a?b=c", "h:1").unwrap();
    head.header("x-a", "1 2").unwrap();

    let text = String::from_utf8(head.clone().finish(7)).unwrap();
    assert_eq!(text, "POST /a?b=c HTTP/1.1\r\nhost: h:1\r\nx-a: 1 2\r\ncontent-length: 7\r\n\r\n");
    assert_eq!(head.header("x-b", "1\r\nx-c: 2"), Err(HeadError));
    assert!(Head::new("GET", "/a b", "h").is_err());
    assert!(Head::new("GET", "/\r\n", "h").is_err());
}

#[test]
fn a_body_beyond_the_limit_is_cut_or_refused_however_its_end_is_found() {
    let read =
        |limit, text: &str| AnswerReader::new(limit).advance(&mut BytesMut::from(text.as_bytes()));
    let answers = [
        ("content-length: 9\r\n\r\n123456789", "1234"),
        ("content-length: 99999999999\r\n\r\n123", "123"),
        ("transfer-encoding: chunked\r\n\r\n3\r\n123\r\n3\r\n456\r\n0\r\n\r\n", "123"),
        ("connection: close\r\n\r\n123456789", "1234"),
    ];
    for (rest, kept) in answers {
        let text = format!("HTTP/1.1 503 x\r\n{rest}");

        let answer = read(AnswerLimit::Cut { bytes: 4 }, &text).unwrap().unwrap();
        assert_eq!((answer.status, answer.closes), (503, true), "{rest}");
        assert_eq!(answer.body, kept.as_bytes(), "{rest}");

        let refused = read(AnswerLimit::Refuse { bytes: 4 }, &text).unwrap_err();
        assert!(matches!(refused, TransportError::AnswerTooLarge { limit_bytes: 4 }), "{rest}");
    }
    let fits = "HTTP/1.1 200 x\r\ncontent-length: 4\r\n\r\n1234";
    let answer = read(AnswerLimit::Cut { bytes: 4 }, fits).unwrap().unwrap();
    assert_eq!((&*answer.body, answer.closes), (&b"1234"[..], false));
}
