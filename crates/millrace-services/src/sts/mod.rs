//! AWS STS, as far as clients ask who they are: GetCallerIdentity, in Query and AWS JSON.
//!
//! It hands out no credentials, needs no permission and changes nothing.

mod identity;

use std::convert::Infallible;

use millrace_wire::codec::{self, Envelope, Structure};
use millrace_wire::protocol::{NOTHING, Protocol, ServiceMetadata, Target};
use millrace_wire::query::Parameters;
use millrace_wire::sts::CallerIdentity;
use millrace_wire::{ApiError, Response};

use crate::service::{Action, AwsService, Call, unknown_action};
use identity::identity;

static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "sts",
    title: "STS",
    scope: "sts",
    target_prefix: Some("AWSSecurityTokenServiceV20110615"),
    versions: &["2011-06-15"],
    protocols: &[Protocol::Json, Protocol::Query, Protocol::QueryAsJson],
    clue_actions: &["AssumeRole", "GetAccessKeyInfo", "GetCallerIdentity", "GetSessionToken"],
    xml_namespace: "https://sts.amazonaws.com/doc/2011-06-15/",
    ..NOTHING
};

/// The actions that are answered.
static ACTIONS: [Action<Sts>; 1] = [Action::new("GetCallerIdentity", ())];

/// The service.
pub(crate) struct Sts;

impl AwsService for Sts {
    const METADATA: &'static ServiceMetadata = &SERVICE;
    const ACTIONS: &'static [Action<Sts>] = &ACTIONS;

    type Input<'a> = ();
    type Answer = CallerIdentity;
    type Names = ();
    type Resource = Infallible;

    /// The action takes no parameters, but what is no structure was meant for another.
    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<(), ApiError> {
        codec::decode(call.target.protocol, parameters, call.request.body, |_| Ok(()))
    }

    fn find(&self, (): (), _: &Call<'_>, _: &()) -> Result<Option<Infallible>, ApiError> {
        Ok(None)
    }

    async fn act<'a>(
        &self,
        call: &Call<'a>,
        _: &(),
        _: Option<Infallible>,
    ) -> Result<CallerIdentity, ApiError> {
        Ok(identity(call.caller))
    }

    fn encode(&self, call: &Call<'_>, identity: CallerIdentity) -> Response {
        let Target { protocol, action, .. } = call.target;
        let (service, request_id) = (&SERVICE, call.request_id);
        let result = identity.members().into_node();
        Envelope { service, protocol: *protocol, action, request_id }.response(Some(&result))
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
