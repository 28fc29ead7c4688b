//! Outbound deliveries over HTTP, as configured.

use std::sync::Arc;

use anyhow::Context;
use millrace_broker::Shards;
use millrace_push::{Push, PushOptions, TlsOptions};

use crate::config::{Config, UsageError};

/// Starts the thread of deliveries. It delivers what services tell it to.
pub(crate) fn start(config: &Config, shards: &Arc<Shards>) -> anyhow::Result<Arc<Push>> {
    let settings = &config.push;
    let mut tls = TlsOptions::default();
    if let Some(path) = &settings.authorities {
        let failed = || format!("push.authorities: {}", path.display());
        tls.extra_authorities = std::fs::read(path).with_context(failed)?;
        // Now, rather than with the first delivery.
        tls.client_config().map_err(|error| UsageError(format!("{}: {error}", failed())))?;
    }
    let options = PushOptions {
        connections: settings.connections,
        connections_per_endpoint: settings.connections_per_endpoint,
        tls,
        ..PushOptions::new(settings.network.clone())
    };
    let push = Push::start(options, Arc::clone(shards));
    Ok(Arc::new(push.context("starting the thread of deliveries")?))
}
