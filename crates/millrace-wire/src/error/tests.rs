use super::*;
use crate::{cloudwatch, sqs};

fn missing_queue() -> ApiError {
    ApiError {
        namespace: "com.amazonaws.sqs",
        shape: "QueueDoesNotExist",
        code: "AWS.SimpleQueueService.NonExistentQueue",
        status: 400,
        message: "The specified queue does not exist.".into(),
    }
}

fn body(response: &Response) -> &str {
    str::from_utf8(&response.body).unwrap()
}

#[test]
fn errors_of_the_front_end_have_the_codes_of_aws() {
    let m = "m";
    for (error, shape, code, status) in [
        (
            ApiError::unknown_operation(),
            "UnknownOperationException",
            "UnknownOperationException",
            404,
        ),
        (ApiError::serialization(m), "SerializationException", "SerializationException", 400),
        (ApiError::malformed_input(m), "SerializationException", "MalformedInput", 400),
        (ApiError::malformed_query_string(m), "MalformedQueryString", "MalformedQueryString", 404),
        (ApiError::invalid_action(m), "InvalidAction", "InvalidAction", 400),
        (ApiError::method_not_allowed(), "MethodNotAllowed", "MethodNotAllowed", 405),
        (ApiError::missing_action(), "MissingAction", "MissingAction", 400),
        (
            ApiError::missing_parameter(m),
            "MissingRequiredParameterException",
            "MissingParameter",
            400,
        ),
        (
            ApiError::invalid_parameter_value(m),
            "InvalidParameterValueException",
            "InvalidParameterValue",
            400,
        ),
        (ApiError::access_denied(m), "AccessDeniedException", "AccessDenied", 403),
        (
            ApiError::incomplete_signature(m),
            "IncompleteSignatureException",
            "IncompleteSignature",
            400,
        ),
        (
            ApiError::missing_authentication_token(),
            "MissingAuthenticationTokenException",
            "MissingAuthenticationToken",
            403,
        ),
        (ApiError::request_expired(m), "RequestExpired", "RequestExpired", 400),
        (ApiError::throttling(m), "ThrottlingException", "Throttling", 400),
        (ApiError::internal_failure(), "InternalFailure", "InternalFailure", 500),
        (
            ApiError::service_unavailable(m),
            "ServiceUnavailableException",
            "ServiceUnavailable",
            503,
        ),
    ] {
        assert_eq!((error.shape, error.code, error.status), (shape, code, status));
        assert_eq!(error.namespace, "com.amazon.coral.service");
    }
}

#[test]
fn json_errors_carry_the_typed_name_and_the_legacy_code() {
    let response = missing_queue().response(&sqs::SERVICE, Protocol::Json, "id-1");

    assert_eq!(response.status, 400);
    assert_eq!(response.content_type, "application/x-amz-json-1.0");
    assert_eq!(response.request_id, "id-1");
    assert_eq!(
        response.headers,
        [("x-amzn-query-error", "AWS.SimpleQueueService.NonExistentQueue;Sender".to_owned())]
    );
    assert_eq!(
        body(&response),
        r##"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}"##
    );
}

#[test]
fn xml_errors_carry_the_legacy_code_and_for_sqs_a_detail() {
    let sqs = missing_queue().response(&sqs::SERVICE, Protocol::Query, "id-1");
    let other =
        ApiError::access_denied("a <b>\r").response(&cloudwatch::SERVICE, Protocol::Query, "2");

    assert_eq!(sqs.content_type, "text/xml");
    assert!(sqs.headers.is_empty());
    assert_eq!(
        body(&sqs),
        "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">\
         <Error><Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code>\
         <Message>The specified queue does not exist for this wsdl version.</Message><Detail/></Error>\
         <RequestId>id-1</RequestId></ErrorResponse>"
    );
    assert_eq!(
        body(&other),
        "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://monitoring.amazonaws.com/doc/2010-08-01/\">\
         <Error><Type>Sender</Type><Code>AccessDenied</Code><Message>a &lt;b&gt;&#xD;</Message></Error>\
         <RequestId>2</RequestId></ErrorResponse>"
    );
}

#[test]
fn only_one_message_has_other_words_in_the_query_protocol() {
    let message = "The specified queue does not exist.";
    for error in [
        ApiError { message: "Another.".into(), ..missing_queue() },
        ApiError::invalid_parameter_value(message),
    ] {
        let response = error.response(&sqs::SERVICE, Protocol::QueryAsJson, "id-1");
        assert!(body(&response).contains(&*error.message), "{}", body(&response));
    }
}

#[test]
fn query_errors_are_json_if_asked_for() {
    let error = ApiError::internal_failure();
    let response = error.response(&sqs::SERVICE, Protocol::QueryAsJson, "id-1");

    assert_eq!(response.status, 500);
    assert_eq!(response.content_type, "application/json");
    assert_eq!(
        body(&response),
        r#"{"Error":{"Code":"InternalFailure","Message":"We encountered an internal error. Please try again.","Type":"Receiver"},"RequestId":"id-1"}"#
    );
}

#[test]
fn cbor_errors_are_a_map_of_type_and_message() {
    let error = ApiError::throttling("x".repeat(300));
    let response = error.response(&cloudwatch::SERVICE, Protocol::Cbor, "id-1");

    let mut expected = vec![0xa2, 0x66];
    expected.extend_from_slice(b"__type\x78\x2ccom.amazon.coral.service#ThrottlingException");
    expected.extend_from_slice(b"\x67message\x79\x01\x2c");
    expected.extend_from_slice("x".repeat(300).as_bytes());
    assert_eq!(response.content_type, "application/cbor");
    assert_eq!(response.body, expected);
    assert_eq!(
        response.headers,
        [
            ("Smithy-Protocol", "rpc-v2-cbor".to_owned()),
            ("x-amzn-query-error", "Throttling;Sender".to_owned()),
        ]
    );
}

#[test]
fn an_empty_message_is_left_out() {
    let error = ApiError::throttling("");

    let json = error.response(&cloudwatch::SERVICE, Protocol::Json, "id-1");
    assert_eq!(body(&json), r#"{"__type":"com.amazon.coral.service#ThrottlingException"}"#);
    let cbor = error.response(&cloudwatch::SERVICE, Protocol::Cbor, "id-1");
    assert_eq!(cbor.body, b"\xa1\x66__type\x78\x2ccom.amazon.coral.service#ThrottlingException");
    let xml = error.response(&cloudwatch::SERVICE, Protocol::Query, "id-1");
    assert!(body(&xml).contains("<Code>Throttling</Code></Error>"), "{}", body(&xml));
    let query_json = error.response(&cloudwatch::SERVICE, Protocol::QueryAsJson, "id-1");
    assert_eq!(
        body(&query_json),
        r#"{"Error":{"Code":"Throttling","Type":"Sender"},"RequestId":"id-1"}"#
    );
}

#[test]
fn a_request_without_an_action_is_answered_in_xml() {
    let response = no_action_response("id-1");

    assert_eq!((response.status, response.content_type), (404, "text/xml"));
    assert_eq!(response.request_id, "id-1");
    assert_eq!(body(&response), "<UnknownOperationException/>");
}
