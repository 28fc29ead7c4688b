//! What a request says about its signature, wherever it says so.

use std::borrow::Cow;

use super::{ALGORITHM, AuthError, SKEW_SECONDS};
use crate::date;
use crate::http::{Header, Request};
use crate::percent;

/// AWS: a presigned request lives for 7 days at most.
const EXPIRES_MAX_SECONDS: u64 = 604_800;

/// A signature as presented.
pub(super) struct Claim<'a> {
    /// `access key/date/region/service/aws4_request`.
    pub(super) credential: Cow<'a, str>,
    /// Lower-case names with semicolons between.
    pub(super) signed_headers: Cow<'a, str>,
    pub(super) signature: Cow<'a, str>,
    /// `20260102T030405Z`.
    pub(super) timestamp: Cow<'a, str>,
    /// The same instant.
    pub(super) signed_at: u64,
    /// There is a session token, too.
    pub(super) has_token: bool,
    pub(super) form: Form,
}

/// How a request carries its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In the header `Authorization`.
    Header,
    /// In the query string. Where that says nothing of an end, it is that of a header's.
    Presigned { expires_s: u64 },
}

/// A credential, taken apart.
pub(super) struct Scope<'c> {
    pub(super) access_key: &'c str,
    pub(super) date: &'c str,
    pub(super) region: &'c str,
    pub(super) service: &'c str,
    pub(super) terminator: &'c str,
    /// All but the access key.
    pub(super) rest: &'c str,
}

impl<'a> Claim<'a> {
    /// Reads the claim of `request`, which may be in the header or in the query string, not in
    /// both.
    pub(super) fn of(request: &Request<'a>) -> Result<Claim<'a>, AuthError> {
        let is_authorization =
            |header: &&Header<'_>| header.name.eq_ignore_ascii_case("authorization");
        if let Some(header) = request.headers.iter().find(is_authorization) {
            return Claim::of_header(request, str::from_utf8(header.value).unwrap_or_default());
        }
        let is_presigned = |pair: &str| {
            pair.starts_with("X-Amz-Signature=") || pair.starts_with("X-Amz-Algorithm=")
        };
        if request.query.split('&').any(is_presigned) {
            return Claim::of_query(request.query);
        }
        Err(AuthError::Missing)
    }

    /// The access key may contain slashes, the rest may not.
    pub(super) fn scope(&self) -> Result<Scope<'_>, AuthError> {
        let credential = &*self.credential;
        let mut parts = credential.rsplitn(5, '/');
        let mut next = || parts.next().filter(|part| !part.is_empty());
        let (terminator, service, region, date, access_key) =
            (next(), next(), next(), next(), next());
        let scope = (|| {
            let access_key = access_key?;
            Some(Scope {
                access_key,
                date: date?,
                region: region?,
                service: service?,
                terminator: terminator?,
                rest: credential.get(access_key.len() + 1..)?,
            })
        })();
        scope.ok_or_else(|| {
            AuthError::Incomplete(
                "Credential must have exactly 5 slash-delimited elements, e.g. \
                 keyid/date/region/service/term."
                    .to_owned(),
            )
        })
    }

    fn of_header(request: &Request<'a>, authorization: &'a str) -> Result<Claim<'a>, AuthError> {
        let (algorithm, parameters) =
            authorization.split_once(char::is_whitespace).unwrap_or((authorization, ""));
        check_algorithm(algorithm)?;
        // Both forms sign the same text. Whoever sees a presigned request could use it after its
        // end, as one of this form, of which nothing but the date counts.
        if has_parameter(request.query, "X-Amz-Algorithm") {
            let problem = "A request is signed in the Authorization header or in the query string.";
            return Err(AuthError::Incomplete(problem.to_owned()));
        }
        let find = |name: &str| {
            parameters.split(',').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                (key.trim() == name).then(|| value.trim())
            })
        };
        let (credential, signed_headers, signature) =
            (find("Credential"), find("SignedHeaders"), find("Signature"));
        let date = date_of_headers(request);
        let (Some(credential), Some(signed_headers), Some(signature), Some((timestamp, signed_at))) =
            (credential, signed_headers, signature, date.clone())
        else {
            let named = [
                ("'Credential' parameter", credential.is_some()),
                ("'Signature' parameter", signature.is_some()),
                ("'SignedHeaders' parameter", signed_headers.is_some()),
                ("existence of either a 'X-Amz-Date' or a 'Date' header", date.is_some()),
            ];
            let missing = named.iter().filter(|(_, is_given)| !is_given);
            let sentences: Vec<_> =
                missing.map(|(part, _)| format!("Authorization header requires {part}.")).collect();
            return Err(AuthError::Incomplete(sentences.join(" ")));
        };
        Ok(Claim {
            credential: Cow::Borrowed(credential),
            signed_headers: Cow::Borrowed(signed_headers),
            signature: Cow::Borrowed(signature),
            timestamp,
            signed_at,
            has_token: request.header("x-amz-security-token").is_some(),
            form: Form::Header,
        })
    }

    fn of_query(query: &'a str) -> Result<Claim<'a>, AuthError> {
        let find = |name: &str| {
            let value = query.split('&').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                (key == name).then_some(value)
            })?;
            decoded(value)
        };
        let required = |name: &str| {
            find(name).ok_or_else(|| {
                AuthError::Incomplete(format!("AWS query-string parameters must include '{name}'."))
            })
        };
        check_algorithm(&required("X-Amz-Algorithm")?)?;
        let timestamp = required("X-Amz-Date")?;
        let signed_at = date::parse_basic(&timestamp).ok_or_else(|| {
            let problem = r#"X-Amz-Date must be in the ISO8601 Long Format "yyyyMMdd'T'HHmmss'Z'""#;
            AuthError::Incomplete(problem.to_owned())
        })?;
        // The signature does not tell spellings of a name apart: one must not take the end away.
        let expires_s = match has_parameter(query, "X-Amz-Expires") {
            true => lifetime_s(&required("X-Amz-Expires")?)?,
            false => SKEW_SECONDS,
        };
        Ok(Claim {
            credential: required("X-Amz-Credential")?,
            signed_headers: required("X-Amz-SignedHeaders")?,
            signature: required("X-Amz-Signature")?,
            timestamp,
            signed_at,
            has_token: find("X-Amz-Security-Token").is_some(),
            form: Form::Presigned { expires_s },
        })
    }
}

fn lifetime_s(text: &str) -> Result<u64, AuthError> {
    let lifetime_s = text.parse().ok().filter(|s| (1..=EXPIRES_MAX_SECONDS).contains(s));
    lifetime_s.ok_or_else(|| {
        AuthError::Incomplete(format!(
            "X-Amz-Expires must be between 1 and {EXPIRES_MAX_SECONDS} seconds"
        ))
    })
}

fn check_algorithm(algorithm: &str) -> Result<(), AuthError> {
    if algorithm == ALGORITHM {
        return Ok(());
    }
    Err(AuthError::Incomplete(format!(
        "Unsupported AWS 'algorithm': only '{ALGORITHM}' is supported."
    )))
}

/// `X-Amz-Date`, else `Date`; as text in the basic form and as an instant.
fn date_of_headers<'a>(request: &Request<'a>) -> Option<(Cow<'a, str>, u64)> {
    if let Some(text) = request.header("x-amz-date") {
        return date::parse_basic(text).map(|instant| (Cow::Borrowed(text), instant));
    }
    let text = request.header("date")?;
    let instant = date::parse_http(text).or_else(|| date::parse_basic(text))?;
    Some((Cow::Owned(date::format_basic(instant)), instant))
}

/// Whether there is a parameter of that name, however it is spelled: the signature covers the name.
fn has_parameter(query: &str, name: &str) -> bool {
    let mut names =
        query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    names.any(|spelled| *percent::decode(spelled.as_bytes()) == *name.as_bytes())
}

fn decoded(value: &str) -> Option<Cow<'_, str>> {
    match percent::decode(value.as_bytes()) {
        Cow::Borrowed(_) => Some(Cow::Borrowed(value)),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}
