//! What the system lets us have: connections, and memory in small pages.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are no connections: listeners, runtimes, and one or two of each segment, which
/// holds 64 MiB.
const RESERVED_DESCRIPTORS: u64 = 1_024;

/// Tabs of the console and their requests; each stream holds one connection.
const CONSOLE_CONNECTIONS: u64 = 2_000;

/// Unless configured otherwise.
const DEFAULT_CONNECTIONS: usize = 50_000;

/// Raises the soft limit of open files to the hard one; without success, quietly goes on.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "open files stay limited");
        }
    }
}

/// Keeps the kernel from backing memory with huge pages: a message that waits has its 64 bytes, and
/// with them some 9 more, and there are 30 MB more at rest, for a few per cent of a drain's rate at
/// most. Without success, quietly goes on.
pub(crate) fn use_small_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay allowed");
    }
}

/// What was configured (0: the default), as far as open files allow.
pub(crate) fn max_connections(configured: usize) -> usize {
    let wanted = if configured == 0 { DEFAULT_CONNECTIONS } else { configured };
    let Some(files) = getrlimit(Resource::Nofile).current else {
        return wanted;
    };
    let others = RESERVED_DESCRIPTORS + console_connections() as u64;
    // With few there is no right way to share; half of them then.
    let left = files.saturating_sub(others).max(files / 2);
    let possible = usize::try_from(left).unwrap_or(wanted);
    if configured > possible {
        tracing::warn!(configured, possible, "open files limit connections");
    }
    wanted.min(possible.max(1))
}

/// Fewer where few files may be open.
pub(crate) fn console_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONSOLE_CONNECTIONS.min(files / 8) as usize
}
