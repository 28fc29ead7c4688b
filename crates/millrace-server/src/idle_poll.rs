//! Cores that wait for work awake while there is much to do.
//!
//! A core without work sleeps, and waking it takes time: a virtual one has to be brought back by its
//! hypervisor, which costs some 20 µs, and a request that meets few others pays that several times
//! (for the worker, the thread that commits, the disk's interrupt, the client). So while requests
//! keep coming, Linux is asked to have such cores poll instead: the kernel's CPU latency QoS, held by
//! an open file, so that it ends with the process however that ends.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{counters::Counters, options::IdlePoll};

/// Whoever has it open says how long waking a core may take: Documentation/power/pm_qos_interface.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// No time at all: cores poll.
const NO_LATENCY_US: i32 = 0;

/// Who decides how cores wait.
const GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor";
/// The one of virtual machines.
const VIRTUAL: &str = "haltpoll";

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
    /// None: never.
    device: Option<PathBuf>,
    is_asked_for: bool,
    cores: f64,
    /// There is nothing to look for: cores poll already, or never will.
    is_settled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    latest: Seen,
    /// By the last sweep.
    swept: Seen,
    /// While cores poll.
    held: Option<File>,
}

/// Requests until some time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    requests: u64,
}

impl IdlePolling {
    /// For the machine.
    pub(crate) fn new(choice: IdlePoll, counters: Arc<Counters>) -> IdlePolling {
        let may = match choice {
            IdlePoll::Auto => is_virtual(),
            IdlePoll::On => true,
            IdlePoll::Off => false,
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let device = may.then(|| PathBuf::from(DEVICE));
        let state = State::new(Instant::now());
        IdlePolling {
            counters,
            is_settled: AtomicBool::new(device.is_none()),
            device,
            is_asked_for: choice == IdlePoll::On,
            cores: cores as f64,
            state: Mutex::new(state),
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
        if self.device.is_some() {
            self.sweep_at(Instant::now(), self.counters.requests());
        }
    }

    fn look_at(&self, at: Instant, requests: u64) {
        let mut state = self.lock();
        let now = Seen { at, requests };
        let is_too_soon = at.saturating_duration_since(state.latest.at) < MOMENT;
        if is_too_soon || self.is_settled.load(Relaxed) {
            return;
        }
        let rate = now.rate_since(std::mem::replace(&mut state.latest, now));
        if rate < BUSY * self.cores {
            return;
        }
        let Some(device) = &self.device else { return };
        match hold(device) {
            Ok(file) => {
                tracing::debug!("cores without work poll");
                state.held = Some(file);
                self.counters.set_polling(true);
            }
            Err(error) if self.is_asked_for => {
                tracing::warn!(%error, device = %device.display(), "cores without work sleep");
            }
            Err(error) => tracing::debug!(%error, "cores without work sleep"),
        }
        // Who was refused once is not let in later.
        self.is_settled.store(true, Relaxed);
    }

    fn sweep_at(&self, at: Instant, requests: u64) {
        let mut state = self.lock();
        let now = Seen { at, requests };
        let rate = now.rate_since(std::mem::replace(&mut state.swept, now));
        if state.held.is_some() && rate < CALM * self.cores {
            tracing::debug!("cores without work sleep again");
            state.held = None;
            self.counters.set_polling(false);
            state.latest = now;
            self.is_settled.store(false, Relaxed);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(at: Instant) -> State {
        let seen = Seen { at, requests: 0 };
        State { latest: seen, swept: seen, held: None }
    }
}

impl Seen {
    /// Requests a second.
    fn rate_since(self, before: Seen) -> f64 {
        let passed = self.at.saturating_duration_since(before.at).max(Duration::from_millis(1));
        self.requests.saturating_sub(before.requests) as f64 / passed.as_secs_f64()
    }
}

fn is_virtual() -> bool {
    std::fs::read_to_string(GOVERNOR).is_ok_and(|governor| governor.trim() == VIRTUAL)
}

/// Cores poll until the file is dropped.
fn hold(device: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(device)?;
    file.write_all(&NO_LATENCY_US.to_ne_bytes())?;
    Ok(file)
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
            let polling = IdlePolling {
                device: Some(device.to_owned()),
                cores: cores as f64,
                is_settled: AtomicBool::new(false),
                state: Mutex::new(State::new(at)),
                ..IdlePolling::new(IdlePoll::Off, Arc::new(Counters::new(1)))
            };
            Busy { polling, at, requests: 0 }
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
        assert_eq!(std::fs::read(device.path()).unwrap(), [0; 4]);

        assert!(busy.sweeps(1000));
        assert!(!busy.sweeps(999));
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

    #[test]
    fn who_may_not_asks_once() {
        let directory = tempfile::tempdir().unwrap();
        let device = directory.path().join("device");
        let mut busy = Busy::new(&device, 1);

        assert!(!busy.looks(5000, SECOND));
        std::fs::write(&device, "").unwrap();

        assert!(!busy.looks(5000, SECOND));
        assert_eq!(std::fs::read(&device).unwrap(), b"");
    }
}
