//! Between hyper's requests and responses and ours.

use bytes::Bytes;
use hyper::{
    header::{HOST, HeaderName, HeaderValue},
    http::request::Parts,
};
use millrace_wire::{Header, Response};

use crate::{
    http1::{has_length, is_value},
    policy::AllowedOrigin,
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

/// How a response's body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyForm {
    Whole,
    /// Not at all, only its length: the answer to HEAD.
    Length,
    /// Made while it is sent, so nobody knows its length.
    Stream,
}

/// A response with all its headers, and its body if that is sent whole.
pub(super) fn into_hyper(
    response: Response,
    form: BodyForm,
    allowed: Option<AllowedOrigin<'_>>,
) -> hyper::Response<Bytes> {
    let has_length = form != BodyForm::Stream && has_length(response.status);
    let length = response.body.len();
    let body = if form == BodyForm::Whole && has_length { response.body } else { Vec::new() };
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
    for (name, value) in allowed.into_iter().flat_map(AllowedOrigin::headers) {
        push(name, value.as_bytes());
    }
    if has_length {
        push("content-length", itoa::Buffer::new().format(length).as_bytes());
    }
    out
}
