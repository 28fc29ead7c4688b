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
    self, Endpoint, Holding, Ids, PostedMessages, QueueRequest, QueueWrapped, Reserve, Route,
    Version,
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
use refusal::Refusal;
use settings::{Asked, SetBy};
pub use shown::{IronMqAlert, IronMqQueue, IronMqSubscriber};

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

/// What is to be done with the entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Replace,
    Remove,
}

/// A request whose caller is known.
struct Asking<'a> {
    version: Version,
    namespace: Arc<Namespace>,
    request: &'a Request<'a>,
    urls: &'a SqsOptions,
    /// The request adds to the settings of a queue.
    is_patch: bool,
}

impl<'a> Asking<'a> {
    /// What is asked for about a queue.
    fn asked<'r>(&'r self, request: &'r QueueRequest<'r>) -> Asked<'r> {
        Asked {
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
        let route = match ironmq::route(request) {
            Some(Ok(route)) => route,
            Some(Err(misrouted)) => {
                let response = Refusal::from(misrouted).response();
                self.requests.add(None, response.status, began.elapsed());
                return response;
            }
            None => return Refusal::no_queue().response(),
        };
        let Route { version, project, endpoint } = route;
        let response = match projects::enter(&self.projects, &project, request) {
            Ok(namespace) => {
                let tenant = projects::tenant(&self.projects, &namespace);
                let is_patch = matches!(endpoint, Endpoint::PatchQueue(_));
                let urls = &self.urls;
                let asking = Asking { version, namespace, request, urls, is_patch };
                let answer = self.act(&asking, &endpoint).await;
                let mut response = answer.unwrap_or_else(|refusal| refusal.response());
                response.admitted = Some(tenant);
                response
            }
            Err(refusal) => refusal.response(),
        };
        self.requests.add_iron_mq(&endpoint, response.status, began.elapsed());
        response
    }

    async fn act(&self, asking: &Asking<'_>, endpoint: &Endpoint<'_>) -> Result<Response, Refusal> {
        match endpoint {
            Endpoint::ListQueues => self.list_queues(asking, &asking.parameters()?),
            Endpoint::PutQueue(name) | Endpoint::PatchQueue(name) => {
                self.put_queue(asking, name, &asking.queue_request()?).await
            }
            Endpoint::GetQueue(name) => self.get_queue(asking, name),
            Endpoint::DeleteQueue(name) => self.delete_queue(asking, name).await,
            Endpoint::Post(name) => {
                let request: PostedMessages<'_> = asking.body()?;
                let messages = request.messages.unwrap_or_default();
                self.post(asking, name, &messages.0).await
            }
            Endpoint::Webhook(name) => {
                let Request { headers, body, .. } = asking.request;
                self.webhook(asking, name, headers, body).await
            }
            Endpoint::Reserve(name) => {
                let request = match asking.version {
                    Version::V3 => asking.body::<Reserve<'_>>()?,
                    Version::V1 => messages::reserve_parameters(&asking.parameters()?)?,
                };
                self.reserve(asking, name, &request).await
            }
            Endpoint::Peek(name) => self.peek(asking, name, &asking.parameters()?),
            Endpoint::DeleteMessages(name) => {
                match (asking.body::<Ids<'_>>()?.ids, asking.version) {
                    (Some(ids), _) => self.delete_messages(asking, name, &ids.0).await,
                    (None, Version::V3) => self.clear(asking, name).await,
                    (None, Version::V1) => Err(asking.missing("ids")),
                }
            }
            Endpoint::Clear(name) => self.clear(asking, name).await,
            Endpoint::GetMessage(name, id) => self.get_message(asking, name, id),
            Endpoint::DeleteMessage(name, id) => {
                self.delete_message(asking, name, id, &asking.body::<Holding<'_>>()?).await
            }
            Endpoint::Touch(name, id) => {
                self.touch(asking, name, id, &asking.body::<Holding<'_>>()?).await
            }
            Endpoint::Release(name, id) => {
                self.release(asking, name, id, &asking.body::<Holding<'_>>()?).await
            }
            Endpoint::PushStatuses(name, id) => self.push_statuses(asking, name, id),
            Endpoint::DeletePushStatus(name, id, delivery) => {
                self.acknowledge(asking, name, id, delivery).await
            }
            Endpoint::AddSubscribers(name) => {
                self.change_subscribers(asking, name, Change::Add).await
            }
            Endpoint::ReplaceSubscribers(name) => {
                self.change_subscribers(asking, name, Change::Replace).await
            }
            Endpoint::RemoveSubscribers(name) => {
                self.change_subscribers(asking, name, Change::Remove).await
            }
            Endpoint::AddAlerts(name) => self.change_alerts(asking, name, Change::Add).await,
            Endpoint::ReplaceAlerts(name) => {
                self.change_alerts(asking, name, Change::Replace).await
            }
            Endpoint::DeleteAlerts(name) => self.change_alerts(asking, name, Change::Remove).await,
            Endpoint::DeleteAlert(name, id) => self.delete_alert(asking, name, id).await,
        }
    }
}

impl Branch for IronMq {
    fn takes(&self, request: &Request<'_>) -> bool {
        request.path.starts_with("/3/projects/") || request.path.starts_with("/1/projects/")
    }

    fn answer<'a>(&'a self, request: &'a Request<'a>, _: &'a str) -> Boxed<'a, Response> {
        Box::pin(self.respond(request))
    }

    /// A token is in the head, so whoever may call is known before the body comes.
    fn judge(&self, head: &Request<'_>) -> Option<Judgement> {
        let route = match ironmq::route(head)? {
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
