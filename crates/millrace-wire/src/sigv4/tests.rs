mod altered;
mod presigned;

use proptest::prelude::*;

use super::*;
use crate::{ApiError, Header};

const KEY: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
/// 20260102T030405Z.
const NOW: u64 = 1_767_323_045;
const BODY: &[u8] = br#"{"QueueUrl":"http://localhost:9324/000000000000/q1"}"#;
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/sqs/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=8ff1173ec5fcd993b3594eadba9ce5ad52ba1f58789eb5e84c0ff68c5afdf0dd";

fn credential() -> Credential {
    Credential {
        secret: SECRET.to_owned(),
        account: "000000000000".to_owned(),
        user: String::new(),
    }
}

fn verifier() -> Verifier<HashMap<String, Arc<Credential>>> {
    Verifier::new(HashMap::from([(KEY.to_owned(), Arc::new(credential()))]))
}

fn request<'a>(
    method: &'a str,
    path: &'a str,
    query: &'a str,
    headers: &'a [Header<'a>],
    body: &'a [u8],
) -> Request<'a> {
    Request { method, path, query, ..Request::post(headers, body) }
}

/// The headers of the published vector.
fn vector_headers(authorization: &str) -> Vec<Header<'_>> {
    vec![
        Header::new("Host", "localhost:9324"),
        Header::new("Content-Type", "application/x-amz-json-1.0"),
        Header::new("X-Amz-Target", "AmazonSQS.ReceiveMessage"),
        Header::new("X-Amz-Date", "20260102T030405Z"),
        Header::new("User-Agent", "not signed"),
        Header::new("Authorization", authorization),
    ]
}

fn verify_vector(authorization: &str, body: &[u8], now: u64) -> Result<Verified, AuthError> {
    let headers = vector_headers(authorization);
    verifier().verify(&Request::post(&headers, body), Some("sqs"), now)
}

#[test]
fn secrets_are_equal_if_all_of_them_is() {
    assert!(equal_in_constant_time(b"abc", b"abc"));
    assert!(!equal_in_constant_time(b"abc", b"abd"));
    assert!(!equal_in_constant_time(b"abc", b"abcd"));
    assert!(!equal_in_constant_time(b"abc", b""));
}

#[test]
fn the_vector_of_the_header_form_verifies() {
    let headers = vector_headers(AUTHORIZATION);
    let request = Request::post(&headers, BODY);
    let hash = payload::checked_hash(&request).unwrap();
    let canonical = CanonicalRequest {
        request: &request,
        signed_headers: "content-type;host;x-amz-date;x-amz-target",
        payload_hash: hash.as_bytes(),
    };

    let verified = verifier().verify(&request, Some("sqs"), NOW).unwrap();

    assert_eq!(
        str::from_utf8(hash.as_bytes()).unwrap(),
        "d6c882042d61eca6e7135dca640d53a453ecb3aacf7cba7ee30eaca1cb83ce8d"
    );
    assert_eq!(
        millrace_core::sha256_hex(&canonical.text(None)),
        "9974f5e53663c12d558bb501f65a092c02b86d5a12e8af8dcbbaabce5f991a8b"
    );
    assert_eq!(verified.access_key, KEY);
    assert_eq!(verified.region.as_deref(), Some("us-east-1"));
    assert_eq!(verified.credential.account, "000000000000");
}

#[test]
fn the_signer_makes_the_vector() {
    let signer = Signer {
        access_key: KEY,
        secret: SECRET,
        session_token: None,
        region: "us-east-1",
        service: "sqs",
    };
    let headers = [
        ("Host", "localhost:9324"),
        ("Content-Type", "application/x-amz-json-1.0"),
        ("X-Amz-Target", "AmazonSQS.ReceiveMessage"),
    ];
    let request =
        SignRequest { method: "POST", path: "/", query: "", headers: &headers, body: BODY };

    let expected = [
        ("x-amz-date", "20260102T030405Z".to_owned()),
        ("authorization", AUTHORIZATION.to_owned()),
    ];
    assert_eq!(signer.sign(&request, NOW), expected);
    let keys = SigningKeys::default();
    for _ in 0..2 {
        assert_eq!(signer.sign_keeping(&request, NOW, &keys), expected);
    }
    let tomorrow = signer.sign_keeping(&request, NOW + 86_400, &keys);
    assert_eq!(tomorrow, signer.sign(&request, NOW + 86_400));
}

#[test]
fn commas_need_no_spaces() {
    assert!(verify_vector(&AUTHORIZATION.replace(", ", ","), BODY, NOW).is_ok());
    assert!(verify_vector(&AUTHORIZATION.replace(", ", " ,  "), BODY, NOW).is_ok());
}

#[test]
fn unsigned_requests_are_missing_a_token() {
    let error = verifier().verify(&Request::post(&[], b""), None, NOW).unwrap_err();

    assert_eq!(error, AuthError::Missing);
    let error = ApiError::from(error);
    assert_eq!((error.code, error.status), ("MissingAuthenticationToken", 403));
}

#[test]
fn another_body_does_not_match_and_the_answer_tells_what_would() {
    let error = ApiError::from(verify_vector(AUTHORIZATION, b"{}", NOW).unwrap_err());

    assert_eq!(error.code, "SignatureDoesNotMatch");
    assert_eq!(error.shape, "InvalidSignatureException");
    assert_eq!(error.status, 403);
    assert!(error.message.starts_with("The request signature we calculated does not match"));
    assert!(error.message.contains(
        "The Canonical String for this request should have been\n'POST\n/\n\ncontent-type:application/x-amz-json-1.0\nhost:localhost:9324\n"
    ));
    assert!(error.message.contains(
        "The String-to-Sign should have been\n'AWS4-HMAC-SHA256\n20260102T030405Z\n20260102/us-east-1/sqs/aws4_request\n"
    ));
}

#[test]
fn signatures_live_fifteen_minutes_in_both_directions() {
    assert!(verify_vector(AUTHORIZATION, BODY, NOW + 900).is_ok());
    assert!(verify_vector(AUTHORIZATION, BODY, NOW - 900).is_ok());

    let expired = ApiError::from(verify_vector(AUTHORIZATION, BODY, NOW + 901).unwrap_err());
    let early = ApiError::from(verify_vector(AUTHORIZATION, BODY, NOW - 901).unwrap_err());
    assert_eq!(expired.code, "SignatureDoesNotMatch");
    assert_eq!(
        expired.message,
        "Signature expired: 20260102T030405Z is now earlier than 20260102T030406Z (20260102T031906Z - 15 min.)"
    );
    assert_eq!(
        early.message,
        "Signature not yet current: 20260102T030405Z is still later than 20260102T030404Z (20260102T024904Z + 15 min.)"
    );
}

#[test]
fn unknown_keys_are_refused() {
    let error = verify_vector(&AUTHORIZATION.replace(KEY, "AKIDOTHER"), BODY, NOW).unwrap_err();

    assert_eq!(error, AuthError::UnknownKey);
    let error = ApiError::from(error);
    assert_eq!(
        (error.code, error.shape, error.status),
        ("InvalidClientTokenId", "UnrecognizedClientException", 403)
    );
}

#[test]
fn head_tells_all_but_whose_signature_it_is() {
    let check = |authorization: &str, now| {
        let headers = vector_headers(authorization);
        verifier().check_head(&Request::post(&headers, b""), now).map(drop)
    };
    let other_signature = AUTHORIZATION.replace("8ff1173e", "00000000");
    let other_key = AUTHORIZATION.replace(KEY, "AKIDOTHER");
    let no_scope = AUTHORIZATION.replace("/20260102/us-east-1/sqs/aws4_request", "");

    assert_eq!(check(AUTHORIZATION, NOW), Ok(()), "without the body");
    assert_eq!(check(&other_signature, NOW), Ok(()));
    assert_eq!(check(&other_key, NOW), Err(AuthError::UnknownKey));
    assert!(matches!(check(&no_scope, NOW), Err(AuthError::Incomplete(_))));
    assert!(matches!(check(AUTHORIZATION, NOW + 1000), Err(AuthError::Expired(_))));
    let unsigned = Request::post(&[], b"");
    assert_eq!(verifier().check_head(&unsigned, NOW), Err(AuthError::Missing));
}

#[test]
fn incomplete_headers_name_what_is_missing() {
    let message = |authorization: &str| match verify_vector(authorization, BODY, NOW) {
        Err(AuthError::Incomplete(message)) => message,
        other => panic!("{authorization}: {other:?}"),
    };

    assert_eq!(
        message("AWS4-HMAC-SHA256 Signature=00"),
        "Authorization header requires 'Credential' parameter. Authorization header requires 'SignedHeaders' parameter."
    );
    assert_eq!(
        message("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host"),
        "Authorization header requires 'Signature' parameter."
    );
    assert!(message("Basic YTpi").starts_with("Unsupported AWS 'algorithm'"));
    assert!(message("").starts_with("Unsupported AWS 'algorithm'"));
    let short = AUTHORIZATION.replace("/aws4_request", "");
    assert!(message(&short).starts_with("Credential must have exactly 5"));
    for part in ["AKIDEXAMPLE", "20260102", "us-east-1", "sqs", "aws4_request"] {
        let empty = AUTHORIZATION.replacen(part, "", 1);
        assert!(message(&empty).starts_with("Credential must have exactly 5"), "{part}");
    }
    let many = AUTHORIZATION.replace("host;", &"host;".repeat(SIGNED_HEADERS_MAX));
    assert!(message(&many).starts_with("a signature covers at most"));
    let all = "content-type;host;x-amz-date;x-amz-target";
    for names in ["host;host", "content-type;host;host;x-amz-date", "host;a;b;a", "host;Host"] {
        let repeated = AUTHORIZATION.replace(all, names);
        assert!(message(&repeated).contains("names each header once"), "{names}");
    }

    let headers = [Header::new("host", "h"), Header::new("authorization", AUTHORIZATION)];
    let undated = verifier().verify(&Request::post(&headers, b""), None, NOW);
    assert_eq!(
        undated.unwrap_err(),
        AuthError::Incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
                .to_owned()
        )
    );
}

#[test]
fn the_scope_must_fit() {
    let headers = vector_headers(AUTHORIZATION);
    let request = Request::post(&headers, BODY);
    let is_scope = |result: Result<Verified, AuthError>| matches!(result, Err(AuthError::Scope(_)));

    assert!(is_scope(verifier().verify(&request, Some("sns"), NOW)));
    assert!(verifier().verify(&request, None, NOW).is_ok());
    assert!(is_scope(verify_vector(&AUTHORIZATION.replace("aws4_request", "aws3"), BODY, NOW)));
    assert!(is_scope(verify_vector(&AUTHORIZATION.replace("/20260102/", "/20260103/"), BODY, NOW)));
    for (name, header) in [("host;", "'Host' or ':authority'"), (";x-amz-target", "'X-Amz-Target'")]
    {
        let unsigned = verify_vector(&AUTHORIZATION.replace(name, ""), BODY, NOW).unwrap_err();
        let problem = format!("{header} must be a 'SignedHeader' in the AWS Authorization.");
        assert_eq!(unsigned, AuthError::Scope(problem));
    }
}

#[test]
fn an_access_key_may_hold_slashes_and_equals_signs() {
    let authorization = AUTHORIZATION.replace(KEY, "a=b/c");
    let headers = vector_headers(&authorization);
    let claim = Claim::of(&Request::post(&headers, BODY)).unwrap();
    let scope = claim.scope().unwrap();

    assert_eq!(scope.access_key, "a=b/c");
    assert_eq!(scope.rest, "20260102/us-east-1/sqs/aws4_request");
}

#[test]
fn refusals_say_what_aws_says() {
    for (error, code, status, message) in [
        (AuthError::PresignedExpired, "RequestExpired", 400, "Request has expired."),
        (
            AuthError::PayloadMismatch,
            "SignatureDoesNotMatch",
            403,
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        ),
        (
            AuthError::BadToken,
            "InvalidClientTokenId",
            403,
            "The security token included in the request is invalid.",
        ),
    ] {
        let error = ApiError::from(error);
        assert_eq!((error.code, error.status, &*error.message), (code, status, message));
    }
}

#[test]
fn signatures_are_compared_whole() {
    let cut = AUTHORIZATION.trim_end_matches("dd");
    for wrong in [cut.to_owned(), format!("{cut}de"), format!("{AUTHORIZATION}0")] {
        let error = verify_vector(&wrong, BODY, NOW).unwrap_err();
        assert!(matches!(error, AuthError::Mismatch { .. }), "{wrong}");
    }
}

/// Signs a request, lets `change` alter its headers, and verifies it.
fn signed_and_verified(
    verifier: &Verifier<HashMap<String, Arc<Credential>>>,
    token: Option<&str>,
    headers: &[(&str, &str)],
    change: impl FnOnce(&mut Vec<Header<'_>>),
) -> Result<Verified, AuthError> {
    let (access_key, secret) = (KEY, SECRET);
    let signer =
        Signer { access_key, secret, session_token: token, region: "eu-west-1", service: "sqs" };
    let (method, path, query) = ("POST", "/000000000000/a%20b", "b=%7e+x&a");
    let body = b"body";
    let added = signer.sign(&SignRequest { method, path, query, headers, body }, NOW);
    let mut all: Vec<_> = headers.iter().map(|(name, value)| Header::new(name, value)).collect();
    all.extend(added.iter().map(|(name, value)| Header::new(name, value)));
    change(&mut all);
    verifier.verify(&request(method, path, query, &all, body), Some("sqs"), NOW)
}

#[test]
fn a_wrong_signature_is_answered_at_bounded_length() {
    let long = "x".repeat(60_000);
    let headers = [("host", "h"), ("a", &*long)];
    let error = signed_and_verified(&verifier(), None, &headers, |headers| {
        headers.iter_mut().filter(|header| header.name == "host").for_each(|h| h.value = b"other");
    });

    let AuthError::Mismatch { canonical_request, .. } = error.unwrap_err() else { panic!() };
    assert!(canonical_request.ends_with("xxx..."));
    assert_eq!(canonical_request.len(), SHOWN_BYTES + 3);
}

#[test]
fn a_canonical_request_of_the_greatest_length_is_shown_whole() {
    assert_eq!(shown(&[b'x'; SHOWN_BYTES]), "x".repeat(SHOWN_BYTES));
    assert_eq!(shown(&[b'x'; SHOWN_BYTES + 1]), "x".repeat(SHOWN_BYTES) + "...");
}

/// Or whoever has no secret could push out the keys of others.
#[test]
fn only_keys_of_good_signatures_are_kept() {
    let verifier = verifier();
    let headers = vector_headers(AUTHORIZATION);
    let credential = "AKIDEXAMPLE/20260102/us-east-1/sqs/aws4_request";
    let verify = |body| verifier.verify(&Request::post(&headers, body), None, NOW);

    assert!(verify(b"{}").is_err());
    assert!(verifier.keys.find(credential, SECRET).is_none());
    assert!(verify(BODY).is_ok());
    assert!(verifier.keys.find(credential, SECRET).is_some());
    // With the key that was kept.
    assert!(verify(BODY).is_ok());
    assert!(verify(b"{}").is_err());
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?} {:?} {:?}", credential(), verifier(), SigningKeys::default());

    assert!(shown.contains("000000000000") && shown.contains("Verifier"));
    assert!(shown.contains("SigningKeys") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn the_content_hash_header_replaces_the_hash_but_must_be_right() {
    // The signer hashes the body itself, hence a header with the same hash changes nothing.
    let hash = millrace_core::sha256_hex(b"body");
    let with = |value: &str| {
        let headers = [("host", "h"), ("x-amz-content-sha256", value)];
        signed_and_verified(&verifier(), None, &headers, |_| {})
    };

    assert!(with(&hash).is_ok());
    assert_eq!(with(&"0".repeat(64)).unwrap_err(), AuthError::PayloadMismatch);
    assert_eq!(with("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").unwrap_err(), AuthError::PayloadMismatch);
    // Signed with the hash, the literal in its place is another request.
    assert!(matches!(with(UNSIGNED).unwrap_err(), AuthError::Mismatch { .. }));
}

const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

#[test]
fn unsigned_payloads_leave_the_body_open() {
    let headers = [
        Header::new("host", "h"),
        Header::new("x-amz-content-sha256", UNSIGNED),
        Header::new("x-amz-date", "20260102T030405Z"),
    ];
    let bare = Request::post(&headers, b"");
    let canonical = CanonicalRequest {
        request: &bare,
        signed_headers: "host;x-amz-content-sha256;x-amz-date",
        payload_hash: UNSIGNED.as_bytes(),
    };
    let rest = "20260102/us-east-1/sqs/aws4_request";
    let to_sign = string_to_sign("20260102T030405Z", rest, &canonical.text(None));
    let key = key_cache::SigningKey::derive(SECRET, "20260102", "us-east-1", "sqs");
    let signature = String::from_utf8(key.sign_hex(&to_sign).to_vec()).unwrap();
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={KEY}/{rest},SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature={signature}"
    );
    let mut signed = headers.to_vec();
    signed.push(Header::new("authorization", &authorization));

    for body in [&b""[..], b"anything"] {
        assert!(verifier().verify(&Request::post(&signed, body), None, NOW).is_ok());
    }
}

#[test]
fn no_access_key_has_a_session_token() {
    let error = signed_and_verified(&verifier(), Some("token"), &[("host", "h")], |_| {});

    assert_eq!(error.unwrap_err(), AuthError::BadToken);
}

#[test]
fn a_proxy_may_change_the_host_to_a_known_one() {
    let rename = |headers: &mut Vec<Header<'_>>| {
        for header in headers.iter_mut().filter(|header| header.name == "host") {
            header.value = b"10.0.0.1:9324";
        }
    };
    let known = verifier()
        .with_alternative_hosts(vec!["other".to_owned(), "queues.example.com".to_owned()]);
    let headers = [("host", "queues.example.com")];
    let ninth = (1..ALTERNATIVE_HOSTS_MAX + 1).map(|number| number.to_string());
    let ninth = ninth.chain(["queues.example.com".to_owned()]).collect();
    let ninth = verifier().with_alternative_hosts(ninth);

    assert!(signed_and_verified(&known, None, &headers, rename).is_ok());
    assert!(signed_and_verified(&known, None, &headers, |_| {}).is_ok());
    for others in [verifier(), ninth] {
        let error = signed_and_verified(&others, None, &headers, rename).unwrap_err();
        assert!(matches!(error, AuthError::Mismatch { .. }));
    }
}

#[test]
fn the_date_header_serves_if_there_is_no_other() {
    for date in ["Fri, 02 Jan 2026 03:04:05 GMT", "20260102T030405Z"] {
        let headers = [Header::new("Date", date), Header::new("authorization", AUTHORIZATION)];
        let claim = Claim::of(&Request::post(&headers, b"")).unwrap();
        assert_eq!((&*claim.timestamp, claim.signed_at), ("20260102T030405Z", NOW), "{date}");
    }
    // A wrong one is not made good by the other.
    let headers = [
        Header::new("Date", "20260102T030405Z"),
        Header::new("X-Amz-Date", "now"),
        Header::new("authorization", AUTHORIZATION),
    ];
    assert!(Claim::of(&Request::post(&headers, b"")).is_err());
}

#[test]
fn header_values_are_joined_and_their_spaces_collapsed() {
    let twice = |headers: &mut Vec<Header<'_>>| {
        headers.retain(|header| header.name != "x-amz-meta");
        headers.push(Header::new("X-Amz-Meta", "  a   b "));
        headers.push(Header::new("x-amz-meta", "c"));
    };
    let headers = [("host", "h"), ("x-amz-meta", "a b,c")];

    assert!(signed_and_verified(&verifier(), None, &headers, twice).is_ok());
    let headers = [("host", "h"), ("x-amz-meta", "a"), ("X-Amz-Meta", "b")];
    assert!(signed_and_verified(&verifier(), None, &headers, |_| {}).is_ok());
}

proptest! {
    #[test]
    fn signed_requests_verify_and_altered_ones_do_not(
        path in "/[a-zA-Z0-9%/._ ~-]{0,30}",
        query in "([a-zA-Z0-9%+._~ -]{0,6}=?[a-zA-Z0-9%+._~ -]{0,6}&?){0,5}",
        extra in "[ -~]{0,30}",
        body: Vec<u8>,
    ) {
        let signer = Signer {
            access_key: KEY, secret: SECRET, session_token: None, region: "r", service: "sqs",
        };
        let headers = [("Host", "h:1"), ("X-Extra", extra.as_str())];
        let plain = SignRequest {
            method: "POST", path: &path, query: &query, headers: &headers, body: &body,
        };
        let added = signer.sign(&plain, NOW);
        let mut all: Vec<_> = headers.iter().map(|(name, value)| Header::new(name, value)).collect();
        all.extend(added.iter().map(|(name, value)| Header::new(name, value)));
        let verifier = verifier();

        let good = request("POST", &path, &query, &all, &body);
        prop_assert!(verifier.verify(&good, Some("sqs"), NOW).is_ok());
        let mut longer = body.clone();
        longer.push(0);
        let bad = request("POST", &path, &query, &all, &longer);
        let error = verifier.verify(&bad, Some("sqs"), NOW).unwrap_err();
        prop_assert!(matches!(error, AuthError::Mismatch { .. }), "{:?}", error);
    }

    #[test]
    fn no_header_panics(
        authorization in "(AWS4-HMAC-SHA256 )?([ -~]|Credential=|SignedHeaders=host|Signature=|AKIDEXAMPLE/20260102/r/sqs/aws4_request|, ){0,12}",
        date in "[0-9TZ]{0,17}|20260102T030405Z",
        query in "([ -~]|X-Amz-(Algorithm=AWS4-HMAC-SHA256|Credential=|Date=|Expires=1|Signature=)|&){0,12}",
        has_header: bool,
    ) {
        let mut headers = vec![Header::new("host", "h"), Header::new("x-amz-date", &date)];
        if has_header {
            headers.push(Header::new("authorization", &authorization));
        }
        let _ = verifier().verify(&request("POST", "/", &query, &headers, b""), None, NOW);
    }
}
