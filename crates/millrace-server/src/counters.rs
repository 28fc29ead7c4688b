//! What the server has done, for metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The client closed or reset it.
    ByPeer,
    /// The request asked for it (`Connection: close`, HTTP/1.0).
    Requested,
    /// No request within the idle timeout.
    Idle,
    /// A head, a body or a handshake came too slowly.
    SlowRequest,
    /// The client did not take the response.
    SlowReader,
    /// A malformed or oversized request.
    BadRequest,
    /// We drain.
    Drain,
    /// Too many connections.
    Refused,
    /// The TLS handshake failed.
    Handshake,
    /// Others needed the memory that it held.
    NoMemory,
}

impl Closed {
    /// All reasons, in the order of [`Totals::closed`].
    pub const ALL: [Closed; 10] = [
        Closed::ByPeer,
        Closed::Requested,
        Closed::Idle,
        Closed::SlowRequest,
        Closed::SlowReader,
        Closed::BadRequest,
        Closed::Drain,
        Closed::Refused,
        Closed::Handshake,
        Closed::NoMemory,
    ];

    /// The reason as a metric's label.
    pub fn name(self) -> &'static str {
        match self {
            Closed::ByPeer => "by_peer",
            Closed::Requested => "requested",
            Closed::Idle => "idle",
            Closed::SlowRequest => "slow_request",
            Closed::SlowReader => "slow_reader",
            Closed::BadRequest => "bad_request",
            Closed::Drain => "drain",
            Closed::Refused => "refused",
            Closed::Handshake => "handshake",
            Closed::NoMemory => "no_memory",
        }
    }
}

/// The counters of all workers.
#[derive(Debug)]
pub struct Counters {
    cells: Box<[Cell]>,
    is_polling: AtomicBool,
    /// 0: none.
    certificate_not_after_s: AtomicU64,
}

/// The sums at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections accepted, those refused included.
    pub opened: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections ended, by reason, in the order of [`Closed::ALL`].
    pub closed: [u64; Closed::ALL.len()],
    /// Requests answered, by the server itself or by the service.
    pub requests: u64,
    /// Bytes of requests, after TLS.
    pub bytes_in: u64,
    /// Bytes of responses, before TLS. HTTP/2 counts bodies only.
    pub bytes_out: u64,
    /// Cores without work poll: see [`Options`](crate::Options::has_idle_cores_poll).
    pub is_polling: bool,
    /// When the certificate that is shown ends, in seconds since 1970; none without TLS.
    pub certificate_not_after_s: Option<u64>,
}

/// The counters of one worker, on cache lines of their own: workers never wait for one another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cell {
    opened: AtomicU64,
    closed: [AtomicU64; Closed::ALL.len()],
    requests: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Counters {
        let cells = (0..workers).map(|_| Cell::default()).collect();
        Counters {
            cells,
            is_polling: AtomicBool::new(false),
            certificate_not_after_s: AtomicU64::new(0),
        }
    }

    /// The sums now.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for cell in &self.cells {
            for (sum, closed) in totals.closed.iter_mut().zip(&cell.closed) {
                *sum += closed.load(Relaxed);
            }
            totals.opened += cell.opened.load(Relaxed);
            totals.requests += cell.requests.load(Relaxed);
            totals.bytes_in += cell.bytes_in.load(Relaxed);
            totals.bytes_out += cell.bytes_out.load(Relaxed);
        }
        totals.is_polling = self.is_polling.load(Relaxed);
        let not_after_s = self.certificate_not_after_s.load(Relaxed);
        totals.certificate_not_after_s = (not_after_s != 0).then_some(not_after_s);
        totals.open = totals.opened.saturating_sub(totals.closed.iter().sum());
        totals
    }

    /// Requests answered so far.
    pub(crate) fn requests(&self) -> u64 {
        self.cells.iter().map(|cell| cell.requests.load(Relaxed)).sum()
    }

    pub(crate) fn set_polling(&self, is_polling: bool) {
        self.is_polling.store(is_polling, Relaxed);
    }

    pub(crate) fn set_certificate_not_after(&self, seconds: Option<u64>) {
        self.certificate_not_after_s.store(seconds.unwrap_or(0), Relaxed);
    }

    pub(crate) fn workers(&self) -> usize {
        self.cells.len()
    }

    /// The counters of one worker. Numbers beyond the workers wrap.
    pub(crate) fn cell(&self, worker: usize) -> &Cell {
        &self.cells[worker % self.cells.len()]
    }
}

impl Totals {
    /// How many connections ended for that reason.
    pub fn closed_for(&self, reason: Closed) -> u64 {
        self.closed[reason as usize]
    }
}

impl Cell {
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self, reason: Closed) {
        self.closed[reason as usize].fetch_add(1, Relaxed);
    }

    /// Returns how many there were before.
    pub(crate) fn request(&self) -> u64 {
        self.requests.fetch_add(1, Relaxed)
    }

    pub(crate) fn bytes_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn bytes_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }
}
