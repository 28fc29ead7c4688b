//! Idle connections, most recently used first; spares; and the counting of what became of each.
//!
//! After a fail-over a connection may be dead without a sign of it, and then others are too: when
//! one gives no answer, those of its lane that were last used before are not used again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::Connection;
use super::dial::Dialer;
use super::http1::Answer;
use super::ledger::Ledger;
use super::lifetime::{Advice, Ending, Lifetime};
use super::{Lane, Reuse, Spares, TransportError, TransportOptions};

/// An exchange without an answer for less than that, beside what the server may wait on purpose,
/// says nothing about other connections.
pub(super) const SILENT_AFTER: Duration = Duration::from_millis(250);
/// Often enough for what a server closes, seldom enough to cost nothing.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Between two attempts to come by a connection while there is no room for one.
const SHARE_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Pool {
    dialer: Arc<Dialer>,
    ledger: Arc<Ledger>,
    lifetime: Lifetime,
    quick: Arc<LanePool>,
    hold: Arc<LanePool>,
    /// Tasks that open spares: they end with the pool, and by themselves at the connect timeout.
    /// A lock because any answer may start one.
    opening: Mutex<JoinSet<()>>,
    reuse: Reuse,
    spares: Spares,
    requests_max: Option<u64>,
    idle_limit: Duration,
    lane_timeout: Duration,
}

struct LanePool {
    /// A lock because every request takes and gives back; held for a push or pop, and for a look at
    /// all of them once in a while.
    idle: Mutex<Idle>,
    /// One permit a connection in use.
    permits: Semaphore,
}

#[derive(Default)]
struct Idle {
    used: Vec<Connection>,
    /// Opened ahead of need; taken when no used one is left.
    spares: Vec<Connection>,
    swept_at: Option<Instant>,
}

/// A connection that serves one request, and its place in the lane.
pub(super) struct Taken<'p> {
    pub(super) connection: Connection,
    lane: Lane,
    permit: SemaphorePermit<'p>,
}

/// Watches an exchange on a kept connection. Dropped before the exchange has ended, because its
/// caller or we gave it up, it closes the idle connections that may be dead as well.
pub(super) struct Watch<'p> {
    lane: &'p LanePool,
    ledger: &'p Ledger,
    began: Instant,
    silent_after: Duration,
    has_ended: bool,
}

impl Watch<'_> {
    /// There was an answer or an error.
    pub(super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.has_ended || self.began.elapsed() < self.silent_after {
            return;
        }
        // Neither opened nor used since.
        let is_unproven = |connection: &mut Connection| connection.idle_since < self.began;
        let unproven = self.lane.locked(|idle| idle.take_out(is_unproven));
        self.ledger.silent.fetch_add(unproven.len() as u64, Ordering::Relaxed);
    }
}

impl Taken<'_> {
    pub(super) fn is_reused(&self) -> bool {
        self.connection.served > 0
    }
}

impl Pool {
    pub(super) fn new(dialer: Dialer, options: &TransportOptions) -> Pool {
        let lane = || {
            let permits = options.lane_connections.clamp(1, Semaphore::MAX_PERMITS);
            Arc::new(LanePool { idle: Mutex::default(), permits: Semaphore::new(permits) })
        };
        Pool {
            dialer: Arc::new(dialer),
            ledger: Arc::default(),
            lifetime: Lifetime::default(),
            quick: lane(),
            hold: lane(),
            opening: Mutex::default(),
            reuse: options.reuse,
            spares: options.spares,
            requests_max: options.requests_max,
            idle_limit: options.idle_limit,
            lane_timeout: options.answer_timeout,
        }
    }

    /// An idle connection that is still open, else a spare, else a new one.
    pub(super) async fn take(&self, lane: Lane) -> Result<Taken<'_>, TransportError> {
        let permit = self.permit(lane).await?;
        let connection = match self.idle(lane) {
            Some(connection) => connection,
            None => self.open_or_share(lane).await?,
        };
        if connection.served > 0 {
            Ledger::count(&self.ledger.reused);
        }
        Ledger::count(&self.ledger.requests);
        Ok(Taken { connection, lane, permit })
    }

    /// A new connection that belongs to no lane.
    pub(super) async fn open_apart(&self) -> Result<Connection, TransportError> {
        let connection = self.dialer.open(&self.ledger).await?;
        Ledger::count(&self.ledger.requests);
        Ok(connection)
    }

    /// A new connection. Where the process has no descriptor or thread left for one, one that
    /// others of the lane have done with is as good.
    async fn open_or_share(&self, lane: Lane) -> Result<Connection, TransportError> {
        let give_up = Instant::now() + self.lane_timeout;
        loop {
            match self.dialer.open(&self.ledger).await {
                Err(error) if error.is_for_lack_of_room() && Instant::now() < give_up => {
                    tokio::time::sleep(SHARE_PAUSE).await;
                    if let Some(connection) = self.idle(lane) {
                        return Ok(connection);
                    }
                }
                opened => return opened,
            }
        }
    }

    /// A spare or new connection in place of a kept one that ended under a request.
    pub(super) async fn replace<'p>(
        &'p self,
        stale: Taken<'p>,
    ) -> Result<Taken<'p>, TransportError> {
        let Taken { connection: ended, lane, permit } = stale;
        // The process may have no other descriptor for the next.
        drop(ended);
        let spare = self.lane(lane).locked(|idle| idle.spares.pop());
        let connection = match spare.and_then(|spare| self.usable(spare)) {
            Some(connection) => connection,
            None => self.dialer.open(&self.ledger).await?,
        };
        Ledger::count(&self.ledger.requests);
        Ok(Taken { connection, lane, permit })
    }

    /// To be held while an exchange goes on whose answer the server may delay by `wait`. A fresh
    /// connection needs no watch: its silence says nothing about others.
    pub(super) fn watch(&self, taken: &Taken<'_>, wait: Duration) -> Option<Watch<'_>> {
        if !taken.is_reused() {
            return None;
        }
        let (lane, ledger, began) = (self.lane(taken.lane), &*self.ledger, Instant::now());
        let silent_after = wait.saturating_add(SILENT_AFTER);
        Some(Watch { lane, ledger, began, silent_after, has_ended: false })
    }

    /// Keeps the connection if it can be used again, and counts how it ended if not.
    pub(super) fn settle(&self, taken: Taken<'_>, outcome: &Result<Answer, TransportError>) {
        let Taken { mut connection, lane, permit } = taken;
        match outcome {
            Ok(answer) if answer.closes => {
                Ledger::count(&self.ledger.closed_by_header);
                self.lifetime.ended(connection.served, Ending::Announced);
            }
            Ok(_) if self.reuse == Reuse::Keep => {
                connection.idle_since = Instant::now();
                self.keep(lane, connection);
            }
            Ok(_) => {}
            Err(_) => Ledger::count(&self.ledger.reset),
        }
        drop(permit);
    }

    /// Counts a kept connection that turned out to be closed under a request.
    pub(super) fn stale(&self, taken: &Taken<'_>) {
        Ledger::count(&self.ledger.stale_on_use);
        self.lifetime.ended(taken.connection.served, Ending::Silent);
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn lifetime(&self) -> &Lifetime {
        &self.lifetime
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    fn keep(&self, lane: Lane, connection: Connection) {
        let served = connection.served;
        let advice = match self.requests_max {
            Some(most) if served >= most => Advice::Retire,
            Some(most) if served + 2 == most => Advice::OpenSpare,
            _ => self.lifetime.advise(served),
        };
        if advice == Advice::Retire {
            Ledger::count(&self.ledger.retired);
            return;
        }
        let now = connection.idle_since;
        let useless = self.lane(lane).locked(|idle| {
            idle.used.push(connection);
            self.sweep(idle, now)
        });
        drop(useless);
        if advice == Advice::OpenSpare && self.spares == Spares::Open {
            self.open_spare(lane);
        }
    }

    fn open_spare(&self, lane: Lane) {
        let (dialer, ledger) = (Arc::clone(&self.dialer), Arc::clone(&self.ledger));
        let lane = Arc::clone(self.lane(lane));
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        while opening.try_join_next().is_some() {}
        opening.spawn(async move {
            // If it fails, the request that would have used it opens its own.
            if let Ok(connection) = dialer.open(&ledger).await {
                Ledger::count(&ledger.spares);
                lane.locked(|idle| idle.spares.push(connection));
            }
        });
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
        let lane = self.lane(lane);
        loop {
            let found = lane.locked(|idle| idle.used.pop().or_else(|| idle.spares.pop()))?;
            if let Some(connection) = self.usable(found) {
                return Some(connection);
            }
        }
    }

    /// Takes out, once in a while, connections that are of no use any more: light work never comes
    /// to those below the first.
    fn sweep(&self, idle: &mut Idle, now: Instant) -> Vec<Connection> {
        if idle.swept_at.is_some_and(|swept_at| now < swept_at + SWEEP_EVERY) {
            return Vec::new();
        }
        idle.swept_at = Some(now);
        idle.take_out(|connection| !self.is_usable(connection))
    }

    /// The connection, unless the server has ended it or may be about to.
    fn usable(&self, mut connection: Connection) -> Option<Connection> {
        self.is_usable(&mut connection).then_some(connection)
    }

    fn is_usable(&self, connection: &mut Connection) -> bool {
        if connection.is_closed() {
            Ledger::count(&self.ledger.closed_while_idle);
            return false;
        }
        connection.idle_since.elapsed() < self.idle_limit
    }

    fn lane(&self, lane: Lane) -> &Arc<LanePool> {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Hold => &self.hold,
        }
    }
}

impl LanePool {
    fn locked<T>(&self, act: impl FnOnce(&mut Idle) -> T) -> T {
        // A thread that panicked here left usable lists behind.
        act(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Idle {
    /// Takes out those that it names, to be closed without the lock.
    fn take_out(&mut self, mut is_out: impl FnMut(&mut Connection) -> bool) -> Vec<Connection> {
        let mut out: Vec<_> = self.used.extract_if(.., &mut is_out).collect();
        out.extend(self.spares.extract_if(.., is_out));
        out
    }
}

impl std::fmt::Debug for LanePool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LanePool").field("permits", &self.permits).finish_non_exhaustive()
    }
}
