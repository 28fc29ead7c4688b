//! How far a run is: a bar on standard error, on a terminal only, and the live counts.

use std::{io::IsTerminal, sync::Arc};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    live::{Counts, Live},
    report::thousands,
};

/// A bar that several threads may move; it shows nothing unless it was asked to.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    live: Arc<Live>,
}

/// Steps of a whole bar, when a share is what is known.
const STEPS: u64 = 1000;

impl Default for Progress {
    fn default() -> Progress {
        Progress { bar: ProgressBar::hidden(), live: Arc::default() }
    }
}

impl Progress {
    /// On a terminal; elsewhere it shows nothing.
    pub(crate) fn on_terminal() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::default();
        }
        let bar =
            ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) =
            ProgressStyle::with_template("{prefix:24} [{bar:30}] {percent:>3} %  {msg}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar, live: Arc::default() }
    }

    /// What others may show.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Begins anew with another title.
    pub(crate) fn begin(&self, title: &str) {
        self.live.begin(title);
        self.bar.set_prefix(title.to_owned());
        self.bar.set_message("");
        self.bar.set_position(0);
    }

    /// `share` of 1 is done; `message` says how it goes.
    pub(crate) fn at(&self, share: f64, message: impl FnOnce() -> String) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.bar.set_message(message());
    }

    /// Another second of the run has passed; `share` of 1 is done.
    pub(crate) fn second(&self, share: f64, counts: Counts) {
        self.live.second(counts);
        self.at(share, || {
            let (sent, deleted) = (thousands(counts.sent as f64), thousands(counts.deleted as f64));
            format!("{} {sent} sent/s, {deleted} deleted/s", self.live.bars())
        });
    }

    /// A line above the bar, shown whether or not there is one.
    pub(crate) fn note(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_bar_asks_for_no_message() {
        let progress = Progress::default();

        progress.begin("x");
        progress.at(0.5, || unreachable!("nobody would see it"));
        progress.end();
    }
}
