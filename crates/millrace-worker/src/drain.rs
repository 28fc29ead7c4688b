//! Ending a worker: orderly, bounded, and faster when asked twice.
//!
//! ```text
//!             drain()              drain timeout over         cancel grace over
//!  running ───────────► draining ───────────────────► cancelling ─────────────► cut off ──► ended
//!     │                    │                               │                      ▲  flush timeout
//!     └────────────────────┴────────── release_now() ──────┴──────────────────────┘  over, or done
//! ```
//!
//! - *draining*: nothing is received any more; a receive under way is let finish, because aborting
//!   it would hide what it brings for a whole visibility timeout; then waiting messages are
//!   released, not before, or it could bring them back. Handlers go on and leases are kept.
//! - *cancelling*: handlers are told to stop.
//! - *cut off*: handlers are dropped and their messages released.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

/// Asks a worker to end. Clones ask the same worker.
#[derive(Clone, Debug)]
pub struct Drain {
    asked: watch::Sender<Asked>,
}

/// What was asked of the worker so far; it only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Nothing,
    Drain,
    ReleaseNow,
}

impl Drain {
    /// A drain that nobody has asked for yet.
    pub fn new() -> Drain {
        Drain { asked: watch::Sender::new(Asked::Nothing) }
    }

    /// Stop receiving, finish what is being handled, end.
    pub fn drain(&self) {
        self.ask(Asked::Drain);
    }

    /// Give everything back and end at once.
    pub fn release_now(&self) {
        self.ask(Asked::ReleaseNow);
    }

    /// Resolves once either was asked for. Cancel safe.
    pub async fn asked(&self) {
        let mut asked = self.subscribe();
        // The sender lives as long as this drain.
        let _ = asked.wait_for(|asked| *asked > Asked::Nothing).await;
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Asked> {
        self.asked.subscribe()
    }

    fn ask(&self, more: Asked) {
        self.asked.send_if_modified(|asked| {
            let is_more = more > *asked;
            *asked = more.max(*asked);
            is_more
        });
    }
}

impl Default for Drain {
    fn default() -> Drain {
        Drain::new()
    }
}

/// How long each stage may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTimeouts {
    /// For handlers to finish.
    pub drain: Duration,
    /// For handlers to stop once they were told to.
    pub cancel_grace: Duration,
    /// For the last deletes and releases to be answered.
    pub flush: Duration,
}

impl Default for DrainTimeouts {
    /// 20 s, 3 s, 2 s: most supervisors kill after 30 s, and what comes after the worker has to fit
    /// in as well.
    fn default() -> DrainTimeouts {
        DrainTimeouts {
            drain: Duration::from_secs(20),
            cancel_grace: Duration::from_secs(3),
            flush: Duration::from_secs(2),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    Draining,
    Cancelling,
    CutOff,
    Ended,
}

/// Where a worker stands on its way to the end.
#[derive(Debug)]
pub(crate) struct Progress {
    stage: Stage,
    timeouts: DrainTimeouts,
    /// When the next stage begins by itself.
    ends: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(timeouts: DrainTimeouts) -> Progress {
        Progress { stage: Stage::Running, timeouts, ends: None }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// When [`Progress::advance`] is to be called next.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.ends
    }

    /// Takes note of what was asked. Returns whether the stage changed.
    pub(crate) fn ask(&mut self, asked: Asked, now: Instant) -> bool {
        let before = self.stage;
        match asked {
            Asked::Drain if self.stage == Stage::Running => self.enter(Stage::Draining, now),
            Asked::ReleaseNow if self.stage < Stage::CutOff => self.enter(Stage::CutOff, now),
            Asked::Nothing | Asked::Drain | Asked::ReleaseNow => {}
        }
        self.stage != before
    }

    /// Enters the next stage if the time of this one is over. Returns whether the stage changed.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        if self.ends.is_none_or(|ends| ends > now) {
            return false;
        }
        let next = match self.stage {
            Stage::Running | Stage::Draining => Stage::Cancelling,
            Stage::Cancelling => Stage::CutOff,
            Stage::CutOff | Stage::Ended => Stage::Ended,
        };
        self.enter(next, now);
        true
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.stage = stage;
        self.ends = match stage {
            Stage::Draining => Some(now + self.timeouts.drain),
            Stage::Cancelling => Some(now + self.timeouts.cancel_grace),
            Stage::CutOff => Some(now + self.timeouts.flush),
            Stage::Running | Stage::Ended => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_ends_by_itself() {
        let start = Instant::now();
        let timeouts = DrainTimeouts::default();
        let mut progress = Progress::new(timeouts);
        assert!(!progress.advance(start + Duration::from_secs(3600)));

        assert!(progress.ask(Asked::Drain, start));
        let mut stages = vec![progress.stage()];
        let mut now = start;
        while let Some(ends) = progress.ends() {
            assert!(!progress.advance(ends - Duration::from_millis(1)));
            now = ends;
            assert!(progress.advance(now));
            stages.push(progress.stage());
        }

        assert_eq!(stages, [Stage::Draining, Stage::Cancelling, Stage::CutOff, Stage::Ended]);
        assert_eq!(now - start, Duration::from_secs(25));
    }

    #[test]
    fn second_request_cuts_off_at_once() {
        let now = Instant::now();
        let mut progress = Progress::new(DrainTimeouts::default());

        assert!(progress.ask(Asked::Drain, now));
        assert!(!progress.ask(Asked::Drain, now));
        assert!(progress.ask(Asked::ReleaseNow, now));

        assert_eq!(progress.stage(), Stage::CutOff);
        assert!(!progress.ask(Asked::ReleaseNow, now));
    }

    #[test]
    fn what_is_asked_is_never_taken_back() {
        let drain = Drain::new();
        let asked = drain.subscribe();

        drain.release_now();
        drain.drain();

        assert_eq!(*asked.borrow(), Asked::ReleaseNow);
    }
}
