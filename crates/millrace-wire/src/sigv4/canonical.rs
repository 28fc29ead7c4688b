//! The canonical request: the form of a request that client and server agree on and sign.

use std::borrow::Cow;

use crate::http::Request;
use crate::{path, percent};

/// What the canonical request is made from.
pub(super) struct CanonicalRequest<'r> {
    pub(super) request: &'r Request<'r>,
    /// Lower-case names with semicolons between.
    pub(super) signed_headers: &'r str,
    pub(super) payload_hash: &'r [u8],
}

impl CanonicalRequest<'_> {
    /// The canonical request with the host as received or another one.
    pub(super) fn text(&self, host: Option<&str>) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(self.request.method.as_bytes());
        out.push(b'\n');
        put_path(&mut out, self.request.path);
        out.push(b'\n');
        put_query(&mut out, self.request.query);
        out.push(b'\n');
        for name in self.signed_headers.split(';') {
            self.put_header(&mut out, name, host);
        }
        out.push(b'\n');
        out.extend_from_slice(self.signed_headers.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(self.payload_hash);
        out
    }

    fn put_header(&self, out: &mut Vec<u8>, name: &str, host: Option<&str>) {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        match host.filter(|_| name == "host") {
            Some(host) => out.extend_from_slice(host.as_bytes()),
            None => self.put_header_values(out, name),
        }
        out.push(b'\n');
    }

    /// All values of that name with commas between; runs of white space count as one space.
    fn put_header_values(&self, out: &mut Vec<u8>, name: &str) {
        let named = |header: &&crate::Header<'_>| header.name.eq_ignore_ascii_case(name);
        for (index, header) in self.request.headers.iter().filter(named).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if !header.value.contains(&b' ') && !header.value.contains(&b'\t') {
                out.extend_from_slice(header.value);
                continue;
            }
            let words = header.value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            for (index, word) in words.enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                out.extend_from_slice(word);
            }
        }
    }
}

/// The normal path, each segment encoded once more than received, as every service but S3 wants it.
fn put_path(out: &mut Vec<u8>, path: &str) {
    let path = path::normal(path);
    if path.bytes().all(|byte| byte == b'/' || percent::is_unreserved(byte)) {
        out.extend_from_slice(path.as_bytes());
        return;
    }
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        percent::encode(out, segment.as_bytes());
    }
}

/// The parameters but for the signature, encoded anew and sorted by name, then value.
fn put_query(out: &mut Vec<u8>, query: &str) {
    if query.is_empty() {
        return;
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut sorted: Vec<_> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| *name != "X-Amz-Signature")
        .map(|(name, value)| (encoded_anew(name), encoded_anew(value)))
        .collect();
    sorted.sort_unstable();
    for (index, (name, value)) in sorted.iter().enumerate() {
        if index > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(name);
        out.push(b'=');
        out.extend_from_slice(value);
    }
}

/// Decodes and encodes, so that every spelling of a text becomes the same one. Amazon, too, reads a
/// plus sign as a space: its canonical string has %20 for one (d3QUone/aiosqs, issue 13).
fn encoded_anew(text: &str) -> Cow<'_, [u8]> {
    if text.bytes().all(percent::is_unreserved) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut encoded = Vec::with_capacity(text.len());
    percent::encode(&mut encoded, &percent::decode(text.as_bytes()));
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    fn path(text: &str) -> String {
        let mut out = Vec::new();
        put_path(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    fn query(text: &str) -> String {
        let mut out = Vec::new();
        put_query(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn paths_are_normalised_and_encoded_twice() {
        assert_eq!(path(""), "/");
        assert_eq!(path("/"), "/");
        assert_eq!(path("a"), "/a");
        assert_eq!(path("/000000000000/q.fifo"), "/000000000000/q.fifo");
        assert_eq!(path("//a//b/"), "/a/b/");
        assert_eq!(path("/a/./b/../c"), "/a/c");
        assert_eq!(path("/../.."), "/");
        assert_eq!(path("/a%20b"), "/a%2520b");
    }

    #[test]
    fn values_of_headers_are_trimmed_and_joined() {
        let headers = [
            Header::new("Host", "h:1"),
            Header::new("x-a", " b \t c  d "),
            Header::new("X-A", "e\tf"),
            Header::new("x-b", "not signed"),
        ];
        let request = Request::post(&headers, b"");
        let signed_headers = "host;x-a;x-none";
        let canonical = CanonicalRequest { request: &request, signed_headers, payload_hash: b"00" };

        for (host, shown) in [(None, "h:1"), (Some("other"), "other")] {
            let expected =
                format!("POST\n/\n\nhost:{shown}\nx-a:b c d,e f\nx-none:\n\nhost;x-a;x-none\n00");
            assert_eq!(String::from_utf8(canonical.text(host)).unwrap(), expected);
        }
    }

    #[test]
    fn queries_are_encoded_anew_and_sorted() {
        assert_eq!(query(""), "");
        assert_eq!(query("b=2&a=%7e&a=1&c"), "a=1&a=~&b=2&c=");
        assert_eq!(query("a+b=c%2fd e&X-Amz-Signature=00&&"), "a%20b=c%2Fd%20e");
        assert_eq!(query("a=b=c"), "a=b%3Dc");
        // Sorted by encoded name first, although '=' sorts after digits.
        assert_eq!(query("a1=x&a=y"), "a=y&a1=x");
    }
}
