//! From a request to the service that answers it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use millrace_broker::{Shards, SharedQueue};
use millrace_core::{MessageId, QueueKey, Timestamp};
use millrace_metrics::Scope;
use millrace_otel::{RequestSpan, Tracer};
use millrace_push::Push;
use millrace_tables::Tables;
use millrace_wire::protocol::{Protocol, Target, detect};
use millrace_wire::query::Parameters;
use millrace_wire::sigv4::{AuthError, Credentials};
use millrace_wire::{
    ApiError, Judgement, Request, Response, Service, Tenant, no_action_response, path,
};
use prometheus_client::collector::Collector;

use crate::access_keys::AccessKeys;
use crate::admin::{Admin, AdminParts};
use crate::auth::{self, Auth};
use crate::authorize::{Context, authorize};
use crate::cloudwatch::{CloudWatch, Minute, Monitor};
use crate::gzip::{self, Inflated, Inflater};
use crate::ironmq::{IronMq, IronMqQueue};
use crate::principal::{Caller, Principal};
use crate::projects::{Access, DeclaredProject, Projects};
use crate::service::{AwsService, Call, unknown_action};
use crate::simpledb::{self, Exports, SimpleDb, TableFigures};
use crate::sns::{Certificate, DeclaredTopic, DeliveryCounts, Sign, Sns, SnsParts};
use crate::sqs::{DeclaredQueue, Sqs, SqsOptions};
use crate::sts::Sts;
use crate::table::{Branch, Found, Row, Server, Table};
use crate::telemetry::{
    ActionCounts, EndpointSeries, MetricsOptions, RequestCounts, Sources, Telemetry,
};
use crate::welcome;

/// Characters of an action's name that are logged. No action has a longer name, but clients may
/// send any text.
const LOGGED_CHARS: usize = 64;

/// Of a body with too many parameters, the part that may say which service is meant: too short to
/// hold as many. SDKs begin with `Action` and `Version`.
const BEGINNING_BYTES: usize = 32 << 10;

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
    /// Projects of IronMQ, besides those that are kept.
    pub projects: Vec<DeclaredProject>,
    pub tracer: Tracer,
    /// Where browsers find the console; none if there is none.
    pub console_url: Option<String>,
    /// Where clients on this machine reach the server, without a slash at its end.
    pub endpoint: String,
    /// Signs notifications of topics.
    pub signer: Signer,
    /// Those in queues, too, and not only those that go out by HTTP.
    pub signs_in_queues: bool,
}

/// What signs notifications; none leaves them unsigned.
#[derive(Clone, Default)]
pub struct Signer(pub Option<Arc<dyn Sign>>);

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Signer").field(&self.0.is_some()).finish()
    }
}

/// All services on one port.
pub struct Services {
    auth: Arc<Auth>,
    access_keys: AccessKeys,
    inflater: Inflater,
    table: Table,
    projects: Arc<Projects>,
    sqs: Arc<Sqs>,
    sns: Arc<Sns>,
    iron_mq: Arc<IronMq>,
    cloudwatch: Arc<CloudWatch>,
    tables: Option<Arc<Tables>>,
    requests: Arc<RequestCounts>,
    tracer: Tracer,
    console_url: Option<String>,
}

/// What the services work on.
#[derive(Clone)]
pub struct Floors {
    pub shards: Arc<Shards>,
    pub monitor: Arc<Monitor>,
    /// None: SimpleDB is not served.
    pub tables: Option<Arc<Tables>>,
    /// None: nothing is delivered by HTTP.
    pub push: Option<Arc<Push>>,
}

/// Rows and branches of the table besides those of this crate.
#[derive(Default)]
pub(crate) struct Further {
    pub rows: Vec<Row>,
    pub branches: Vec<Arc<dyn Branch>>,
}

impl Services {
    /// Prometheus scrapes `figures`, those of another floor, too.
    pub fn new(floors: Floors, options: &Options, figures: Option<Box<dyn Collector>>) -> Services {
        Services::with(Further::default(), floors, options, figures)
    }

    pub(crate) fn with(
        further: Further,
        Floors { shards, monitor, tables, push }: Floors,
        options: &Options,
        figures: Option<Box<dyn Collector>>,
    ) -> Services {
        let Options { region, account, access_keys, host_names, .. } = options;
        let auth = Auth::new(access_keys.clone(), host_names.clone(), region, account);
        let auth = Arc::new(auth);
        let sqs = Arc::new(Sqs::new(shards.clone(), options.sqs.clone()));
        let cloudwatch = Arc::new(CloudWatch::new(shards.clone(), monitor.clone()));
        let sns = Arc::new(Sns::new(SnsParts {
            shards: shards.clone(),
            push: push.clone(),
            urls: options.sqs.clone(),
            endpoint: options.endpoint.clone(),
            is_guarded: auth.is_on(),
            signer: options.signer.0.clone(),
            signs_in_queues: options.signs_in_queues,
        }));
        monitor.publish_to(sns.clone());
        monitor.watch(sns.tallies());
        let inflater = Inflater::new(monitor.store().memory_limits().waiting_bytes);
        // A new service is a line here, and its folder.
        let mut rows = vec![
            Row::of_sqs(sqs.clone()),
            Row::of(cloudwatch.clone()),
            Row::of(Arc::new(Sts)),
            Row::of(sns.clone()),
        ];
        rows.extend(
            tables
                .iter()
                .map(|tables| Row::of(Arc::new(SimpleDb::new(tables.clone(), shards.clone())))),
        );
        rows.extend(further.rows);
        let requests = Arc::new(RequestCounts::new(&rows));
        let access = if auth.is_on() { Access::Guarded } else { Access::Open };
        let projects = Projects::open(shards.clone(), &options.projects, region, access);
        let projects = Arc::new(projects);
        let outbound = (push.clone(), options.sqs.clone());
        let iron_mq = IronMq::new(shards.clone(), projects.clone(), requests.clone(), outbound);
        let iron_mq = Arc::new(iron_mq);
        let endpoints = push.map(|push| EndpointSeries {
            push,
            services: vec![sns.clone(), iron_mq.clone()],
            top: options.metrics.top_queues,
        });
        let sources = Sources {
            shards: shards.clone(),
            monitor: monitor.clone(),
            requests: requests.clone(),
            tables: tables.clone().map(TableFigures),
            topics: sns.figures(),
            endpoints,
            further: figures,
        };
        let telemetry = Telemetry::new(sources, options.metrics.clone(), !auth.is_on());
        let admin = AdminParts {
            shards: shards.clone(),
            monitor,
            auth: auth.clone(),
            projects: projects.clone(),
            sqs: sqs.clone(),
            sns: sns.clone(),
            tables: tables.clone(),
            account: account.clone(),
            is_test: options.is_test,
        };
        let mut branches: Vec<Arc<dyn Branch>> = vec![
            iron_mq.clone(),
            Arc::new(telemetry),
            Arc::new(Admin::new(admin, &rows)),
            Arc::new(Exports),
        ];
        branches.push(Arc::new(Certificate(options.signer.0.clone())));
        branches.extend(further.branches);
        Services {
            auth,
            access_keys: access_keys.clone(),
            inflater,
            table: Table::new(rows, branches),
            projects,
            iron_mq,
            sqs,
            sns,
            cloudwatch,
            tables,
            requests,
            tracer: options.tracer.clone(),
            console_url: options.console_url.clone(),
        }
    }

    /// Makes sure that a configured queue exists as configured.
    pub async fn declare_queue(&self, queue: &DeclaredQueue) -> Result<(), ApiError> {
        self.sqs.declare(queue).await
    }

    /// Makes sure that a configured topic exists as configured, with its subscriptions.
    pub async fn declare_topic(&self, topic: &DeclaredTopic) -> Result<(), ApiError> {
        self.sns.declare(topic).await
    }

    /// Regions and accounts that have alarms.
    pub fn scopes_of_alarms(&self) -> BTreeSet<Scope> {
        self.cloudwatch.scopes_of_alarms()
    }

    /// Regions and accounts that have queues, or series of what was measured.
    pub async fn scopes_of_metrics(&self) -> Result<BTreeSet<Scope>, ApiError> {
        self.cloudwatch.scopes_of_metrics().await
    }

    /// Regions and accounts that have domains.
    pub async fn scopes_of_domains(&self) -> Result<BTreeSet<Scope>, ApiError> {
        match &self.tables {
            Some(tables) => simpledb::scopes(tables).await,
            None => Ok(BTreeSet::new()),
        }
    }

    /// Regions and accounts that have topics.
    pub fn scopes_of_topics(&self) -> BTreeSet<Scope> {
        self.sns.scopes()
    }

    /// What became of the messages of a subscription to a topic since the start. `None` if there is
    /// no such subscription.
    pub fn deliveries(&self, subscription_arn: &str) -> Option<DeliveryCounts> {
        self.sns.deliveries(subscription_arn)
    }

    /// What IronMQ says of a queue beyond SQS. `None` if it says nothing.
    pub fn iron_mq(&self, queue: &SharedQueue) -> Option<IronMqQueue> {
        self.iron_mq.overview(queue)
    }

    /// The type of a push queue; `None` for others.
    pub fn push_type(&self, queue: &SharedQueue) -> Option<&'static str> {
        self.iron_mq.push_type(queue)
    }

    /// Up to `limit` projects of IronMQ whose queues are in that region and account, by id.
    pub fn projects(&self, region: &str, account: &str, limit: usize) -> Vec<String> {
        self.projects.of_place(region, account, limit)
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

    /// Returns the user of an access key. Without a key, everybody of an account, as where no
    /// credentials are configured.
    ///
    /// # Errors
    ///
    /// InvalidClientTokenId if the key is not valid any more.
    pub fn principal(
        &self,
        access_key: Option<&str>,
        account: &str,
    ) -> Result<Principal<'static>, ApiError> {
        let Some(access_key) = access_key else {
            return Ok(Principal::anybody(account.to_owned()));
        };
        let known = self.access_keys.find(access_key);
        let known = known.ok_or_else(ApiError::invalid_client_token_id)?;
        Ok(Principal::user(known.account.clone(), known.user.clone(), access_key))
    }

    /// Answers a request of this process itself, such as the console's, as if `principal` had
    /// signed it for that region. Checks, counts, effects and errors are those of a client's request;
    /// only paths do not branch off.
    pub async fn call_as(
        &self,
        principal: Principal<'_>,
        region: &str,
        request: Request<'_>,
    ) -> Response {
        let caller = Caller { principal, region: region.into(), is_region_given: true };
        self.answer(request, Some(caller), MessageId::from_random(fastrand::u128(..)).text()).await
    }

    /// Finds service, action and caller of a request, answers it and counts it. If the caller is
    /// given, the request comes from this process: no path branches off, and nothing is compressed.
    async fn answer(
        &self,
        request: Request<'_>,
        caller: Option<Caller<'_>>,
        id: [u8; 36],
    ) -> Response {
        // A signature for one spelling of a path is good for all: they mean the same.
        let path = path::normal(request.path);
        let request = &Request { path: &path, ..request };
        let request_id = str::from_utf8(&id).unwrap_or_default();
        let mut inflated = None;
        if caller.is_none() {
            if let Some(branch) = self.table.branch(request) {
                return branch.answer(request, request_id).await;
            }
            inflated = match self.inflated(request) {
                Ok(inflated) => inflated,
                Err(error) => return self.not_inflated(request, &error, request_id),
            };
        }
        // Signatures are over what was sent, everything else is about what was meant.
        let meant = &Request { body: inflated.as_deref().unwrap_or(request.body), ..*request };
        let mut target = match detect(meant, self.table.recognised()) {
            Ok(target) => target,
            Err(error) => return self.unreadable(meant, &error, request_id),
        };
        if let Some(response) = self.without_action(request, &target, request_id) {
            return response;
        }
        // Apart from the target, so that the codec can drop them once it has read them.
        let parameters = std::mem::take(&mut target.parameters);
        // A request of this process is no less than a signed one: services tell those from links.
        if let Some(Caller { principal, .. }) = &caller {
            target.access_key = Some(principal.account.to_string().into());
        }
        let found = self.table.find(&target);
        let span = self.span(request, found);
        let began = Instant::now();
        let caller = match caller {
            Some(caller) => auth::check_region(&caller.region).map(|()| caller),
            None => self.identify(request, &target, found),
        };
        let response = match caller {
            Ok(caller) => {
                let call = Call {
                    request: meant,
                    target: &target,
                    caller: &caller,
                    request_id,
                    span: &span,
                };
                let answer = match self.checked(found, &call, &parameters) {
                    Ok(Found { row, index, .. }) => match &row.service {
                        Server::Sqs(sqs) => serve(&**sqs, index, &call, parameters).await,
                        Server::Any(service) => service.call(index, &call, parameters).await,
                    },
                    Err(error) => Err(error),
                };
                let mut response = answer.unwrap_or_else(|error| refusal(&call, &error));
                response.admitted = Some(caller.principal.tenant());
                response
            }
            Err(error) => {
                span.refused(error.code);
                error.response(target.service, target.protocol, request_id)
            }
        };
        span.answered(response.status, request_id);
        self.requests.add(found.map(|found| found.number), response.status, began.elapsed());
        response
    }

    /// The caller of a request. Links carry no signature.
    fn identify<'a>(
        &'a self,
        request: &Request<'_>,
        target: &'a Target<'_>,
        found: Option<Found<'_>>,
    ) -> Result<Caller<'a>, ApiError> {
        if let Some(caller) = self.project_caller(target) {
            return Ok(caller);
        }
        let is_link =
            target.access_key.is_none() && found.is_some_and(|found| found.is_unsigned_allowed());
        match self.auth.is_on() && is_link {
            true => self.auth.unsigned(target),
            false => self.auth.identify(request, target),
        }
    }

    /// The caller of a request of SQS whose access key is `project:token`, as IronMQ's own SQS had
    /// them; its signature is not looked at. The caller is in the project's region, whatever region
    /// the signature names.
    fn project_caller<'a>(&self, target: &Target<'_>) -> Option<Caller<'a>> {
        if target.service.scope != Sqs::METADATA.scope {
            return None;
        }
        let access_key = target.access_key.as_deref()?;
        // Some other key may have a colon in it.
        if self.access_keys.find(access_key).is_some() {
            return None;
        }
        let namespace = self.projects.of_access_key(access_key)?;
        let principal = match self.auth.is_on() {
            true => Principal::account(namespace.account.clone()),
            false => Principal::anybody(namespace.account.clone()),
        };
        Some(Caller { principal, region: namespace.region.clone().into(), is_region_given: true })
    }

    /// The answer to a request that asks for no action. People paste the URLs of queues, and the
    /// server's own address, into browsers.
    fn without_action(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
        request_id: &str,
    ) -> Option<Response> {
        let response = no_action(request.method, target, request_id)?;
        match welcome::is_for_browser(request) && target.action.is_empty() {
            true => Some(welcome::page(self.console_url.as_deref())),
            false => Some(response),
        }
    }

    /// The action, if the table has it and the body is not too large for its service.
    fn checked<'t>(
        &self,
        found: Option<Found<'t>>,
        call: &Call<'_>,
        parameters: &Parameters<'_>,
    ) -> Result<Found<'t>, ApiError> {
        let found = found.ok_or_else(|| self.table.unknown_action(call.target, parameters))?;
        match found.row.body_bytes_max.filter(|limit| call.request.body.len() > *limit) {
            Some(limit) => Err(gzip::too_large(limit)),
            None => Ok(found),
        }
    }

    /// Returns true if a head without a signature asks for an action that needs none.
    fn is_link(&self, head: &Request<'_>) -> bool {
        head.method == "GET"
            && detect(head, self.table.recognised()).is_ok_and(|target| {
                self.table.find(&target).is_some_and(|found| found.is_unsigned_allowed())
            })
    }

    fn inflated(&self, request: &Request<'_>) -> Result<Option<Inflated<'_>>, ApiError> {
        self.inflater.inflated(request, || self.auth.signing_account(request))
    }

    /// The answer if there are too many parameters, in the form of the service that the first of them
    /// are for.
    fn unreadable(&self, request: &Request<'_>, error: &ApiError, request_id: &str) -> Response {
        let body = request.body.get(..BEGINNING_BYTES).unwrap_or(request.body);
        let (service, protocol) =
            match detect(&Request { body, ..*request }, self.table.recognised()) {
                Ok(target) => (target.service, target.protocol),
                Err(_) => (Sqs::METADATA, Protocol::Query),
            };
        error.response(service, protocol, request_id)
    }

    /// The answer if a body cannot be inflated. Only SDKs of CloudWatch compress.
    fn not_inflated(&self, request: &Request<'_>, error: &ApiError, request_id: &str) -> Response {
        let head = Request { body: &[], ..*request };
        let target = detect(&head, self.table.recognised());
        let protocol = target.map_or(Protocol::Json, |target| target.protocol);
        error.response(CloudWatch::METADATA, protocol, request_id)
    }

    /// The request's span. Actions outside the table are `other`, so that clients cannot make up
    /// names.
    fn span(&self, request: &Request<'_>, found: Option<Found<'_>>) -> RequestSpan {
        if !self.tracer.is_on() {
            return RequestSpan::default();
        }
        let (service, action) =
            found.map_or(("other", "other"), |found| (found.row.metadata.title, found.name));
        let span = self.tracer.request(action, |name| request.header(name));
        span.rpc(service);
        span
    }
}

/// Answers a request for an action of a service: reads it, finds the resource, authorizes the
/// caller, and calls the handler. There is no other way to a handler.
pub(crate) async fn serve<S: AwsService>(
    service: &S,
    index: usize,
    call: &Call<'_>,
    mut parameters: Parameters<'_>,
) -> Result<Response, ApiError> {
    let action = S::ACTIONS.get(index).ok_or_else(|| unknown_action(call.target))?;
    let input = service.decode(call, &mut parameters)?;
    let resource = service.find(action.names, call, &input)?;
    let Caller { principal, region, .. } = call.caller;
    authorize(principal, &action.permission, resource.as_ref(), Context { region })
        .map_err(|error| S::denied(action, error))?;
    let answer = service.act(call, &input, resource).await?;
    Ok(service.encode(call, answer))
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

fn refusal(call: &Call<'_>, error: &ApiError) -> Response {
    let Call { request, target, request_id, span, .. } = *call;
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

/// Returns true if a form of SimpleDB's size follows, which may hold a signature of version 2.
fn may_be_signed_form(head: &Request<'_>) -> bool {
    let media_type = head.header("content-type").and_then(|value| value.split(';').next());
    let length = head.header("content-length").and_then(|value| value.parse::<usize>().ok());
    head.header("x-amz-target").is_none()
        && length.is_some_and(|length| length <= simpledb::BODY_BYTES_MAX)
        && media_type.is_some_and(|media| {
            media.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
        })
}

/// Whether the client was made for the Query protocol, and so knows that protocol's statuses.
fn is_query_mode(request: &Request<'_>) -> bool {
    request.header("x-amzn-query-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("true"))
}

impl Service for Services {
    fn call(&self, request: Request<'_>) -> impl Future<Output = Response> + Send {
        self.answer(request, None, MessageId::from_random(fastrand::u128(..)).text())
    }

    /// A form says only in its body which service and action are meant: without one, the answer is
    /// that of the protocol and service that the head tells.
    fn judge(&self, head: &Request<'_>) -> Judgement {
        let path = path::normal(head.path);
        let head = &Request { path: &path, body: &[], ..*head };
        if let Some(judgement) = self.table.branch(head).and_then(|branch| branch.judge(head)) {
            return judgement;
        }
        if !self.auth.is_on() {
            return Judgement::Admitted;
        }
        let error = match self.auth.check_head(head) {
            Ok(tenant) => return Judgement::Claimed(tenant),
            Err(AuthError::Missing) if may_be_signed_form(head) || self.is_link(head) => {
                return Judgement::Claimed(Tenant::EVERYBODY);
            }
            Err(error) => error,
        };
        let id = MessageId::from_random(fastrand::u128(..)).text();
        let request_id = str::from_utf8(&id).unwrap_or_default();
        let (service, protocol) = match detect(head, self.table.recognised()) {
            Ok(target) => match self.project_caller(&target) {
                Some(caller) => return Judgement::Claimed(caller.principal.tenant()),
                None => (target.service, target.protocol),
            },
            Err(_) => (Sqs::METADATA, Protocol::Query),
        };
        let error = (service.auth_refusal)(error);
        Judgement::Refused(Box::new(error.response(service, protocol, request_id)))
    }
}
