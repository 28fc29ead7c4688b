//! Paths outside the AWS protocols: what tools of other servers look for, and, in test mode, the
//! clock and a reset. All of them begin with `/_`.

mod backup;
mod projects;
mod queues;
mod remove_metrics;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use millrace_broker::{BrowseCursor, Shards};
use millrace_tables::Tables;
use millrace_wire::protocol::{Protocol, ServiceMetadata, Target, detect};
use millrace_wire::query::Parameters;
use millrace_wire::sqs::ReceivedMessage;
use millrace_wire::{ApiError, Request, Response, sqs as wire_sqs};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::auth::Auth;
use crate::cloudwatch::Monitor;
use crate::principal::{Caller, Principal};
use crate::projects::Projects;
use crate::service::Boxed;
use crate::simpledb;
use crate::sns::Sns;
use crate::sqs::{Peek, Shown, Sqs, as_json};
use crate::table::{Branch, Row, recognised};
use crate::turns::Turns;
use backup::Backups;

/// Where messages are shown without receiving them.
const MESSAGES: &str = "/_aws/sqs/messages";

/// Others wait, and of one account all but one.
const PEEKS_AT_A_TIME: usize = 2;

/// The clock is never advanced by more at a time: ten years.
const ADVANCE_MAX_S: f64 = 315_360_000.0;

/// Paths with their methods, and whether only servers for tests have them.
const PATHS: [(&str, &str, bool); 12] = [
    ("/_millrace/backup", "POST", false),
    ("/_millrace/metrics/delete", "POST", false),
    ("/_millrace/projects", "POST", false),
    ("/_millrace/projects/create", "POST", false),
    ("/_millrace/projects/delete", "POST", false),
    ("/_millrace/projects/tokens/create", "POST", false),
    ("/_millrace/projects/tokens/revoke", "POST", false),
    ("/_millrace/queues", "POST", false),
    ("/_millrace/queues/find", "POST", false),
    ("/_localstack/state/reset", "POST", true),
    ("/_millrace/clock/advance", "POST", true),
    ("/_millrace/clock", "GET", true),
];

pub(crate) struct Admin {
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
    auth: Arc<Auth>,
    projects: Arc<Projects>,
    sqs: Arc<Sqs>,
    sns: Arc<Sns>,
    tables: Option<Arc<Tables>>,
    recognised: Arc<[&'static ServiceMetadata]>,
    /// Names of the services that are served.
    served: Vec<&'static str>,
    is_test: bool,
    /// Each peek may hold all that it shows.
    peeks: Turns,
    backups: Backups,
}

/// The parts that these paths work with.
pub(crate) struct AdminParts {
    pub shards: Arc<Shards>,
    pub monitor: Arc<Monitor>,
    pub auth: Arc<Auth>,
    pub projects: Arc<Projects>,
    pub sqs: Arc<Sqs>,
    pub sns: Arc<Sns>,
    pub tables: Option<Arc<Tables>>,
    /// The server's own.
    pub account: String,
    /// The clock may be advanced and the state reset.
    pub is_test: bool,
}

/// What a peek needs of a ReceiveMessage.
#[derive(Deserialize)]
struct QueueOnly {
    #[serde(rename = "QueueUrl")]
    queue_url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    seconds: f64,
}

impl Admin {
    /// Knows the services of these rows.
    pub(crate) fn new(parts: AdminParts, rows: &[Row]) -> Admin {
        let AdminParts { shards, monitor, auth, projects, sqs, sns, tables, account, is_test } =
            parts;
        Admin {
            backups: Backups::new(shards.clone(), monitor.clone(), tables.clone(), &account),
            peeks: Turns::new(PEEKS_AT_A_TIME),
            recognised: recognised(rows),
            served: rows.iter().map(|row| row.metadata.name).collect(),
            shards,
            monitor,
            auth,
            projects,
            sqs,
            sns,
            tables,
            is_test,
        }
    }

    async fn act(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
        request_id: &str,
    ) -> Result<Response, ApiError> {
        if request.path == "/_localstack/health" {
            return Ok(self.health());
        }
        let caller = self.caller(request, target)?;
        match (request.method, request.path) {
            (_, path) if is_of_messages(path) => {
                self.messages(request, target, &caller, request_id).await
            }
            ("POST", "/_millrace/metrics/delete") => {
                remove_metrics::remove_metrics(&self.monitor, &caller, request.body).await
            }
            ("POST", "/_millrace/backup") => self.backups.begin(&caller).await,
            ("POST", "/_millrace/queues") => self.queues(&caller, request.body).await,
            ("POST", "/_millrace/queues/find") => {
                queues::find_queues(&self.shards, &caller, request.body).await
            }
            ("POST", path) if path.starts_with("/_millrace/projects") => {
                match projects::act(&self.projects, path, &caller, request.body).await {
                    Some(answer) => answer,
                    None => Ok(self.no_such_path("POST", path)),
                }
            }
            ("POST", "/_localstack/state/reset") if self.is_test => {
                self.sqs.reset().await?;
                self.sns.clear();
                self.monitor.reset().await?;
                if let Some(tables) = &self.tables {
                    simpledb::reset(tables).await?;
                }
                Ok(json("{}".to_owned()))
            }
            ("POST", "/_millrace/clock/advance") if self.is_test => self.advance(request).await,
            ("GET", "/_millrace/clock") if self.is_test => Ok(self.clock()),
            (method, path) => Ok(self.no_such_path(method, path)),
        }
    }

    /// The caller of a request. Where no credentials are configured, an access key
    /// `project:token` names the account and region of that project, as it does for SQS. With
    /// credentials, such a key opens none of these paths.
    fn caller<'a>(
        &'a self,
        request: &Request<'_>,
        target: &'a Target<'_>,
    ) -> Result<Caller<'a>, ApiError> {
        let caller = self.auth.identify(request, target);
        let mut caller = caller.map_err(|error| unsigned(error, request.path))?;
        if !self.auth.is_on()
            && let Some(access_key) = &target.access_key
            && let Some(namespace) = self.projects.of_access_key(access_key)
        {
            caller.principal = Principal::anybody(namespace.account.clone());
            caller.region = namespace.region.clone().into();
            caller.is_region_given = true;
        }
        Ok(caller)
    }

    /// The services of the table, in its order.
    fn health(&self) -> Response {
        let services: Vec<String> =
            self.served.iter().map(|name| format!(r#""{name}":"running""#)).collect();
        let version = env!("CARGO_PKG_VERSION");
        json(format!(
            r#"{{"services":{{{}}},"edition":"millrace","version":"{version}"}}"#,
            services.join(",")
        ))
    }

    /// What to change about a request that is for none of the paths.
    fn no_such_path(&self, method: &str, path: &str) -> Response {
        let Some((_, allowed, is_for_tests)) = PATHS.iter().find(|(known, ..)| *known == path)
        else {
            return Response::new(404, "application/json", r#"{"error":"no such path"}"#);
        };
        if *is_for_tests && !self.is_test {
            let body = r#"{"error":"start the server with --test to use this path"}"#;
            return Response::new(404, "application/json", body);
        }
        let body = serde_json::json!({ "error": format!("use {allowed} instead of {method}") });
        let mut response = Response::new(405, "application/json", body.to_string());
        response.headers.push(("Allow", (*allowed).to_owned()));
        response
    }

    /// The queue is named by `QueueUrl`, as a parameter or in the JSON of an SDK's ReceiveMessage,
    /// or by the path: `/_aws/sqs/messages/{region}/{account}/{name}`.
    async fn messages(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
        caller: &Caller<'_>,
        request_id: &str,
    ) -> Result<Response, ApiError> {
        if !matches!(&*target.action, "" | "ReceiveMessage") {
            return Err(ApiError::invalid_action(&target.action));
        }
        let parsed;
        let parameters = if target.parameters.is_empty() {
            parsed = Parameters::parse(request.query, &[])?;
            &parsed
        } else {
            &target.parameters
        };
        let of_body = match target.protocol {
            Protocol::Json => serde_json::from_slice::<QueueOnly>(request.body).ok(),
            _ => None,
        };
        let of_path = request.path.strip_prefix(MESSAGES).filter(|rest| rest.len() > 1);
        let of_path = of_path.map(|rest| format!("/queue{rest}"));
        let queue_url = parameters
            .get("QueueUrl")
            .or(of_body.as_ref().map(|body| body.queue_url.as_str()))
            .or(of_path.as_deref());
        let peek = peek(queue_url, parameters)?;
        let _turn = self.peeks.take(&caller.principal.account).await;
        let Shown { messages, damaged, next } = self.sqs.peek(caller, peek).await?;
        let encoded = encode_apart(messages, target.protocol, request_id.to_owned()).await;
        let mut response = encoded.map_err(|error| {
            tracing::error!(%error, "messages were not encoded");
            ApiError::internal_failure()
        })?;
        let next = next.map_or("end".to_owned(), |next| next.encode());
        response.headers.push(("x-millrace-next", next));
        if damaged > 0 {
            response.headers.push(("x-millrace-damaged", damaged.to_string()));
        }
        Ok(response)
    }

    async fn advance(&self, request: &Request<'_>) -> Result<Response, ApiError> {
        let advance: Advance = serde_json::from_slice(request.body)
            .map_err(|error| ApiError::serialization(error.to_string()))?;
        if !(0.0..=ADVANCE_MAX_S).contains(&advance.seconds) {
            return Err(ApiError::invalid_parameter_value(
                "seconds must be between 0 and 315360000.",
            ));
        }
        self.shards.advance_clock(Duration::from_secs_f64(advance.seconds));
        self.monitor.tick().await;
        Ok(self.clock())
    }

    fn clock(&self) -> Response {
        json(format!(r#"{{"now_ms":{}}}"#, self.shards.now().0))
    }
}

impl Branch for Admin {
    fn takes(&self, request: &Request<'_>) -> bool {
        request.path.starts_with("/_")
    }

    fn answer<'a>(&'a self, request: &'a Request<'a>, request_id: &'a str) -> Boxed<'a, Response> {
        Box::pin(async move {
            let target = match detect(request, &self.recognised) {
                Ok(target) => target,
                Err(error) => {
                    return error.response(&wire_sqs::SERVICE, Protocol::Query, request_id);
                }
            };
            let answer = self.act(request, &target, request_id).await;
            answer.unwrap_or_else(|error| {
                error.response(&wire_sqs::SERVICE, target.protocol, request_id)
            })
        })
    }
}

fn peek<'a>(queue_url: Option<&'a str>, parameters: &Parameters<'_>) -> Result<Peek<'a>, ApiError> {
    let flag = |name: &str| matches!(parameters.get(name), Some("true" | "True" | "1"));
    let limit = parameters.get("Limit").map_or(Ok(usize::MAX), str::parse);
    let from = parameters.get("From").map_or(Some(BrowseCursor::default()), BrowseCursor::decode);
    Ok(Peek {
        queue_url,
        shows_in_flight: flag("ShowInvisible"),
        shows_delayed: flag("ShowDelayed"),
        limit: limit.map_err(|_| ApiError::invalid_parameter_value("Limit must be a number."))?,
        from: from.ok_or_else(|| {
            ApiError::invalid_parameter_value("From must be what x-millrace-next said.")
        })?,
    })
}

/// Encodes on a thread of its own: the largest answer takes a tenth of a second, too long for a
/// thread that serves others.
async fn encode_apart(
    messages: Vec<ReceivedMessage>,
    protocol: Protocol,
    request_id: String,
) -> io::Result<Response> {
    let (encoded, response) = oneshot::channel();
    // A thread may be refused, where tokio's `spawn_blocking` would panic.
    thread::Builder::new().name("peek".to_owned()).spawn(move || {
        // Nobody may wait any more.
        let _ = encoded.send(encode(messages, protocol, &request_id));
    })?;
    response.await.map_err(io::Error::other)
}

fn encode(messages: Vec<ReceivedMessage>, protocol: Protocol, request_id: &str) -> Response {
    if protocol == Protocol::QueryAsJson {
        return json(as_json(&messages).to_string());
    }
    let answer = wire_sqs::Answer::ReceiveMessage { messages };
    let protocol = if protocol == Protocol::Json { Protocol::Json } else { Protocol::Query };
    wire_sqs::response(&answer, "ReceiveMessage", protocol, request_id)
}

/// The path itself, or one below it.
fn is_of_messages(path: &str) -> bool {
    path.strip_prefix(MESSAGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An error about a missing signature that says how to sign by hand: these paths have no SDK.
fn unsigned(error: ApiError, path: &str) -> ApiError {
    if error.code != ApiError::missing_authentication_token().code
        || !path.starts_with("/_millrace/")
    {
        return error;
    }
    ApiError {
        message: "Sign the request, for instance with curl --aws-sigv4 aws:amz:us-east-1:sqs \
                  --user ACCESS_KEY:SECRET_KEY."
            .into(),
        ..error
    }
}

fn json(body: String) -> Response {
    Response::new(200, "application/json", body)
}
