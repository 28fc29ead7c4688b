//! Builds what the server serves.

use std::sync::Arc;

use millrace_server::{Drain, Hooks};
use millrace_wire::{Request, Response, Service};

use crate::config::Config;

/// What is served, and what goes with it.
pub(crate) struct Services<S> {
    pub(crate) service: Arc<S>,
    pub(crate) hooks: Hooks,
    /// To be called after the drain: makes everything durable and says if that failed.
    pub(crate) close: Box<dyn FnOnce() -> anyhow::Result<()>>,
}

/// Opens the data and the services on it. Held requests are answered when `drain` starts.
pub(crate) fn open_services(
    config: &Config,
    _drain: &Drain,
) -> anyhow::Result<Services<impl Service>> {
    tracing::debug!(
        account = config.account,
        is_test = config.is_test,
        fair_queues = config.fair_queues,
        "opening services"
    );
    Ok(Services { service: Arc::new(Nothing), hooks: Hooks::default(), close: Box::new(|| Ok(())) })
}

/// Serves nothing yet.
struct Nothing;

impl Service for Nothing {
    async fn call(&self, _request: Request<'_>) -> Response {
        Response::new(501, "text/plain", "not implemented\n")
    }
}
