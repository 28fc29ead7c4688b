//! One queue as many connections share it.

use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use millrace_core::{QueueId, QueueKey, Timestamp};
use millrace_engine::{Counts, Definition, Kind, Queue};
use millrace_journal::Ticket;

use crate::figures::{Counters, QueueTotals, Sends};
use crate::waiter::Waiters;

/// A queue behind its short lock. Kept alive by those who use it; a deleted queue refuses them.
#[derive(Debug)]
pub struct SharedQueue {
    id: QueueId,
    key: QueueKey,
    arn: String,
    kind: Kind,
    /// Stored under the lock, loaded without it.
    definition: ArcSwap<Definition>,
    state: Mutex<State>,
    pub(crate) counters: Counters,
}

#[derive(Debug)]
pub(crate) struct State {
    pub queue: Queue,
    /// Where the definition's record stands in the journal.
    pub definition_position: u64,
    pub waiters: Waiters,
    /// When the timers next visit the queue.
    pub armed_at: Timestamp,
    /// Ticket of the latest change: whoever repeats a change waits for the one it repeats.
    pub latest: Option<Ticket>,
    /// Ticket of the latest move of messages to this queue, until it is known to be committed.
    pub moved_in: Option<Ticket>,
    pub is_deleted: bool,
    pub sends: Sends,
    /// A deleted queue's totals at its end: what is counted later is not reported.
    pub last_totals: Option<Box<QueueTotals>>,
}

impl State {
    /// Wakes as many long polls as could receive something now, but at most so many.
    pub(crate) fn wake(&mut self, at_most: u64) {
        if !self.waiters.is_empty() {
            let at_most = at_most.min(self.waiters.len() as u64);
            self.waiters.wake(self.queue.receivable(at_most));
        }
    }
}

impl SharedQueue {
    pub(crate) fn new(queue: Queue, definition: Definition, definition_position: u64) -> Self {
        let key = definition.key();
        SharedQueue {
            id: queue.id(),
            arn: key.to_string(),
            key,
            kind: definition.settings.kind,
            definition: ArcSwap::from_pointee(definition),
            state: Mutex::new(State {
                queue,
                definition_position,
                waiters: Waiters::default(),
                armed_at: Timestamp::NEVER,
                latest: None,
                moved_in: None,
                is_deleted: false,
                sends: Sends::default(),
                last_totals: None,
            }),
            counters: Counters::default(),
        }
    }

    /// Takes the lock. A panic inside it is our bug and may have left half a change; what is
    /// journaled is sound, so the process ends and recovers from there.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|_| {
            tracing::error!(queue = %self.key, "a change to the queue panicked");
            std::process::abort()
        })
    }

    /// This incarnation.
    pub fn id(&self) -> QueueId {
        self.id
    }

    pub fn key(&self) -> &QueueKey {
        &self.key
    }

    /// `arn:<partition>:sqs:<region>:<account>:<name>`.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// The queue's definition as it is now.
    pub fn definition(&self) -> Arc<Definition> {
        self.definition.load_full()
    }

    /// Standard or FIFO, which never changes.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Panics if the queue's inner state disagrees with itself. Reads every message: for simulations.
    pub fn assert_consistent(&self) {
        self.lock().queue.assert_consistent();
    }

    /// Changes the definition, as the holder of the lock.
    pub(crate) fn set_definition(&self, state: &mut State, definition: Definition) {
        assert_eq!(state.queue.id(), self.id, "state of another queue");
        self.definition.store(Arc::new(definition));
    }

    /// Messages by state, as of the last command or timer.
    pub fn counts(&self) -> Counts {
        self.lock().queue.counts()
    }
}
