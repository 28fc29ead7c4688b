//! Structured logs on standard error.

use std::{
    io::{self, IsTerminal},
    sync::OnceLock,
};

use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::config::{LogFormat, UsageError};

/// Known once logging has started.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

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
    let _ = FORMAT.set(format);
    Ok(())
}

/// Why the process ends, on standard error: whoever reads that as JSON lines is to find no others.
#[expect(clippy::print_stderr, reason = "for people, where nothing is logged")]
pub(crate) fn tell_failure(error: &anyhow::Error) {
    if FORMAT.get() == Some(&LogFormat::Json) && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{error:#}");
    } else {
        eprintln!("millrace: {error:#}");
    }
}
