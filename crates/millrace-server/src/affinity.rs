//! Which core a worker runs on.
//!
//! By itself the kernel wakes a worker where its waker runs or where it ran before, and on few busy
//! cores it looks no further: both of two workers wait for one core then, while the other idles. So
//! a worker that serves many connections stays on a core of its own. One that serves few is better
//! off next to its client, since an idle core takes long to wake.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Connections with requests since the last look, from which on a worker stays on its core.
const MANY: usize = 3;
/// Up to which it is free again.
const FEW: usize = 1;

/// Where the calling thread, a worker, runs.
pub(crate) struct Affinity {
    /// Of this worker among all.
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

    /// Places the calling thread after so many connections had requests of late.
    pub(crate) fn observe(&mut self, active: usize) {
        if self.is_refused {
            return;
        }
        let placed = match &self.free {
            None if active >= MANY => self.stay(),
            Some(free) if active <= FEW => sched_setaffinity(None, free).map(|()| self.free = None),
            _ => Ok(()),
        };
        if let Err(error) = placed {
            tracing::debug!(%error, "a worker is left to the scheduler");
            self.is_refused = true;
        }
    }

    /// Only where there are as many workers as cores: otherwise another core may be the better one.
    fn stay(&mut self) -> rustix::io::Result<()> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core_of(affinity: &mut Affinity, active: usize) -> u32 {
        affinity.observe(active);
        sched_getaffinity(None).unwrap().count()
    }

    #[test]
    fn a_worker_with_many_connections_stays_until_it_has_few() {
        let all = sched_getaffinity(None).unwrap().count();
        let mut affinity = Affinity::new(0, all as usize);

        assert_eq!(core_of(&mut affinity, MANY - 1), all);
        assert_eq!(core_of(&mut affinity, MANY), 1);
        assert_eq!(core_of(&mut affinity, FEW + 1), 1);
        assert_eq!(core_of(&mut affinity, FEW), all);
    }

    #[test]
    fn workers_stay_on_different_cores() {
        let all = sched_getaffinity(None).unwrap();
        let workers = all.count() as usize;
        let mut taken = CpuSet::new();

        for index in 0..workers {
            let mut affinity = Affinity::new(index, workers);
            affinity.observe(MANY);
            let own = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|core| own.is_set(*core)).for_each(|core| taken.set(core));
            affinity.observe(0);
        }

        assert_eq!(taken, all);
    }

    #[test]
    fn as_many_workers_as_cores_or_the_scheduler_places_them() {
        let all = sched_getaffinity(None).unwrap().count();
        let mut affinity = Affinity::new(0, all as usize + 1);

        assert_eq!(core_of(&mut affinity, MANY), all);
    }
}
