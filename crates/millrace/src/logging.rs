//! Structured logs on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::config::{LogFormat, UsageError};

/// Starts logging. To be called once.
pub(crate) fn start(level: &str, format: LogFormat) -> anyhow::Result<()> {
    let targets: Targets = level
        .parse()
        .map_err(|error| UsageError(format!("log_level: {level:?} is not understood: {error}")))?;
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => {
            fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).boxed()
        }
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed(),
    };
    // The filter stands in front of everything: what is off costs one load.
    Registry::default().with(lines.and_then(targets)).try_init()?;
    Ok(())
}
