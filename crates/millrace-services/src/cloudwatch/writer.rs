//! The thread "metrics": it closes each minute and does what changes metrics or alarms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::Timestamp;
use tokio::sync::oneshot;

use super::alarms::lock;
use super::jobs::{Jobs, Taken};
use super::monitor::{After, Shared, Write, caught};
use super::rounds::Rounds;

/// Jobs that share one sync, and how long they may take together: the minute is to end meanwhile.
const JOBS_PER_SYNC: usize = 64;
const TIME_PER_SYNC: Duration = Duration::from_millis(100);
/// How often old data points are looked for.
const EXPIRE_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = millrace_metrics::BASE_PERIOD_S * 1_000;

pub(super) struct Writer {
    shared: Arc<Shared>,
    jobs: Arc<Jobs<Write>>,
    next_tick: Timestamp,
    next_expiry: Timestamp,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, jobs: Arc<Jobs<Write>>) -> Writer {
        let now = shared.now();
        Writer { shared, jobs, next_tick: now, next_expiry: now }
    }

    pub(super) fn run(mut self) {
        let Shared { queues, store, .. } = &*self.shared.clone();
        let _ = caught("the look at what was active", || queues.resume(store));
        // At once, however soon the end comes: what an earlier process owes is done.
        self.tick();
        while !self.jobs.is_closed() {
            let wait_ms = self.next_tick.millis_since(self.shared.now());
            if wait_ms == 0 {
                // First: jobs may come without a pause.
                self.tick();
                continue;
            }
            if let Some(first) = self.jobs.take_within(Duration::from_millis(wait_ms)) {
                self.work(first);
            }
        }
        if let Err(error) = store.flush(self.shared.now()) {
            tracing::error!(%error, "the metrics of the last minute are lost");
        }
    }

    /// Runs this job and those that wait, in turn, and syncs once for all of them.
    fn work(&mut self, first: Taken<Write>) {
        let began = Instant::now();
        let mut next = Some(first);
        let (mut waiting, mut ticks) = (Vec::new(), Vec::new());
        let mut done = 0;
        while let Some(Taken { account, job }) = next.take() {
            match job {
                Write::Job(run) => {
                    if let After::Sync(reply) = run() {
                        waiting.push(reply);
                    }
                }
                Write::Tick(reply) => ticks.push(reply),
            }
            self.jobs.done(&account);
            done += 1;
            if done < JOBS_PER_SYNC && began.elapsed() < TIME_PER_SYNC {
                next = self.jobs.take_within(Duration::ZERO);
            }
        }
        if !waiting.is_empty() {
            let synced = self.shared.store.sync();
            if let Err(error) = &synced {
                tracing::error!(%error, "metrics are not durable");
            }
            waiting.into_iter().for_each(|reply| reply(synced.is_ok()));
        }
        if !ticks.is_empty() {
            self.tick();
            ticks
                .into_iter()
                .for_each(|reply: oneshot::Sender<()>| self.shared.rounds.notify(reply));
        }
    }

    /// Closes the minute if it has ended.
    fn tick(&mut self) {
        let now = self.shared.now();
        if now < self.next_tick {
            return;
        }
        // Also if what follows fails: minutes that cannot be written end on time.
        let begun_ms = now.0 % MINUTE_MS;
        self.next_tick = now.plus_millis(MINUTE_MS - begun_ms);
        let _ = caught("the end of a minute", || self.close_minute(now));
        Rounds::begin(&self.shared, now);
        if now >= self.next_expiry {
            self.next_expiry = now.plus_millis(EXPIRE_MS);
            let _ = caught("the roll-up of old metrics", || self.expire(now));
        }
    }

    fn close_minute(&mut self, now: Timestamp) {
        self.shared.topics.resume(&self.shared.store, now);
        let closed = self.shared.store.close_minute(now);
        match closed.and_then(|next| self.shared.store.sync().map(|()| next)) {
            Ok(next) => self.next_tick = next,
            Err(error) => tracing::error!(%error, "metrics of a minute are not stored yet"),
        }
    }

    fn expire(&self, now: Timestamp) {
        if let Err(error) = lock(&self.shared.actions.book).forget(now) {
            tracing::warn!(%error, "the history of alarms is not shortened yet");
        }
        if let Err(error) = self.shared.store.expire(now) {
            tracing::error!(%error, "old metrics are not rolled up");
        }
    }
}
