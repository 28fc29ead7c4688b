//! Real-time priority for the committing thread.
//!
//! A woken thread of ordinary priority may wait milliseconds for a busy core, and everybody who
//! waits for the commit waits with it: on busy cores that, not the disk, is the latency tail.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Asks for round-robin scheduling at the lowest real-time priority. Goes on quietly without: it
/// takes a privilege (CAP_SYS_NICE or a limit on RTPRIO) that not every installation has.
pub(super) fn ask_for_real_time() {
    let Ok(lowest) = ThreadPriorityValue::try_from(1u8) else { return };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    let priority = ThreadPriority::Crossplatform(lowest);
    match set_thread_priority_and_policy(thread_native_id(), priority, policy) {
        Ok(()) => tracing::debug!("commits have real-time priority"),
        Err(error) => tracing::debug!(?error, "commits have ordinary priority"),
    }
}
