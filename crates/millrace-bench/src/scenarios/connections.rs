//! What became of connections: the client's ledger, added up over clients.

use millrace_client::transport::LedgerCounts;

use crate::report::{Metric, microseconds};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    pub(super) opened: u64,
    /// Opened ahead of need.
    pub(super) spares: u64,
    /// Ended by the server, which said so in an answer.
    pub(super) closed_by_header: u64,
    /// Ended by the server while nothing was under way.
    pub(super) closed_while_idle: u64,
    /// Found ended when the next request was sent.
    pub(super) stale_on_use: u64,
    pub(super) reset: u64,
    handshake_us: u64,
}

impl Connections {
    /// What a ledger counted since `before`.
    pub(super) fn between(before: &LedgerCounts, after: &LedgerCounts) -> Connections {
        Connections {
            opened: after.opened - before.opened,
            spares: after.spares - before.spares,
            closed_by_header: after.closed_by_header - before.closed_by_header,
            closed_while_idle: after.closed_while_idle - before.closed_while_idle,
            stale_on_use: after.stale_on_use - before.stale_on_use,
            reset: after.reset - before.reset,
            handshake_us: after.handshake_us - before.handshake_us,
        }
    }

    pub(super) fn add(&mut self, other: &Connections) {
        self.opened += other.opened;
        self.spares += other.spares;
        self.closed_by_header += other.closed_by_header;
        self.closed_while_idle += other.closed_while_idle;
        self.stale_on_use += other.stale_on_use;
        self.reset += other.reset;
        self.handshake_us += other.handshake_us;
    }

    /// By the server, announced or not.
    pub(super) fn closed_by_server(&self) -> u64 {
        self.closed_by_header + self.closed_while_idle + self.stale_on_use + self.reset
    }

    /// The mean of what it took to open one, TLS included.
    pub(super) fn handshake(&self) -> String {
        match self.opened {
            0 => "–".to_owned(),
            opened => microseconds(self.handshake_us as f64 / opened as f64),
        }
    }

    pub(super) fn metrics(&self, front: &str) -> Vec<Metric> {
        let name = |rest: &str| format!("{front}.{rest}");
        vec![
            Metric::count(&name("connections"), self.opened),
            Metric::faults(&name("closed_by_server"), self.closed_by_server()),
        ]
    }
}
