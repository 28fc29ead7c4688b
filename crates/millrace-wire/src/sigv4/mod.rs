//! AWS Signature Version 4: verifying requests, in the header and the presigned form, and signing
//! them in the header form. Requests that are signed with version 2 instead go to `sigv2`.
//!
//! The work per request is bounded: one hash of the body, one sort of the query parameters, and a
//! few hundred bytes of HMAC; requests whose signature is wrong pay once more per alternative host
//! name. Nothing here knows the time; instants are seconds since the epoch.

mod canonical;
mod claim;
mod error;
mod key_cache;
mod payload;
mod sign;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millrace_core::hex_digits;
use ring::digest::{SHA256, digest};

use crate::date;
use crate::http::Request;
use crate::sigv2;
use canonical::CanonicalRequest;
use claim::{Claim, Form, Scope};
use key_cache::{KeyCache, SigningKey};

pub use error::AuthError;
pub use sign::{SignRequest, Signer, SigningKeys};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// AWS: clocks may differ by 15 minutes.
const SKEW_SECONDS: u64 = 15 * 60;

/// Names of the external hosts that are tried after the received one.
const ALTERNATIVE_HOSTS_MAX: usize = 8;

/// Headers that one signature may cover. SDKs sign about ten.
const SIGNED_HEADERS_MAX: usize = 100;

/// What a wrong signature is answered with of the canonical request.
const SHOWN_BYTES: usize = 4096;

/// Who an access key stands for.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The secret access key.
    pub secret: String,
    /// Twelve digits.
    pub account: String,
    /// The user's name in ARNs of that account.
    pub user: String,
}

/// Finds credentials by access key.
pub trait Credentials: Send + Sync {
    fn find(&self, access_key: &str) -> Option<Arc<Credential>>;
}

/// Verifies signatures. Shared by all threads.
pub struct Verifier<C> {
    credentials: C,
    alternative_hosts: Vec<String>,
    keys: KeyCache,
}

/// What a good signature vouches for.
#[derive(Clone, Debug)]
pub struct Verified {
    pub access_key: String,
    pub credential: Arc<Credential>,
    /// From the credential scope; signatures of version 2 have none.
    pub region: Option<String>,
}

impl<C: Credentials> Verifier<C> {
    /// Accepts signatures for every region and for the host name as received.
    pub fn new(credentials: C) -> Verifier<C> {
        Verifier { credentials, alternative_hosts: Vec::new(), keys: KeyCache::default() }
    }

    /// Host names (with port, unless it is the default) that clients may have signed although a
    /// proxy put another into the request; the first eight count.
    pub fn with_alternative_hosts(mut self, mut hosts: Vec<String>) -> Verifier<C> {
        hosts.truncate(ALTERNATIVE_HOSTS_MAX);
        self.alternative_hosts = hosts;
        self
    }

    /// Verifies the signature of `request` at `now`. The credential scope must name `service`
    /// (such as `sqs`) if one is given.
    ///
    /// # Errors
    ///
    /// [`AuthError::Missing`] if the request is not signed; the others say what is wrong.
    pub fn verify(
        &self,
        request: &Request<'_>,
        service: Option<&str>,
        now: u64,
    ) -> Result<Verified, AuthError> {
        let claim = match Claim::of(request) {
            Err(AuthError::Missing) => return self.verify_version_2(request, now),
            claim => claim?,
        };
        let scope = claim.scope()?;
        let credential = self.check_claim(request, (&claim, &scope), service, now)?;
        self.check_signature(request, &claim, &scope, &credential)?;
        Ok(Verified {
            access_key: scope.access_key.to_owned(),
            region: Some(scope.region.to_owned()),
            credential,
        })
    }

    fn verify_version_2(&self, request: &Request<'_>, now: u64) -> Result<Verified, AuthError> {
        let hosts = &self.alternative_hosts;
        let sigv2::Verified { access_key, credential } =
            sigv2::verify(&self.credentials, hosts, request, now)?;
        Ok(Verified { access_key, credential, region: None })
    }

    /// Checks what the head of `request` alone tells: that it is signed, in the right form, now,
    /// with a key that is known. Whether it is the signature of that key takes the body, too.
    ///
    /// # Errors
    ///
    /// As those of [`Verifier::verify`].
    pub fn check_head(
        &self,
        request: &Request<'_>,
        now: u64,
    ) -> Result<Arc<Credential>, AuthError> {
        let claim = Claim::of(request)?;
        let scope = claim.scope()?;
        self.check_claim(request, (&claim, &scope), None, now)
    }

    fn check_claim(
        &self,
        request: &Request<'_>,
        (claim, scope): (&Claim<'_>, &Scope<'_>),
        service: Option<&str>,
        now: u64,
    ) -> Result<Arc<Credential>, AuthError> {
        check_scope(scope, claim, service)?;
        check_signed_headers(request, &claim.signed_headers)?;
        check_time(claim, now)?;
        let credential = self.credentials.find(scope.access_key).ok_or(AuthError::UnknownKey)?;
        if claim.has_token {
            return Err(AuthError::BadToken);
        }
        Ok(credential)
    }

    fn check_signature(
        &self,
        request: &Request<'_>,
        claim: &Claim<'_>,
        scope: &Scope<'_>,
        credential: &Credential,
    ) -> Result<(), AuthError> {
        let payload_hash = payload::checked_hash(request)?;
        let canonical = CanonicalRequest {
            request,
            signed_headers: &claim.signed_headers,
            payload_hash: payload_hash.as_bytes(),
        };
        let kept = self.keys.find(&claim.credential, &credential.secret);
        let is_kept = kept.is_some();
        let key = kept.unwrap_or_else(|| {
            SigningKey::derive(&credential.secret, scope.date, scope.region, scope.service)
        });

        // The host as received first, then the alternatives.
        let alternatives = self.alternative_hosts.iter().map(|host| Some(host.as_str()));
        for host in std::iter::once(None).chain(alternatives) {
            let text = canonical.text(host);
            let to_sign = string_to_sign(&claim.timestamp, scope.rest, &text);
            let expected = key.sign_hex(&to_sign);
            if equal_in_constant_time(&expected, claim.signature.as_bytes()) {
                if !is_kept {
                    self.keys.remember(&claim.credential, &credential.secret, key);
                }
                return Ok(());
            }
        }

        let text = canonical.text(None);
        let to_sign = string_to_sign(&claim.timestamp, scope.rest, &text);
        Err(AuthError::Mismatch {
            canonical_request: shown(&text),
            string_to_sign: String::from_utf8_lossy(&to_sign).into_owned(),
        })
    }
}

impl<C> fmt::Debug for Verifier<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Verifier")
            .field("alternative_hosts", &self.alternative_hosts)
            .finish_non_exhaustive()
    }
}

/// Without the secret.
impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credential").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Credentials for HashMap<String, Arc<Credential>> {
    fn find(&self, access_key: &str) -> Option<Arc<Credential>> {
        self.get(access_key).cloned()
    }
}

fn check_scope(
    scope: &Scope<'_>,
    claim: &Claim<'_>,
    service: Option<&str>,
) -> Result<(), AuthError> {
    let problem = if scope.terminator != "aws4_request" {
        let got = scope.terminator;
        format!("Credential should be scoped with a valid terminator: 'aws4_request', not '{got}'.")
    } else if let Some(service) = service.filter(|service| *service != scope.service) {
        format!("Credential should be scoped to correct service: '{service}'.")
    } else if claim.timestamp.get(..8) != Some(scope.date) {
        let (date, timestamp) = (scope.date, &claim.timestamp);
        format!(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from \
             HTTP: '{date}' != '{timestamp}'."
        )
    } else {
        return Ok(());
    };
    Err(AuthError::Scope(problem))
}

/// What the client is shown of a canonical request: enough to compare, and no long answer to a
/// short request, whose headers HTTP/2 may have compressed to nothing.
fn shown(canonical_request: &[u8]) -> String {
    let text =
        String::from_utf8_lossy(&canonical_request[..canonical_request.len().min(SHOWN_BYTES)]);
    if canonical_request.len() > SHOWN_BYTES { format!("{text}...") } else { text.into_owned() }
}

fn check_signed_headers(request: &Request<'_>, signed_headers: &str) -> Result<(), AuthError> {
    if signed_headers.split(';').nth(SIGNED_HEADERS_MAX).is_some() {
        let problem = format!("a signature covers at most {SIGNED_HEADERS_MAX} headers");
        return Err(AuthError::Incomplete(problem));
    }
    // Each mention puts the header's values into what is hashed.
    if signed_headers.bytes().any(|byte| byte.is_ascii_uppercase()) || is_any_twice(signed_headers)
    {
        let problem = "'SignedHeaders' names each header once, in lower case.";
        return Err(AuthError::Incomplete(problem.to_owned()));
    }
    let is_signed = |name: &str| signed_headers.split(';').any(|signed| signed == name);
    if !is_signed("host") {
        let problem = "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.";
        return Err(AuthError::Scope(problem.to_owned()));
    }
    // Else whoever sees a request could replay its body as another action.
    if request.header("x-amz-target").is_some() && !is_signed("x-amz-target") {
        let problem = "'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.";
        return Err(AuthError::Scope(problem.to_owned()));
    }
    Ok(())
}

fn is_any_twice(signed_headers: &str) -> bool {
    let pairs = || signed_headers.split(';').zip(signed_headers.split(';').skip(1));
    // As all SDKs have them.
    if pairs().all(|(name, next)| name < next) {
        return false;
    }
    let mut names: Vec<&str> = signed_headers.split(';').collect();
    names.sort_unstable();
    names.windows(2).any(|pair| matches!(pair, [name, next] if name == next))
}

fn check_time(claim: &Claim<'_>, now: u64) -> Result<(), AuthError> {
    let timestamp = &claim.timestamp;
    let now_text = || date::format_basic(now);
    let latest = now.saturating_add(SKEW_SECONDS);
    if claim.signed_at > latest {
        let (latest, now) = (date::format_basic(latest), now_text());
        return Err(AuthError::NotYetCurrent(format!(
            "Signature not yet current: {timestamp} is still later than {latest} ({now} + 15 min.)"
        )));
    }
    match claim.form {
        Form::Header => {
            let earliest = now.saturating_sub(SKEW_SECONDS);
            if claim.signed_at >= earliest {
                return Ok(());
            }
            let (earliest, now) = (date::format_basic(earliest), now_text());
            Err(AuthError::Expired(format!(
                "Signature expired: {timestamp} is now earlier than {earliest} ({now} - 15 min.)"
            )))
        }
        Form::Presigned { expires_s } => {
            if now <= claim.signed_at.saturating_add(expires_s) {
                return Ok(());
            }
            Err(AuthError::PresignedExpired)
        }
    }
}

/// `rest` is the credential scope without the access key.
fn string_to_sign(timestamp: &str, rest: &str, canonical_request: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(192);
    for line in [ALGORITHM, timestamp, rest] {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(&sha256_hex(canonical_request));
    text
}

fn sha256_hex(bytes: &[u8]) -> [u8; 64] {
    hex(digest(&SHA256, bytes).as_ref())
}

/// A SHA-256 as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> [u8; 64] {
    let mut digits = [0; 64];
    for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = hex_digits(*byte);
    }
    digits
}

/// Whether two secrets are the same, in a time that depends on their lengths only.
pub fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    a.len() == b.len() && difference == 0
}
