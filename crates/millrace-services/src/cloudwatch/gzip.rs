//! Request bodies that clients compress: SDKs do it for PutMetricData above 10 KB.

use std::io::Read;

use flate2::bufread::GzDecoder;
use millrace_wire::{ApiError, Request};

/// CloudWatch: bytes of a request, compressed or not.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 20;

/// The body of a request that says it is compressed, as it was before; `None` if it is not. `check` says
/// first whether the sender may have that done, which can cost a hundred times what it cost to send.
///
/// # Errors
///
/// RequestEntityTooLarge above 1 MiB, SerializationException if it cannot be read, those of `check`.
pub(crate) fn inflated(
    request: &Request<'_>,
    check: impl FnOnce() -> Result<(), ApiError>,
) -> Result<Option<Vec<u8>>, ApiError> {
    let encoding = request.header("content-encoding");
    if !encoding.is_some_and(|encoding| encoding.trim().eq_ignore_ascii_case("gzip")) {
        return Ok(None);
    }
    check()?;
    if request.body.len() as u64 > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let mut body = Vec::new();
    // One member: a body of thousands that are empty would cost much and show nothing.
    let mut decoder = GzDecoder::new(request.body).take(BODY_BYTES_MAX + 1);
    let read = decoder.read_to_end(&mut body);
    if body.len() as u64 > BODY_BYTES_MAX {
        return Err(too_large());
    }
    if read.is_err() || !decoder.into_inner().into_inner().is_empty() {
        return Err(ApiError::serialization("the body is not compressed with gzip"));
    }
    Ok(Some(body))
}

pub(super) fn too_large() -> ApiError {
    ApiError {
        namespace: "com.amazon.coral.service",
        shape: "RequestEntityTooLarge",
        code: "RequestEntityTooLarge",
        status: 413,
        message: format!("The request is larger than {BODY_BYTES_MAX} bytes.").into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{IpAddr, Ipv4Addr};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use millrace_wire::Header;

    use super::*;

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn inflate(encoding: &str, body: &[u8]) -> Result<Option<Vec<u8>>, ApiError> {
        let headers = [Header { name: "Content-Encoding", value: encoding.as_bytes() }];
        let request = Request {
            method: "POST",
            path: "/",
            query: "",
            headers: &headers,
            body,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            is_tls: false,
        };
        inflated(&request, || Ok(()))
    }

    #[test]
    fn compressed_bodies_are_read_and_others_left_alone() {
        let body = compressed(b"{}");

        assert_eq!(inflate("gzip", &body).unwrap().unwrap(), b"{}");
        assert_eq!(inflate("identity", b"{}").unwrap(), None);
        assert_eq!(inflate("gzip", b"{}").unwrap_err().code, "SerializationException");
        assert_eq!(inflate("gzip", &body[..body.len() - 1]).unwrap_err().status, 400);
        assert_eq!(inflate("gzip", &body.repeat(2)).unwrap_err().status, 400);
    }

    #[test]
    fn what_becomes_too_large_is_refused() {
        let body = compressed(&vec![0; 64 << 20]);
        assert!(body.len() < 1 << 20);

        assert_eq!(inflate("gzip", &body).unwrap_err().status, 413);
        assert_eq!(inflate("gzip", &vec![0; (1 << 20) + 1]).unwrap_err().status, 413);
        let largest = compressed(&vec![0; 1 << 20]);
        assert_eq!(inflate("gzip", &largest).unwrap().unwrap().len(), 1 << 20);
    }
}
