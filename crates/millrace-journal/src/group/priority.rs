//! Priorities of the journal's threads.
//!
//! A committing thread of ordinary priority, once woken, may wait milliseconds for a core that
//! others keep busy, and everybody who waits for the commit waits with it. Real-time priority takes
//! that away; but when many clients keep the cores busy, it also takes the cores from the very
//! threads whose appends the next group would gather: groups get small, and every commit costs the
//! same. So it is asked for while groups are small, and given up when they are not. The price: with
//! many clients on cores that other programs keep busy, commits wait for a core again.

use std::num::NonZeroU64;

use thread_priority::{
    Error, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority,
    ThreadPriorityValue, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Records in a group, on average, above which commits have ordinary priority again.
const MANY_RECORDS: f32 = 3.0;
/// Below which they ask for real-time priority.
const FEW_RECORDS: f32 = 1.5;
/// The average reaches back about so many groups.
const REACH: f32 = 64.0;

/// The calling thread's priority and what decides it.
pub(super) struct Priority {
    /// Ordinary scheduling with the niceness that the thread began with.
    ordinary: Option<ThreadPriority>,
    is_real_time: bool,
    /// It takes a privilege (CAP_SYS_NICE or a limit on RTPRIO) that not every installation has.
    is_refused: bool,
    average_records: f32,
}

impl Priority {
    /// Of the calling thread, as threads begin: ordinary, until some groups were seen.
    pub(super) fn new() -> Self {
        let ordinary = ordinary();
        // Without a way back there is no way there.
        let is_refused = ordinary.is_none();
        Self { ordinary, is_real_time: false, is_refused, average_records: FEW_RECORDS }
    }

    /// Notes a group's size and changes the calling thread's priority if it is time to.
    pub(super) fn observe(&mut self, records: u32) {
        self.average_records += (records as f32 - self.average_records) / REACH;
        let wants = match self.is_real_time {
            true => self.average_records <= MANY_RECORDS,
            false => self.average_records < FEW_RECORDS,
        };
        if wants == self.is_real_time || self.is_refused {
            return;
        }
        self.is_real_time = wants;
        let changed = match self.ordinary {
            Some(ordinary) if !wants => set(ORDINARY, ordinary),
            _ => set(REAL_TIME, ThreadPriority::Min),
        };
        if let Err(error) = changed {
            tracing::debug!(?error, "commits keep their ordinary priority");
            self.is_refused = true;
        }
    }
}

/// Niceness of what prepares segments and writes sidecars: it can wait, those who serve cannot.
const BACKGROUND_NICENESS: i32 = 15;

/// Has the calling thread give way to all ordinary ones.
pub(super) fn give_way() {
    // On Linux, of the calling thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, BACKGROUND_NICENESS) {
        tracing::debug!(%error, "background work keeps its priority");
    }
}

/// Has waits of the calling thread end when they should, not up to 50 µs later as threads begin.
pub(super) fn wake_on_time() {
    if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::debug!(%error, "short waits take longer");
    }
}

const ORDINARY: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
/// Used at its lowest priority.
const REAL_TIME: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);

fn set(policy: ThreadSchedulePolicy, priority: ThreadPriority) -> Result<(), Error> {
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
}

/// The priority that stands for the niceness that the calling thread has. Going back to ordinary
/// scheduling sets a niceness, and any other would be wrong: a higher one starves the commits as
/// soon as others keep the cores busy, a lower one takes a privilege.
fn ordinary() -> Option<ThreadPriority> {
    let niceness = rustix::process::getpriority_process(None).ok()?;
    (0..=100_u8)
        .filter_map(|value| ThreadPriorityValue::try_from(value).ok())
        .map(ThreadPriority::Crossplatform)
        .find(|priority| priority.to_posix(ORDINARY).is_ok_and(|found| found == niceness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_to_ordinary_scheduling_keeps_the_niceness() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();

        set(ORDINARY, ordinary().unwrap()).unwrap();

        assert_eq!(niceness(), before);
    }
}
