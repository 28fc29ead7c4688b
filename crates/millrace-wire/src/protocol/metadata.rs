//! Names of services on the wire, and the protocols of requests and answers.

use std::fmt;

use crate::ApiError;
use crate::codec::Fractions;
use crate::sigv4::AuthError;

/// A service on the wire: the names that a request may show, and the form of its errors.
pub struct ServiceMetadata {
    /// In labels of metrics, and before the colon of a permission: `cloudwatch`.
    pub name: &'static str,
    /// The name as AWS writes it: `CloudWatch`.
    pub title: &'static str,
    /// In a credential scope, and the first label of a host name: `monitoring`.
    pub scope: &'static str,
    /// Another label of host names, the first one or behind the region's.
    pub legacy_host: Option<&'static str>,
    /// The text before the dot of `X-Amz-Target`, and the service's name in paths of Smithy RPC.
    pub target_prefix: Option<&'static str>,
    /// Values of the parameter `Version`, the current one first.
    pub versions: &'static [&'static str],
    /// The protocols that it is served in.
    pub protocols: &'static [Protocol],
    /// Actions that are a clue if there is no better one, unless another service has them, too.
    pub clue_actions: &'static [&'static str],
    /// Parameters that are a clue to the service.
    pub clue_parameters: &'static [&'static str],
    /// The name space of Query answers.
    pub xml_namespace: &'static str,
    pub error_xml: ErrorXml,
    /// The error for a signature that is refused.
    pub auth_refusal: fn(AuthError) -> ApiError,
    /// Exactness of times in Query answers.
    pub xml_fractions: Fractions,
    /// Content type of AWS JSON answers.
    pub json_content_type: &'static str,
    /// True if an AWS JSON answer without a result is empty, and not an empty object.
    pub has_empty_json: bool,
}

/// AWS JSON 1.0.
pub const JSON_1_0: &str = "application/x-amz-json-1.0";
/// AWS JSON 1.1.
pub const JSON_1_1: &str = "application/x-amz-json-1.1";

/// The forms of errors in the Query protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorXml {
    Plain,
    /// With an empty element `Detail`.
    WithDetail,
    /// SimpleDB's own.
    OfSimpleDb,
}

/// The formats of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// AWS JSON 1.0 or 1.1: the action in `X-Amz-Target`.
    Json,
    /// Parameters in, XML out.
    Query,
    /// Parameters in, JSON out, because of `Accept: application/json`.
    QueryAsJson,
    /// Smithy RPC v2 with CBOR.
    Cbor,
}

/// Defaults for the declarations of services.
pub const NOTHING: ServiceMetadata = ServiceMetadata {
    name: "",
    title: "",
    scope: "",
    legacy_host: None,
    target_prefix: None,
    versions: &[],
    protocols: &[Protocol::Query, Protocol::QueryAsJson],
    clue_actions: &[],
    clue_parameters: &[],
    xml_namespace: "http://queue.amazonaws.com/doc/2012-11-05/",
    error_xml: ErrorXml::Plain,
    auth_refusal: ApiError::of_auth,
    xml_fractions: Fractions::AsNeeded,
    json_content_type: JSON_1_0,
    has_empty_json: false,
};

/// The service of a request that shows none. It is signed and answered as those for SQS are.
pub static UNKNOWN: ServiceMetadata =
    ServiceMetadata { name: "other", title: "other", scope: "sqs", protocols: &[], ..NOTHING };

impl Protocol {
    /// Content type of answers, but for services that speak AWS JSON 1.1.
    pub fn content_type(self) -> &'static str {
        match self {
            Protocol::Json => JSON_1_0,
            Protocol::Query => "text/xml",
            Protocol::QueryAsJson => "application/json",
            Protocol::Cbor => "application/cbor",
        }
    }
}

impl ServiceMetadata {
    /// Content type of its answers.
    pub fn content_type(&self, protocol: Protocol) -> &'static str {
        match protocol {
            Protocol::Json => self.json_content_type,
            _ => protocol.content_type(),
        }
    }

    /// Returns true if a host is the service's: `sqs.…`, `queue.…` or `<region>.queue.…`.
    pub(super) fn has_host(&self, host: &str) -> bool {
        let mut labels = host.split(['.', ':']);
        let [first, second] = [labels.next(), labels.next()];
        let is_legacy = |label: Option<&str>| label.is_some() && label == self.legacy_host;
        first == Some(self.scope) || is_legacy(first) || is_legacy(second)
    }

    /// Returns true if the text before the dot of `X-Amz-Target` is the service's.
    pub(super) fn has_target_prefix(&self, prefix: &str) -> bool {
        self.target_prefix == Some(prefix)
    }
}

impl fmt::Debug for ServiceMetadata {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}
