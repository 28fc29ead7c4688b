//! What the kernel knows of processes: CPU time, resident memory, load; and our own limits.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Linux shows CPU times in hundredths of a second on every architecture (proc(5), USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process so far, in steps of 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    cpu_ticks(&text).map(|ticks| TICK * ticks).with_context(|| format!("{path} is unexpected"))
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    resident(&text).with_context(|| format!("{path} is unexpected"))
}

/// Runnable and waiting tasks, averaged over the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Bytes that the files below `directory` occupy, holes left out.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;

    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Raises the soft limit of open files to the hard one and returns it.
pub(crate) fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Fields 14 and 15; the name in field 2 may contain anything, so counting starts behind it.
fn cpu_ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 90 0 0 0 123 45 0 0 20 0 4 0 99 1 2";

        assert_eq!(cpu_ticks(stat), Some(168));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();

        assert!(cpu_time(pid).is_ok());
        assert!(resident_bytes(pid).unwrap() > 0);
    }
}
