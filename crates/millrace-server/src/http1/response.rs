//! A response's head, written into a reused buffer.

use hyper::StatusCode;
use millrace_wire::Response;

use crate::{policy::AllowedOrigin, scratch};

/// What the response says beyond what the service gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing<'a> {
    pub(crate) connection: Connection,
    pub(crate) body: BodyEnd,
    pub(crate) allowed_origin: Option<AllowedOrigin<'a>>,
}

/// The `Connection` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// None: what HTTP/1.1 keeps alive by itself.
    Kept,
    /// `keep-alive`, for HTTP/1.0.
    KeptAloud,
    Close,
}

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection closes: HTTP/1.0 knows no chunks.
    Close,
}

/// Appends status line and headers, the empty line included.
pub(crate) fn push_head(out: &mut Vec<u8>, response: &Response, framing: Framing<'_>) {
    push_status_line(out, response.status);
    if !response.content_type.is_empty() {
        push_header(out, "Content-Type", response.content_type.as_bytes());
    }
    out.extend_from_slice(b"Date: ");
    scratch::push_date(out);
    out.extend_from_slice(b"\r\nx-amzn-RequestId: ");
    if response.request_id.is_empty() {
        scratch::push_request_id(out);
    } else {
        out.extend_from_slice(response.request_id.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    for (name, value) in &response.headers {
        if is_value(value) {
            push_header(out, name, value.as_bytes());
        }
    }
    for (name, value) in framing.allowed_origin.into_iter().flat_map(AllowedOrigin::headers) {
        push_header(out, name, value.as_bytes());
    }
    match framing.connection {
        Connection::Kept => {}
        Connection::KeptAloud => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        Connection::Close => out.extend_from_slice(b"Connection: close\r\n"),
    }
    if framing.body == BodyEnd::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    } else if framing.body == BodyEnd::Length && has_length(response.status) {
        let mut digits = itoa::Buffer::new();
        push_header(out, "Content-Length", digits.format(response.body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether a response of that status has a body at all.
pub(crate) fn has_length(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// Whether a header value cannot end its line.
pub(crate) fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| (byte >= b' ' && byte != 0x7f) || byte == b'\t')
}

fn push_status_line(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    // A service that answers nonsense is at fault, not its client.
    let status = if (100..1000).contains(&status) { status } else { 500 };
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn reason(status: u16) -> &'static str {
    match status {
        // RFC 9110; the crate has the name that it had before.
        413 => "Content Too Large",
        _ => {
            let known = StatusCode::from_u16(status).ok();
            known.and_then(|status| status.canonical_reason()).unwrap_or("Status")
        }
    }
}
