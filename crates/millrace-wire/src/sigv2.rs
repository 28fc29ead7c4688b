//! AWS Signature Version 2: signing and verifying requests of the Query protocol, as SimpleDB clients
//! and old clients of SQS sign them.
//!
//! The signature is over method, host, path and all parameters, those of the query string and those
//! of a form body, and names neither a region nor a service. Nothing here knows the time; instants
//! are seconds since the epoch.
//!
//! Source: Amazon SimpleDB developer guide, "HMAC-SHA signatures".

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::date;
use crate::http::Request;
use crate::percent;
use crate::query::Parameters;
use crate::sigv4::{AuthError, Credential, Credentials};

/// AWS: clocks may differ by 15 minutes.
const SKEW_SECONDS: u64 = 15 * 60;

/// A caller whose signature is good.
#[derive(Clone, Debug)]
pub struct Verified {
    pub access_key: String,
    pub credential: Arc<Credential>,
}

/// Verifies the signature of `request` at `now`. Clients may have signed one of `hosts` instead of
/// the host as received.
///
/// # Errors
///
/// [`AuthError::Missing`] if the request is not signed in this way; the others say what is wrong.
pub fn verify(
    credentials: &impl Credentials,
    hosts: &[String],
    request: &Request<'_>,
    now: u64,
) -> Result<Verified, AuthError> {
    // Of everything else the signature covers nothing, so it must not decide what is done.
    if request.header("x-amz-target").is_some() || !is_all_parameters(request) {
        return Err(AuthError::Missing);
    }
    let parameters = Parameters::parse(request.query, request.body);
    let parameters =
        parameters.map_err(|error| AuthError::Incomplete(error.message.into_owned()))?;
    let signature = parameters.get("Signature").ok_or(AuthError::Missing)?;
    let required =
        |name: &'static str| parameters.get(name).ok_or(AuthError::MissingParameter(name));
    let access_key = required("AWSAccessKeyId")?;
    let version = required("SignatureVersion")?;
    if version != "2" {
        let problem = format!("Value ({version}) for parameter SignatureVersion is invalid.");
        return Err(AuthError::InvalidParameter(problem));
    }
    let algorithm = match required("SignatureMethod")? {
        "HmacSHA256" => hmac::HMAC_SHA256,
        "HmacSHA1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        other => {
            let problem = format!("Value ({other}) for parameter SignatureMethod is invalid.");
            return Err(AuthError::InvalidParameter(problem));
        }
    };
    check_time(&parameters, now)?;
    let credential = credentials.find(access_key).ok_or(AuthError::UnknownKey)?;
    if parameters.get("SecurityToken").is_some() {
        return Err(AuthError::BadToken);
    }
    let signature = STANDARD.decode(signature).unwrap_or_default();
    let key = hmac::Key::new(algorithm, credential.secret.as_bytes());
    let signed = canonical(parameters.iter().filter(|(name, _)| *name != b"Signature"));
    let received = request.header("host").unwrap_or_default();
    let mut tried = std::iter::once(received).chain(hosts.iter().map(String::as_str));
    let is_good = tried.any(|host| {
        let text = string_to_sign((request.method, request.path), host, &signed);
        hmac::verify(&key, &text, &signature).is_ok()
    });
    if !is_good {
        return Err(AuthError::MismatchV2);
    }
    Ok(Verified { access_key: access_key.to_owned(), credential })
}

/// Signs requests in this way.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    pub access_key: &'a str,
    pub secret: &'a str,
    pub session_token: Option<&'a str>,
}

impl Signer<'_> {
    /// Adds the signature of a POST to `/` of that host, and sorts the parameters.
    pub fn sign(&self, host: &str, now: u64, parameters: &mut Vec<(String, String)>) {
        let mut add =
            |name: &str, value: &str| parameters.push((name.to_owned(), value.to_owned()));
        add("AWSAccessKeyId", self.access_key);
        add("SignatureVersion", "2");
        add("SignatureMethod", "HmacSHA256");
        add("Timestamp", &date::format_iso8601(now));
        if let Some(token) = self.session_token {
            add("SecurityToken", token);
        }
        parameters.sort_unstable();
        let pairs = parameters.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let text = string_to_sign(("POST", "/"), host, &canonical(pairs));
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let signature = STANDARD.encode(hmac::sign(&key, &text));
        parameters.push(("Signature".to_owned(), signature));
    }
}

/// Without the secret.
impl fmt::Debug for Signer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Signer")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

/// Whether the request says all in its parameters: it has no body, or a form.
fn is_all_parameters(request: &Request<'_>) -> bool {
    let content_type = request.header("content-type").unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    request.body.is_empty() || media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

fn check_time(parameters: &Parameters<'_>, now: u64) -> Result<(), AuthError> {
    let instant = |name: &str| {
        let Some(text) = parameters.get(name) else { return Ok(None) };
        let instant = date::parse_iso8601_ms(text).map(|ms| ms / 1000);
        let invalid = || {
            let problem = format!("Value ({text}) for parameter {name} is invalid.");
            AuthError::InvalidParameter(problem)
        };
        instant.ok_or_else(invalid).map(Some)
    };
    match (instant("Timestamp")?, instant("Expires")?) {
        (Some(_), Some(_)) => Err(AuthError::BothTimes),
        (None, None) => Err(AuthError::MissingParameter("Timestamp or Expires")),
        (Some(signed_at), None) if signed_at.abs_diff(now) > SKEW_SECONDS => {
            Err(AuthError::PresignedExpired)
        }
        (None, Some(end)) if end < now => Err(AuthError::PresignedExpired),
        _ => Ok(()),
    }
}

/// The parameters, sorted, as they are signed.
fn canonical<'p>(pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(b'&');
        }
        percent::encode(&mut text, name);
        text.push(b'=');
        percent::encode(&mut text, value);
    }
    text
}

/// `parameters` are canonical.
fn string_to_sign((method, path): (&str, &str), host: &str, parameters: &[u8]) -> Vec<u8> {
    let path = if path.is_empty() { "/" } else { path };
    let host = host.to_ascii_lowercase();
    [method.as_bytes(), host.as_bytes(), path.as_bytes(), parameters].join(&b'\n')
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{ApiError, Header};

    /// 2026-01-02T03:04:05Z.
    const NOW: u64 = 1_767_323_045;
    const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
    const SELECT: &str = "Action=Select&Version=2009-04-15\
        &SelectExpression=select+*+from+%60d%60+where+a+%3D+%27x+y%27&AWSAccessKeyId=AKIDEXAMPLE\
        &SignatureVersion=2&SignatureMethod=HmacSHA256&Timestamp=2026-01-02T03%3A04%3A05Z";
    const SIGNATURE: &str = "&Signature=CKBHvxcL%2F9JDVhBNFoZk0vpB52s9ST9dDfkAyaQnBBA%3D";

    fn credentials() -> HashMap<String, Arc<Credential>> {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned();
        let account = "000000000000".to_owned();
        HashMap::from([(
            "AKIDEXAMPLE".to_owned(),
            Arc::new(Credential { secret, account, user: String::new() }),
        )])
    }

    fn post(body: &str, now: u64) -> Result<Verified, AuthError> {
        let headers = [Header::new("Host", "LocalHost:9324"), Header::new("Content-Type", FORM)];
        verify(&credentials(), &[], &Request::post(&headers, body.as_bytes()), now)
    }

    fn fault(body: &str, now: u64) -> AuthError {
        post(body, now).map(|verified| verified.access_key).unwrap_err()
    }

    /// Signed by the same rules, with SHA-1, as a GET.
    fn signed_get(parameters: &str, host: &str) -> String {
        let sorted = {
            let mut pairs: Vec<&str> = parameters.split('&').collect();
            pairs.sort_unstable();
            pairs.join("&")
        };
        let text = format!("GET\n{host}\n/\n{sorted}");
        let secret = &credentials()["AKIDEXAMPLE"].secret;
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
        let mut signature = Vec::new();
        let digest = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        percent::encode(&mut signature, digest.as_bytes());
        format!("{parameters}&Signature={}", String::from_utf8(signature).unwrap())
    }

    #[test]
    fn the_published_vector_verifies_in_any_order_of_parameters() {
        let verified = post(&format!("{SELECT}{SIGNATURE}"), NOW).unwrap();
        assert_eq!(verified.access_key, "AKIDEXAMPLE");
        assert!(post(&format!("{}&{SELECT}", &SIGNATURE[1..]), NOW + 900).is_ok());
        assert_eq!(fault(SELECT, NOW), AuthError::Missing);
    }

    #[test]
    fn the_published_vector_is_what_is_signed() {
        let secret = &credentials()["AKIDEXAMPLE"].secret;
        let signer = Signer { access_key: "AKIDEXAMPLE", secret, session_token: None };
        let pairs = [
            ("Version", "2009-04-15"),
            ("SelectExpression", "select * from `d` where a = 'x y'"),
            ("Action", "Select"),
        ];
        let mut parameters =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();

        signer.sign("LocalHost:9324", NOW, &mut parameters);

        let signature = parameters.iter().find(|(name, _)| name == "Signature");
        let signature = signature.map(|(_, signature)| &**signature);
        assert_eq!(signature, Some("CKBHvxcL/9JDVhBNFoZk0vpB52s9ST9dDfkAyaQnBBA="));
    }

    #[test]
    fn whatever_is_changed_does_not_verify() {
        for (from, to) in
            [("Select&", "Domain&"), ("x+y", "x+z"), ("CKBH", "CKBX"), ("3D+", "3D++")]
        {
            let body = format!("{SELECT}{SIGNATURE}").replacen(from, to, 1);
            assert_eq!(fault(&body, NOW), AuthError::MismatchV2, "{from}");
        }
        let more = format!("{SELECT}{SIGNATURE}&NextToken=a");
        assert_eq!(fault(&more, NOW), AuthError::MismatchV2);
        let error = ApiError::from(AuthError::MismatchV2);
        assert_eq!((error.code, error.status), ("SignatureDoesNotMatch", 403));
    }

    #[test]
    fn what_the_signature_does_not_cover_decides_nothing() {
        let body = format!("{SELECT}{SIGNATURE}");
        let target = Header::new("X-Amz-Target", "AmazonSQS.PurgeQueue");
        let host = Header::new("Host", "localhost:9324");
        for headers in [[host, target], [host, Header::new("Content-Type", "application/json")]] {
            let request = Request::post(&headers, body.as_bytes());
            let verified = verify(&credentials(), &[], &request, NOW);
            assert_eq!(verified.unwrap_err(), AuthError::Missing);
        }
    }

    #[test]
    fn requests_have_a_time_or_an_end() {
        let body = format!("{SELECT}{SIGNATURE}");
        for now in [NOW + 901, NOW - 901] {
            assert_eq!(fault(&body, now), AuthError::PresignedExpired);
        }
        let both = format!("{body}&Expires=2026-01-02T03%3A04%3A05Z");
        assert_eq!(fault(&both, NOW), AuthError::BothTimes);
        let neither = body.replace("&Timestamp=2026-01-02T03%3A04%3A05Z", "");
        assert_eq!(fault(&neither, NOW), AuthError::MissingParameter("Timestamp or Expires"));
        for (from, to) in [("HmacSHA256", "HmacMD5"), ("Version=2&", "Version=1&"), ("03%3A", "x")]
        {
            let body = body.replacen(from, to, 1);
            assert!(matches!(fault(&body, NOW), AuthError::InvalidParameter(_)), "{to}");
        }
        let unknown = body.replace("AKIDEXAMPLE", "AKIDOTHER");
        assert_eq!(fault(&unknown, NOW), AuthError::UnknownKey);
        assert_eq!(fault(&format!("{body}&SecurityToken=a"), NOW), AuthError::BadToken);
    }

    #[test]
    fn gets_with_sha_1_an_end_and_the_name_behind_a_proxy_verify() {
        let parameters = "Action=ListQueues&AWSAccessKeyId=AKIDEXAMPLE&Expires=2026-01-02T03%3A05%3A00Z\
            &SignatureMethod=HmacSHA1&SignatureVersion=2";
        let query = signed_get(parameters, "queue.example.com");
        let headers = [Header::new("Host", "10.0.0.1:4566")];
        let request = Request { method: "GET", query: &query, ..Request::post(&headers, b"") };
        let hosts = ["queue.example.com".to_owned()];

        assert!(verify(&credentials(), &hosts, &request, NOW).is_ok());
        assert_eq!(verify(&credentials(), &[], &request, NOW).unwrap_err(), AuthError::MismatchV2);
        let late = verify(&credentials(), &hosts, &request, NOW + 56);
        assert_eq!(late.unwrap_err(), AuthError::PresignedExpired);
    }
}
