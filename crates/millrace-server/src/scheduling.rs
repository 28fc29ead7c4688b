//! How a worker is scheduled: few busy connections ask for short waits, many for few switches.
//!
//! By itself a thread that is woken takes the core from whoever woke it. A client on the same core
//! is interrupted by each request that it sends then, and the worker by the answer: two switches a
//! request, for which the next request is there a little earlier. So a worker that serves many
//! connections is scheduled as a batch (SCHED_BATCH, sched(7)): it waits until its waker pauses, and
//! finds several requests. Its share of the core stays the same. It also keeps to a core of its own,
//! see [`Affinity`].

use thread_priority::{
    Error, NormalThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};

use crate::affinity::Affinity;

/// Connections with requests since the last look, from which on a worker has many.
const MANY: usize = 3;
/// Up to which it has few again.
const FEW: usize = 1;

const ORDINARY: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
const BATCH: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);

/// Of the calling thread, a worker.
pub(crate) struct Scheduling {
    affinity: Affinity,
    /// The thread's niceness, which is set together with a policy; none if it has a policy of its
    /// own or may not change it.
    priority: Option<ThreadPriority>,
    is_busy: bool,
}

impl Scheduling {
    /// As threads begin.
    pub(crate) fn new(index: usize, workers: usize) -> Scheduling {
        let affinity = Affinity::new(index, workers);
        Scheduling { affinity, priority: niceness(), is_busy: false }
    }

    /// Schedules the calling thread for so many connections that had requests of late.
    pub(crate) fn observe(&mut self, active: usize) {
        let is_busy = if self.is_busy { active > FEW } else { active >= MANY };
        if is_busy == self.is_busy {
            return;
        }
        self.is_busy = is_busy;
        if is_busy {
            self.affinity.stay();
            self.set_policy(BATCH);
        } else {
            self.affinity.leave();
            self.set_policy(ORDINARY);
        }
    }

    fn set_policy(&mut self, policy: ThreadSchedulePolicy) {
        let Some(priority) = self.priority else { return };
        if let Err(error) = set_policy(policy, priority) {
            tracing::debug!(?error, "a worker keeps its scheduling policy");
            self.priority = None;
        }
    }
}

fn set_policy(policy: ThreadSchedulePolicy, priority: ThreadPriority) -> Result<(), Error> {
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
}

/// The priority that stands for the calling thread's niceness, if it is scheduled as threads are
/// unless somebody wants otherwise.
fn niceness() -> Option<ThreadPriority> {
    if thread_schedule_policy().ok()? != ORDINARY {
        return None;
    }
    let niceness = rustix::process::getpriority_process(None).ok()?;
    (0..=100_u8)
        .filter_map(|value| ThreadPriorityValue::try_from(value).ok())
        .map(ThreadPriority::Crossplatform)
        .find(|priority| priority.to_posix(ORDINARY).is_ok_and(|found| found == niceness))
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    fn policy_after(scheduling: &mut Scheduling, active: usize) -> ThreadSchedulePolicy {
        scheduling.observe(active);
        thread_schedule_policy().unwrap()
    }

    #[test]
    fn a_worker_with_many_connections_is_a_batch_until_it_has_few() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let mut scheduling = Scheduling::new(0, 1);

        assert_eq!(policy_after(&mut scheduling, MANY - 1), ORDINARY);
        assert_eq!(policy_after(&mut scheduling, MANY), BATCH);
        assert_eq!(niceness(), before);
        assert_eq!(policy_after(&mut scheduling, FEW + 1), BATCH);
        assert_eq!(policy_after(&mut scheduling, FEW), ORDINARY);
        assert_eq!(niceness(), before);
    }

    #[test]
    fn a_policy_that_somebody_chose_stays() {
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        set_policy(idle, ThreadPriority::Min).unwrap();
        let mut scheduling = Scheduling::new(0, 1);

        assert_eq!(policy_after(&mut scheduling, MANY), idle);
        assert_eq!(policy_after(&mut scheduling, FEW), idle);
    }

    #[test]
    fn a_worker_with_many_connections_stays_until_it_has_few() {
        let all = sched_getaffinity(None).unwrap().count();
        let mut scheduling = Scheduling::new(0, all as usize);
        let mut cores_after = |active| {
            scheduling.observe(active);
            sched_getaffinity(None).unwrap().count()
        };

        assert_eq!(cores_after(MANY - 1), all);
        assert_eq!(cores_after(MANY), 1);
        assert_eq!(cores_after(FEW + 1), 1);
        assert_eq!(cores_after(FEW), all);
    }
}
