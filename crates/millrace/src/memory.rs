//! How much memory there is, and how much of it what passes through may take.
//!
//! Messages that wait take what they take; all else is bounded, and by less where there is little:
//! a container whose limit is exceeded is killed.

use std::path::Path;

use millrace_journal::GroupOptions;
use millrace_metrics::MemoryLimits;
use millrace_server::Limits;

/// A batch of the largest messages fits, and what moves from one segment to another at a time.
const WAITING_BYTES_LEAST: u64 = 8 << 20;

/// What metrics use at most: their names, and less for reads and what waits.
const METRICS_BYTES_MOST: u64 = 512 << 20;

/// A listener beside that of the clients has this part of each of its bounds.
const SIDE_PART: usize = 4;

/// What connections, requests, answers and changes may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    connections_bytes: u64,
    bodies_bytes: u64,
    answers_bytes: u64,
    waiting_bytes: u64,
    recent_bytes: u64,
    metrics_bytes: u64,
}

impl Bounds {
    /// Those of `bytes` of memory; 0: of what the machine and the process' control groups have.
    pub(crate) fn of(bytes: u64) -> Bounds {
        let bytes = if bytes == 0 { available() } else { bytes };
        let (limits, group) = (Limits::default(), GroupOptions::default());
        // A quarter in all; as much again may be freed and not yet given back. Connections have a
        // quarter more: without theirs nobody is served.
        let share = bytes / 16;
        Bounds {
            connections_bytes: (bytes / 4).min(limits.max_connection_bytes as u64),
            bodies_bytes: share.min(limits.max_unfinished_bytes as u64),
            answers_bytes: share.min(limits.max_untaken_bytes as u64),
            waiting_bytes: share.clamp(WAITING_BYTES_LEAST, group.max_waiting_bytes),
            recent_bytes: share.min(group.recent_bytes as u64),
            metrics_bytes: (bytes / 8).min(METRICS_BYTES_MOST),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_connection_bytes: self.connections_bytes as usize,
            max_unfinished_bytes: self.bodies_bytes as usize,
            max_untaken_bytes: self.answers_bytes as usize,
            ..Limits::default()
        }
    }

    /// Those of a listener beside that of the clients, such as the console's.
    pub(crate) fn side_limits(&self) -> Limits {
        let Limits { max_connection_bytes, max_unfinished_bytes, max_untaken_bytes, .. } =
            self.limits();
        Limits {
            max_connection_bytes: max_connection_bytes / SIDE_PART,
            max_unfinished_bytes: max_unfinished_bytes / SIDE_PART,
            max_untaken_bytes: max_untaken_bytes / SIDE_PART,
            ..Limits::default()
        }
    }

    /// Those of one read of metrics; two are read at a time.
    pub(crate) fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits::of_bytes(self.metrics_bytes)
    }

    pub(crate) fn group_options(&self) -> GroupOptions {
        GroupOptions {
            max_waiting_bytes: self.waiting_bytes,
            recent_bytes: self.recent_bytes as usize,
            ..GroupOptions::default()
        }
    }

    /// Changes of domains that may wait.
    pub(crate) fn tables_waiting_bytes(&self) -> usize {
        let most = millrace_tables::Options::default().waiting_bytes;
        most.min(self.waiting_bytes as usize)
    }

    /// Tells what is less than usual.
    pub(crate) fn log(&self) {
        if *self != Bounds::of(u64::MAX) {
            let [connections_mib, bodies_mib, answers_mib, waiting_mib, metrics_mib] = [
                self.connections_bytes,
                self.bodies_bytes,
                self.answers_bytes,
                self.waiting_bytes,
                self.metrics_bytes,
            ]
            .map(|bytes| bytes >> 20);
            tracing::info!(
                connections_mib,
                bodies_mib,
                answers_mib,
                waiting_mib,
                metrics_mib,
                "memory is small, so are its shares"
            );
        }
    }
}

fn available() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    of_control_groups(&groups, Path::new("/sys/fs/cgroup"))
        .map_or(machine, |least| least.min(machine))
}

/// The least limit of the memory of the control groups that `/proc/self/cgroup` tells of, and of
/// those around them, in either version (Linux, admin guide, "cgroup-v2" and "cgroup-v1/memory"). A
/// container may see its own group as the root, under a path that is not there.
fn of_control_groups(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (mount, files): (_, &[_]) = match controllers {
            "" => (root.to_owned(), &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (root.join("memory"), &["memory.limit_in_bytes"])
            }
            _ => (root.to_owned(), &[]),
        };
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        let files = groups.flat_map(move |group| files.iter().map(move |file| group.join(file)));
        files.filter_map(move |file| std::fs::read_to_string(mount.join(file)).ok())
    });
    limits.filter_map(|limit| limit.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_as_usual_with_enough_memory_and_shrink_with_less() {
        let (limits, group) = (Limits::default(), GroupOptions::default());
        let usual = Bounds::of(4 << 30);
        assert_eq!(usual.limits().max_connection_bytes, limits.max_connection_bytes);
        assert_eq!(usual.limits().max_unfinished_bytes, limits.max_unfinished_bytes);
        assert_eq!(usual.limits().max_untaken_bytes, limits.max_untaken_bytes);
        assert_eq!(usual.group_options().max_waiting_bytes, group.max_waiting_bytes);
        assert_eq!(usual.group_options().recent_bytes, group.recent_bytes);
        assert_eq!(usual.memory_limits(), MemoryLimits::of_bytes(u64::MAX));

        let small = Bounds::of(128 << 20);
        assert_eq!(small.limits().max_connection_bytes, 32 << 20);
        assert_eq!(small.side_limits().max_connection_bytes, 8 << 20);
        assert_eq!(small.limits().max_unfinished_bytes, 8 << 20);
        assert_eq!(small.group_options().recent_bytes, 8 << 20);
        assert_eq!(Bounds::of(1).group_options().max_waiting_bytes, WAITING_BYTES_LEAST);
    }

    #[test]
    fn limits_of_both_versions_and_of_groups_around_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let least = |groups: &str| of_control_groups(groups, root.path());
        write("memory.max", "max\n");
        write("pod/memory.max", "500\n");
        write("pod/app/memory.max", "max\n");
        write("pod/app/memory.high", "400\n");
        write("pod/other/memory.max", "900\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/docker/1/memory.limit_in_bytes", "300\n");

        assert_eq!(least("0::/\n"), None);
        assert_eq!(least("0::/pod/app\n"), Some(400));
        assert_eq!(least("0::/pod/other\n"), Some(500));
        assert_eq!(least("4:cpu,cpuacct:/x\n3:hugetlb,memory:/docker/1\n0::/\n"), Some(300));
        assert_eq!(least("3:memory:/not/there\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(least("3:memoryless:/docker/1\nnonsense\n\n"), None);
    }
}
