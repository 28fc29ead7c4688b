//! The parts that queues, documents and tasks of one shard share: journal, clock, keys, waits,
//! timers.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use millrace_core::{Clock, ShardId, Timestamp, limits};
use millrace_engine::ReceiptKey;
use millrace_journal::{GroupCommit, Ticket};

use crate::catalog::Catalog;
use crate::commit::Commits;
use crate::error::BrokerError;
use crate::holds::Holds;
use crate::maintenance::Maintenance;
use crate::timers::Timers;

/// Settings of a shard.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages of one queue that may be in flight.
    pub in_flight_limit: u64,
    /// True if a queue may be purged only once in 60 seconds.
    pub purge_cool_down: bool,
    /// Log bytes beyond twice the live bytes before stragglers are moved out of old segments.
    pub slack_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            in_flight_limit: limits::IN_FLIGHT,
            purge_cool_down: false,
            slack_bytes: 160 << 20,
        }
    }
}

/// A source of unguessable bits.
pub type Random = Box<dyn FnMut() -> u128 + Send>;

pub(crate) struct Common {
    pub shard: ShardId,
    pub log: Arc<GroupCommit>,
    pub commits: Arc<Commits>,
    pub clock: Arc<dyn Clock>,
    pub options: Options,
    pub receipts: ReceiptKey,
    pub random: Mutex<Random>,
    /// Sequences of this run begin here, above all of earlier runs.
    pub first_seq: u64,
    /// The id of the next queue. Changed under the catalog's change lock.
    pub next_queue: AtomicU64,
    /// Of all shards.
    pub timers: Arc<Timers>,
    pub maintenance: Arc<Maintenance>,
    /// Queues of all shards. They hold this, so it does not hold them.
    pub catalog: Weak<Catalog>,
    pub holds: Arc<Holds>,
    pub is_maintenance_wanted: AtomicBool,
    /// The oldest segment that a message was in when it changed queues, since this was last set to
    /// the highest number.
    pub moved_from: AtomicU32,
    pub is_draining: AtomicBool,
    /// Its queues are not to be visited any more.
    pub is_closed: AtomicBool,
}

impl Common {
    /// Wakes long polls when the journal takes no more changes: they would be refused whatever
    /// comes.
    pub(crate) fn watch_poison(self: &Arc<Self>) {
        let common = Arc::downgrade(self);
        self.log.on_commit(Box::new(move || {
            if let Some(common) = common.upgrade()
                && common.log.ended().is_some()
            {
                common.wake_long_polls();
            }
        }));
    }

    /// From now on long polls are answered at once.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        self.wake_long_polls();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    fn wake_long_polls(&self) {
        let Some(catalog) = self.catalog.upgrade() else { return };
        for queue in catalog.of_shard(self.shard) {
            queue.lock().waiters.wake_all();
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn random_bits(&self) -> u128 {
        (self.random.lock().unwrap_or_else(PoisonError::into_inner))()
    }

    /// Resolves when the ticket is committed. Cancel safe.
    pub(crate) async fn committed(&self, ticket: Option<Ticket>) -> Result<(), BrokerError> {
        match ticket {
            Some(ticket) => Ok(self.commits.wait(ticket).await?),
            None => Ok(()),
        }
    }

    /// Something was freed in the journal. Cheap if that is known already.
    pub(crate) fn want_maintenance(&self) {
        let wanted = &self.is_maintenance_wanted;
        if !wanted.load(Ordering::Relaxed) && !wanted.swap(true, Ordering::AcqRel) {
            self.maintenance.want();
        }
    }

    /// Has what a queue held freed where nobody waits for it.
    pub(crate) fn free(&self, unneeded: impl Any + Send) {
        self.maintenance.free(unneeded);
        self.want_maintenance();
    }

    /// Messages of that segment or later ones changed queues and keep their records. To be called
    /// with both queues locked.
    pub(crate) fn moved_from(&self, segment: Option<u32>) {
        self.moved_from.fetch_min(segment.unwrap_or(u32::MAX), Ordering::AcqRel);
    }
}
