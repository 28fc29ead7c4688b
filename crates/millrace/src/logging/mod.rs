//! Structured logs on standard error, which nothing ever waits for.

mod bound;
mod fields;
mod json;
mod lines;

use std::{
    io::{self, IsTerminal, Write},
    sync::OnceLock,
    time::Duration,
};

use anyhow::Context;
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, ParseError, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, UsageError};
use bound::Bound;
use fields::OneLine;
use json::SpelledOut;
use lines::Lines;
use millrace_process::visible;

/// How long the process lives on for what it logged last.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where lines go, known once logging has started.
static LOG: OnceLock<(LogFormat, Lines)> = OnceLock::new();

/// Starts logging. To be called once; before the process ends, [`finish`] is.
pub(crate) fn start(level: &str, format: LogFormat) -> anyhow::Result<()> {
    let targets =
        levels(level).map_err(|what| UsageError(format!("log level {level:?}: {what}")))?;
    let lines = Lines::start(io::stderr(), |lines| {
        tracing::warn!(lines, "left out of the log, as it was not read in time");
    })
    .context("starting the log")?;
    let _ = LOG.set((format, lines.clone()));
    let writer = move || lines.clone();
    let layer: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => {
            let layer = fmt::layer().fmt_fields(OneLine::default()).with_writer(writer);
            layer.with_ansi(io::stderr().is_terminal()).boxed()
        }
        LogFormat::Json => {
            let layer = fmt::layer().json().flatten_event(true);
            layer.with_writer(move || SpelledOut(writer())).boxed()
        }
    };
    // The filter stands in front of everything: what is off costs one load.
    Registry::default().with(layer.and_then(Bound::default()).and_then(targets)).try_init()?;
    Ok(())
}

/// Waits for what was logged to be written, if somebody reads it.
pub(crate) fn finish() {
    if let Some((_, lines)) = LOG.get() {
        lines.finish(LAST_WORDS);
    }
}

/// `info`, or levels of parts such as `warn,millrace_journal=debug`. A word that is no level would
/// otherwise be taken as the name of a part, and everything else be off.
pub(crate) fn levels(text: &str) -> Result<Targets, String> {
    let mut words = text.split(',').map(str::trim).filter(|word| !word.contains('='));
    if let Some(word) = words.find(|word| word.is_empty() || word.parse::<LevelFilter>().is_err()) {
        let known = "is not one of off, error, warn, info, debug, trace";
        return Err(format!("{word:?} {known}"));
    }
    text.parse().map_err(|error: ParseError| error.to_string())
}

/// A line for people on standard error. That it cannot be written, as into a file on a full disk,
/// is no reason to end.
pub(crate) fn tell(line: &str) {
    // It may quote what a server says.
    let line = format!("{}\n", visible(line));
    let _ = match LOG.get() {
        Some((_, lines)) => lines.clone().write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

/// Why the process ends, on standard error: whoever reads that as JSON lines is to find no others.
pub(crate) fn tell_failure(error: &anyhow::Error) {
    let is_json = matches!(LOG.get(), Some((LogFormat::Json, _)));
    if is_json && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{error:#}");
    } else {
        // Further lines stand apart from those of the log.
        tell(&format!("millrace: {error:#}").replace('\n', "\n  "));
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
