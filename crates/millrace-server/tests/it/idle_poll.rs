//! Whether cores wait for work awake.

use std::{
    fs::OpenOptions,
    time::{Duration, Instant},
};

use millrace_server::{Hooks, Options};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::support::{PATIENCE, Running, options, start_with};

/// A server that has one core, however many there are: what makes it busy is one client.
fn start(has_idle_cores_poll: bool) -> Running {
    let allowed = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    // The server's threads are begun by this one.
    sched_setaffinity(None, &one).unwrap();
    let mut options = Options { has_idle_cores_poll, ..options() };
    options.timeouts.sweep = Duration::from_millis(20);
    start_with(options, Hooks::default())
}

/// Keeps the server busy until cores poll, or for so many requests.
fn polls_within(server: &Running, requests: usize) -> bool {
    const AT_ONCE: usize = 64;
    let mut client = server.connect();
    (0..requests / AT_ONCE).any(|_| {
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(AT_ONCE));
        (0..AT_ONCE).for_each(|_| assert_eq!(client.reply().text(), "ok"));
        server.counters.totals().is_polling
    })
}

#[test]
fn cores_poll_under_load_where_the_kernel_takes_it() {
    let takes_it = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_ok();
    let server = start(true);

    assert_eq!(polls_within(&server, 20_000), takes_it);

    let until = Instant::now() + PATIENCE;
    while server.counters.totals().is_polling {
        assert!(Instant::now() < until, "cores still poll");
        std::thread::yield_now();
    }
}

#[test]
fn cores_sleep_unless_told_otherwise() {
    let server = start(false);

    assert!(!polls_within(&server, 5_000));
}
