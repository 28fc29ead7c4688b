//! AWS STS, as far as clients ask who they are: GetCallerIdentity, in Query and AWS JSON.
//!
//! It hands out no credentials, needs no permission and changes nothing.

mod identity;

use millrace_wire::protocol::{Protocol, ServiceName, Target};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Request, Response, json_string, xml_text};
use serde::de::IgnoredAny;
use std::collections::HashMap;

use crate::access_keys::AccessKeys;
use crate::auth::Caller;
use identity::Identity;

/// The actions that are answered.
pub(crate) const ACTIONS: [&str; 1] = ["GetCallerIdentity"];

/// The service.
pub(crate) struct Sts {
    access_keys: AccessKeys,
}

impl Sts {
    pub(crate) fn new(access_keys: AccessKeys) -> Sts {
        Sts { access_keys }
    }

    pub(crate) fn call(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
        parameters: &Parameters<'_>,
        (caller, request_id): (&Caller<'_>, &str),
    ) -> Result<Response, ApiError> {
        let Target { protocol, .. } = *target;
        if !ACTIONS.contains(&&*target.action) {
            return Err(match protocol {
                Protocol::Json | Protocol::Cbor => ApiError::unknown_operation(),
                Protocol::Query | Protocol::QueryAsJson => {
                    let version = parameters.get("Version").unwrap_or("NO_VERSION_SPECIFIED");
                    ApiError::no_such_operation(&target.action, version)
                }
            });
        }
        if protocol == Protocol::Json {
            check_body(request.body)?;
        }
        let identity = Identity::of(caller, &self.access_keys.all());
        Ok(response(&identity, protocol, request_id))
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
    out.extend_from_slice(ServiceName::Sts.xml_namespace().as_bytes());
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
