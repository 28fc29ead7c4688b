//! What the kernel knows of processes: CPU time, resident memory, load; and our own limits.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};

/// Linux shows CPU times in hundredths of a second on every architecture (proc(5), USER_HZ).
const TICK: Duration = Duration::from_millis(10);
static EXCLUDED_NS: AtomicU64 = AtomicU64::new(0);

/// User and system time of a process so far: what its threads ran, to the nanosecond, if the
/// kernel says; else in steps of 10 ms. Only the latter counts threads that have ended.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let in_steps = cpu_time_in_steps(pid)?;
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ran = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    let exact = Duration::from_nanos(ran.sum());
    // Less, by more than rounding: threads have ended.
    Ok(if exact + TICK * 2 >= in_steps { exact } else { in_steps })
}

fn cpu_time_in_steps(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    cpu_ticks(&text).map(|ticks| TICK * ticks).with_context(|| format!("{path} is unexpected"))
}

/// Parses the number of a process of this machine.
pub(crate) fn parse_pid(text: &str) -> Result<u32, String> {
    let pid = text.parse().map_err(|_| format!("{text} is not the number of a process"))?;
    match cpu_time(pid) {
        Ok(_) => Ok(pid),
        Err(_) => Err(format!("no process of this machine has the number {pid}")),
    }
}

/// The process that listens on a TCP port of this machine, as far as we may see.
pub(crate) fn listening_on(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
    let inodes: Vec<String> = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines().filter_map(|line| listener_inode(line, port)))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets
            .any(|target| target.to_str().is_some_and(|text| inodes.iter().any(|one| one == text)))
    })
}

/// User and system time of this process as a client, to the nanosecond: what threads took that
/// stand for something else ([`ExcludedThread`]) is left out.
pub(crate) fn own_cpu_time() -> Duration {
    clock_time(ClockId::ProcessCPUTime).saturating_sub(excluded_cpu_time())
}

/// What threads have taken that are no part of a client.
pub(crate) fn excluded_cpu_time() -> Duration {
    Duration::from_nanos(EXCLUDED_NS.load(Relaxed))
}

/// Account of a thread that is no part of a client, kept by itself.
pub(crate) struct ExcludedThread {
    noted: Duration,
}

impl ExcludedThread {
    pub(crate) fn new() -> ExcludedThread {
        ExcludedThread { noted: Duration::ZERO }
    }

    /// To be called by the thread every now and then.
    pub(crate) fn note(&mut self) {
        let taken = clock_time(ClockId::ThreadCPUTime);
        let more = taken.saturating_sub(self.noted);
        EXCLUDED_NS.fetch_add(u64::try_from(more.as_nanos()).unwrap_or(0), Relaxed);
        self.noted = taken;
    }
}

fn clock_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Wall clock in seconds, for people.
pub(crate) fn now_s() -> u64 {
    now().as_secs()
}

/// Since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    bytes_of("VmRSS:", &text).with_context(|| format!("{path} is unexpected"))
}

/// Memory that programs could still have, in bytes; None where the kernel does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    bytes_of("MemAvailable:", &fs::read_to_string("/proc/meminfo").ok()?)
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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

/// The inode of a line of /proc/net/tcp, if it is a socket that listens on `port`.
fn listener_inode(line: &str, port: u16) -> Option<&str> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    let found = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    (state == LISTEN && found == port).then(|| fields.nth(5)).flatten()
}

/// Fields 14 and 15; the name in field 2 may contain anything, so counting starts behind it.
fn cpu_ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// Bytes behind a name with its colon, in a file of /proc that counts in kB.
fn bytes_of(name: &str, text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
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
    fn memory_is_in_bytes() {
        assert_eq!(bytes_of("VmRSS:", "Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(bytes_of("VmRSS:", "Name:\tx\n"), None);
    }

    #[test]
    fn this_process_can_be_measured() {
        let pid = std::process::id();

        assert!(cpu_time(pid).is_ok());
        assert_eq!(parse_pid(&pid.to_string()), Ok(pid));
        assert!(parse_pid("0").is_err() && parse_pid("x").is_err());
        assert!(resident_bytes(pid).unwrap() > 0);
        assert!(available_bytes().unwrap() > 0);
    }

    #[test]
    fn listeners_are_found_by_their_port() {
        let line = "   0: 0100007F:11D6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1";
        assert_eq!(listener_inode(line, 0x11d6), Some("4711"));
        assert_eq!(listener_inode(line, 80), None);
        assert_eq!(listener_inode(&line.replace(" 0A ", " 01 "), 0x11d6), None);

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listening_on(port), Some(std::process::id()));
    }

    #[test]
    fn what_an_excluded_thread_takes_is_no_clients_time() {
        let spin = || {
            let mut account = ExcludedThread::new();
            while clock_time(ClockId::ThreadCPUTime) < Duration::from_millis(30) {
                // Often, for other tests measure this process meanwhile.
                account.note();
            }
            account.note();
        };
        let before = excluded_cpu_time();

        std::thread::spawn(spin).join().unwrap();

        assert!(excluded_cpu_time() - before >= Duration::from_millis(30));
    }

    #[test]
    fn work_costs_time() {
        let (before, stat_before) = (own_cpu_time(), cpu_time(std::process::id()).unwrap());
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }

        assert!(own_cpu_time() > before);
        assert!(cpu_time(std::process::id()).unwrap() >= stat_before);
    }
}
