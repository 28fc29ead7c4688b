//! Inflates the request bodies that clients compress, before anything else reads them. SDKs compress
//! PutMetricData above 10 KB.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flate2::bufread::GzDecoder;
use millrace_core::may_take;
use millrace_wire::{ApiError, Request};

use crate::cloudwatch;

/// Bytes of a body, both compressed and inflated. Only SDKs of CloudWatch compress, so this is its
/// limit.
const BODY_BYTES_MAX: usize = cloudwatch::BODY_BYTES_MAX;

/// Inflates the bodies of requests.
#[derive(Debug)]
pub(crate) struct Inflater {
    /// What the inflated bodies of an account's requests under way may take together, and those of
    /// all accounts a tenth more: what they came as, a thousandth of that perhaps, is all that the
    /// server has counted, and a long poll may hold one.
    bytes_max: usize,
    held: Mutex<Held>,
}

/// Bytes of bodies, of all accounts and of each that has any.
#[derive(Debug, Default)]
struct Held {
    all_bytes: usize,
    by_account: HashMap<String, usize>,
}

/// A body as it was before it was compressed; given back when dropped.
#[derive(Debug)]
pub(crate) struct Inflated<'a> {
    body: Vec<u8>,
    account: String,
    inflater: &'a Inflater,
}

impl Inflater {
    pub(crate) fn new(bytes_max: usize) -> Inflater {
        Inflater { bytes_max, held: Mutex::default() }
    }

    /// The body of a request that says it is compressed; `None` if it is not. `check` says first
    /// whose request it is, if the sender may have that done, which can cost a hundred times what it
    /// cost to send.
    ///
    /// # Errors
    ///
    /// RequestEntityTooLarge above 1 MiB, SerializationException if it cannot be read, Throttling
    /// while others take all the room there is, those of `check`.
    pub(crate) fn inflated(
        &self,
        request: &Request<'_>,
        check: impl FnOnce() -> Result<String, ApiError>,
    ) -> Result<Option<Inflated<'_>>, ApiError> {
        let encoding = request.header("content-encoding");
        if !encoding.is_some_and(|encoding| encoding.trim().eq_ignore_ascii_case("gzip")) {
            return Ok(None);
        }
        let account = check()?;
        let body = inflate(request.body)?;
        if !self.held().take(&account, body.len(), self.bytes_max) {
            return Err(ApiError::throttling("Rate exceeded"));
        }
        Ok(Some(Inflated { body, account, inflater: self }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Whether there is room.
    fn take(&mut self, account: &str, bytes: usize, most: usize) -> bool {
        let of_account = self.by_account.get(account).copied().unwrap_or_default();
        if !may_take(of_account, self.all_bytes, most) {
            return false;
        }
        self.all_bytes += bytes;
        self.by_account.insert(account.to_owned(), of_account + bytes);
        true
    }

    fn give_back(&mut self, account: &str, bytes: usize) {
        self.all_bytes -= bytes;
        if let Some(of_account) = self.by_account.get_mut(account) {
            *of_account -= bytes;
            if *of_account == 0 {
                self.by_account.remove(account);
            }
        }
    }
}

impl Deref for Inflated<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Inflated<'_> {
    fn drop(&mut self) {
        self.inflater.held().give_back(&self.account, self.body.len());
    }
}

fn inflate(compressed: &[u8]) -> Result<Vec<u8>, ApiError> {
    if compressed.len() > BODY_BYTES_MAX {
        return Err(too_large(BODY_BYTES_MAX));
    }
    let mut body = Vec::new();
    // One member: a body of thousands that are empty would cost much and show nothing.
    let mut decoder = GzDecoder::new(compressed).take(BODY_BYTES_MAX as u64 + 1);
    let read = decoder.read_to_end(&mut body);
    if body.len() > BODY_BYTES_MAX {
        return Err(too_large(BODY_BYTES_MAX));
    }
    if read.is_err() || !decoder.into_inner().into_inner().is_empty() {
        return Err(ApiError::serialization("the body is not compressed with gzip"));
    }
    Ok(body)
}

/// The error for a body of more than `limit` bytes.
pub(crate) fn too_large(limit: usize) -> ApiError {
    ApiError {
        namespace: "com.amazon.coral.service",
        shape: "RequestEntityTooLarge",
        code: "RequestEntityTooLarge",
        status: 413,
        message: format!("The request is larger than {limit} bytes.").into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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
        let inflater = Inflater::new(64 << 20);
        inflate_with(&inflater, (encoding, "1"), body)
            .map(|inflated| inflated.map(|inflated| inflated.to_vec()))
    }

    fn inflate_with<'a>(
        inflater: &'a Inflater,
        (encoding, account): (&str, &str),
        body: &[u8],
    ) -> Result<Option<Inflated<'a>>, ApiError> {
        let headers = [Header::new("Content-Encoding", encoding)];
        inflater.inflated(&Request::post(&headers, body), || Ok(account.to_owned()))
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

    #[test]
    fn bodies_under_way_are_bounded_together() {
        let inflater = Inflater::new(64 << 20);
        let body = compressed(&vec![0; 1 << 20]);
        let next = |account| inflate_with(&inflater, ("gzip", account), &body);

        let held: Vec<_> = (0..64).map(|_| next("1").unwrap()).collect();
        assert_eq!(next("1").unwrap_err().code, "Throttling");
        assert!(next("2").is_ok(), "one account leaves room for others");
        drop(held);

        assert!(next("1").is_ok());
        let held = inflater.held();
        assert_eq!((held.all_bytes, held.by_account.len()), (0, 0));
    }
}
