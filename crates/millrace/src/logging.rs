//! Structured logs on standard error.

use std::{
    io::{self, IsTerminal, Write},
    sync::OnceLock,
};

use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, ParseError, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, UsageError};

/// Known once logging has started.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Starts logging. To be called once.
pub(crate) fn start(level: &str, format: LogFormat) -> anyhow::Result<()> {
    let targets = levels(level)?;
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

/// `info`, or levels of parts such as `warn,millrace_journal=debug`. A word that is no level would
/// otherwise be taken as the name of a part, and everything else be off.
fn levels(text: &str) -> Result<Targets, UsageError> {
    let wrong = |what: &str| UsageError(format!("log level {text:?}: {what}"));
    let mut words = text.split(',').map(str::trim).filter(|word| !word.contains('='));
    if let Some(word) = words.find(|word| word.is_empty() || word.parse::<LevelFilter>().is_err()) {
        let known = "is not one of off, error, warn, info, debug, trace";
        return Err(wrong(&format!("{word:?} {known}")));
    }
    text.parse().map_err(|error: ParseError| wrong(&error.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_that_is_no_level_is_refused() {
        for good in ["info", "OFF", "warn,millrace_journal=debug", "millrace_server=trace"] {
            assert!(levels(good).is_ok(), "{good}");
        }
        for bad in ["", "warning", "info,loud", "millrace_server", "millrace_server=loud"] {
            assert!(levels(bad).is_err(), "{bad:?}");
        }
    }
}
