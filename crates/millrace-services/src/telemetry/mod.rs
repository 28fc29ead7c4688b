//! What Prometheus scrapes: `GET /metrics`, in one of its text formats.
//!
//! Bounded whatever clients do: actions are those that exist, and only some queues have series of
//! their own. [`requests`] counts; [`exposition`], [`queues`] and
//! [`endpoints`] say what there is, the figures of
//! queues being the shards's; [`series`] writes it, and [`format`] says how.

mod endpoints;
mod exposition;
mod format;
mod queues;
mod requests;
mod series;

use std::fmt;
use std::sync::Arc;

use millrace_broker::Shards;
use millrace_wire::protocol::Protocol;
use millrace_wire::sigv4::equal_in_constant_time;
use millrace_wire::{ApiError, Request, Response, Tenant, sqs};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

use crate::cloudwatch::Monitor;
use crate::service::Boxed;
use crate::simpledb::TableFigures;
use crate::sns::TopicFigures;
use crate::table::Branch;
pub(crate) use endpoints::{EndpointSeries, Posted, Posting};
pub use exposition::resident_bytes;
use format::Format;
use queues::QueueSeries;
pub use requests::ActionCounts;
pub(crate) use requests::RequestCounts;
pub use series::Series;

/// What of `/metrics` is a matter of configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Queues that have series of their own: those that hold most messages.
    pub top_queues: usize,
    /// Names of queues that have series of their own in any case; a `*` at the end stands for any
    /// rest.
    pub queues: Vec<String>,
    /// Who scrapes says it as a bearer token. None: nobody need say anything while requests are not
    /// authenticated, and nobody is answered while they are.
    pub token: Option<String>,
}

impl Default for MetricsOptions {
    fn default() -> MetricsOptions {
        MetricsOptions { top_queues: 100, queues: Vec::new(), token: None }
    }
}

/// Without the token.
impl fmt::Debug for MetricsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MetricsOptions")
            .field("top_queues", &self.top_queues)
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

/// Answers scrapes.
pub(crate) struct Telemetry {
    registry: Arc<Registry>,
    monitor: Arc<Monitor>,
    options: MetricsOptions,
    is_open: bool,
}

/// The sources of the figures that are scraped.
pub(crate) struct Sources {
    pub shards: Arc<Shards>,
    pub monitor: Arc<Monitor>,
    pub requests: Arc<RequestCounts>,
    pub tables: Option<TableFigures>,
    pub topics: TopicFigures,
    /// None: nothing is delivered by HTTP.
    pub endpoints: Option<EndpointSeries>,
    /// Figures from a floor above.
    pub further: Option<Box<dyn Collector>>,
}

impl Telemetry {
    /// `is_open`: requests are not authenticated.
    pub(crate) fn new(sources: Sources, options: MetricsOptions, is_open: bool) -> Telemetry {
        let Sources { shards, monitor, requests, tables, topics, endpoints, further } = sources;
        let mut registry = Registry::default();
        let queues = QueueSeries {
            shards: shards.clone(),
            top: options.top_queues,
            always: options.queues.clone(),
        };
        registry.register_collector(Box::new(queues));
        registry.register_collector(Box::new(requests));
        let server = exposition::Server { shards, monitor: monitor.clone() };
        registry.register_collector(Box::new(server));
        registry.register_collector(Box::new(topics));
        if let Some(endpoints) = endpoints {
            registry.register_collector(Box::new(endpoints));
        }
        if let Some(tables) = tables {
            registry.register_collector(Box::new(tables));
        }
        if let Some(further) = further {
            registry.register_collector(further);
        }
        Telemetry { registry: Arc::new(registry), monitor, options, is_open }
    }

    async fn scrape(&self, request: &Request<'_>) -> Result<Response, ApiError> {
        let is_allowed = match &self.options.token {
            None => self.is_open,
            Some(token) => request
                .header("authorization")
                .and_then(|value| value.strip_prefix("Bearer "))
                .is_some_and(|given| {
                    equal_in_constant_time(given.trim().as_bytes(), token.as_bytes())
                }),
        };
        if !is_allowed {
            return Err(ApiError::access_denied(match &self.options.token {
                Some(_) => {
                    "Send the token of the setting metrics.token: Authorization: Bearer TOKEN."
                }
                None => {
                    "A server with access keys needs the setting metrics.token \
                     (MILLRACE_METRICS__TOKEN); scrapers then send Authorization: Bearer TOKEN."
                }
            }));
        }
        // Looking at thousands of queues takes longer than a request of another client may wait.
        let registry = self.registry.clone();
        let format = Format::wanted(request.header("accept"));
        let encoded = self.monitor.run_scrape(move || {
            let mut text = String::with_capacity(64 << 10);
            encode_registry(&mut text, &registry).map(|()| format.render(text))
        });
        let text = encoded.await?.map_err(|error| {
            tracing::error!(%error, "metrics cannot be written");
            ApiError::internal_failure()
        })?;
        Ok(Response::new(200, format.content_type(), text))
    }
}

impl Branch for Telemetry {
    fn takes(&self, request: &Request<'_>) -> bool {
        request.path == "/metrics" && matches!(request.method, "GET" | "HEAD")
    }

    fn answer<'a>(&'a self, request: &'a Request<'a>, request_id: &'a str) -> Boxed<'a, Response> {
        Box::pin(async move {
            let answer = self.scrape(request).await;
            let mut response = answer
                .unwrap_or_else(|error| error.response(&sqs::SERVICE, Protocol::Json, request_id));
            response.admitted = (response.status == 200).then_some(Tenant::EVERYBODY);
            response
        })
    }
}
