//! AWS STS, as far as clients ask who they are: GetCallerIdentity, in Query and AWS JSON.
//!
//! It hands out no credentials, needs no permission and changes nothing.

mod identity;

use millrace_wire::codec::{self, Envelope, Structure};
use millrace_wire::protocol::{Protocol, ServiceName, Target};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Request, Response};

use crate::access_keys::AccessKeys;
use crate::auth::Caller;
use identity::identity;

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
        // The action takes no parameters, but what is no structure was meant for another.
        codec::decode(protocol, parameters, request.body, |_| Ok(()))?;
        let result = identity(caller, &self.access_keys.all()).members().into_node();
        let (service, action) = (ServiceName::Sts, &*target.action);
        Ok(Envelope { service, protocol, action, request_id }.response(Some(&result)))
    }
}
