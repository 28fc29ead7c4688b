//! HTTP/1.1 as a client speaks it: a request's head as bytes, an answer's head and body from bytes.
//!
//! Written by hand because a call's cost is the client's main figure: over hyper a send of 1 KB
//! took 2.9 times the CPU of a generator that repeats prepared bytes, this way 1.3 times
//! (`examples/call_cost.rs`). The grammar is httparse's.

use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes, BytesMut};
use millrace_core::instant_text;

use super::{AnswerLimit, TransportError};

/// Ten messages of 1 MiB, each byte of which JSON escapes with six.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;
/// A chunk's size in hexadecimal digits, extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 256;

/// The head of a request up to `Content-Length`, which the connection adds.
#[derive(Clone, Debug)]
pub struct Head(Vec<u8>);

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// How long `Retry-After` asks to wait, from now; zero for a date that is past.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
    /// From the status line to the empty line.
    pub(crate) head: Bytes,
    /// Whether the connection ends with this answer, and the server said so.
    pub(crate) closes: bool,
}

/// Characters of an answer that are shown to people.
const EXCERPT: usize = 200;

impl Answer {
    /// An answer that did not come over a connection. `head` is what stands from the status line
    /// to the empty line.
    pub fn new(status: u16, head: Bytes, body: Bytes) -> Answer {
        Answer { status, retry_after: None, body, head, closes: false }
    }

    /// The first header of that name, if its value is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = std::str::from_utf8(&self.head).ok()?.lines().skip(1);
        let mut headers = lines.filter_map(|line| line.split_once(':'));
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The beginning of the body as one line, for people.
    pub fn excerpt(&self) -> String {
        // Four bytes a character at most.
        let start = self.body.get(..EXCERPT * 4).unwrap_or(&self.body);
        let text = String::from_utf8_lossy(start);
        let words =
            text.split(|character: char| character.is_whitespace() || character.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        match words.join(" ") {
            line if line.is_empty() => "the answer has no text".to_owned(),
            line => line.chars().take(EXCERPT).collect(),
        }
    }
}

/// A name or value that would break out of its place in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a control character or a non-ASCII one in the head of a request")]
pub struct HeadError;

impl Head {
    /// `method` and `target` (path and query) of a request to `authority`.
    ///
    /// # Errors
    ///
    /// If one of them holds white space or a control character.
    pub fn new(method: &str, target: &str, authority: &str) -> Result<Head, HeadError> {
        let is_token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !is_token(method) || !is_token(target) || !is_token(authority) {
            return Err(HeadError);
        }
        let mut head = Vec::with_capacity(512);
        for part in [method, " ", target, " HTTP/1.1\r\nhost: ", authority, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        Ok(Head(head))
    }

    /// Adds a header.
    ///
    /// # Errors
    ///
    /// If the value holds a control character, or the name more than a name; nothing is added then.
    pub fn header(&mut self, name: &str, value: &str) -> Result<(), HeadError> {
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        if !is_name || !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(HeadError);
        }
        for part in [name, ": ", value, "\r\n"] {
            self.0.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }

    /// The bytes to send before the body.
    pub(super) fn finish(mut self, body_bytes: usize) -> Vec<u8> {
        self.0.extend_from_slice(b"content-length: ");
        self.0.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
        self.0.extend_from_slice(b"\r\n\r\n");
        self.0
    }
}

/// Reads one answer as its bytes come in.
#[derive(Debug, Default)]
pub(super) struct AnswerReader {
    parsed: Option<(ParsedHead, Framing)>,
    /// The chunks so far.
    chunks: BytesMut,
    limit: AnswerLimit,
}

impl Default for AnswerLimit {
    fn default() -> AnswerLimit {
        AnswerLimit::Refuse { bytes: ANSWER_BYTES_MAX }
    }
}

impl AnswerLimit {
    fn bytes(self) -> usize {
        match self {
            AnswerLimit::Refuse { bytes } | AnswerLimit::Cut { bytes } => bytes,
        }
    }
}

#[derive(Clone, Debug)]
struct ParsedHead {
    status: u16,
    retry_after: Option<Duration>,
    closes: bool,
    bytes: Bytes,
}

/// How the end of the body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked(Chunk),
    UntilClose,
}

/// Where in a chunked body the input stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Size,
    /// That many bytes of the chunk are missing, its line end included.
    Data(usize),
    Trailer,
}

impl AnswerReader {
    pub(super) fn new(limit: AnswerLimit) -> AnswerReader {
        AnswerReader { limit, ..AnswerReader::default() }
    }

    /// The answer, if it is whole, or cut at the limit; takes from `input` what belongs to it.
    pub(super) fn advance(
        &mut self,
        input: &mut BytesMut,
    ) -> Result<Option<Answer>, TransportError> {
        match (self.advance_within(input), self.limit, &self.parsed) {
            (
                Err(TransportError::AnswerTooLarge { limit_bytes }),
                AnswerLimit::Cut { .. },
                Some((head, framing)),
            ) => {
                let mut body = match framing {
                    Framing::Chunked(_) => std::mem::take(&mut self.chunks),
                    Framing::Length(_) | Framing::UntilClose => input.split(),
                };
                body.truncate(limit_bytes);
                Ok(Some(Answer { closes: true, ..head.with(body.freeze()) }))
            }
            (advanced, ..) => advanced,
        }
    }

    fn advance_within(&mut self, input: &mut BytesMut) -> Result<Option<Answer>, TransportError> {
        let limit_bytes = self.limit.bytes();
        if self.parsed.is_none() {
            self.parsed = parse_head(input)?;
        }
        let Some((head, framing)) = &mut self.parsed else { return Ok(None) };
        let body = match framing {
            Framing::Length(length) if input.len() >= *length && *length <= limit_bytes => {
                input.split_to(*length).freeze()
            }
            Framing::Length(length) => {
                check_size(*length, limit_bytes)?;
                input.reserve(*length - input.len());
                return Ok(None);
            }
            Framing::Chunked(chunk) => {
                if !read_chunks(chunk, input, &mut self.chunks, limit_bytes)? {
                    return Ok(None);
                }
                std::mem::take(&mut self.chunks).freeze()
            }
            Framing::UntilClose => {
                check_size(input.len(), limit_bytes)?;
                return Ok(None);
            }
        };
        Ok(Some(head.with(body)))
    }

    /// Reads the head. Says whether the body comes in chunks, once that is known.
    pub(super) fn begin(&mut self, input: &mut BytesMut) -> Result<Option<bool>, TransportError> {
        if self.parsed.is_none() {
            self.parsed = parse_head(input)?;
        }
        let framing = self.parsed.as_ref().map(|(_, framing)| framing);
        Ok(framing.map(|framing| matches!(framing, Framing::Chunked(_))))
    }

    /// What has come of a body in chunks since the last call, and whether that was all of it.
    pub(super) fn take_chunks(
        &mut self,
        input: &mut BytesMut,
    ) -> Result<(Bytes, bool), TransportError> {
        let Some((_, Framing::Chunked(chunk))) = &mut self.parsed else {
            return Ok((Bytes::new(), false));
        };
        let limit_bytes = self.limit.bytes();
        let is_last = read_chunks(chunk, input, &mut self.chunks, limit_bytes)?;
        Ok((self.chunks.split().freeze(), is_last))
    }

    /// The status of the answer, once its head is there.
    pub(super) fn status(&self) -> Option<u16> {
        self.parsed.as_ref().map(|(head, _)| head.status)
    }

    /// The answer, if the end of the connection ends it.
    pub(super) fn end(&mut self, input: &mut BytesMut) -> Option<Answer> {
        match &self.parsed {
            Some((head, Framing::UntilClose)) => Some(head.with(input.split().freeze())),
            _ => None,
        }
    }
}

impl ParsedHead {
    fn with(&self, body: Bytes) -> Answer {
        let ParsedHead { status, retry_after, closes, .. } = *self;
        Answer { status, retry_after, body, head: self.bytes.clone(), closes }
    }
}

/// Takes the head off `input` once it is whole; heads of interim answers (1xx) are skipped.
fn parse_head(input: &mut BytesMut) -> Result<Option<(ParsedHead, Framing)>, TransportError> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(input).map_err(|error| not_http(error.to_string()))?;
        let httparse::Status::Complete(length) = parsed else {
            if input.len() > HEAD_BYTES_MAX {
                return Err(not_http(format!("a head of more than {HEAD_BYTES_MAX} bytes")));
            }
            return Ok(None);
        };
        let status = response.code.unwrap_or_default();
        if (100..200).contains(&status) && status != 101 {
            input.advance(length);
            continue;
        }
        let (mut head, framing) = read_headers(status, response.version, response.headers)?;
        head.bytes = input.split_to(length).freeze();
        return Ok(Some((head, framing)));
    }
}

fn read_headers(
    status: u16,
    version: Option<u8>,
    headers: &[httparse::Header<'_>],
) -> Result<(ParsedHead, Framing), TransportError> {
    // HTTP/1.0 servers close unless they say otherwise.
    let closes = version != Some(1);
    let mut head = ParsedHead { status, retry_after: None, closes, bytes: Bytes::new() };
    let mut length: Option<usize> = None;
    let mut is_chunked = false;
    for header in headers {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let given = number(value).ok_or_else(|| not_http("a bad content-length".to_owned()))?;
            if length.is_some_and(|length| length != given) {
                return Err(not_http("two content-lengths".to_owned()));
            }
            length = Some(given);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(not_http("an unknown transfer-encoding".to_owned()));
            }
            is_chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            if options.clone().any(|option| option.eq_ignore_ascii_case(b"close")) {
                head.closes = true;
            } else if options.any(|option| option.eq_ignore_ascii_case(b"keep-alive")) {
                head.closes = false;
            }
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            head.retry_after = retry_after(value, SystemTime::now());
        }
    }

    let framing = match (is_chunked, length) {
        _ if status == 204 || status == 304 => Framing::Length(0),
        (true, None) => Framing::Chunked(Chunk::Size),
        // Whoever sends both lets two readers see two answers; RFC 9112, 6.3.
        (true, Some(_)) => return Err(not_http("both content-length and chunks".to_owned())),
        (false, Some(length)) => Framing::Length(length),
        (false, None) => {
            head.closes = true;
            Framing::UntilClose
        }
    };
    Ok((head, framing))
}

/// How long after `now` the time is, which is a number of seconds or a date (RFC 9110, 10.2.3).
fn retry_after(value: &[u8], now: SystemTime) -> Option<Duration> {
    if let Some(seconds) = number(value) {
        return Some(Duration::from_secs(seconds as u64));
    }
    let at = instant_text::parse_http(std::str::from_utf8(value).ok()?)?;
    let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Some(Duration::from_secs(at.saturating_sub(now_s)))
}

/// Moves chunks from `input` to `out`; true when the last one and the trailer are through.
fn read_chunks(
    chunk: &mut Chunk,
    input: &mut BytesMut,
    out: &mut BytesMut,
    limit_bytes: usize,
) -> Result<bool, TransportError> {
    loop {
        match chunk {
            Chunk::Size => match httparse::parse_chunk_size(input) {
                Ok(httparse::Status::Complete((length, size))) => {
                    let size = usize::try_from(size).unwrap_or(usize::MAX);
                    check_size(size.saturating_add(out.len()), limit_bytes)?;
                    input.advance(length);
                    *chunk = if size == 0 { Chunk::Trailer } else { Chunk::Data(size + 2) };
                }
                Ok(httparse::Status::Partial) if input.len() < CHUNK_LINE_BYTES_MAX => {
                    return Ok(false);
                }
                Ok(httparse::Status::Partial) | Err(_) => {
                    return Err(not_http("a bad chunk size".to_owned()));
                }
            },
            Chunk::Data(missing) => {
                let here = input.split_to((*missing).min(input.len()));
                let data = here.len().min(missing.saturating_sub(2));
                out.extend_from_slice(here.get(..data).unwrap_or_default());
                *missing -= here.len();
                if *missing > 0 {
                    return Ok(false);
                }
                *chunk = Chunk::Size;
            }
            Chunk::Trailer => {
                let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else {
                    if input.len() > HEAD_BYTES_MAX {
                        return Err(not_http("a trailer that is too long".to_owned()));
                    }
                    return Ok(false);
                };
                input.advance(end + 2);
                if end == 0 {
                    return Ok(true);
                }
            }
        }
    }
}

fn check_size(bytes: usize, limit_bytes: usize) -> Result<(), TransportError> {
    if bytes > limit_bytes {
        return Err(TransportError::AnswerTooLarge { limit_bytes });
    }
    Ok(())
}

/// Decimal digits only.
fn number(text: &[u8]) -> Option<usize> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

fn not_http(problem: String) -> TransportError {
    TransportError::NotHttp(problem)
}

#[cfg(test)]
mod tests;
