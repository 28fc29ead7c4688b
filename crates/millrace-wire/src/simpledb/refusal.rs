//! Errors in SimpleDB's own form, and those that come before the service: signatures, unknown
//! actions, and the API for exports.

use super::answer::DECLARATION;
use super::box_usage::BoxUsage;
use crate::sigv4::AuthError;
use crate::{ApiError, Response, json_string, xml_text};

/// Paths of the API for exports of 2025-09-26, which uses the same host names and scope.
pub const EXPORTS: [&str; 3] = ["/v2/GetExport", "/v2/ListExports", "/v2/StartDomainExport"];

/// Appends the error: no name space, `RequestID` with a capital D, and the machine hours used, unless
/// nobody knows who asks.
pub(crate) fn put_error(error: &ApiError, request_id: &str, out: &mut Vec<u8>) {
    let mut put = |parts: &[&str], text: &str| {
        parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        xml_text(out, text.as_bytes());
    };
    put(&[DECLARATION, "<Response><Errors><Error><Code>"], error.code);
    put(&["</Code><Message>"], &error.message);
    put(&["</Message>"], "");
    if let Some(usage) = usage_of(error) {
        put(&["<BoxUsage>"], &usage.to_string());
        put(&["</BoxUsage>"], "");
    }
    put(&["</Error></Errors><RequestID>"], request_id);
    put(&["</RequestID></Response>"], "");
}

/// The error for a signature that is refused.
pub fn auth_refusal(error: AuthError) -> ApiError {
    match error {
        AuthError::Missing => refusal(
            "AuthMissingFailure",
            403,
            "AWS was not able to authenticate the request: access credentials are missing",
        ),
        AuthError::UnknownKey | AuthError::BadToken => refusal(
            "InvalidClientTokenId",
            403,
            "The AWS Access Key Id you provided does not exist in our records.",
        ),
        AuthError::MissingParameter(name) => {
            let message = format!("The request must contain the parameter {name}");
            ApiError { message: message.into(), ..ApiError::missing_parameter(name) }
        }
        AuthError::BothTimes => {
            let message = "Request must contain Timestamp or Expires, not both.";
            refusal("InvalidParameterCombination", 400, message)
        }
        AuthError::InvalidParameter(message) => ApiError::invalid_parameter_value(message),
        other => other.into(),
    }
}

/// The answer to all requests of the API for exports: it speaks JSON, and is not offered.
pub fn export_refusal(request_id: &str) -> Response {
    let message = "Exports of SimpleDB domains are not offered. Read a domain with Select instead.";
    let mut body = b"{\"message\":".to_vec();
    json_string(&mut body, message.as_bytes());
    body.push(b'}');
    let mut response = Response::new(400, "application/json", body);
    response.request_id = request_id.to_owned();
    response.headers.push(("x-amzn-ErrorType", "UnsupportedOperationException".to_owned()));
    response
}

/// None where nobody knows whom to charge.
fn usage_of(error: &ApiError) -> Option<BoxUsage> {
    match error.code {
        "AccessFailure"
        | "AuthFailure"
        | "AuthMissingFailure"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "RequestExpired"
        | "SignatureDoesNotMatch" => None,
        "InvalidNumberPredicates"
        | "InvalidNumberValueTests"
        | "InvalidQueryExpression"
        | "InvalidSortExpression"
        | "RequestTimeout" => Some(BoxUsage::REFUSED_QUERY),
        _ => Some(BoxUsage::REFUSED),
    }
}

fn refusal(code: &'static str, status: u16, message: &'static str) -> ApiError {
    ApiError { code, shape: code, status, ..ApiError::access_denied(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crate::simpledb::SERVICE;

    fn body(error: &ApiError) -> String {
        let response = error.response(&SERVICE, Protocol::Query, "id-1");
        assert_eq!(response.content_type, "text/xml");
        String::from_utf8(response.body).unwrap()
    }

    #[test]
    fn errors_have_an_envelope_of_their_own() {
        let error = ApiError {
            code: "NoSuchDomain",
            message: "The <domain> does not exist.".into(),
            ..ApiError::invalid_parameter_value("")
        };
        assert_eq!(
            body(&error),
            "<?xml version=\"1.0\"?>\n<Response><Errors><Error><Code>NoSuchDomain</Code>\
             <Message>The &lt;domain&gt; does not exist.</Message>\
             <BoxUsage>0.0000219907</BoxUsage></Error></Errors><RequestID>id-1</RequestID>\
             </Response>"
        );
    }

    #[test]
    fn strangers_are_charged_nothing() {
        for (error, code, status) in [
            (AuthError::Missing, "AuthMissingFailure", 403),
            (AuthError::UnknownKey, "InvalidClientTokenId", 403),
            (AuthError::BadToken, "InvalidClientTokenId", 403),
            (AuthError::MismatchV2, "SignatureDoesNotMatch", 403),
            (AuthError::PresignedExpired, "RequestExpired", 400),
        ] {
            let error = auth_refusal(error);
            assert_eq!((error.code, error.status), (code, status));
            assert!(!body(&error).contains("BoxUsage"), "{code}");
        }
        let error = auth_refusal(AuthError::MissingParameter("AWSAccessKeyId"));
        assert_eq!(error.message, "The request must contain the parameter AWSAccessKeyId");
        assert_eq!((error.code, error.status), ("MissingParameter", 400));
    }

    #[test]
    fn exports_are_refused_in_json() {
        let response = export_refusal("id-1");
        assert_eq!((response.status, response.content_type), (400, "application/json"));
        assert!(response.body.starts_with(b"{\"message\":\"Exports of SimpleDB domains"));
    }
}
