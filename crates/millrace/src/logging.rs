//! Structured logs on standard error.

use std::{
    io::{self, IsTerminal, Write},
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

/// A line for people on standard error. That it cannot be written, as into a file on a full disk, is
/// no reason to end.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Why the process ends, on standard error: whoever reads that as JSON lines is to find no others.
pub(crate) fn tell_failure(error: &anyhow::Error) {
    if FORMAT.get() == Some(&LogFormat::Json) && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{error:#}");
    } else {
        tell(&format!("millrace: {error:#}"));
    }
}
