//! What happened to connections, counted for as long as the transport lives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters that the pool writes. All are independent of one another, hence relaxed.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) opened: AtomicU64,
    pub(super) reused: AtomicU64,
    pub(super) closed_by_header: AtomicU64,
    pub(super) closed_while_idle: AtomicU64,
    pub(super) stale_on_use: AtomicU64,
    pub(super) reset: AtomicU64,
    pub(super) connect_failed: AtomicU64,
    pub(super) handshake_us: AtomicU64,
    pub(super) handshake_us_max: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) spares: AtomicU64,
    pub(super) retired: AtomicU64,
    pub(super) silent: AtomicU64,
}

/// The counters at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerCounts {
    /// Connections established, TLS handshake included.
    pub opened: u64,
    /// Requests that went over a connection that had served one before.
    pub reused: u64,
    /// Connections that the server ended with `Connection: close`.
    pub closed_by_header: u64,
    /// Idle connections found ended by the server before they were used again, or with bytes that
    /// nobody had asked for.
    pub closed_while_idle: u64,
    /// Reused connections that died under a request before a byte of its answer: each cost a
    /// request on a fresh connection.
    pub stale_on_use: u64,
    /// Connections that died under a request in any other way.
    pub reset: u64,
    /// Attempts to connect that failed.
    pub connect_failed: u64,
    /// Connecting and TLS handshakes, microseconds in total.
    pub handshake_us: u64,
    /// The longest of them.
    pub handshake_us_max: u64,
    /// Requests written, repeated ones included.
    pub requests: u64,
    /// Connections opened ahead of need, because an old one neared the end of its life.
    pub spares: u64,
    /// Connections that we closed because they had served as many requests as they may.
    pub retired: u64,
    /// Idle connections that we closed because another one of their lane gave no answer, and they
    /// had not been used since.
    pub silent: u64,
}

impl Ledger {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn opened(&self, handshake: Duration) {
        let micros = u64::try_from(handshake.as_micros()).unwrap_or(u64::MAX);
        Ledger::count(&self.opened);
        self.handshake_us.fetch_add(micros, Ordering::Relaxed);
        self.handshake_us_max.fetch_max(micros, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> LedgerCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LedgerCounts {
            opened: read(&self.opened),
            reused: read(&self.reused),
            closed_by_header: read(&self.closed_by_header),
            closed_while_idle: read(&self.closed_while_idle),
            stale_on_use: read(&self.stale_on_use),
            reset: read(&self.reset),
            connect_failed: read(&self.connect_failed),
            handshake_us: read(&self.handshake_us),
            handshake_us_max: read(&self.handshake_us_max),
            requests: read(&self.requests),
            spares: read(&self.spares),
            retired: read(&self.retired),
            silent: read(&self.silent),
        }
    }
}
