//! From a request to the service that answers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use millrace_broker::Shards;
use millrace_core::{MessageId, QueueKey, Timestamp};
use millrace_metrics::Scope;
use millrace_otel::{RequestSpan, Tracer};
use millrace_wire::protocol::{Protocol, ServiceName, Target, detect};
use millrace_wire::query::Parameters;
use millrace_wire::{
    ApiError, Judgement, Request, Response, Service, Tenant, no_action_response, path,
    sqs as wire_sqs,
};
use prometheus_client::collector::Collector;

use crate::access_keys::AccessKeys;
use crate::admin::Admin;
use crate::auth::{self, Auth, Caller};
use crate::cloudwatch::{CloudWatch, Inflater, Minute, Monitor};
use crate::sqs::{DeclaredQueue, Sqs, SqsOptions};
use crate::sts::Sts;
use crate::telemetry::{ActionCounts, MetricsOptions, RequestCounts, Telemetry, known_action};
use crate::welcome;

/// Answers from this size on, which servers may have no room for, can be taken back.
const MAY_BE_REFUSED_BYTES: usize = 32 << 10;

/// Characters of an action's name that are logged. No action has a longer name, but clients may
/// send any text.
const LOGGED_CHARS: usize = 64;

/// What the services may decide.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Region of requests that name none.
    pub region: String,
    /// Account of callers that are not authenticated.
    pub account: String,
    /// None: requests are not authenticated.
    pub access_keys: AccessKeys,
    /// Further names under which clients may have signed for this server.
    pub host_names: Vec<String>,
    /// The clock may be advanced and the state reset over HTTP.
    pub is_test: bool,
    pub sqs: SqsOptions,
    pub metrics: MetricsOptions,
    pub tracer: Tracer,
    /// Where browsers find the console; none if there is none.
    pub console_url: Option<String>,
}

/// In whose name this process itself asks for something.
#[derive(Clone, Copy, Debug)]
pub struct Principal<'a> {
    pub region: &'a str,
    pub account: &'a str,
    /// None where no credentials are configured: then everything is allowed.
    pub access_key: Option<&'a str>,
}

/// All services on one port.
pub struct Services {
    auth: Auth,
    inflater: Inflater,
    sqs: Sqs,
    cloudwatch: CloudWatch,
    sts: Sts,
    requests: Arc<RequestCounts>,
    telemetry: Telemetry,
    tracer: Tracer,
    admin: Admin,
    console_url: Option<String>,
}

impl Services {
    /// Prometheus scrapes `figures`, those of another floor, too.
    pub fn new(
        shards: Arc<Shards>,
        monitor: Arc<Monitor>,
        options: &Options,
        figures: Option<Box<dyn Collector>>,
    ) -> Services {
        let Options { region, account, access_keys, host_names, .. } = options;
        let requests = Arc::new(RequestCounts::new());
        Services {
            auth: Auth::new(access_keys.clone(), host_names.clone(), region, account),
            inflater: Inflater::new(monitor.store().memory_limits().waiting_bytes),
            sqs: Sqs::new(shards.clone(), access_keys.clone(), options.sqs.clone()),
            cloudwatch: CloudWatch::new(shards.clone(), monitor.clone()),
            sts: Sts::new(access_keys.clone()),
            telemetry: Telemetry::new(
                shards.clone(),
                monitor.clone(),
                requests.clone(),
                figures,
                options.metrics.clone(),
            ),
            requests,
            tracer: options.tracer.clone(),
            console_url: options.console_url.clone(),
            admin: Admin::new(shards, monitor, account, options.is_test),
        }
    }

    /// Makes sure that a configured queue exists as configured.
    pub async fn declare_queue(&self, queue: &DeclaredQueue) -> Result<(), ApiError> {
        self.sqs.declare(queue).await
    }

    /// Regions and accounts that have alarms.
    pub fn scopes_of_alarms(&self) -> BTreeSet<Scope> {
        self.cloudwatch.scopes_of_alarms()
    }

    /// Regions and accounts that have queues, or series of what was measured.
    pub async fn scopes_of_metrics(&self) -> Result<BTreeSet<Scope>, ApiError> {
        self.cloudwatch.scopes_of_metrics().await
    }

    /// How many alarms of each account are in alarm.
    pub fn in_alarm(&self) -> Arc<BTreeMap<String, u64>> {
        self.cloudwatch.in_alarm()
    }

    /// What these queues together held and did in each minute since `since`, as far as they have
    /// metrics, in order. A job of that account; dropped, it ends.
    pub async fn minutes_of_queues(
        &self,
        account: &str,
        queues: Vec<QueueKey>,
        since: Timestamp,
    ) -> Result<Vec<Minute>, ApiError> {
        self.cloudwatch.minutes_of_queues(account, queues, since).await
    }

    /// What became of all requests since the start, by action.
    pub fn requests(&self) -> Vec<ActionCounts> {
        self.requests.by_action()
    }

    /// Space that the history of metrics takes on the disk.
    pub fn metrics_disk_bytes(&self) -> u64 {
        self.cloudwatch.disk_bytes()
    }

    // What hot requests do not come through is boxed: it would make each of their futures larger,
    // and those are moved several times.
    async fn answer(&self, request: Request<'_>, id: [u8; 36]) -> Response {
        // A signature for one spelling of a path is good for all: they mean the same.
        let path = path::normal(request.path);
        let request = &Request { path: &path, ..request };
        let request_id = str::from_utf8(&id).unwrap_or_default();
        if request.path == "/metrics" && matches!(request.method, "GET" | "HEAD") {
            let answer = Box::pin(self.telemetry.answer(request, !self.auth.is_on())).await;
            let mut response =
                answer.unwrap_or_else(|e| e.response(ServiceName::Sqs, Protocol::Json, request_id));
            response.admitted = (response.status == 200).then_some(Tenant::EVERYBODY);
            return response;
        }
        // Signatures are over what was sent, everything else is about what was meant.
        let inflated = self.inflater.inflated(request, || self.auth.signing_account(request));
        let inflated = match inflated {
            Ok(inflated) => inflated,
            Err(error) => {
                let head = Request { body: &[], ..*request };
                let protocol = detect(&head).map_or(Protocol::Json, |target| target.protocol);
                return error.response(ServiceName::CloudWatch, protocol, request_id);
            }
        };
        let meant = Request { body: inflated.as_deref().unwrap_or(request.body), ..*request };
        let mut target = match detect(&meant) {
            Ok(target) => target,
            Err(error) => return error.response(ServiceName::Sqs, Protocol::Query, request_id),
        };
        let Target { service, protocol, .. } = target;
        if request.path.starts_with("/_") {
            let answer = self.admin.answer(request, &target, &self.auth, &self.sqs, request_id);
            return Box::pin(answer)
                .await
                .unwrap_or_else(|e| e.response(ServiceName::Sqs, protocol, request_id));
        }
        if let Some(response) = no_action(request.method, &target, request_id) {
            // Queues' URLs and the address itself are what people paste into a browser.
            return match welcome::is_for_browser(request) && target.action.is_empty() {
                true => welcome::page(self.console_url.as_deref()),
                false => response,
            };
        }
        // Apart from the target, so that whoever has read them can drop them.
        let parameters = std::mem::take(&mut target.parameters);
        let span = self.span(request, &target);
        let began = Instant::now();
        let caller = match self.auth.identify(request, &target) {
            Ok(caller) => caller,
            Err(error) => {
                span.refused(error.code);
                span.answered(error.status, request_id);
                self.requests.add(service, &target.action, error.status, began.elapsed());
                return error.response(service, protocol, request_id);
            }
        };
        let call = Call { target: &target, caller: &caller, request_id, span: &span };
        let mut response = self.act(&meant, parameters, call).await;
        response.admitted = Some(caller.tenant());
        span.answered(response.status, request_id);
        self.requests.add(service, &target.action, response.status, began.elapsed());
        response
    }

    fn span(&self, request: &Request<'_>, target: &Target<'_>) -> RequestSpan {
        if !self.tracer.is_on() {
            return RequestSpan::default();
        }
        let (service, action) = known_action(target.service, &target.action);
        let span = self.tracer.request(action, |name| request.header(name));
        span.rpc(service);
        span
    }

    /// Answers a request of this process itself, such as the console's, as if `principal` had
    /// signed it. Same checks, effects and errors as for clients, without the admin paths.
    pub async fn call_as(&self, principal: &Principal<'_>, request: Request<'_>) -> Response {
        let id = MessageId::from_random(fastrand::u128(..)).text();
        let request_id = str::from_utf8(&id).unwrap_or_default();
        let mut target = match detect(&request) {
            Ok(target) => target,
            Err(error) => return error.response(ServiceName::Sqs, Protocol::Json, request_id),
        };
        if let Err(error) = auth::check_region(principal.region) {
            return error.response(target.service, target.protocol, request_id);
        }
        let caller = Caller {
            region: principal.region.into(),
            is_region_given: true,
            account: principal.account.into(),
            sender_id: auth::sender_id(principal.access_key),
            is_authenticated: principal.access_key.is_some(),
            access_key: principal.access_key.map(Into::into),
        };
        let parameters = std::mem::take(&mut target.parameters);
        let call = Call { target: &target, caller: &caller, request_id, span: RequestSpan::none() };
        self.act(&request, parameters, call).await
    }

    async fn act(
        &self,
        request: &Request<'_>,
        parameters: Parameters<'_>,
        call: Call<'_>,
    ) -> Response {
        let Call { target, caller, request_id, span } = call;
        let Target { service, protocol, .. } = *target;
        let answer = match service {
            ServiceName::Sqs | ServiceName::Unknown => {
                self.sqs.call(request, target, &parameters, caller, span).await
            }
            ServiceName::CloudWatch => {
                let answer =
                    self.cloudwatch.call(request, target, parameters, (caller, request_id));
                let answer = Box::pin(answer).await;
                return answer.unwrap_or_else(|error| call.refusal(request, &error));
            }
            ServiceName::Sts => {
                let answer = self.sts.call(request, target, &parameters, (caller, request_id));
                return answer.unwrap_or_else(|error| call.refusal(request, &error));
            }
            _ => Err(match protocol {
                Protocol::Json | Protocol::Cbor => ApiError::unknown_operation(),
                Protocol::Query | Protocol::QueryAsJson => ApiError::invalid_action(&target.action),
            }),
        };
        match answer {
            Ok(answer) => {
                let mut response =
                    wire_sqs::response(&answer, &target.action, protocol, request_id);
                if response.body.len() >= MAY_BE_REFUSED_BYTES {
                    response.unsent = self.sqs.unsent(&answer);
                }
                response
            }
            Err(error) => call.refusal(request, &error),
        }
    }
}

/// The answer to a request that asks for no action, or by a method that is not for actions.
fn no_action(method: &str, target: &Target<'_>, request_id: &str) -> Option<Response> {
    let Target { service, protocol, .. } = *target;
    if target.action.is_empty() && protocol != Protocol::Json {
        return Some(match target.path_queue {
            Some(_) => no_action_response(request_id),
            None => ApiError::missing_action().response(service, protocol, request_id),
        });
    }
    // A HEAD, say, is taken to change nothing.
    if matches!(method, "GET" | "POST") {
        return None;
    }
    let mut response = ApiError::method_not_allowed().response(service, protocol, request_id);
    // RFC 9110, 15.5.6.
    response.headers.push(("Allow", "GET, POST".to_owned()));
    Some(response)
}

/// What is known of a request once its caller is.
#[derive(Clone, Copy)]
struct Call<'a> {
    target: &'a Target<'a>,
    caller: &'a Caller<'a>,
    request_id: &'a str,
    span: &'a RequestSpan,
}

impl Call<'_> {
    fn refusal(&self, request: &Request<'_>, error: &ApiError) -> Response {
        let Call { target, request_id, span, .. } = *self;
        span.refused(error.code);
        // As a value, which the log quotes: a line break in the name must not forge a log line.
        let action = || target.action.chars().take(LOGGED_CHARS).collect::<String>();
        tracing::debug!(request_id, action = action(), code = error.code, "refused");
        let mut response = error.response(target.service, target.protocol, request_id);
        if matches!(target.protocol, Protocol::Json | Protocol::Cbor) && !is_query_mode(request) {
            response.status = error.status_outside_query_mode();
        }
        response
    }
}

/// Whether the client was made for the Query protocol, and so knows that protocol's statuses.
fn is_query_mode(request: &Request<'_>) -> bool {
    request.header("x-amzn-query-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("true"))
}

impl Service for Services {
    fn call(&self, request: Request<'_>) -> impl Future<Output = Response> + Send {
        self.answer(request, MessageId::from_random(fastrand::u128(..)).text())
    }

    /// A form says only in its body which service and action are meant: without one, the answer is
    /// that of the protocol and service that the head tells.
    fn judge(&self, head: &Request<'_>) -> Judgement {
        if !self.auth.is_on() {
            return Judgement::Admitted;
        }
        let path = path::normal(head.path);
        let head = &Request { path: &path, body: &[], ..*head };
        let error = match self.auth.check_head(head) {
            Ok(tenant) => return Judgement::Claimed(tenant),
            Err(error) => error,
        };
        let id = MessageId::from_random(fastrand::u128(..)).text();
        let request_id = str::from_utf8(&id).unwrap_or_default();
        let (service, protocol) = match detect(head) {
            Ok(target) => (target.service, target.protocol),
            Err(_) => (ServiceName::Sqs, Protocol::Query),
        };
        Judgement::Refused(Box::new(error.response(service, protocol, request_id)))
    }
}
