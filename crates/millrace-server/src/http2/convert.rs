//! Between hyper's requests and responses and ours.

use bytes::Bytes;
use hyper::{
    header::{HOST, HeaderName, HeaderValue},
    http::request::Parts,
};
use millrace_wire::{Header, Response};

use crate::{
    http1::{has_length, is_value},
    policy::{AllowedOrigin, EXPOSED_HEADERS},
    scratch,
};

/// A request's headers, with `:authority` as the host: where there is one, no other counts
/// (RFC 9113, 8.3.1).
pub(super) fn headers(parts: &Parts) -> Vec<Header<'_>> {
    let authority = parts.uri.authority();
    let host = authority.map(|host| Header { name: "host", value: host.as_str().as_bytes() });
    let others = parts.headers.iter();
    let others = others.filter(|(name, _)| authority.is_none() || *name != HOST);
    let others =
        others.map(|(name, value)| Header { name: name.as_str(), value: value.as_bytes() });
    host.into_iter().chain(others).collect()
}

/// A response with all its headers; `is_whole`: its body is here.
pub(super) fn into_hyper(
    response: Response,
    is_whole: bool,
    allowed: Option<AllowedOrigin<'_>>,
    is_head: bool,
) -> hyper::Response<Bytes> {
    let has_length = is_whole && has_length(response.status);
    let length = response.body.len();
    let body = if is_head || !has_length { Vec::new() } else { response.body };
    let mut out = hyper::Response::new(Bytes::from(body));
    *out.status_mut() = hyper::StatusCode::from_u16(response.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = out.headers_mut();
    let mut push = |name: &'static str, value: &[u8]| {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    };
    if !response.content_type.is_empty() {
        push("content-type", response.content_type.as_bytes());
    }
    let mut text = Vec::with_capacity(40);
    scratch::push_date(&mut text);
    push("date", &text);
    text.clear();
    if response.request_id.is_empty() {
        scratch::push_request_id(&mut text);
    } else {
        text.extend_from_slice(response.request_id.as_bytes());
    }
    push("x-amzn-requestid", &text);
    for (name, value) in response.headers.iter().filter(|(_, value)| is_value(value)) {
        push(name, value.as_bytes());
    }
    match allowed {
        None => {}
        Some(AllowedOrigin::Any) => push("access-control-allow-origin", b"*"),
        Some(AllowedOrigin::Only(origin)) => {
            push("access-control-allow-origin", origin.as_bytes());
            push("vary", b"origin");
        }
    }
    if allowed.is_some() {
        push("access-control-expose-headers", EXPOSED_HEADERS.as_bytes());
    }
    if has_length {
        push("content-length", itoa::Buffer::new().format(length).as_bytes());
    }
    out
}
