//! Which answers are errors, and of which kind.

use roxmltree::{Document, Node};
use serde::Deserialize;

use crate::error::{CallError, CallErrorKind};
use crate::transport::Answer;

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(rename = "__type", default)]
    shape: String,
    message: Option<String>,
    /// Some write this, and some, such as moto, both.
    #[serde(rename = "Message")]
    capital_message: Option<String>,
}

/// The error that an answer with a status other than 200 means. Whatever protocol was spoken, what
/// stands between may answer in the other. An answer without an error code, in its body or its
/// headers, is none of SQS: some proxy wrote it, and what became of the request is unknown.
pub(crate) fn error_of(answer: &Answer) -> CallError {
    let body = serde_json::from_slice(&answer.body).ok().or_else(|| of_xml(&answer.body));
    let mut body: ErrorBody = body.unwrap_or_default();
    if body.shape.is_empty()
        && let Some(code) = code_of_headers(answer)
    {
        code.clone_into(&mut body.shape);
    }
    let after_namespace = body.shape.rsplit('#').next().unwrap_or_default();
    let shape = after_namespace.split(':').next().unwrap_or_default();
    let shape = short_code(shape);
    let status = answer.status;
    let mut error = if shape.is_empty() {
        CallError::new(kind_without_code(status), format!("HTTP {status}"), answer.excerpt())
    } else {
        let message = body.message.or(body.capital_message).unwrap_or_default();
        CallError::new(kind_of(shape, status), shape, message)
    };
    error.retry_after = answer.retry_after;
    // A server in trouble may fail after the deed; refusals and throttling come before it.
    error.is_ambiguous = matches!(error.kind, CallErrorKind::Server | CallErrorKind::Malformed);
    error
}

/// Of `x-amzn-errortype: SHAPE`, or `x-amzn-query-error: CODE;FAULT`.
fn code_of_headers(answer: &Answer) -> Option<&str> {
    let query_error = || answer.header("x-amzn-query-error")?.split(';').next();
    answer.header("x-amzn-errortype").or_else(query_error)
}

/// An error code as JSON has it: Query's, and those of entries, have a prefix in places.
pub(super) fn short_code(code: &str) -> &str {
    code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code)
}

/// `<ErrorResponse><Error><Code>…`.
fn of_xml(body: &[u8]) -> Option<ErrorBody> {
    let document = Document::parse(std::str::from_utf8(body).ok()?).ok()?;
    let named = |name| move |node: &Node<'_, '_>| node.tag_name().name() == name;
    let error = document.descendants().find(named("Error"))?;
    let text = |name| error.children().find(named(name)).and_then(|node| node.text());
    Some(ErrorBody {
        shape: text("Code")?.to_owned(),
        message: text("Message").map(str::to_owned),
        capital_message: None,
    })
}

/// Whether an error code, of a call or of an entry, asks for a slower pace.
pub(super) fn is_throttling(code: &str) -> bool {
    // FIFO queues answer OverLimit when too much is in flight, KMS throttles on its own.
    matches!(
        code,
        "ThrottlingException"
            | "Throttling"
            | "RequestThrottled"
            | "RequestThrottledException"
            | "TooManyRequestsException"
            | "SlowDown"
            | "OverLimit"
            | "KmsThrottled"
    )
}

fn kind_of(shape: &str, status: u16) -> CallErrorKind {
    match shape {
        "QueueDoesNotExist" | "NonExistentQueue" => CallErrorKind::NoSuchQueue,
        "BatchRequestTooLong" => CallErrorKind::BatchTooLarge,
        // A 403 that has nothing to do with who asks.
        "PurgeQueueInProgress" => CallErrorKind::Refused,
        code if is_throttling(code) => CallErrorKind::Throttled,
        "AccessDenied"
        | "AccessDeniedException"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignatureException"
        | "IncompleteSignature"
        | "ExpiredTokenException"
        | "ExpiredToken"
        | "MissingAuthenticationTokenException"
        | "InvalidClientTokenId"
        | "NotAuthorized"
        // A signature that is too old, or the clock of whoever made it.
        | "RequestExpired"
        | "SignatureDoesNotMatch"
        | "OptInRequired" => CallErrorKind::Auth,
        _ => match kind_without_code(status) {
            CallErrorKind::Malformed => CallErrorKind::Refused,
            kind => kind,
        },
    }
}

fn kind_without_code(status: u16) -> CallErrorKind {
    match status {
        401 | 403 => CallErrorKind::Auth,
        413 => CallErrorKind::BatchTooLarge,
        429 => CallErrorKind::Throttled,
        408 | 500.. => CallErrorKind::Server,
        _ => CallErrorKind::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    fn error(status: u16, body: &str) -> CallError {
        let retry_after = Some(Duration::from_secs(7));
        let body = Bytes::copy_from_slice(body.as_bytes());
        let mut answer = Answer::new(status, Bytes::new(), body);
        answer.retry_after = retry_after;
        error_of(&answer)
    }

    #[test]
    fn message_is_read_in_either_case_in_both_and_where_there_is_none() {
        let cases = [
            (r#""message":"m""#, "m"),
            (r#""Message":"m""#, "m"),
            (r#""message":"m","Message":"m""#, "m"),
            (r#""message":null,"Message":"m""#, "m"),
            (r#""message":null"#, ""),
        ];
        for (member, message) in cases {
            let found = error(400, &format!(r#"{{"__type":"QueueDoesNotExist",{member}}}"#));
            assert_eq!((&*found.code, &*found.message), ("QueueDoesNotExist", message), "{member}");
        }
    }

    #[test]
    fn errors_are_told_apart_by_shape_then_by_status() {
        let cases = [
            (400, "com.amazonaws.sqs#QueueDoesNotExist", CallErrorKind::NoSuchQueue),
            (400, "com.amazonaws.sqs#BatchRequestTooLong", CallErrorKind::BatchTooLarge),
            (400, "com.amazon.coral.service#ThrottlingException", CallErrorKind::Throttled),
            (403, "com.amazonaws.sqs#RequestThrottled", CallErrorKind::Throttled),
            (403, "AccessDeniedException:http://x", CallErrorKind::Auth),
            (400, "RequestExpired", CallErrorKind::Auth),
            (403, "com.amazonaws.sqs#PurgeQueueInProgress", CallErrorKind::Refused),
            (400, "com.amazonaws.sqs#ReceiptHandleIsInvalid", CallErrorKind::Refused),
            (503, "com.amazon.coral.service#ServiceUnavailableException", CallErrorKind::Server),
        ];
        for (status, shape, kind) in cases {
            let found = error(status, &format!(r#"{{"__type":"{shape}","message":"m"}}"#));
            assert_eq!(found.kind, kind, "{shape}");
            assert_eq!(found.message, "m");
            assert!(!found.code.contains(['#', ':']));
        }

        let xml = |code: &str| {
            format!(
                "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"urn:x\"><Error><Type>Sender</Type>\
                 <Code>{code}</Code><Message>a &lt; b</Message><Detail/></Error></ErrorResponse>"
            )
        };
        for (code, kind) in [
            ("AWS.SimpleQueueService.NonExistentQueue", CallErrorKind::NoSuchQueue),
            ("AWS.SimpleQueueService.BatchRequestTooLong", CallErrorKind::BatchTooLarge),
            ("RequestThrottled", CallErrorKind::Throttled),
            ("InvalidClientTokenId", CallErrorKind::Auth),
            ("IncompleteSignature", CallErrorKind::Auth),
            ("ExpiredToken", CallErrorKind::Auth),
            ("NotAuthorized", CallErrorKind::Auth),
            ("AWS.SimpleQueueService.MessageNotInflight", CallErrorKind::Refused),
        ] {
            let found = error(400, &xml(code));
            assert_eq!((found.kind, found.message.as_str()), (kind, "a < b"), "{code}");
            assert!(code.ends_with(&found.code) && !found.code.contains('.'));
        }

        for (status, kind) in [(502, CallErrorKind::Server), (429, CallErrorKind::Throttled)] {
            let found = error(status, "<html>");
            assert_eq!(found.kind, kind);
            assert_eq!(found.code, format!("HTTP {status}"));
            assert_eq!(found.retry_after.unwrap().as_secs(), 7);
        }
    }

    #[test]
    fn page_of_a_proxy_refuses_nothing() {
        for status in [302, 400, 404, 410] {
            for page in ["<html>\n default  backend", r#"{"message":"no route"}"#, ""] {
                let found = error(status, page);
                assert_eq!(found.kind, CallErrorKind::Malformed, "{status} {page}");
                assert!(found.is_retryable() && found.is_ambiguous);
                assert_eq!(found.code, format!("HTTP {status}"));
            }
        }
        assert_eq!(error(404, "<html>\n default  backend").message, "<html> default backend");
    }

    #[test]
    fn code_may_stand_in_the_headers() {
        for header in [
            "x-amzn-errortype: QueueDoesNotExist:http://internal",
            "X-Amzn-Query-Error: AWS.SimpleQueueService.NonExistentQueue;Sender",
        ] {
            let head = format!("HTTP/1.1 400 Bad Request\r\n{header}\r\n");
            let (head, body) = (head.into(), Bytes::from_static(b"{\"message\":\"m\"}"));
            let found = error_of(&Answer::new(400, head, body));

            assert_eq!(found.kind, CallErrorKind::NoSuchQueue, "{header}");
            assert_eq!(found.message, "m");
        }
    }

    #[test]
    fn request_that_is_too_large_is_a_batch_to_split_and_says_so() {
        let found = error(413, "request body is too large\n");

        assert_eq!(found.kind, CallErrorKind::BatchTooLarge);
        assert_eq!(found.message, "request body is too large");
        assert!(!found.is_retryable() && !found.is_ambiguous);
        assert_eq!(error(413, "").message, "the answer has no text");
    }
}
