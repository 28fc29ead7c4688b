//! IronMQ's REST API, versions 3 and 1, on the queues of SQS: a project is an account, a queue has
//! the same name, a reservation id is a receipt handle.
//!
//! [`projects`] says who may ask and where a project's queues are, [`refusal`] assigns all statuses
//! and texts. Requests are found by their paths ([`millrace_wire::ironmq::route`]), so the service
//! is a branch of the table and no row.

mod alerts;
mod ids;
mod messages;
mod own_times;
mod post;
mod projects;
mod push;
mod queue_change;
mod queues;
mod refusal;
mod reservations;
mod settings;
mod shown;

use std::sync::Arc;
use std::time::Instant;

use millrace_broker::Shards;
use millrace_push::Push;
use millrace_wire::ironmq::{
    self, Endpoint, Holding, Ids, Misrouted, PostedMessages, QueueRequest, QueueWrapped, Reserve,
    Route, Version,
};
use millrace_wire::query::Parameters;
use millrace_wire::{Judgement, Request, Response};

use crate::projects::{Namespace, Projects};
use crate::service::Boxed;
use crate::sqs::SqsOptions;
use crate::table::Branch;
use crate::telemetry::RequestCounts;
use alerts::Alerts;
use push::Pushers;
use queue_change::{QueueChange, SetBy};
use refusal::Refusal;
pub use shown::{IronMqAlert, IronMqQueue, IronMqSubscriber};

/// Further paths of IronMQ: they answer in its form, not in that of SQS.
const NOT_SERVED: [&str; 7] = [
    "/3/projects",
    "/1/projects",
    "/3/stats",
    "/version",
    "/1/authentication",
    "/1/tokens",
    "/1/users",
];

/// Answers that are larger may find no room; what they hand out is then taken back.
const MAY_BE_REFUSED_BYTES: usize = 64 << 10;

/// The service.
pub(crate) struct IronMq {
    shards: Arc<Shards>,
    projects: Arc<Projects>,
    pushers: Arc<Pushers>,
    alerts: Arc<Alerts>,
    /// Links begin as queue URLs do.
    urls: SqsOptions,
    requests: Arc<RequestCounts>,
}

/// The change of a list that its entries are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Replace,
    Remove,
}

/// A request whose caller is known.
struct ProjectCall<'a> {
    version: Version,
    namespace: Arc<Namespace>,
    request: &'a Request<'a>,
    urls: &'a SqsOptions,
    /// The request adds to the settings of a queue.
    is_patch: bool,
}

impl<'a> ProjectCall<'a> {
    /// The change of a queue that the request describes.
    fn queue_change<'r>(&'r self, request: &'r QueueRequest<'r>) -> QueueChange<'r> {
        QueueChange {
            request,
            is_type_changeable: self.version == Version::V1,
            adds_alerts: self.is_patch,
            by: self.set_by(),
        }
    }

    fn set_by(&self) -> SetBy<'_> {
        SetBy {
            is_v1: self.version == Version::V1,
            project: &self.namespace.project,
            urls: self.urls,
            request: self.request,
        }
    }

    /// The error for a required field that is not there.
    fn missing(&self, field: &str) -> Refusal {
        let status = if self.version == Version::V1 { 406 } else { 400 };
        Refusal::new(status, format!("Required field {field} is missing"))
    }

    /// Reads the body.
    fn body<T: Default + serde::Deserialize<'a>>(&self) -> Result<T, Refusal> {
        ironmq::read(self.request.body).map_err(Refusal::bad)
    }

    /// A queue's settings, wrapped in version 3.
    fn queue_request(&self) -> Result<QueueRequest<'a>, Refusal> {
        match self.version {
            Version::V1 => self.body(),
            Version::V3 => Ok(self.body::<QueueWrapped<'a>>()?.queue.unwrap_or_default()),
        }
    }

    fn parameters(&self) -> Result<Parameters<'a>, Refusal> {
        let parameters = Parameters::parse(self.request.query, &[]);
        parameters.map_err(|error| Refusal::bad(error.message))
    }
}

impl IronMq {
    pub(crate) fn new(
        shards: Arc<Shards>,
        projects: Arc<Projects>,
        requests: Arc<RequestCounts>,
        (push, urls): (Option<Arc<Push>>, SqsOptions),
    ) -> IronMq {
        let pushers = Arc::new(Pushers::new(shards.clone(), push));
        pushers.start();
        let alerts = Alerts::start(&pushers);
        IronMq { shards, projects, pushers, alerts, urls, requests }
    }

    async fn respond(&self, request: &Request<'_>) -> Response {
        let began = Instant::now();
        let route = match ironmq::route(request).unwrap_or(Err(Misrouted::NoSuchPath)) {
            Ok(route) => route,
            Err(misrouted) => {
                let response = Refusal::from(misrouted).response();
                self.requests.add(None, response.status, began.elapsed());
                return response;
            }
        };
        let Route { version, project, endpoint } = route;
        let response = match projects::enter(&self.projects, &project, request) {
            Ok(namespace) => {
                let tenant = projects::tenant(&self.projects, &namespace);
                let is_patch = matches!(endpoint, Endpoint::PatchQueue(_));
                let urls = &self.urls;
                let call = ProjectCall { version, namespace, request, urls, is_patch };
                let answer = self.act(&call, &endpoint).await;
                let mut response = answer.unwrap_or_else(|refusal| refusal.response());
                response.admitted = Some(tenant);
                response
            }
            Err(refusal) => refusal.response(),
        };
        self.requests.add_iron_mq(&endpoint, response.status, began.elapsed());
        response
    }

    async fn act(
        &self,
        call: &ProjectCall<'_>,
        endpoint: &Endpoint<'_>,
    ) -> Result<Response, Refusal> {
        match endpoint {
            Endpoint::ListQueues => self.list_queues(call, &call.parameters()?),
            Endpoint::PutQueue(name) | Endpoint::PatchQueue(name) => {
                self.put_queue(call, name, &call.queue_request()?).await
            }
            Endpoint::GetQueue(name) => self.get_queue(call, name),
            Endpoint::DeleteQueue(name) => self.delete_queue(call, name).await,
            Endpoint::Post(name) => {
                let request: PostedMessages<'_> = call.body()?;
                let messages = request.messages.unwrap_or_default();
                self.post(call, name, &messages.0).await
            }
            Endpoint::Webhook(name) => {
                let Request { headers, body, .. } = call.request;
                self.webhook(call, name, headers, body).await
            }
            Endpoint::Reserve(name) => {
                let request = match call.version {
                    Version::V3 => call.body::<Reserve<'_>>()?,
                    Version::V1 => messages::reserve_parameters(&call.parameters()?)?,
                };
                self.reserve(call, name, &request).await
            }
            Endpoint::Peek(name) => self.peek(call, name, &call.parameters()?),
            Endpoint::DeleteMessages(name) => {
                let Ids { ids, has_others } = call.body()?;
                let is_clear = call.version == Version::V3
                    && !has_others
                    && call.request.body.trim_ascii() != b"null";
                match ids {
                    Some(ids) => self.delete_messages(call, name, &ids).await,
                    None if is_clear => self.clear(call, name).await,
                    None => Err(call.missing("ids")),
                }
            }
            Endpoint::Clear(name) => self.clear(call, name).await,
            Endpoint::GetMessage(name, id) => self.get_message(call, name, id),
            Endpoint::DeleteMessage(name, id) => {
                self.delete_message(call, name, id, &call.body::<Holding<'_>>()?).await
            }
            Endpoint::Touch(name, id) => {
                self.touch(call, name, id, &call.body::<Holding<'_>>()?).await
            }
            Endpoint::Release(name, id) => {
                self.release(call, name, id, &call.body::<Holding<'_>>()?).await
            }
            Endpoint::PushStatuses(name, id) => self.push_statuses(call, name, id),
            Endpoint::DeletePushStatus(name, id, delivery) => {
                self.acknowledge(call, name, id, delivery).await
            }
            Endpoint::AddSubscribers(name) => {
                self.change_subscribers(call, name, Change::Add).await
            }
            Endpoint::ReplaceSubscribers(name) => {
                self.change_subscribers(call, name, Change::Replace).await
            }
            Endpoint::RemoveSubscribers(name) => {
                self.change_subscribers(call, name, Change::Remove).await
            }
            Endpoint::AddAlerts(name) => self.change_alerts(call, name, Change::Add).await,
            Endpoint::ReplaceAlerts(name) => self.change_alerts(call, name, Change::Replace).await,
            Endpoint::DeleteAlerts(name) => self.change_alerts(call, name, Change::Remove).await,
            Endpoint::DeleteAlert(name, id) => self.delete_alert(call, name, id).await,
        }
    }
}

impl Branch for IronMq {
    fn takes(&self, request: &Request<'_>) -> bool {
        let path = request.path;
        ["/3/projects/", "/1/projects/"].iter().any(|begin| path.starts_with(begin))
            || NOT_SERVED.contains(&path)
    }

    fn answer<'a>(&'a self, request: &'a Request<'a>, _: &'a str) -> Boxed<'a, Response> {
        Box::pin(self.respond(request))
    }

    /// A token is in the head, so whoever may call is known before the body comes.
    fn judge(&self, head: &Request<'_>) -> Option<Judgement> {
        let route = match ironmq::route(head).unwrap_or(Err(Misrouted::NoSuchPath)) {
            Ok(route) => route,
            Err(misrouted) => {
                return Some(Judgement::Refused(Box::new(Refusal::from(misrouted).response())));
            }
        };
        Some(match projects::enter(&self.projects, &route.project, head) {
            Ok(namespace) if self.projects.is_guarded() => {
                Judgement::Claimed(projects::tenant(&self.projects, &namespace))
            }
            Ok(_) => Judgement::Admitted,
            Err(refusal) => Judgement::Refused(Box::new(refusal.response())),
        })
    }
}
