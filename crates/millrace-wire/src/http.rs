//! What the server hands to the services, and what it gets back.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::task::{Context, Poll};

/// One HTTP header as received: the name in the case that the client used.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// Compare ignoring ASCII case.
    pub name: &'a str,
    /// Without surrounding white space.
    pub value: &'a [u8],
}

/// One HTTP request, borrowed from the connection's read buffer.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST`, `OPTIONS`, …
    pub method: &'a str,
    /// The raw path, still percent-encoded; begins with `/`.
    pub path: &'a str,
    /// The raw query string without `?`; empty if there is none.
    pub query: &'a str,
    /// In the order received. HTTP/2's `:authority` appears as `host`.
    pub headers: &'a [Header<'a>],
    /// The whole body; transfer encoding undone, content encoding not.
    pub body: &'a [u8],
    /// The client's address.
    pub peer: IpAddr,
    /// Whether the connection is TLS.
    pub is_tls: bool,
}

impl<'a> Header<'a> {
    /// A header whose value is text.
    pub fn new(name: &'a str, value: &'a str) -> Header<'a> {
        Header { name, value: value.as_bytes() }
    }
}

impl<'a> Request<'a> {
    /// A POST to `/` from this machine, without TLS: as this process makes for itself.
    pub fn post(headers: &'a [Header<'a>], body: &'a [u8]) -> Request<'a> {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Request { method: "POST", path: "/", query: "", headers, body, peer, is_tls: false }
    }

    /// The first header of that name (any case), if its value is UTF-8.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let found = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        str::from_utf8(found.value).ok()
    }
}

/// One HTTP response. The server adds `Date`, `Content-Length`, `x-amzn-RequestId`, CORS headers
/// and `Connection` where they are due.
#[derive(Debug, Default)]
pub struct Response {
    /// For instance 200.
    pub status: u16,
    /// Empty means that no `Content-Type` is sent.
    pub content_type: &'static str,
    /// Sent as `x-amzn-RequestId`; the server draws one if it is empty.
    pub request_id: String,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// A body made while it is sent, instead of `body`; sent without a length.
    pub stream: Option<Box<dyn BodyStream>>,
    /// Takes back what the answer handed out, if the server has to send another.
    pub unsent: Option<Unsent>,
    /// The tenant of the caller, if the service knows it or lets everybody in: the connection is
    /// no stranger's.
    pub admitted: Option<Tenant>,
}

/// A group of callers that share the server with others, such as an account. Each gets a fair part
/// of the memory that connections, bodies and answers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenant(pub u64);

impl Tenant {
    /// The only tenant of a service that does not distinguish its callers.
    pub const EVERYBODY: Tenant = Tenant(0);
}

/// What a service makes of a request of which only the head is there.
#[derive(Debug)]
pub enum Judgement {
    /// The body may come: everybody may call, or the head proves who does.
    Admitted,
    /// The head names a known caller of that tenant, but only the body can prove the signature.
    Claimed(Tenant),
    /// The answer, whatever the body is.
    Refused(Box<Response>),
}

/// What is to be done if an answer is not sent, for want of room.
pub struct Unsent(Box<dyn FnOnce() + Send + Sync>);

impl Unsent {
    /// The closure is called once, on the thread that serves the connection: it must not block.
    pub fn new(take_back: impl FnOnce() + Send + Sync + 'static) -> Unsent {
        Unsent(Box::new(take_back))
    }

    /// Takes back.
    pub fn take_back(self) {
        (self.0)();
    }
}

impl fmt::Debug for Unsent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Unsent")
    }
}

/// A response body made while it is sent, such as server-sent events.
///
/// The server asks for the next piece once it has written the one before, so a slow client slows
/// the stream down. It drops the stream when the client leaves. As with every held request, the
/// service ends its streams when the server drains.
pub trait BodyStream: Send + Sync {
    /// The next piece; `None` at the end. An empty piece is passed over.
    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
}

impl fmt::Debug for dyn BodyStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BodyStream")
    }
}

impl Response {
    /// A response with a body of that content type.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status, content_type, body: body.into(), ..Response::default() }
    }
}

/// What answers requests.
///
/// Cancel safety: the server drops the future when the client disconnects; an implementation
/// changes state between awaits, never across them, and gives back what it holds when dropped.
pub trait Service: Send + Sync + 'static {
    /// Answers one request. Never fails: errors are responses. Callers who are not known are
    /// refused without waiting: a call that waits is taken for one of a known caller.
    fn call(&self, request: Request<'_>) -> impl Future<Output = Response> + Send;

    /// Judges a request by its head, before the server makes room for a large body.
    fn judge(&self, _head: &Request<'_>) -> Judgement {
        Judgement::Admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_header_of_a_name_counts() {
        let header = |name, value| Header { name, value };
        let headers = [
            header("a", &b"other"[..]),
            header("X-Amz-Date", b"first"),
            header("x-amz-date", b"second"),
            header("bytes", b"\xff"),
            header("bytes", b"text"),
        ];

        let request = Request::post(&headers, b"");

        assert_eq!(request.header("x-AMZ-date"), Some("first"));
        assert_eq!(request.header("bytes"), None);
        assert_eq!(request.header("b"), None);
    }
}
