//! Idle connections, most recently used first, and the counting of what became of each.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::connection::{Answer, Connection};
use super::ledger::{Ledger, LedgerCounts};
use super::{Endpoint, Lane, Reuse, TransportError, TransportOptions};

#[derive(Debug)]
pub(super) struct Pool {
    endpoint: Endpoint,
    reuse: Reuse,
    idle_limit: Duration,
    connect_timeout: Duration,
    lane_timeout: Duration,
    quick: LanePool,
    hold: LanePool,
    ledger: Ledger,
}

struct LanePool {
    /// A lock because every request takes and gives back; held for a push or pop.
    idle: Mutex<Vec<Connection>>,
    /// One permit a connection in use.
    permits: Semaphore,
}

/// A connection that serves one request, and its place in the lane.
pub(super) struct Taken<'p> {
    pub(super) connection: Connection,
    lane: Lane,
    permit: SemaphorePermit<'p>,
}

impl Taken<'_> {
    pub(super) fn is_reused(&self) -> bool {
        self.connection.served > 0
    }
}

impl Pool {
    pub(super) fn new(endpoint: Endpoint, options: &TransportOptions) -> Pool {
        let lane = || LanePool {
            idle: Mutex::default(),
            permits: Semaphore::new(options.lane_connections.max(1)),
        };
        Pool {
            endpoint,
            reuse: options.reuse,
            idle_limit: options.idle_limit,
            connect_timeout: options.connect_timeout,
            lane_timeout: options.answer_timeout,
            quick: lane(),
            hold: lane(),
            ledger: Ledger::default(),
        }
    }

    /// An idle connection that is still open, else a new one.
    pub(super) async fn take(&self, lane: Lane) -> Result<Taken<'_>, TransportError> {
        let permit = self.permit(lane).await?;
        let connection = match self.idle(lane) {
            Some(connection) => {
                Ledger::count(&self.ledger.reused);
                connection
            }
            None => self.open().await?,
        };
        Ledger::count(&self.ledger.requests);
        Ok(Taken { connection, lane, permit })
    }

    /// A new connection in place of one that ended.
    pub(super) async fn replace<'p>(
        &'p self,
        taken: Taken<'p>,
    ) -> Result<Taken<'p>, TransportError> {
        let connection = self.open().await?;
        Ledger::count(&self.ledger.requests);
        Ok(Taken { connection, ..taken })
    }

    /// Keeps the connection if it can be used again, and counts how it ended if not.
    pub(super) fn settle(&self, taken: Taken<'_>, outcome: &Result<Answer, TransportError>) {
        let Taken { mut connection, lane, permit } = taken;
        match outcome {
            Ok(answer) if answer.closes() => Ledger::count(&self.ledger.closed_by_header),
            Ok(_) if self.reuse == Reuse::Keep => {
                connection.idle_since = Instant::now();
                self.lane(lane).locked(|idle| idle.push(connection));
            }
            Ok(_) => {}
            Err(_) => Ledger::count(&self.ledger.reset),
        }
        drop(permit);
    }

    /// Counts a kept connection that turned out to be closed.
    pub(super) fn stale(&self, _taken: &Taken<'_>) {
        Ledger::count(&self.ledger.stale_on_use);
    }

    pub(super) fn ledger(&self) -> LedgerCounts {
        self.ledger.counts()
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    async fn permit(&self, lane: Lane) -> Result<SemaphorePermit<'_>, TransportError> {
        let permits = &self.lane(lane).permits;
        if let Ok(permit) = permits.try_acquire() {
            return Ok(permit);
        }
        let limit = self.lane_timeout;
        match tokio::time::timeout(limit, permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(TransportError::LaneTimeout { limit }),
        }
    }

    fn idle(&self, lane: Lane) -> Option<Connection> {
        loop {
            let mut connection = self.lane(lane).locked(Vec::pop)?;
            if connection.is_closed() {
                Ledger::count(&self.ledger.closed_while_idle);
                continue;
            }
            if connection.idle_since.elapsed() < self.idle_limit {
                return Some(connection);
            }
        }
    }

    async fn open(&self) -> Result<Connection, TransportError> {
        let started = Instant::now();
        let limit = self.connect_timeout;
        let opened = match tokio::time::timeout(limit, self.connect()).await {
            Ok(opened) => opened,
            Err(_) => Err(TransportError::ConnectTimeout { limit }),
        };
        match &opened {
            Ok(_) => self.ledger.opened(started.elapsed()),
            Err(_) => Ledger::count(&self.ledger.connect_failed),
        }
        opened
    }

    /// The name is looked up each time, so that a server that moved is found.
    async fn connect(&self) -> Result<Connection, TransportError> {
        let address = (self.endpoint.host.as_str(), self.endpoint.port);
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| TransportError::Connect(error.into()))?;
        stream.set_nodelay(true).map_err(|error| TransportError::Connect(error.into()))?;
        Connection::over(Box::new(stream)).await
    }

    fn lane(&self, lane: Lane) -> &LanePool {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Hold => &self.hold,
        }
    }
}

impl LanePool {
    fn locked<T>(&self, act: impl FnOnce(&mut Vec<Connection>) -> T) -> T {
        // A thread that panicked here left a usable list behind.
        act(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for LanePool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LanePool").field("permits", &self.permits).finish_non_exhaustive()
    }
}
