//! Signing in the header form, as clients do.

use std::fmt;

use super::canonical::CanonicalRequest;
use super::key_cache::{KeyCache, SigningKey};
use super::{ALGORITHM, sha256_hex, string_to_sign};
use crate::date;
use crate::http::{Header, Request};

/// Whose signature it is, and for what.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    pub access_key: &'a str,
    pub secret: &'a str,
    /// Of temporary credentials.
    pub session_token: Option<&'a str>,
    pub region: &'a str,
    /// Such as `sqs`.
    pub service: &'a str,
}

/// Signing keys that were used, of every signer that shares this. Bounded.
#[derive(Default)]
pub struct SigningKeys(KeyCache);

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub struct SignRequest<'a> {
    pub method: &'a str,
    /// As sent, percent-encoded.
    pub path: &'a str,
    /// As sent, without `?`.
    pub query: &'a str,
    /// All of them are signed; `host` must be among them.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

impl Signer<'_> {
    /// The headers to add, for a request sent at `now`: `x-amz-date`, `x-amz-security-token` if
    /// there is one, and `authorization`.
    pub fn sign(&self, request: &SignRequest<'_>, now: u64) -> Vec<(&'static str, String)> {
        self.sign_with(request, now, |_, date| {
            SigningKey::derive(self.secret, date, self.region, self.service)
        })
    }

    /// As [`sign`](Signer::sign), with the day's key kept in `keys`: it costs four hashes more to
    /// derive it for every request.
    pub fn sign_keeping(
        &self,
        request: &SignRequest<'_>,
        now: u64,
        keys: &SigningKeys,
    ) -> Vec<(&'static str, String)> {
        self.sign_with(request, now, |credential, date| {
            keys.0.find(credential, self.secret).unwrap_or_else(|| {
                let key = SigningKey::derive(self.secret, date, self.region, self.service);
                keys.0.remember(credential, self.secret, key.clone());
                key
            })
        })
    }

    fn sign_with(
        &self,
        request: &SignRequest<'_>,
        now: u64,
        key: impl FnOnce(&str, &str) -> SigningKey,
    ) -> Vec<(&'static str, String)> {
        let timestamp = date::format_basic(now);
        let mut added = vec![("x-amz-date", timestamp.clone())];
        if let Some(token) = self.session_token {
            added.push(("x-amz-security-token", token.to_owned()));
        }

        let date = timestamp.get(..8).unwrap_or_default();
        let access_key = self.access_key;
        let credential =
            format!("{access_key}/{date}/{}/{}/aws4_request", self.region, self.service);
        let scope = credential.get(access_key.len() + 1..).unwrap_or_default();
        let (signed_headers, canonical) = canonical_request(request, &added);
        let to_sign = string_to_sign(&timestamp, scope, &canonical);
        let signature = key(&credential, date).sign_hex(&to_sign);
        let signature = str::from_utf8(&signature).unwrap_or_default();

        let authorization = format!(
            "{ALGORITHM} Credential={credential}, SignedHeaders={signed_headers}, \
             Signature={signature}"
        );
        added.push(("authorization", authorization));
        added
    }
}

/// Without the keys.
impl fmt::Debug for SigningKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SigningKeys").finish_non_exhaustive()
    }
}

/// The list of signed headers and the canonical request.
fn canonical_request(
    request: &SignRequest<'_>,
    added: &[(&'static str, String)],
) -> (String, Vec<u8>) {
    let given = request.headers.iter().map(|(name, value)| (*name, *value));
    let all = given.chain(added.iter().map(|(name, value)| (*name, value.as_str())));
    let headers: Vec<_> = all.map(|(name, value)| Header::new(name, value)).collect();
    let mut names: Vec<_> = headers.iter().map(|header| header.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.dedup();
    let signed_headers = names.join(";");

    let received = Request {
        method: request.method,
        path: request.path,
        query: request.query,
        ..Request::post(&headers, request.body)
    };
    let payload_hash = sha256_hex(request.body);
    let canonical = CanonicalRequest {
        request: &received,
        signed_headers: &signed_headers,
        payload_hash: &payload_hash,
    };
    let text = canonical.text(None);
    (signed_headers, text)
}
