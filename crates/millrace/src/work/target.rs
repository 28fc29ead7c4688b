//! A URL that messages are posted to.

use anyhow::Context;
use millrace_client::{
    Url,
    transport::{Endpoint, Head, HeadError, Transport, TransportOptions},
};

use super::WorkFlags;
use crate::config::UsageError;

/// Where requests go, and the connections kept to it: as many as handlers may run.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) transport: Transport,
    pub(super) url: Url,
}

impl Target {
    /// The URL that a flag names; `default_path` if it has no path.
    pub(super) fn parse(
        flag: &str,
        text: &str,
        default_path: &str,
        flags: &WorkFlags,
    ) -> anyhow::Result<Target> {
        let url = url(flag, text)?.with_default_path(default_path);
        let mut options = TransportOptions::default();
        options.answer_timeout = flags.timeout();
        options.lane_connections = flags.most_handlers();
        let transport = Transport::new(Endpoint::from(&url), &options);
        let transport = transport.with_context(|| format!("preparing {flag}"))?;
        Ok(Target { transport, url })
    }

    /// The head of a request.
    pub(super) fn head(&self, method: &str) -> Result<Head, HeadError> {
        Head::new(method, &self.url.target(), &self.transport.endpoint().authority)
    }
}

/// The URL that a flag names.
pub(super) fn url(flag: &str, text: &str) -> Result<Url, UsageError> {
    Url::parse(text).map_err(|error| UsageError(format!("{flag}: {error}")))
}

/// Adds a header that came with a message; what HTTP cannot carry is left out.
pub(super) fn optional(head: &mut Head, name: &str, value: &str) {
    if let Err(error) = head.header(name, value) {
        tracing::debug!(name, %error, "header left out");
    }
}
