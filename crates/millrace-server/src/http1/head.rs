//! A request's head: request line, headers, and how its body is framed.
//!
//! Parsing is httparse's; this file decides what is acceptable. Anything on which two parsers
//! could disagree about where a request ends (RFC 9112 section 6.3, request smuggling) is refused.

use std::mem::MaybeUninit;

use millrace_wire::Header;
use smallvec::SmallVec;

/// SDKs send 12 to 20.
pub(crate) const MAX_HEADERS: usize = 100;

pub(crate) type Headers<'a> = SmallVec<[Header<'a>; 24]>;

/// A complete head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) origin: Option<&'a str>,
    pub(crate) framing: Framing,
    pub(crate) is_http_10: bool,
    pub(crate) is_kept_alive: bool,
}

/// Where the body begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framing {
    pub(crate) head_bytes: usize,
    pub(crate) body: BodyLength,
    pub(crate) expects_continue: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Bytes(usize),
    Chunked,
}

/// Why a request is not answered by the service. The connection is closed after saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed(&'static str),
    HeadTooLarge,
    TooManyHeaders,
    BodyTooLarge,
    /// Other bodies hold all the memory there is for them.
    Busy,
    Version,
    TransferCoding,
}

impl Refusal {
    pub(crate) fn status(self) -> u16 {
        match self {
            Refusal::Malformed(_) => 400,
            Refusal::HeadTooLarge | Refusal::TooManyHeaders => 431,
            Refusal::BodyTooLarge => 413,
            Refusal::Busy => 503,
            Refusal::Version => 505,
            Refusal::TransferCoding => 501,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::Malformed(text) => text,
            Refusal::HeadTooLarge => "request head is too large",
            Refusal::TooManyHeaders => "request has too many headers",
            Refusal::BodyTooLarge => "request body is too large",
            Refusal::Busy => "too many large requests at a time",
            Refusal::Version => "HTTP version is not supported",
            Refusal::TransferCoding => "transfer coding is not supported",
        }
    }
}

/// httparse takes a lone LF for the end of a line. Where others do not, a line is hidden from one of
/// the two.
pub(crate) const BARE_LF: Refusal = Refusal::Malformed("lines end with CR LF");

/// Parses what begins at `bytes`; `None` means that the head is not complete.
pub(crate) fn parse<'a>(
    bytes: &'a [u8],
    headers: &mut Headers<'a>,
) -> Result<Option<Head<'a>>, Refusal> {
    let mut slots = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let head_bytes = match request.parse_with_uninit_headers(bytes, &mut slots) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooManyHeaders),
        Err(httparse::Error::Version) => return Err(Refusal::Version),
        Err(_) => return Err(Refusal::Malformed("malformed request")),
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Err(Refusal::Malformed("malformed request line"));
    };
    if !bytes[..head_bytes].ends_with(b"\r\n\r\n") {
        return Err(BARE_LF);
    }
    let is_http_10 = minor == 0;
    let mut facts = Facts { is_http_10, ..Facts::default() };
    for header in request.headers.iter() {
        let line = header.name.as_ptr().addr() - bytes.as_ptr().addr();
        if !bytes[..line].ends_with(b"\r\n") {
            return Err(BARE_LF);
        }
        facts.note(header.name, header.value)?;
        headers.push(Header { name: header.name, value: header.value });
    }
    let body = facts.body_length()?;
    if facts.hosts > 1 || (facts.hosts == 0 && !is_http_10) {
        return Err(Refusal::Malformed("exactly one Host header is required"));
    }
    let (path, query) = split_target(target)?;
    Ok(Some(Head {
        method,
        path,
        query,
        origin: facts.origin,
        framing: Framing {
            head_bytes,
            body,
            expects_continue: facts.expects_continue && !is_http_10,
        },
        is_http_10,
        is_kept_alive: !facts.says_close && (!is_http_10 || facts.says_keep_alive),
    }))
}

/// Whether `bytes`, of which the first `seen` were looked at before, may hold the end of a head.
/// Parsing again only then keeps a head that trickles in from costing quadratic time.
pub(crate) fn may_end(bytes: &[u8], seen: usize) -> bool {
    let fresh = &bytes[seen.saturating_sub(3)..];
    fresh.windows(2).any(|pair| pair == b"\n\n")
        || fresh.windows(3).any(|triple| triple == b"\n\r\n")
}

/// What the version and the headers say about this connection and body.
#[derive(Default)]
struct Facts<'a> {
    is_http_10: bool,
    content_length: Option<usize>,
    transfer_encodings: usize,
    is_chunked: bool,
    says_close: bool,
    says_keep_alive: bool,
    expects_continue: bool,
    hosts: usize,
    origin: Option<&'a str>,
}

impl<'a> Facts<'a> {
    fn note(&mut self, name: &str, value: &'a [u8]) -> Result<(), Refusal> {
        let is = |expected: &str| name.eq_ignore_ascii_case(expected);
        match name.len() {
            4 if is("host") => self.hosts += 1,
            6 if is("origin") => self.origin = str::from_utf8(value).ok(),
            6 if is("expect") => {
                self.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if is("connection") => self.note_connection(value),
            14 if is("content-length") => {
                let length = parse_length(value)?;
                if self.content_length.is_some_and(|before| before != length) {
                    return Err(Refusal::Malformed("Content-Length headers differ"));
                }
                self.content_length = Some(length);
            }
            17 if is("transfer-encoding") => {
                self.transfer_encodings += 1;
                self.is_chunked = value.eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.says_close |= option.eq_ignore_ascii_case(b"close");
            self.says_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn body_length(&self) -> Result<BodyLength, Refusal> {
        match (self.transfer_encodings, self.content_length) {
            (0, length) => Ok(BodyLength::Bytes(length.unwrap_or(0))),
            (_, Some(_)) => {
                Err(Refusal::Malformed("both Content-Length and Transfer-Encoding are given"))
            }
            (1, None) if self.is_http_10 => {
                Err(Refusal::Malformed("Transfer-Encoding needs HTTP/1.1"))
            }
            (1, None) if self.is_chunked => Ok(BodyLength::Chunked),
            (1, None) => Err(Refusal::TransferCoding),
            _ => Err(Refusal::Malformed("more than one Transfer-Encoding is given")),
        }
    }
}

/// Digits only: no sign, no list, no white space inside.
fn parse_length(value: &[u8]) -> Result<usize, Refusal> {
    const BAD: Refusal = Refusal::Malformed("Content-Length is not a number");
    if value.is_empty() || value.len() > 18 {
        return Err(BAD);
    }
    value.iter().try_fold(0_usize, |length, byte| match byte {
        b'0'..=b'9' => length
            .checked_mul(10)
            .and_then(|length| length.checked_add(usize::from(byte - b'0')))
            .ok_or(BAD),
        _ => Err(BAD),
    })
}

/// Path and query of origin form (`/a?b`), absolute form (`http://host/a?b`) or `*`.
fn split_target(target: &str) -> Result<(&str, &str), Refusal> {
    if target == "*" {
        return Ok(("/", ""));
    }
    let absolute = if target.starts_with('/') { None } else { target.split_once("://") };
    let target = match absolute {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find(['/', '?']).map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let target = target.split_once('#').map_or(target, |(target, _)| target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "" => Ok(("/", query)),
        path if path.starts_with('/') => Ok((path, query)),
        _ => Err(Refusal::Malformed("request target is not a path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(head: &str) -> Result<Framing, Refusal> {
        parse(head.as_bytes(), &mut Headers::new()).map(|head| head.unwrap().framing)
    }

    fn target(head: &str) -> (String, String) {
        let mut headers = Headers::new();
        let head = parse(head.as_bytes(), &mut headers).unwrap().unwrap();
        (head.path.to_owned(), head.query.to_owned())
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        for headers in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Content-Length : 5\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Host: b\r\n",
            "A: b\r\n folded: c\r\n",
            "A: b\nContent-Length: 5\r\n",
            "Content-Length: 5\n",
            "A: b\r\n\nB: c\r\n",
        ] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");

            assert!(matches!(outcome(&head), Err(Refusal::Malformed(_))), "{headers}");
        }
    }

    #[test]
    fn unknown_transfer_coding_is_refused() {
        for value in ["gzip", "gzip, chunked", "chunked, chunked", "xchunked", "chunked;a"] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {value}\r\n\r\n");

            assert_eq!(outcome(&head), Err(Refusal::TransferCoding), "{value}");
        }
    }

    #[test]
    fn equal_lengths_are_one_length() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n";

        assert_eq!(outcome(head).unwrap().body, BodyLength::Bytes(5));
    }

    #[test]
    fn targets_become_path_and_query() {
        for (line, path, query) in [
            ("/", "/", ""),
            ("/a/b?c=d?e", "/a/b", "c=d?e"),
            ("/?x=http://y", "/", "x=http://y"),
            ("http://host:1/a?b", "/a", "b"),
            ("http://host", "/", ""),
            ("http://host?b", "/", "b"),
            ("*", "/", ""),
        ] {
            let head = format!("GET {line} HTTP/1.1\r\nHost: a\r\n\r\n");

            assert_eq!(target(&head), (path.to_owned(), query.to_owned()), "{line}");
        }
    }

    #[test]
    fn end_of_head_is_seen_across_reads() {
        assert!(may_end(b"a\r\n\r\n", 4));
        assert!(may_end(b"a\n\n", 2));
        assert!(!may_end(b"a\r\n\r", 4));
        assert!(!may_end(b"\r\n\r\nabcdefg", 10));
    }
}
