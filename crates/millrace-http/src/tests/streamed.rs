//! Answers that are taken while they come.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A server that answers one request with these bytes, and then closes.
async fn answering(answer: Vec<u8>) -> Transport {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(&answer).await.unwrap();
        stream.shutdown().await.unwrap();
        // Not before it has been read.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    Transport::new(Endpoint::parse(&url).unwrap(), &TransportOptions::default()).unwrap()
}

async fn ask(transport: &Transport) -> Result<Streamed, TransportError> {
    transport.call_streamed(Head::new("POST", "/", "h").unwrap(), Bytes::new()).await
}

fn in_chunks(status: u16, chunks: &[&[u8]]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut answer = head.into_bytes();
    for chunk in chunks {
        answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
        answer.extend_from_slice(chunk);
        answer.extend_from_slice(b"\r\n");
    }
    answer
}

#[tokio::test]
async fn a_body_is_taken_piece_by_piece_however_long_it_is() {
    // More than an answer may have that is read whole.
    let chunk = vec![b'x'; 1 << 20];
    let chunks = vec![&chunk[..]; 80];
    let mut answer = in_chunks(200, &chunks);
    answer.extend_from_slice(b"0\r\n\r\n");
    let transport = answering(answer).await;

    let Streamed::Body(mut body) = ask(&transport).await.unwrap() else { panic!("a body") };
    let (mut length, mut largest) = (0, 0);
    while let Some(piece) = body.next().await.unwrap() {
        length += piece.len();
        largest = largest.max(piece.len());
    }

    assert_eq!(length, 80 << 20);
    assert!(largest <= 1 << 20, "{largest} bytes at once");
    assert_eq!(body.next().await.unwrap(), None, "it stays at its end");
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_no_whole_one() {
    let transport = answering(in_chunks(200, &[b"first", b"second"])).await;

    let Streamed::Body(mut body) = ask(&transport).await.unwrap() else { panic!("a body") };
    let mut taken = Vec::new();
    let error = loop {
        match body.next().await {
            Ok(piece) => taken.extend(piece.expect("it has no end")),
            Err(error) => break error,
        }
    };

    assert_eq!(taken, b"firstsecond");
    assert!(matches!(error, TransportError::BrokenAnswer(_)), "{error}");
}

#[tokio::test]
async fn refusals_come_whole_in_whatever_form() {
    let mut chunked = in_chunks(403, &[b"not ", b"you"]);
    chunked.extend_from_slice(b"0\r\n\r\n");
    let with_length = b"HTTP/1.1 403 X\r\nContent-Length: 7\r\n\r\nnot you".to_vec();
    let until_close = b"HTTP/1.1 403 X\r\n\r\nnot you".to_vec();
    for answer in [chunked, with_length, until_close] {
        let transport = answering(answer).await;

        let Streamed::Whole(answer) = ask(&transport).await.unwrap() else { panic!("whole") };

        assert_eq!((answer.status, &*answer.body), (403, &b"not you"[..]));
    }
}
