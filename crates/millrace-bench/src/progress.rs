//! How far a run is: a bar on standard error, on a terminal only, and the live sums.

use std::{
    io::IsTerminal,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::sleep;

use anyhow::{Error, Result, anyhow, bail};

use crate::{
    live::{Event, Live},
    report::thousands,
};

/// A bar that several threads may move; it shows nothing unless it was asked to.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    live: Arc<Live>,
    /// What should be gone and is not.
    left: Arc<Mutex<Vec<String>>>,
}

/// How soon it is seen that a run is to end early.
const TURN: Duration = Duration::from_millis(50);
/// How often it is shown how far work is that does not say so.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Steps of a whole bar, when a share is what is known.
const STEPS: u64 = 1000;

impl Default for Progress {
    fn default() -> Progress {
        Progress { bar: ProgressBar::hidden(), live: Arc::default(), left: Arc::default() }
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
        let live = Live::default();
        // Not closely: whether there is a terminal must not show in the figures.
        live.watch();
        Progress { bar, live: Arc::new(live), left: Arc::default() }
    }

    /// Of what is not measured, and ends early with what is: nobody sees it.
    pub(crate) fn unseen(&self) -> Progress {
        let live = Arc::new(self.live.unseen());
        Progress { bar: ProgressBar::hidden(), live, left: Arc::clone(&self.left) }
    }

    /// What others may show.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The terminal is somebody else's.
    pub(crate) fn hide_bar(&self) {
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
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
        if self.live.if_watched().is_some() {
            self.live.at(share, &message());
            self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }

    /// Another second has passed.
    pub(crate) fn roll(&self) {
        self.live.roll();
        if self.bar.is_hidden() {
            return;
        }
        let view = self.live.view();
        let rate = |event| thousands(view.rate(event) as f64);
        let (sent, deleted) = (rate(Event::Sent), rate(Event::Deleted));
        let mut message = format!("{} {sent} sent/s, {deleted} deleted/s", view.bars());
        if !view.message.is_empty() {
            message += &format!(", {}", view.message);
        }
        self.bar.set_message(message);
    }

    /// # Errors
    ///
    /// If somebody wants the run to end early.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.live.is_ending() {
            bail!("the run was ended early");
        }
        Ok(())
    }

    /// Returns an error as soon as [`Progress::go_on`] does, or what `work` comes to before.
    /// Dropping `work` must be harmless.
    pub(crate) async fn unless_ended<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = async {
            loop {
                if let Err(ended) = self.go_on() {
                    return ended;
                }
                sleep(TURN).await;
            }
        };
        tokio::select! {
            outcome = work => outcome,
            ended = ended => Err(ended),
        }
    }

    /// What `work` comes to; meanwhile `show` moves the bar every now and then.
    pub(crate) async fn shown<T>(
        &self,
        show: impl Fn(&Progress),
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let shown = async {
            loop {
                show(self);
                sleep(SHOW_EVERY).await;
            }
        };
        tokio::select! {
            outcome = work => outcome,
            never = shown => never,
        }
    }

    /// A line above the bar, shown whether or not there is one.
    pub(crate) fn note(&self, line: &str) {
        if let Some(line) = self.live.keep_note(line) {
            self.bar.suspend(|| crate::output::tell(line));
        }
    }

    /// What the run made and could not remove: told at its end, behind what it measured.
    pub(crate) fn leave(&self, what: String) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    pub(crate) fn left(&self) -> Vec<String> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error that ended the run, and what the run left.
    pub(crate) fn with_left(&self, error: Error) -> Error {
        match self.left().as_slice() {
            [] => error,
            left => anyhow!("{error:#}; {}", left.join("; ")),
        }
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

    #[test]
    fn what_is_not_seen_ends_early_as_well() {
        let progress = Progress::default();
        progress.live().watch();
        let unseen = progress.unseen();
        assert!(unseen.go_on().is_ok() && unseen.live().if_watched().is_none());

        progress.live().end_early();

        assert!(unseen.go_on().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_when_the_run_is_to_end_early() {
        let progress = Progress::default();
        assert_eq!(progress.unless_ended(async { Ok(7) }).await.unwrap(), 7);

        progress.live().end_early();

        let ended = progress.unless_ended(std::future::pending::<Result<()>>()).await;
        assert!(ended.unwrap_err().to_string().contains("ended early"));
    }
}
