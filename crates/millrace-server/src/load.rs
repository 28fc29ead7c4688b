//! How busy a worker is, and which worker has time for one more connection.
//!
//! The fewer workers serve a load, the less it costs: each finds more requests when it wakes, and
//! more of them share a commit. So connections go to the first worker that has time, and from one
//! that has none some move on, until one worker can serve them all again. A worker has none as soon
//! as it runs, or waits for a core, all the time: what it waits for is a core that others use, and
//! connections are better off elsewhere.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Up to which share of its time a worker takes new connections before the next one does.
const HAS_TIME: Load = Load(600);
/// From which share on connections leave it.
const IS_FULL: Load = Load(900);
/// Up to which share of one worker's time two workers' connections are served by one again: far
/// from where some leave it.
const FITS_ONE: Load = Load(400);
/// Below which share a worker might as well have no connections.
const IS_IDLE: Load = Load(10);

/// Where the kernel tells how long the calling thread ran and waited for a core, in nanoseconds.
const SCHEDULED: &str = "/proc/thread-self/schedstat";

/// Share of a thread's time, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load(u32);

/// A worker's load as others see it.
#[derive(Debug, Default)]
pub(crate) struct SharedLoad(AtomicU32);

/// Measures the calling thread.
pub(crate) struct Meter {
    at: Instant,
    ran: Duration,
    waited: Duration,
}

/// What a thread did with its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) passed: Duration,
    pub(crate) ran: Duration,
    /// For a core.
    pub(crate) waited: Duration,
}

impl Load {
    /// The load of a worker of which nothing is known: connections are then spread evenly.
    pub(crate) const UNKNOWN: Load = Load(u32::MAX / 2);

    /// Whether a worker takes new connections rather than leave them to the next.
    pub(crate) fn has_time(self) -> bool {
        self < HAS_TIME
    }

    /// How many of its `active` connections are to leave a worker of this load, so that it and
    /// those of the `others` that have time become equally busy.
    pub(crate) fn to_leave(self, active: usize, others: impl Iterator<Item = Load>) -> usize {
        if self < IS_FULL || self == Load::UNKNOWN {
            return 0;
        }
        let (mut sum, mut workers) = (self.0 as usize, 1);
        for other in others.filter(|other| other.has_time()) {
            sum += other.0 as usize;
            workers += 1;
        }
        active - (active * sum).div_ceil(workers * self.0 as usize).min(active)
    }

    /// Which worker is to serve the connections of this one too, given the loads of all `before`
    /// and `behind` it. The last one that has any leaves first, so that no two join at once.
    pub(crate) fn joins(
        self,
        mut before: impl Iterator<Item = Load>,
        mut behind: impl Iterator<Item = Load>,
    ) -> Option<usize> {
        if self < IS_IDLE || behind.any(|other| other >= IS_IDLE) {
            return None;
        }
        before.position(|other| other.0.saturating_add(self.0) <= FITS_ONE.0)
    }

    /// What one of `active` connections adds to another worker's load.
    pub(crate) fn of_each(self, active: usize) -> Load {
        Load(self.0 / u32::try_from(active.max(1)).unwrap_or(u32::MAX))
    }
}

impl SharedLoad {
    pub(crate) fn get(&self) -> Load {
        Load(self.0.load(Relaxed))
    }

    pub(crate) fn set(&self, load: Load) {
        self.0.store(load.0, Relaxed);
    }

    /// Notes a connection that comes before it shows.
    pub(crate) fn add(&self, load: Load) {
        self.0.fetch_add(load.0, Relaxed);
    }
}

impl Meter {
    /// From now on; none where the kernel does not tell.
    pub(crate) fn new() -> Option<Meter> {
        let text = std::fs::read_to_string(SCHEDULED).ok()?;
        let mut nanoseconds = text.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || Some(Duration::from_nanos(nanoseconds.next()?.ok()?));
        Some(Meter { at: Instant::now(), ran: next()?, waited: next()? })
    }

    /// What the calling thread did since the last time.
    pub(crate) fn measure(&mut self) -> Option<Times> {
        let before = std::mem::replace(self, Meter::new()?);
        Some(Times {
            passed: self.at.duration_since(before.at).max(Duration::from_micros(1)),
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        })
    }
}

impl Times {
    pub(crate) fn load(self) -> Load {
        let share = (self.ran + self.waited).as_secs_f64() / self.passed.as_secs_f64();
        Load((share.clamp(0.0, 1.0) * 1000.0) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_or_waits_for_a_core_all_the_time_is_full() {
        // Where the kernel does not tell, no worker is known to be full.
        let Some(mut meter) = Meter::new() else { return };
        let mut spin = || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
            meter.measure().unwrap().load()
        };

        // What a hypervisor takes away is neither, but it does not take as much for seconds.
        let spun: Vec<Load> = (0..100).map(|_| spin()).take_while(|spun| *spun < IS_FULL).collect();

        assert!(spun.len() < 100, "{spun:?}");
    }

    #[test]
    fn a_full_worker_shares_with_those_that_have_time() {
        let leave =
            |load, others: &[u32]| Load(load).to_leave(64, others.iter().copied().map(Load));

        assert_eq!(leave(899, &[0]), 0);
        assert_eq!(leave(1000, &[0]), 32);
        assert_eq!(leave(1000, &[500]), 16);
        assert_eq!(leave(1000, &[0, 0, 0, 900]), 48);
        assert_eq!(leave(1000, &[600]), 0, "nobody else has time");
        assert_eq!(leave(1000, &[]), 0, "there is nobody else");
        assert_eq!(leave(Load::UNKNOWN.0, &[0]), 0);
        assert_eq!(Load(960).of_each(64), Load(15));
        assert_eq!(Load(960).of_each(0), Load(960));
    }

    #[test]
    fn the_last_worker_joins_the_first_that_has_time_for_both() {
        let joins = |load, before: &[u32], behind: &[u32]| {
            let loads = |all: &[u32]| all.iter().copied().map(Load).collect::<Vec<_>>();
            Load(load).joins(loads(before).into_iter(), loads(behind).into_iter())
        };

        assert_eq!(joins(100, &[250], &[]), Some(0));
        assert_eq!(joins(100, &[350, 250], &[0, 9]), Some(1));
        assert_eq!(joins(100, &[350], &[]), None, "too much for one");
        assert_eq!(joins(100, &[250], &[0, 50]), None, "another one leaves first");
        assert_eq!(joins(5, &[250], &[]), None, "has nothing to do");
        assert_eq!(joins(100, &[], &[]), None, "is the first");
        assert_eq!(joins(Load::UNKNOWN.0, &[Load::UNKNOWN.0], &[]), None);
    }
}
