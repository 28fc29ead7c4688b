//! Cores that wait for work awake while there is much to do.
//!
//! A core without work sleeps, and waking it takes time: a virtual one has to be brought back by
//! its hypervisor, which costs some 20 µs, and a request that meets few others pays that several
//! times (for the worker, the thread that commits, the disk's interrupt, the client). So while
//! requests keep coming, Linux is asked to have such cores poll instead: the kernel's CPU latency
//! QoS, asked through an open file, so that it ends with the process however that ends.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{clock::lock, counters::Counters};

/// Whoever has it open says how long waking a core may take: Documentation/power/pm_qos_interface.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// Microseconds; no time at all: cores poll.
const POLL: i32 = 0;
/// The kernel's default (PM_QOS_DEFAULT_VALUE).
const SLEEP: i32 = -1;

/// Requests a second for each core, from which on cores poll.
const BUSY: f64 = 1000.0;
/// Below which they sleep again.
const CALM: f64 = 500.0;
/// What a rate is taken over at least, to see that it has risen.
const MOMENT: Duration = Duration::from_millis(10);

/// Has cores poll while the server is busy.
#[derive(Debug)]
pub(crate) struct IdlePolling {
    counters: Arc<Counters>,
    cores: f64,
    /// There is nothing to look for: cores poll already, or never will.
    is_settled: AtomicBool,
    /// None: never.
    state: Option<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    device: File,
    is_polling: bool,
    latest: Seen,
    /// By the last sweep.
    swept: Seen,
}

/// Requests until some time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    requests: u64,
}

impl IdlePolling {
    /// Does nothing unless it `is_wanted` and the kernel lets us.
    pub(crate) fn new(is_wanted: bool, counters: Arc<Counters>) -> IdlePolling {
        let opened = is_wanted.then(|| open(Path::new(DEVICE)));
        let device = opened.and_then(|opened| {
            opened.inspect_err(|error| tracing::warn!(%error, DEVICE, "idle cores sleep")).ok()
        });
        let cores = thread::available_parallelism().map_or(1, usize::from);
        IdlePolling::with(device, cores, Instant::now(), counters)
    }

    fn with(
        device: Option<File>,
        cores: usize,
        at: Instant,
        counters: Arc<Counters>,
    ) -> IdlePolling {
        let seen = Seen { at, requests: 0 };
        let state = |device| State { device, is_polling: false, latest: seen, swept: seen };
        IdlePolling {
            counters,
            cores: cores as f64,
            is_settled: AtomicBool::new(device.is_none()),
            state: device.map(|device| Mutex::new(state(device))),
        }
    }

    /// Now and then among requests: has cores poll as soon as there are many.
    pub(crate) fn look(&self) {
        if !self.is_settled.load(Relaxed) {
            self.look_at(Instant::now(), self.counters.requests());
        }
    }

    /// Once a second: lets cores sleep if there are few.
    pub(crate) fn sweep(&self) {
        if self.state.is_some() {
            self.sweep_at(Instant::now(), self.counters.requests());
        }
    }

    fn look_at(&self, at: Instant, requests: u64) {
        let Some(state) = &self.state else { return };
        let mut state = lock(state);
        let now = Seen { at, requests };
        let is_too_soon = at.saturating_duration_since(state.latest.at) < MOMENT;
        if is_too_soon || state.is_polling {
            return;
        }
        let rate = now.rate_since(std::mem::replace(&mut state.latest, now));
        if rate >= BUSY * self.cores {
            self.set(&mut state, true);
        }
    }

    fn sweep_at(&self, at: Instant, requests: u64) {
        let Some(state) = &self.state else { return };
        let mut state = lock(state);
        let now = Seen { at, requests };
        let rate = now.rate_since(std::mem::replace(&mut state.swept, now));
        if state.is_polling && rate < CALM * self.cores {
            state.latest = now;
            self.set(&mut state, false);
        }
    }

    fn set(&self, state: &mut State, is_polling: bool) {
        let latency_us = if is_polling { POLL } else { SLEEP };
        if let Err(error) = state.device.write_all(&latency_us.to_ne_bytes()) {
            tracing::warn!(%error, is_polling, "how idle cores wait cannot be changed");
            return;
        }
        tracing::debug!(is_polling, "idle cores wait otherwise");
        state.is_polling = is_polling;
        self.is_settled.store(is_polling, Relaxed);
        self.counters.set_polling(is_polling);
    }
}

impl Seen {
    /// Requests a second.
    fn rate_since(self, before: Seen) -> f64 {
        let passed = self.at.saturating_duration_since(before.at).max(Duration::from_millis(1));
        self.requests.saturating_sub(before.requests) as f64 / passed.as_secs_f64()
    }
}

fn open(device: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Busy {
        polling: IdlePolling,
        at: Instant,
        requests: u64,
    }

    impl Busy {
        fn new(device: &Path, cores: usize) -> Busy {
            let at = Instant::now();
            let counters = Arc::new(Counters::new(1));
            let device = open(device).unwrap();
            Busy { polling: IdlePolling::with(Some(device), cores, at, counters), at, requests: 0 }
        }

        fn is_active(&self) -> bool {
            self.polling.counters.totals().is_polling
        }

        /// Whether cores poll when so many requests more have come in the time.
        fn looks(&mut self, requests: u64, passed: Duration) -> bool {
            self.requests += requests;
            self.at += passed;
            self.polling.look_at(self.at, self.requests);
            self.is_active()
        }

        fn sweeps(&mut self, requests: u64) -> bool {
            self.requests += requests;
            self.at += SECOND;
            self.polling.sweep_at(self.at, self.requests);
            self.is_active()
        }
    }

    #[test]
    fn cores_poll_while_there_are_many_requests_for_each() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let mut busy = Busy::new(device.path(), 2);

        assert!(!busy.looks(1999, SECOND));
        assert!(!busy.looks(64, MOMENT / 2), "too soon to tell");
        assert!(busy.looks(64, MOMENT / 2));

        assert!(busy.sweeps(1000));
        assert!(!busy.sweeps(999));
        let said = [POLL.to_ne_bytes(), SLEEP.to_ne_bytes()].concat();
        assert_eq!(std::fs::read(device.path()).unwrap(), said);
        assert!(!busy.looks(10, MOMENT));
        assert!(busy.looks(20, MOMENT));
    }

    #[test]
    fn a_burst_after_a_pause_shows_at_the_second_look() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let mut busy = Busy::new(device.path(), 1);

        assert!(!busy.looks(64, 10 * SECOND));
        assert!(busy.looks(64, MOMENT));
    }
}
