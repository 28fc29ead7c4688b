//! What the disk itself can do: fdatasync after each append of 1 KB into a file of zeros.
//!
//! The thread asks for real-time priority, as the journal's does: on a busy machine the wait for
//! a core would otherwise be taken for the disk's.

use std::{
    fs::OpenOptions,
    io::{Seek, SeekFrom, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::load::{Percentiles, histogram, nanoseconds, percentiles};

const APPEND_BYTES: usize = 1024;
const FILE_BYTES: usize = 16 << 20;

/// Appends for `duration`, at least once and at most until the file is full.
pub(crate) fn fdatasync(directory: &Path, duration: Duration) -> Result<Percentiles> {
    let probing = || {
        ask_for_real_time();
        append(directory, duration)
    };
    match thread::scope(|scope| scope.spawn(probing).join()) {
        Ok(found) => found,
        Err(_) => bail!("the probe panicked"),
    }
}

fn append(directory: &Path, duration: Duration) -> Result<Percentiles> {
    let path = directory.join("fdatasync-probe");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path);
    let mut file = file.with_context(|| format!("creating {}", path.display()))?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..FILE_BYTES / zeros.len() {
        file.write_all(&zeros).context("filling the probe with zeros")?;
    }
    file.sync_all().context("syncing the probe")?;
    file.seek(SeekFrom::Start(0)).context("rewinding the probe")?;
    let (mut times, started, record) = (histogram(), Instant::now(), vec![0x5a; APPEND_BYTES]);
    for _ in 0..FILE_BYTES / APPEND_BYTES {
        let start = Instant::now();
        file.write_all(&record).context("appending to the probe")?;
        file.sync_data().context("syncing the probe")?;
        times.saturating_record(nanoseconds(start.elapsed()));
        if started.elapsed() > duration {
            break;
        }
    }
    std::fs::remove_file(&path).context("removing the probe")?;
    Ok(percentiles(&times))
}

/// Round-robin scheduling at the lowest real-time priority, where that is allowed.
fn ask_for_real_time() {
    let Ok(lowest) = ThreadPriorityValue::try_from(1u8) else { return };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    let priority = ThreadPriority::Crossplatform(lowest);
    // Without the privilege the probe goes on as it is.
    let _ = set_thread_priority_and_policy(thread_native_id(), priority, policy);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();

        let found = fdatasync(directory.path(), Duration::from_millis(1)).unwrap();

        assert!(found.count > 0 && found.p50_us > 0.0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
