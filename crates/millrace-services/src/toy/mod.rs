//! A service that only these tests have: nothing but this folder, and a line that adds its row, is
//! needed to serve it, count it, show it and refuse what it does not know.

mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_wire::protocol::{NOTHING, Protocol, ServiceMetadata};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Judgement, Request, Response};

use crate::authorize::Resource;
use crate::policy::Policy;
use crate::service::{Action, AwsService, Boxed, Call};
use crate::table::Branch;

static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "toy",
    title: "Toy",
    scope: "toybox",
    target_prefix: Some("ToyService"),
    versions: &["2001-02-03"],
    protocols: &[Protocol::Json, Protocol::Query],
    clue_actions: &[],
    xml_namespace: "http://toys.example/doc/2001-02-03/",
    ..NOTHING
};

static ACTIONS: [Action<Toys>; 3] = [
    Action::new("Greet", Names::Nothing),
    Action::new("Borrow", Names::Toy),
    Action::new("Break", Names::Toy).of_owners(),
];

#[derive(Clone, Copy)]
enum Names {
    Nothing,
    Toy,
}

/// The service: how many handlers have run.
#[derive(Default)]
struct Toys {
    acted: AtomicU64,
}

/// A toy of account 111111111111, which lends it to 222222222222.
struct Toy;

impl Resource for Toy {
    fn arn(&self) -> &str {
        "arn:aws:toy:us-east-1:111111111111:bear"
    }

    fn account(&self) -> &str {
        "111111111111"
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy::parse(Some(
            r#"{"Statement":{"Effect":"Allow","Principal":"222222222222","Action":"toy:*"}}"#,
        )))
    }
}

impl AwsService for Toys {
    const METADATA: &'static ServiceMetadata = &SERVICE;
    const ACTIONS: &'static [Action<Toys>] = &ACTIONS;
    const BODY_BYTES_MAX: Option<usize> = Some(100);

    /// The name to be greeted.
    type Input<'a> = String;
    type Answer = String;
    type Names = Names;
    type Resource = Toy;

    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<String, ApiError> {
        match call.target.protocol {
            Protocol::Json => serde_json::from_slice(call.request.body)
                .map_err(|error| ApiError::serialization(error.to_string())),
            _ => parameters
                .get("Name")
                .map(str::to_owned)
                .ok_or_else(|| ApiError::missing_parameter("Name")),
        }
    }

    fn find(&self, names: Names, _: &Call<'_>, _: &String) -> Result<Option<Toy>, ApiError> {
        Ok(match names {
            Names::Nothing => None,
            Names::Toy => Some(Toy),
        })
    }

    async fn act<'a>(
        &self,
        call: &Call<'a>,
        name: &String,
        _: Option<Toy>,
    ) -> Result<String, ApiError> {
        self.acted.fetch_add(1, Relaxed);
        Ok(format!("{name} of {}", call.caller.principal.account))
    }

    fn encode(&self, call: &Call<'_>, answer: String) -> Response {
        Response::new(200, call.target.protocol.content_type(), answer)
    }
}

/// A path that is not AWS's, with a method that is not.
struct Shelf;

impl Branch for Shelf {
    fn takes(&self, request: &Request<'_>) -> bool {
        request.method == "PUT" && request.path.starts_with("/3/shelves/")
    }

    fn answer<'a>(&'a self, request: &'a Request<'a>, _: &'a str) -> Boxed<'a, Response> {
        Box::pin(async { Response::new(200, "text/plain", request.path.as_bytes()) })
    }

    fn judge(&self, _: &Request<'_>) -> Option<Judgement> {
        Some(Judgement::Admitted)
    }
}
