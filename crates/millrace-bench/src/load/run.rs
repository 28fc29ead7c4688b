//! What all clients of a run share: its scenario, its phase, its counts and its ledger.
//!
//! ```text
//! warm up → measure → settle (consumers catch up) → stop
//!                              └─ with other processes: → dry (until the queue is empty) ─┘
//! ```
//! Only what happens in `measure` counts towards rates, and only what begins in it, or was due in
//! it, towards percentiles, whenever it ends; every id counts towards the verdict.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    ledger::{Ledger, Order},
    report::{Cost, Snapshot},
    scenario::Scenario,
    template::Grouping,
};
use crate::{
    live::{Event, Live},
    process,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    WarmUp,
    Measure,
    Settle,
    /// Nobody sends any more; a consumer that finds nothing ends.
    Dry,
    Stop,
}

/// What clients count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Sent,
    Received,
    Deleted,
    Requests,
    Empty,
    FailedRequests,
    FailedEntries,
    ClosedByServer,
    /// Received and left undeleted on purpose.
    Kept,
    /// Receives that may have reached the server and had no answer: it may have given out messages.
    Unanswered,
}

pub(crate) const COUNTS: usize = 10;

/// What all clients of a run share.
pub(crate) struct Run {
    pub(crate) scenario: Scenario,
    /// As the endpoint calls it.
    pub(crate) queue: String,
    pub(crate) ledger: Ledger,
    started: Instant,
    /// When measuring began, in µs since `started`; it has not while this is the largest number.
    measured_from_us: AtomicU64,
    /// When it ended, likewise.
    measured_to_us: AtomicU64,
    phase: AtomicU8,
    pub(super) producing: AtomicUsize,
    /// Consumers that found the queue empty after all was sent.
    pub(super) dry: AtomicUsize,
    counts: [AtomicU64; COUNTS],
    pub(super) seconds: Mutex<Vec<[u64; COUNTS]>>,
    /// Where somebody watches.
    pub(super) live: Option<Arc<Live>>,
    first_error: Mutex<Option<String>>,
    last_error: Mutex<Option<String>>,
    /// Why the run ended before its time.
    gone: OnceLock<String>,
    /// When a message was last sent, received or deleted, in µs since `started`.
    progress_us: AtomicU64,
}

impl Run {
    pub(super) fn new(scenario: &Scenario, queue: &str) -> Run {
        let is_fifo = scenario.shape.grouping == Grouping::Fifo;
        let order = if is_fifo { Order::Fifo } else { Order::Any };
        let tag = process::now().as_micros() as u32;
        let ledger = match &scenario.together {
            Some(together) => Ledger::new(together.run, &together.others, order),
            None => Ledger::new(tag, &[], order),
        };
        Run {
            scenario: scenario.clone(),
            queue: queue.to_owned(),
            ledger,
            started: Instant::now(),
            measured_from_us: AtomicU64::new(u64::MAX),
            measured_to_us: AtomicU64::new(u64::MAX),
            phase: AtomicU8::new(0),
            producing: AtomicUsize::new(0),
            dry: AtomicUsize::new(0),
            counts: Default::default(),
            seconds: Mutex::default(),
            live: scenario.progress.live().if_watched(),
            first_error: Mutex::default(),
            last_error: Mutex::default(),
            gone: OnceLock::new(),
            progress_us: AtomicU64::new(0),
        }
    }

    /// A run whose messages were sent by another: their ledger goes on, everything else begins
    /// anew.
    pub(super) fn after(loaded: Run, scenario: &Scenario, queue: &str) -> Run {
        let Run { ledger, started, .. } = loaded;
        Run { ledger, started, ..Run::new(scenario, queue) }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            2 => Phase::Settle,
            3 => Phase::Dry,
            _ => Phase::Stop,
        }
    }

    /// Messages that may be sent in all.
    pub(crate) fn limit(&self) -> u64 {
        match self.scenario.count {
            0 => u64::MAX,
            count => count,
        }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.us_at(Instant::now())
    }

    /// In µs since the run started.
    pub(super) fn us_at(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.started).as_micros() as u64
    }

    /// When measuring began, if it has.
    pub(super) fn measured_since(&self) -> Option<Instant> {
        let from_us = self.measured_from_us.load(Relaxed);
        (from_us != u64::MAX).then(|| self.started + Duration::from_micros(from_us))
    }

    /// When measuring ended, if it has.
    pub(super) fn measured_until(&self) -> Option<Instant> {
        let to_us = self.measured_to_us.load(Relaxed);
        (to_us != u64::MAX).then(|| self.started + Duration::from_micros(to_us))
    }

    /// When a stage of the schedule ends, if it does and that is known yet.
    pub(super) fn stage_end(&self, stage: usize) -> Option<Instant> {
        let end = self.scenario.pace.stage_end(stage)?;
        let from_us = self.measured_from_us.load(Relaxed);
        let end = Duration::from_micros(from_us).checked_add(end).filter(|_| from_us < u64::MAX);
        self.started.checked_add(end?)
    }

    /// The stage in which something is measured that began at an instant; `None` if it is not.
    pub(super) fn stage_at(&self, at: Instant) -> Option<usize> {
        let (at_us, from_us) = (self.us_at(at), self.measured_from_us.load(Relaxed));
        if at_us < from_us || at_us >= self.measured_to_us.load(Relaxed) {
            return None;
        }
        Some(self.scenario.pace.stage_at(Duration::from_micros(at_us - from_us)))
    }

    /// The stage of the schedule.
    pub(crate) fn stage(&self) -> usize {
        let from_us = self.measured_from_us.load(Relaxed);
        let measured_us = self.now_us().saturating_sub(from_us);
        self.scenario.pace.stage_at(Duration::from_micros(measured_us))
    }

    pub(crate) fn add(&self, count: Count, number: u64) {
        self.counts[count as usize].fetch_add(number, Relaxed);
        if number > 0 && matches!(count, Count::Sent | Count::Received | Count::Deleted) {
            self.progress_us.fetch_max(self.now_us(), Relaxed);
        }
        let event = match count {
            Count::Sent => Event::Sent,
            Count::Received => Event::Received,
            Count::Deleted => Event::Deleted,
            Count::Requests => Event::Requests,
            Count::FailedRequests => Event::Failed,
            Count::ClosedByServer => Event::Closed,
            Count::Empty | Count::FailedEntries | Count::Kept | Count::Unanswered => return,
        };
        self.show(event, number);
    }

    /// Tells who watches. As in a report, only what happens while it is measured counts, but for
    /// connections: those are opened before.
    pub(crate) fn show(&self, event: Event, number: u64) {
        let Some(live) = &self.live else { return };
        if number > 0 && (event == Event::Opened || self.phase() == Phase::Measure) {
            live.add(event, number);
        }
    }

    /// Messages sent and not yet received, as far as this process can tell.
    pub(crate) fn backlog(&self) -> u64 {
        if self.scenario.together.is_none() {
            return self.ledger.waiting();
        }
        self.count(Count::Sent).saturating_sub(self.count(Count::Received))
    }

    /// Counters by whole second of the measured phase.
    pub(crate) fn seconds(&self) -> Vec<[u64; COUNTS]> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a failed request and keeps the texts of the first error and of the last.
    pub(crate) fn fail(&self, error: &anyhow::Error) {
        self.add(Count::FailedRequests, 1);
        let text = format!("{error:#}");
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| text.clone());
        drop(first);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn first_error(&self) -> Option<String> {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note_gone(&self, why: String) {
        self.gone.get_or_init(|| why);
    }

    /// Why the run ended before its time, if the server was gone.
    pub(super) fn gone(&self) -> Option<&String> {
        self.gone.get()
    }

    pub(super) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Relaxed)
    }

    pub(super) fn enter(&self, phase: Phase) {
        let now_us = self.now_us();
        match phase {
            Phase::WarmUp => {}
            Phase::Measure => self.measured_from_us.store(now_us, Relaxed),
            Phase::Settle | Phase::Dry | Phase::Stop => {
                self.measured_to_us.fetch_min(now_us, Relaxed);
            }
        }
        self.phase.store(phase as u8, Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let counts = self.snapshot_counts();
        let at = Instant::now().into_std();
        Snapshot { at, counts, cost: Cost::now(self.scenario.server_pid) }
    }

    /// A snapshot as of the last message's answer: that all is done is noticed later.
    pub(super) fn snapshot_of_last_progress(&self) -> Snapshot {
        let snapshot = self.snapshot();
        match self.progress_us.load(Relaxed) {
            0 => snapshot,
            last_us => {
                let at = self.started + Duration::from_micros(last_us);
                Snapshot { at: at.into_std(), ..snapshot }
            }
        }
    }

    pub(super) fn snapshot_counts(&self) -> [u64; COUNTS] {
        std::array::from_fn(|index| self.counts[index].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Mode;

    #[test]
    fn a_count_is_reached_when_its_last_answer_came_however_late_that_is_noticed() {
        let run = Run::new(&Scenario::to_nowhere(Mode::Drain, 1), "q");
        // No answer comes within the microsecond in which a run starts.
        std::thread::sleep(Duration::from_micros(10));
        run.add(Count::Deleted, 1);
        let answered = Instant::now();
        run.add(Count::Empty, 1);

        let end = run.snapshot_of_last_progress();

        assert!(end.at <= answered.into_std());
        assert_eq!(end.counts[Count::Empty as usize], 1);
    }
}
