//! AWS STS, as far as clients ask who they are: GetCallerIdentity, in Query and AWS JSON.
//!
//! It hands out no credentials, needs no permission and changes nothing.

mod identity;

use std::collections::HashMap;
use std::convert::Infallible;

use millrace_wire::protocol::{ErrorXml, Protocol, ServiceMetadata, Target};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Response, json_string, xml_text};
use serde::de::IgnoredAny;

use crate::service::{Action, AwsService, Call, unknown_action};
use identity::Identity;

static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "sts",
    title: "STS",
    scope: "sts",
    legacy_host: None,
    target_prefix: Some("AWSSecurityTokenServiceV20110615"),
    versions: &["2011-06-15"],
    protocols: &[Protocol::Json, Protocol::Query, Protocol::QueryAsJson],
    clue_actions: &["AssumeRole", "GetAccessKeyInfo", "GetCallerIdentity", "GetSessionToken"],
    clue_parameters: &[],
    xml_namespace: "https://sts.amazonaws.com/doc/2011-06-15/",
    error_xml: ErrorXml::Plain,
};

/// The actions that are answered.
static ACTIONS: [Action<Sts>; 1] = [Action::new("GetCallerIdentity", ())];

/// The service.
pub(crate) struct Sts;

impl AwsService for Sts {
    const METADATA: &'static ServiceMetadata = &SERVICE;
    const ACTIONS: &'static [Action<Sts>] = &ACTIONS;

    type Input<'a> = ();
    type Answer = Identity;
    type Names = ();
    type Resource = Infallible;

    fn decode<'a>(&self, call: &Call<'a>, _: &'a mut Parameters<'_>) -> Result<(), ApiError> {
        match call.target.protocol {
            Protocol::Json => check_body(call.request.body),
            // Signed for STS, to the path of another service.
            Protocol::Cbor => Err(ApiError::unknown_operation()),
            Protocol::Query | Protocol::QueryAsJson => Ok(()),
        }
    }

    fn find(&self, (): (), _: &Call<'_>, _: &()) -> Result<Option<Infallible>, ApiError> {
        Ok(None)
    }

    async fn act<'a>(
        &self,
        call: &Call<'a>,
        _: &(),
        _: Option<Infallible>,
    ) -> Result<Identity, ApiError> {
        Ok(Identity::of(call.caller))
    }

    fn encode(&self, call: &Call<'_>, identity: Identity) -> Response {
        response(&identity, call.target.protocol, call.request_id)
    }

    fn unknown_action(target: &Target<'_>, parameters: &Parameters<'_>) -> ApiError {
        match target.protocol {
            Protocol::Json | Protocol::Cbor => unknown_action(target),
            Protocol::Query | Protocol::QueryAsJson => {
                let version = parameters.get("Version").unwrap_or("NO_VERSION_SPECIFIED");
                ApiError::no_such_operation(&target.action, version)
            }
        }
    }
}

/// The action takes no parameters, but what is no object was meant for another.
fn check_body(body: &[u8]) -> Result<(), ApiError> {
    if body.is_empty() || serde_json::from_slice::<HashMap<String, IgnoredAny>>(body).is_ok() {
        return Ok(());
    }
    Err(ApiError::serialization("the body is not a JSON object"))
}

fn response(identity: &Identity, protocol: Protocol, request_id: &str) -> Response {
    let mut body = Vec::with_capacity(512);
    match protocol {
        Protocol::Json | Protocol::Cbor => put_json(identity, &mut body),
        Protocol::Query => put_xml(identity, request_id, &mut body),
        Protocol::QueryAsJson => {
            let head = b"{\"GetCallerIdentityResponse\":{\"GetCallerIdentityResult\":";
            body.extend_from_slice(head);
            put_json(identity, &mut body);
            body.extend_from_slice(b",\"ResponseMetadata\":{\"RequestId\":");
            json_string(&mut body, request_id.as_bytes());
            body.extend_from_slice(b"}}}");
        }
    }
    let mut response = Response::new(200, protocol.content_type(), body);
    response.request_id = request_id.to_owned();
    response
}

fn put_xml(identity: &Identity, request_id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<GetCallerIdentityResponse xmlns=\"");
    out.extend_from_slice(SERVICE.xml_namespace.as_bytes());
    out.extend_from_slice(b"\"><GetCallerIdentityResult>");
    for (name, value) in identity.members() {
        out.extend_from_slice(format!("<{name}>").as_bytes());
        xml_text(out, value.as_bytes());
        out.extend_from_slice(format!("</{name}>").as_bytes());
    }
    out.extend_from_slice(b"</GetCallerIdentityResult><ResponseMetadata><RequestId>");
    xml_text(out, request_id.as_bytes());
    out.extend_from_slice(b"</RequestId></ResponseMetadata></GetCallerIdentityResponse>");
}

fn put_json(identity: &Identity, out: &mut Vec<u8>) {
    for (index, (name, value)) in identity.members().into_iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        json_string(out, name.as_bytes());
        out.push(b':');
        json_string(out, value.as_bytes());
    }
    out.push(b'}');
}
