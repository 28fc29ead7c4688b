//! Requests that carry their signature in the URL.

use super::*;

const PRESIGNED: &str = "Action=ReceiveMessage&MaxNumberOfMessages=10&Version=2012-11-05&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Fus-east-1%2Fsqs%2Faws4_request&X-Amz-Date=20260102T030405Z&X-Amz-Expires=300&X-Amz-SignedHeaders=host&X-Amz-Signature=93a0e3acbc533c9e5c5dddad14298174ea85c9107f5787871e94944a2614995f";

#[test]
fn the_vector_of_the_presigned_form_verifies() {
    let headers = [Header::new("host", "localhost:9324")];
    let request = request("GET", "/000000000000/q1", PRESIGNED, &headers, b"");

    assert!(verifier().verify(&request, Some("sqs"), NOW).is_ok());
    assert!(verifier().verify(&request, Some("sqs"), NOW + 300).is_ok());
    assert!(verifier().verify(&request, Some("sqs"), NOW - 900).is_ok());
    assert_eq!(
        verifier().verify(&request, Some("sqs"), NOW + 301).unwrap_err(),
        AuthError::PresignedExpired
    );
    assert!(matches!(
        verifier().verify(&request, Some("sqs"), NOW - 901).unwrap_err(),
        AuthError::NotYetCurrent(_)
    ));
}

/// A query string, signed for a GET of `/`.
pub(super) fn presigned(query: &str) -> String {
    let rest = "20260102/us-east-1/sqs/aws4_request";
    let mut query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={KEY}/{rest}&X-Amz-Date=20260102T030405Z&X-Amz-SignedHeaders=host&{query}"
    );
    let headers = [Header::new("host", "h")];
    let hash = sha256_hex(b"");
    let canonical = CanonicalRequest {
        request: &request("GET", "/", &query, &headers, b""),
        signed_headers: "host",
        payload_hash: &hash,
    };
    let to_sign = string_to_sign("20260102T030405Z", rest, &canonical.text(None));
    let key = key_cache::SigningKey::derive(SECRET, "20260102", "us-east-1", "sqs");
    query.push_str("&X-Amz-Signature=");
    query.push_str(str::from_utf8(&key.sign_hex(&to_sign)).unwrap());
    query
}

fn verify_presigned(query: &str, now: u64) -> Result<Verified, AuthError> {
    let headers = [Header::new("host", "h")];
    verifier().verify(&request("GET", "/", query, &headers, b""), Some("sqs"), now)
}

#[test]
fn presigned_requests_live_for_a_second_to_a_week() {
    for (expires_s, is_good) in [(0, false), (1, true), (604_800, true), (604_801, false)] {
        let query = presigned(&format!("X-Amz-Expires={expires_s}"));
        let verify = |now| verify_presigned(&query, now);
        if is_good {
            assert!(verify(NOW + expires_s).is_ok(), "{expires_s}");
            assert_eq!(verify(NOW + expires_s + 1).unwrap_err(), AuthError::PresignedExpired);
        } else {
            assert_eq!(
                verify(NOW).unwrap_err(),
                AuthError::Incomplete(
                    "X-Amz-Expires must be between 1 and 604800 seconds".to_owned()
                )
            );
        }
    }
}

/// As aws4 and aws4fetch for JavaScript sign for all services but S3; Amazon SQS answers them.
#[test]
fn presigned_requests_that_name_no_end_live_for_15_minutes() {
    let query = presigned("Action=ListQueues");

    assert!(verify_presigned(&query, NOW + 900).is_ok());
    assert_eq!(verify_presigned(&query, NOW + 901).unwrap_err(), AuthError::PresignedExpired);
}

/// The signature is the same for all of these.
#[test]
fn the_end_of_a_presigned_request_cannot_be_hidden() {
    let query = presigned("X-Amz-Expires=60");
    assert_eq!(verify_presigned(&query, NOW + 61).unwrap_err(), AuthError::PresignedExpired);

    for spelled in ["%58-Amz-Expires=60", "X-Amz-Expire%73=60", "X%2dAmz%2DExpires=60"] {
        let hidden = query.replace("X-Amz-Expires=60", spelled);
        let error = verify_presigned(&hidden, NOW + 61).unwrap_err();
        assert!(matches!(error, AuthError::Incomplete(_)), "{spelled}: {error:?}");
    }
    let empty = presigned("X-Amz-Expires=").replace("X-Amz-Expires=", "X-Amz-Expires");
    let error = verify_presigned(&empty, NOW + 61).unwrap_err();
    assert!(matches!(error, AuthError::Incomplete(_)), "{error:?}");
}

#[test]
fn no_access_key_of_a_presigned_request_has_a_session_token() {
    for token in ["t+/==", "t%2B%2f%3D="] {
        let query = presigned(&format!("X-Amz-Expires=60&X-Amz-Security-Token={token}"));
        assert_eq!(verify_presigned(&query, NOW).unwrap_err(), AuthError::BadToken, "{token}");
    }
}

/// Both forms sign the same text, but this one has no end of its own.
#[test]
fn a_presigned_request_cannot_be_sent_with_its_signature_in_the_header() {
    let (_, signature) = PRESIGNED.split_once("X-Amz-Signature=").unwrap();
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={KEY}/20260102/us-east-1/sqs/aws4_request,SignedHeaders=host,Signature={signature}"
    );
    let headers = [
        Header::new("host", "localhost:9324"),
        Header::new("x-amz-date", "20260102T030405Z"),
        Header::new("authorization", &authorization),
    ];

    for query in [PRESIGNED.to_owned(), PRESIGNED.replace("Algorithm", "%41lgorithm")] {
        let request = request("GET", "/000000000000/q1", &query, &headers, b"");
        let error = verifier().verify(&request, Some("sqs"), NOW + 301).unwrap_err();
        let problem = "A request is signed in the Authorization header or in the query string.";
        assert_eq!(error, AuthError::Incomplete(problem.to_owned()), "{query}");
    }
}

#[test]
fn presigned_requests_need_all_their_parameters() {
    let headers = [Header::new("host", "localhost:9324")];
    for name in ["Algorithm", "Credential", "Date", "SignedHeaders", "Signature"] {
        let query = PRESIGNED.replace(&format!("X-Amz-{name}="), "Other=");
        let request = request("GET", "/000000000000/q1", &query, &headers, b"");
        let error = verifier().verify(&request, None, NOW).unwrap_err();
        assert!(matches!(error, AuthError::Incomplete(_)), "{name}: {error:?}");
    }
    let query = PRESIGNED.replace("20260102T030405Z", "2026-01-02T03:04:05Z");
    let undated = request("GET", "/000000000000/q1", &query, &headers, b"");
    let problem = "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"";
    assert_eq!(
        verifier().verify(&undated, None, NOW).unwrap_err(),
        AuthError::Incomplete(problem.to_owned())
    );
    for expires in ["0", "604801", "x"] {
        let query = PRESIGNED.replace("Expires=300", &format!("Expires={expires}"));
        let request = request("GET", "/000000000000/q1", &query, &headers, b"");
        let error = verifier().verify(&request, None, NOW).unwrap_err();
        assert!(matches!(error, AuthError::Incomplete(_)), "{expires}: {error:?}");
    }
}

/// What is found out about a request takes the header for its signature, too.
#[test]
fn an_authorization_header_that_is_no_text_counts_before_the_query_string() {
    let garbage = Header { name: "Authorization", value: b"\xff" };
    let headers = [Header::new("host", "localhost:9324"), garbage];
    let request = request("GET", "/000000000000/q1", PRESIGNED, &headers, b"");

    let error = verifier().verify(&request, Some("sqs"), NOW).unwrap_err();
    assert!(matches!(error, AuthError::Incomplete(_)), "{error:?}");

    let mut headers = vector_headers(AUTHORIZATION);
    headers.insert(0, garbage);
    let error = verifier().verify(&Request::post(&headers, BODY), None, NOW).unwrap_err();
    assert!(matches!(error, AuthError::Incomplete(_)), "{error:?}");
}
