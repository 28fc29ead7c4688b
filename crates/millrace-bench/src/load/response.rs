//! Answers: where one ends, and the values in it.
//!
//! Values are found by their names rather than by parsing everything: message bodies are our own
//! and hold no quotes or angle brackets. What a batch refused is parsed in full.

use std::ops::Range;

use anyhow::{Context, Result};
use memchr::{memchr, memmem};

use crate::access::Protocol;

const HEADERS_MAX: usize = 64;
/// Bytes of a refusal that are told.
const TOLD_MAX: usize = 300;

/// Whether more bytes of an answer may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Open,
    /// The server has closed the connection.
    Ended,
}

/// One complete answer at the start of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The server says that it closes the connection.
    pub(crate) closes: bool,
    pub(crate) body: Range<usize>,
}

/// IronMQ: a post is answered with 200 or 201. SQS: always 200.
pub(crate) fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The text of an answer that is no success, for people: the error's code and text, whatever it is
/// written in; else the beginning of it.
pub(crate) fn refusal(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let said = said_in_json(&text).or_else(|| said_in_markup(&text));
    let said = said.unwrap_or_else(|| text.trim().to_owned());
    if said.is_empty() {
        return format!("status {status}");
    }
    let end = (0..=said.len().min(TOLD_MAX)).rev().find(|end| said.is_char_boundary(*end));
    format!("status {status}: {}", said.get(..end.unwrap_or(0)).unwrap_or_default())
}

fn said_in_json(text: &str) -> Option<String> {
    let parsed: serde_json::Value = serde_json::from_str(text).ok()?;
    let of = |names: &[&str]| names.iter().find_map(|name| parsed[*name].as_str());
    let code = of(&["__type", "code", "Code"]).map(|code| code.rsplit('#').next().unwrap_or(code));
    joined(code, of(&["message", "Message", "msg"]))
}

/// Of XML the code and the message; of a page, which a proxy may answer with, its title.
fn said_in_markup(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('<') {
        return None;
    }
    let within = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once('<').map(|(content, _)| plain(content))
    };
    let (code, message) = (within("Code"), within("Message"));
    joined(code.as_deref(), message.as_deref())
        .or_else(|| within("title"))
        .or_else(|| Some("an answer in XML or HTML without an error in it".to_owned()))
}

fn joined(code: Option<&str>, message: Option<&str>) -> Option<String> {
    match (code, message) {
        (Some(code), Some(message)) => Some(format!("{code}: {message}")),
        (code, message) => code.or(message).map(str::to_owned),
    }
}

/// A text of XML without its entities.
fn plain(text: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'")];
    let text = entities
        .iter()
        .fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter));
    text.replace("&amp;", "&").trim().to_owned()
}

/// Parses the answer in `buffer`; `None` while it is incomplete. A chunked body is joined in
/// place, once all of it is there. One whose length nobody tells lasts until the connection ends.
pub(crate) fn parse(buffer: &mut [u8], input: Input) -> Result<Option<Answer>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let start = match head.parse(buffer).context("answer is not HTTP")? {
        httparse::Status::Complete(start) => start,
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.unwrap_or(0);
    if matches!(status, 100 | 102..=199) {
        // RFC 9110: interim, the answer follows.
        let answer = parse(buffer.get_mut(start..).unwrap_or_default(), input)?;
        let at = |place: Range<usize>| start + place.start..start + place.end;
        return Ok(answer.map(|answer| Answer { body: at(answer.body), ..answer }));
    }
    let (mut length, mut is_chunked, mut closes) = (None, false, head.version == Some(0));
    for header in head.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).context("content-length")?;
            length = Some(text.trim().parse::<usize>().context("content-length")?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = header.value.eq_ignore_ascii_case(b"chunked");
        } else if header.name.eq_ignore_ascii_case("connection") {
            closes = header.value.eq_ignore_ascii_case(b"close");
        }
    }
    if is_chunked {
        let end = join_chunks(buffer, start)?;
        return Ok(end.map(|end| Answer { status, closes, body: start..end }));
    }
    // RFC 9110: these have no content, whatever their headers say.
    let length = if matches!(status, 204 | 304) { Some(0) } else { length };
    let Some(length) = length else {
        let whole = Answer { status, closes: true, body: start..buffer.len() };
        return Ok((input == Input::Ended).then_some(whole));
    };
    let end = start.checked_add(length).context("content-length is too large")?;
    Ok((buffer.len() >= end).then_some(Answer { status, closes, body: start..end }))
}

/// Appends where each value of `name` stands in `body`, quotes or tags left out.
pub(crate) fn find_values(
    body: &[u8],
    name: &str,
    protocol: Protocol,
    found: &mut Vec<Range<usize>>,
) {
    match protocol {
        Protocol::Json => find_json(body, name, found),
        Protocol::Query => find_xml(body, name, found),
    }
}

/// Strings that are members of that name.
pub(crate) fn find_json(body: &[u8], name: &str, found: &mut Vec<Range<usize>>) {
    let key = format!("\"{name}\"");
    found.clear();
    let finder = memmem::Finder::new(key.as_bytes());
    let mut at = 0;
    while let Some(hit) = body.get(at..).and_then(|rest| finder.find(rest)) {
        at += hit + key.len();
        let rest = &body[at..];
        let Some(open) = memchr(b'"', rest) else { return };
        let is_key = rest[..open].trim_ascii() == b":";
        if !is_key {
            continue;
        }
        at += open + 1;
        let Some(length) = memchr(b'"', &body[at..]) else { return };
        found.push(at..at + length);
        at += length;
    }
}

fn find_xml(body: &[u8], name: &str, found: &mut Vec<Range<usize>>) {
    let tag = format!("<{name}>");
    found.clear();
    let finder = memmem::Finder::new(tag.as_bytes());
    let mut at = 0;
    while let Some(hit) = body.get(at..).and_then(|rest| finder.find(rest)) {
        at += hit + tag.len();
        let Some(length) = memchr(b'<', &body[at..]) else { return };
        found.push(at..at + length);
        at += length;
    }
}

/// Which entries of a batch of `count` failed: none where all of `count` are named as done.
pub(crate) fn failed_entries(body: &[u8], count: usize, protocol: Protocol) -> Vec<usize> {
    let done = match protocol {
        Protocol::Json => memmem::find_iter(body, b"\"Id\"").count(),
        Protocol::Query => memmem::find_iter(body, b"<Id>").count(),
    };
    if done == count && memmem::find(body, b"SenderFault").is_none() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(body);
    let successes: Vec<usize> = match protocol {
        Protocol::Json => {
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let entries = parsed["Successful"].as_array().into_iter().flatten();
            entries.filter_map(|entry| entry["Id"].as_str()?.parse().ok()).collect()
        }
        Protocol::Query => {
            // Result entries end with the same tag as they begin, error entries have another.
            let entries = text.split("ResultEntry>").skip(1).step_by(2);
            entries
                .filter_map(|entry| entry.split_once("<Id>")?.1.split('<').next()?.parse().ok())
                .collect()
        }
    };
    (0..count).filter(|index| !successes.contains(index)).collect()
}

/// Joins the chunks that begin at `start`; where the body ends, or `None` while some are missing.
fn join_chunks(buffer: &mut [u8], start: usize) -> Result<Option<usize>> {
    let (mut at, mut chunks) = (start, Vec::new());
    loop {
        let Some(line) = buffer.get(at..).and_then(|rest| memmem::find(rest, b"\r\n")) else {
            return Ok(None);
        };
        let digits = std::str::from_utf8(&buffer[at..at + line]).context("chunk size")?;
        let size = digits.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).context("chunk size")?;
        at += line + 2;
        let end = at.checked_add(size).context("chunk is too large")?;
        if buffer.len() < end.saturating_add(2) {
            return Ok(None);
        }
        if size == 0 {
            break;
        }
        chunks.push(at..end);
        at = end + 2;
    }
    let mut end = start;
    for chunk in chunks {
        let size = chunk.len();
        buffer.copy_within(chunk, end);
        end += size;
    }
    Ok(Some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(body: &[u8], name: &str, protocol: Protocol) -> Vec<String> {
        let mut found = Vec::new();
        find_values(body, name, protocol, &mut found);
        found.into_iter().map(|at| String::from_utf8_lossy(&body[at]).into_owned()).collect()
    }

    #[test]
    fn a_refusal_is_for_people_whatever_it_is_written_in() {
        let xml = "<?xml version=\"1.0\"?><Response><Errors><Error><Code>InvalidAction</Code>\
                   <Message>No &quot;CreateDomain&quot; here</Message></Error></Errors></Response>";
        let json = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"No such queue."}"#;
        let said = |body: &str| refusal(400, body.as_bytes());

        assert_eq!(said(xml), "status 400: InvalidAction: No \"CreateDomain\" here");
        assert_eq!(said(json), "status 400: QueueDoesNotExist: No such queue.");
        assert_eq!(said(r#"{"msg":"Not found"}"#), "status 400: Not found");
        assert_eq!(said("<html><title>Bad Gateway</title>"), "status 400: Bad Gateway");
        assert!(!said("<Response/>").contains('<'));
        assert_eq!(said(" gone\n"), "status 400: gone");
        assert_eq!(said(""), "status 400");
    }

    #[test]
    fn an_answer_is_complete_with_its_last_byte() {
        let all = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        for end in 0..all.len() {
            assert_eq!(parse(&mut all[..end].to_vec(), Input::Ended).unwrap(), None);
        }

        let answer = parse(&mut all.to_vec(), Input::Open).unwrap().unwrap();

        assert_eq!((answer.status, answer.closes, &all[answer.body]), (200, false, &b"{}"[..]));
    }

    #[test]
    fn answers_without_content_need_no_length() {
        let all = b"HTTP/1.1 204 No Content\r\n\r\n";

        assert!(parse(&mut all.to_vec(), Input::Open).unwrap().unwrap().body.is_empty());
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let all = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
        for end in 0..all.len() {
            assert_eq!(parse(&mut all[..end].to_vec(), Input::Ended).unwrap(), None);
        }

        let answer = parse(&mut all.to_vec(), Input::Open).unwrap().unwrap();

        assert_eq!((answer.status, &all[answer.body]), (200, &b"a"[..]));
    }

    #[test]
    fn chunks_are_joined() {
        let all = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n";
        for end in 0..all.len() {
            assert_eq!(parse(&mut all[..end].to_vec(), Input::Ended).unwrap(), None);
        }

        let mut buffer = all.to_vec();
        let answer = parse(&mut buffer, Input::Open).unwrap().unwrap();

        assert_eq!(&buffer[answer.body], b"abcde");
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse(&mut b"SSH-2.0-x\r\n\r\n".to_vec(), Input::Open).is_err());
    }

    #[test]
    fn an_answer_without_a_length_lasts_until_the_connection_ends() {
        let all = b"HTTP/1.1 200 OK\r\n\r\nabc";

        assert_eq!(parse(&mut all.to_vec(), Input::Open).unwrap(), None);
        let answer = parse(&mut all.to_vec(), Input::Ended).unwrap().unwrap();

        assert_eq!((answer.closes, &all[answer.body]), (true, &b"abc"[..]));
    }

    #[test]
    fn values_are_found_in_both_protocols() {
        let json = br#"{"Messages":[{"MD5OfBody":"x","Body" : "one"},{"Body":"two"}]}"#;
        assert_eq!(values(json, "Body", Protocol::Json), ["one", "two"]);

        let xml = b"<Message><MD5OfBody>x</MD5OfBody><Body>one</Body></Message><Body>two</Body>";
        assert_eq!(values(xml, "Body", Protocol::Query), ["one", "two"]);
    }

    #[test]
    fn failed_entries_are_those_not_named_as_done() {
        let json = br#"{"Successful":[{"Id":"1"}],"Failed":[{"Id":"0","SenderFault":true}]}"#;
        assert_eq!(failed_entries(json, 2, Protocol::Json), [0]);
        assert!(failed_entries(br#"{"Successful":[{"Id":"0"}]}"#, 1, Protocol::Json).is_empty());

        let xml = b"<DeleteMessageBatchResultEntry><Id>1</Id></DeleteMessageBatchResultEntry>\
            <BatchResultErrorEntry><Id>0</Id><SenderFault>true</SenderFault></BatchResultErrorEntry>";
        assert_eq!(failed_entries(xml, 2, Protocol::Query), [0]);
    }
}
