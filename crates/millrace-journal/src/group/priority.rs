//! Priority of the committing thread.
//!
//! A woken thread of ordinary priority may wait milliseconds for a core that others keep busy, and
//! everybody who waits for the commit waits with it. Real-time priority takes that away; but when
//! many clients keep the cores busy, it also takes the cores from the very threads whose appends
//! the next group would gather: groups get small, and every commit costs the same. Measured with
//! 64 connections on two cores: 64,000 sends a second at ordinary priority, 47,000 at real-time.
//! So it is asked for while groups are small, and given up when they are not. The price: with many
//! clients on cores that other programs keep busy, commits wait for a core again.

use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Records in a group, on average, above which commits have ordinary priority again.
const MANY_RECORDS: f32 = 3.0;
/// Below which they ask for real-time priority.
const FEW_RECORDS: f32 = 1.5;
/// The average reaches back about so many groups.
const REACH: f32 = 64.0;

/// The calling thread's priority and what decides it.
pub(super) struct Priority {
    is_real_time: bool,
    /// It takes a privilege (CAP_SYS_NICE or a limit on RTPRIO) that not every installation has.
    is_refused: bool,
    average_records: f32,
}

impl Priority {
    /// As threads begin: ordinary, until some groups were seen.
    pub(super) fn new() -> Self {
        Self { is_real_time: false, is_refused: false, average_records: FEW_RECORDS }
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
        if let Err(error) = set(wants) {
            tracing::debug!(?error, "commits keep their ordinary priority");
            self.is_refused = true;
        }
    }
}

/// Round-robin at the lowest real-time priority, or ordinary scheduling.
fn set(real_time: bool) -> Result<(), thread_priority::Error> {
    let (policy, value) = if real_time {
        (ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin), 1u8)
    } else {
        (ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other), 0u8)
    };
    let out_of_range = |_| thread_priority::Error::Priority("out of range");
    let value = ThreadPriorityValue::try_from(value).map_err(out_of_range)?;
    let priority = ThreadPriority::Crossplatform(value);
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
}
