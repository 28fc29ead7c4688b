//! Which core a worker runs on.
//!
//! By itself the kernel wakes a worker where its waker runs or where it ran before, and on few busy
//! cores it looks no further: both of two workers wait for one core then, while the other idles. So
//! a worker that serves many connections stays on a core of its own. One that serves few is better
//! off next to its client, since an idle core takes long to wake.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the calling thread, a worker, runs.
pub(crate) struct Affinity {
    /// The worker's number.
    index: usize,
    workers: usize,
    /// Where the worker may run otherwise, while it stays on one core.
    free: Option<CpuSet>,
    is_refused: bool,
}

impl Affinity {
    /// Anywhere, as threads begin.
    pub(crate) fn new(index: usize, workers: usize) -> Affinity {
        Affinity { index, workers, free: None, is_refused: false }
    }

    /// Has the calling thread stay on its core.
    pub(crate) fn stay(&mut self) {
        if !self.is_refused
            && let Err(error) = self.choose_core()
        {
            self.refuse(error);
        }
    }

    /// Lets it run anywhere again.
    pub(crate) fn leave(&mut self) {
        if let Some(free) = self.free.take()
            && let Err(error) = sched_setaffinity(None, &free)
        {
            self.refuse(error);
        }
    }

    /// Only where there are as many workers as cores: otherwise another core may be the better one.
    fn choose_core(&mut self) -> rustix::io::Result<()> {
        let free = sched_getaffinity(None)?;
        if free.count() as usize != self.workers {
            return Ok(());
        }
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| free.is_set(*core));
        if let Some(core) = cores.nth(self.index) {
            let mut own = CpuSet::new();
            own.set(core);
            sched_setaffinity(None, &own)?;
            self.free = Some(free);
        }
        Ok(())
    }

    fn refuse(&mut self, error: rustix::io::Errno) {
        tracing::debug!(%error, "a worker is left to the scheduler");
        self.is_refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_stay_on_different_cores() {
        let all = sched_getaffinity(None).unwrap();
        let workers = all.count() as usize;
        let mut taken = CpuSet::new();

        for index in 0..workers {
            let mut affinity = Affinity::new(index, workers);
            affinity.stay();
            let own = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|core| own.is_set(*core)).for_each(|core| taken.set(core));
            affinity.leave();
        }

        assert_eq!(taken, all);
    }

    #[test]
    fn as_many_workers_as_cores_or_the_scheduler_places_them() {
        let all = sched_getaffinity(None).unwrap().count();
        let mut affinity = Affinity::new(0, all as usize + 1);

        affinity.stay();

        assert_eq!(sched_getaffinity(None).unwrap().count(), all);
    }
}
