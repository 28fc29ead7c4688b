//! The one error that every AWS protocol renders: typed name for JSON, legacy code for Query.

use std::borrow::Cow;

use crate::codec::{Node, cbor, json};
use crate::escape::xml_text;
use crate::http::Response;
use crate::protocol::{ErrorXml, Protocol, ServiceMetadata};
use crate::simpledb;

const FRONT_END: &str = "com.amazon.coral.service";

/// An error answer. Which error gets which codes is decided by each service in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Namespace of the JSON `__type`: `com.amazonaws.sqs` for modelled errors,
    /// `com.amazon.coral.service` for those of the front end.
    pub namespace: &'static str,
    /// Shape name, what follows `#` in `__type`; for instance `QueueDoesNotExist`.
    pub shape: &'static str,
    /// `Code` of the Query protocol and of batch entries, and the first half of
    /// `x-amzn-query-error`; for instance `AWS.SimpleQueueService.NonExistentQueue`.
    pub code: &'static str,
    /// HTTP status, of the Query protocol where others have another.
    pub status: u16,
    /// What the client reads. Answers leave it out if it is empty: CloudWatch says nothing about an
    /// alarm that does not exist.
    pub message: Cow<'static, str>,
}

/// Errors of the front end, the same for every service.
impl ApiError {
    /// JSON: `X-Amz-Target` names no action of the service.
    pub fn unknown_operation() -> ApiError {
        let message = "The requested operation is not known.";
        front_end("UnknownOperationException", "UnknownOperationException", 404, message)
    }

    /// JSON: the body cannot be parsed, or a member has the wrong type.
    pub fn serialization(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("SerializationException", "SerializationException", 400, message)
    }

    /// Query: a parameter has the wrong type, such as a number with letters.
    pub fn malformed_input(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("SerializationException", "MalformedInput", 400, message)
    }

    /// Query: the parameters as a whole cannot be read.
    pub fn malformed_query_string(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("MalformedQueryString", "MalformedQueryString", 404, message)
    }

    /// Query: `Action` names no action, or none for this path.
    pub fn invalid_action(action: &str) -> ApiError {
        let message = format!("The action {action} is not valid for this endpoint.");
        front_end("InvalidAction", "InvalidAction", 400, message)
    }

    /// Query, of STS: `Action` names no action of this version.
    pub fn no_such_operation(action: &str, version: &str) -> ApiError {
        let message = format!("Could not find operation {action} for version {version}");
        front_end("InvalidAction", "InvalidAction", 400, message)
    }

    /// Actions are asked for by GET or POST.
    pub fn method_not_allowed() -> ApiError {
        let message = "The specified method is not allowed against this resource.";
        front_end("MethodNotAllowed", "MethodNotAllowed", 405, message)
    }

    /// Query: there is no `Action`.
    pub fn missing_action() -> ApiError {
        let message = "The request must contain the parameter Action.";
        front_end("MissingAction", "MissingAction", 400, message)
    }

    /// A required parameter is absent.
    pub fn missing_parameter(name: &str) -> ApiError {
        let message = format!("The request must contain the parameter {name}.");
        front_end("MissingRequiredParameterException", "MissingParameter", 400, message)
    }

    /// A parameter is not allowed to have its value.
    pub fn invalid_parameter_value(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("InvalidParameterValueException", "InvalidParameterValue", 400, message)
    }

    /// Authenticated, but not allowed.
    pub fn access_denied(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("AccessDeniedException", "AccessDenied", 403, message)
    }

    /// The signature, its scope or its date is wrong.
    pub fn signature_does_not_match(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("InvalidSignatureException", "SignatureDoesNotMatch", 403, message)
    }

    /// The signature is malformed.
    pub fn incomplete_signature(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("IncompleteSignatureException", "IncompleteSignature", 400, message)
    }

    /// The access key or a session token is not known.
    pub fn invalid_client_token_id() -> ApiError {
        let message = "The security token included in the request is invalid.";
        front_end("UnrecognizedClientException", "InvalidClientTokenId", 403, message)
    }

    /// There is no signature at all.
    pub fn missing_authentication_token() -> ApiError {
        let message = "Request is missing Authentication Token";
        front_end("MissingAuthenticationTokenException", "MissingAuthenticationToken", 403, message)
    }

    /// A presigned request came too late.
    pub fn request_expired(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("RequestExpired", "RequestExpired", 400, message)
    }

    /// Too many requests; clients back off and retry.
    pub fn throttling(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("ThrottlingException", "Throttling", 400, message)
    }

    /// A fault of ours; clients retry. The cause belongs to the log.
    pub fn internal_failure() -> ApiError {
        let message = "We encountered an internal error. Please try again.";
        front_end("InternalFailure", "InternalFailure", 500, message)
    }

    /// A change is waited for no longer, and may yet be stored.
    pub fn outcome_unknown() -> ApiError {
        ApiError::service_unavailable(
            "The service did not store the change in time. The outcome is unknown.",
        )
    }

    /// Too busy, starting or draining; clients retry.
    pub fn service_unavailable(message: impl Into<Cow<'static, str>>) -> ApiError {
        front_end("ServiceUnavailableException", "ServiceUnavailable", 503, message)
    }
}

impl ApiError {
    /// The error as `service` says it in `protocol`.
    pub fn response(
        &self,
        service: &ServiceMetadata,
        protocol: Protocol,
        request_id: &str,
    ) -> Response {
        let mut body = Vec::with_capacity(512);
        // SimpleDB has no answers in JSON, whatever a client accepts.
        let is_form = matches!(protocol, Protocol::Query | Protocol::QueryAsJson);
        let protocol = match service.error_xml {
            ErrorXml::OfSimpleDb if is_form => Protocol::Query,
            _ => protocol,
        };
        match protocol {
            Protocol::Query if service.error_xml == ErrorXml::OfSimpleDb => {
                simpledb::put_error(self, request_id, &mut body);
            }
            Protocol::Json => json::put(&self.tree(), &mut body),
            Protocol::Cbor => cbor::put(&self.tree(), &mut body),
            Protocol::Query => self.put_xml(service, request_id, &mut body),
            Protocol::QueryAsJson => json::put(&self.query_tree(request_id), &mut body),
        }

        let mut response = Response::new(self.status, service.content_type(protocol), body);
        response.request_id = request_id.to_owned();
        if protocol == Protocol::Cbor {
            response.headers.push(("Smithy-Protocol", "rpc-v2-cbor".to_owned()));
        }
        if matches!(protocol, Protocol::Json | Protocol::Cbor) {
            let query_error = format!("{};{}", self.code, self.fault());
            response.headers.push(("x-amzn-query-error", query_error));
        }
        response
    }

    /// Whether the client is at fault (`Sender`) rather than the server (`Receiver`).
    pub fn is_sender_fault(&self) -> bool {
        self.status < 500
    }

    /// The HTTP status in AWS JSON and CBOR if the request lacks `x-amzn-query-mode: true`. The
    /// models of SQS and CloudWatch give their errors statuses for the Query protocol only
    /// (Smithy's `awsQueryError`); without it, all that the client is at fault for are 400. Errors
    /// of the front end are not in these models.
    pub fn status_outside_query_mode(&self) -> u16 {
        match self.status {
            400..=499 if self.namespace != FRONT_END => 400,
            status => status,
        }
    }

    /// `Sender` or `Receiver`.
    pub fn fault(&self) -> &'static str {
        if self.is_sender_fault() { "Sender" } else { "Receiver" }
    }

    fn tree(&self) -> Node {
        let mut members =
            vec![("__type".into(), text(&format!("{}#{}", self.namespace, self.shape)))];
        if !self.message.is_empty() {
            members.push(("message".into(), text(&self.message)));
        }
        Node::Structure(members)
    }

    fn put_xml(&self, service: &ServiceMetadata, request_id: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<?xml version=\"1.0\"?><ErrorResponse xmlns=\"");
        out.extend_from_slice(service.xml_namespace.as_bytes());
        out.extend_from_slice(b"\"><Error><Type>");
        out.extend_from_slice(self.fault().as_bytes());
        out.extend_from_slice(b"</Type>");
        self.put_xml_code_and_message(out);
        if service.error_xml == ErrorXml::WithDetail {
            out.extend_from_slice(b"<Detail/>");
        }
        out.extend_from_slice(b"</Error><RequestId>");
        xml_text(out, request_id.as_bytes());
        out.extend_from_slice(b"</RequestId></ErrorResponse>");
    }

    fn put_xml_code_and_message(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<Code>");
        out.extend_from_slice(self.code.as_bytes());
        out.extend_from_slice(b"</Code>");
        if !self.message.is_empty() {
            out.extend_from_slice(b"<Message>");
            xml_text(out, self.query_message().as_bytes());
            out.extend_from_slice(b"</Message>");
        }
    }

    fn query_tree(&self, request_id: &str) -> Node {
        let mut members = vec![("Code".into(), text(self.code))];
        if !self.message.is_empty() {
            members.push(("Message".into(), text(self.query_message())));
        }
        members.push(("Type".into(), text(self.fault())));
        let error = ("Error".into(), Node::Structure(members));
        Node::Structure(vec![error, ("RequestId".into(), text(request_id))])
    }

    /// SQS words one message differently in the Query protocol.
    fn query_message(&self) -> &str {
        if self.shape == "QueueDoesNotExist"
            && self.message == "The specified queue does not exist."
        {
            return "The specified queue does not exist for this wsdl version.";
        }
        &self.message
    }
}

/// What SQS answers, in any protocol, to a request to a queue's path that names no action.
pub fn no_action_response(request_id: &str) -> Response {
    let mut response = Response::new(404, "text/xml", "<UnknownOperationException/>");
    response.request_id = request_id.to_owned();
    response
}

fn text(text: &str) -> Node {
    Node::Text(text.to_owned())
}

fn front_end(
    shape: &'static str,
    code: &'static str,
    status: u16,
    message: impl Into<Cow<'static, str>>,
) -> ApiError {
    ApiError { namespace: FRONT_END, shape, code, status, message: message.into() }
}

#[cfg(test)]
mod tests;
