//! How a worker is scheduled: few busy connections ask for short waits, many for few switches.
//!
//! By itself a thread that is woken takes the core from whoever woke it. A client on the same core
//! is interrupted by each request that it sends then, and the worker by the answer: two switches a
//! request, for which the next request is there a little earlier. So a worker that serves many
//! connections is scheduled as a batch (SCHED_BATCH, sched(7)): it waits until its waker pauses,
//! and finds several requests. Its share of the core stays the same. It also keeps to a core of its
//! own, see [`Affinity`].
//!
//! Who else is on that core may not pause. A batch waits for a program that computes, even for one
//! of the least priority, until the next tick of the kernel's clock, milliseconds each time: a
//! fifth is left of the rate of eight connections. So a worker that waits longer than it runs is no
//! batch for a while.

use thread_priority::{
    Error, NormalThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};

use crate::{affinity::Affinity, load::Times};

/// Connections with requests since the last look, from which on a worker has many.
const MANY: usize = 3;
/// Up to which it has few again.
const FEW: usize = 1;
/// Looks, of which there is one a second, for which a worker that was kept waiting is no batch;
/// twice as many each time that it is again as soon as it is one.
const LEAST_PAUSE: u32 = 15;
const MOST_PAUSE: u32 = 960;

const ORDINARY: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
const BATCH: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);

/// How the calling thread, a worker, is scheduled.
pub(crate) struct Scheduling {
    affinity: Affinity,
    /// The thread's niceness, which is set together with a policy; none if it has a policy of its
    /// own or may not change it.
    priority: Option<ThreadPriority>,
    is_busy: bool,
    is_batch: bool,
    /// Looks until it may be a batch again, and with how many that began.
    pause_left: u32,
    pause: u32,
}

impl Scheduling {
    /// As threads begin.
    pub(crate) fn new(index: usize, workers: usize) -> Scheduling {
        let affinity = Affinity::new(index, workers);
        Scheduling {
            affinity,
            priority: niceness(),
            is_busy: false,
            is_batch: false,
            pause_left: 0,
            pause: 0,
        }
    }

    /// Schedules the calling thread for so many connections that had requests since the last look,
    /// and by what it did since, where the kernel tells.
    pub(crate) fn observe(&mut self, active: usize, times: Option<Times>) {
        let is_busy = if self.is_busy { active > FEW } else { active >= MANY };
        if is_busy != self.is_busy {
            self.is_busy = is_busy;
            if is_busy { self.affinity.stay() } else { self.affinity.leave() }
        }
        self.take_pause(times);
        let is_batch = is_busy && self.pause_left == 0;
        if is_batch != self.is_batch {
            self.is_batch = is_batch;
            self.set_policy(if is_batch { BATCH } else { ORDINARY });
        }
    }

    fn take_pause(&mut self, times: Option<Times>) {
        if !self.is_batch {
            self.pause_left = self.pause_left.saturating_sub(1);
        } else if times.is_some_and(is_kept_waiting) {
            self.pause = (2 * self.pause).clamp(LEAST_PAUSE, MOST_PAUSE);
            self.pause_left = self.pause;
        } else {
            self.pause = 0;
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

/// Whether others had the core while a thread was to run. Beside clients, which pause, it waits for
/// about as long as it runs.
fn is_kept_waiting(times: Times) -> bool {
    times.waited > times.passed / 10 && times.waited > times.ran + times.ran / 4
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
    use std::time::Duration;

    use rustix::thread::sched_getaffinity;

    use super::*;

    fn policy_after(scheduling: &mut Scheduling, active: usize) -> ThreadSchedulePolicy {
        scheduling.observe(active, None);
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
    fn a_worker_that_is_kept_waiting_is_no_batch_for_a_while() {
        let times = |ran, waited| {
            let [passed, ran, waited] = [1000, ran, waited].map(Duration::from_millis);
            Some(Times { passed, ran, waited })
        };
        let (waits, runs) = (times(100, 400), times(300, 300));
        let mut scheduling = Scheduling::new(0, 1);
        let mut policy_after = |times| {
            scheduling.observe(MANY, times);
            thread_schedule_policy().unwrap()
        };

        assert_eq!(policy_after(waits), BATCH, "it was none so far");
        assert_eq!(policy_after(runs), BATCH);
        for pause in [LEAST_PAUSE, 2 * LEAST_PAUSE] {
            assert_eq!(policy_after(waits), ORDINARY);
            let looks = (1..).find(|_| policy_after(waits) == BATCH);
            assert_eq!(looks, Some(pause));
        }
        assert_eq!(policy_after(runs), BATCH);
        assert_eq!(policy_after(waits), ORDINARY);
        assert_eq!((1..).find(|_| policy_after(waits) == BATCH), Some(LEAST_PAUSE));
        assert_eq!(policy_after(times(20, 90)), BATCH, "it hardly had anything to do");
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
            scheduling.observe(active, None);
            sched_getaffinity(None).unwrap().count()
        };

        assert_eq!(cores_after(MANY - 1), all);
        assert_eq!(cores_after(MANY), 1);
        assert_eq!(cores_after(FEW + 1), 1);
        assert_eq!(cores_after(FEW), all);
    }
}
