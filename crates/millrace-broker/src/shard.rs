//! One shard: a journal, its queues, its documents and its tasks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_core::{Clock, ShardId};
use millrace_engine::record::{Records, SecretRecord};
use millrace_engine::{Finished, ReceiptKey, ReplayedQueue};
use millrace_journal::{GroupCommit, Position, Purpose, Ticket};

use crate::append::append_one;
use crate::catalog::{Catalog, Creation, NewQueue};
use crate::commit::Commits;
use crate::common::{Common, Options, Random};
use crate::error::BrokerError;
use crate::holds::Hold;
use crate::kept::Kept;
use crate::maintenance::{Maintenance, Truncation};
use crate::move_task::MoveTasks;
use crate::queue::{SharedQueue, new_definition};
use crate::tasks::{TaskKind, Tasks};
use crate::timers::Timers;
use crate::view::View;

/// The arguments for opening a shard.
pub struct OpenShard {
    pub id: ShardId,
    /// Opened; its records were replayed into `replayed`.
    pub log: Arc<GroupCommit>,
    pub options: Options,
    pub replayed: Finished,
    /// For message ids and, if the journal holds none yet, the secret that seals receipt handles.
    pub random: Random,
}

/// The parts that shards of one process share.
#[derive(Clone)]
pub(crate) struct Process {
    pub clock: Arc<dyn Clock>,
    pub catalog: Arc<Catalog>,
    pub timers: Arc<Timers>,
    pub maintenance: Arc<Maintenance>,
}

/// One journal and what lives in it. Runs on the threads of [`crate::Shards`].
pub struct Shard {
    common: Arc<Common>,
    catalog: Arc<Catalog>,
    kept: Arc<Kept>,
    move_tasks: Arc<MoveTasks>,
    tasks: Tasks,
    truncation: Truncation,
    /// The latest record of each view before this run.
    views: BTreeMap<String, u64>,
}

impl Shard {
    /// Sequences of queues begin at this in that epoch: for [`millrace_engine::Replay`].
    pub fn first_seq(id: ShardId, epoch: u64) -> Result<u64, BrokerError> {
        id.first_id(epoch).ok_or(BrokerError::EpochsUsedUp { epoch })
    }

    pub(crate) fn open(process: Process, open: OpenShard) -> Result<Shard, BrokerError> {
        let OpenShard { id, log, options, replayed, mut random } = open;
        let Process { clock, catalog, timers, maintenance } = process;
        let first_seq = Shard::first_seq(id, log.opened().epoch.0)?;
        let secret = match replayed.secret {
            Some((known, position)) => (known, position),
            None => {
                let secret = random().to_le_bytes();
                let mut records = Records::default();
                SecretRecord { secret }.write(&mut records);
                let (_, position) = append_one(&log, Purpose::Store, &records)?;
                (secret, position)
            }
        };
        let common = Arc::new(Common {
            shard: id,
            commits: Commits::new(log.clone()),
            receipts: ReceiptKey::new(secret.0),
            random: Mutex::new(random),
            first_seq,
            next_queue: AtomicU64::new(first_seq.max(replayed.highest_queue + 1)),
            catalog: Arc::downgrade(&catalog),
            holds: Arc::default(),
            is_maintenance_wanted: AtomicBool::new(false),
            moved_from: AtomicU32::new(u32::MAX),
            is_draining: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            log,
            clock,
            options,
            timers,
            maintenance,
        });
        let queues = replayed.queues.into_iter().map(|replayed| shared(&common, replayed));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        let kept = Arc::new(Kept::new(common.log.clone(), replayed.kept));
        let move_tasks = MoveTasks::new(common.clone(), catalog.clone(), kept.clone())?;
        let move_tasks = Arc::new(move_tasks);
        let tasks = Tasks::new(&common);
        tasks.add(&kept, move_tasks.clone());
        catalog.add(&queues)?;
        common.watch_poison();
        for queue in queues {
            queue.arm(&mut queue.lock());
        }
        let truncation = Truncation::new(
            common.clone(),
            catalog.clone(),
            (kept.clone(), move_tasks.clone()),
            secret,
        );
        let views = replayed.views;
        Ok(Shard { truncation, common, catalog, kept, move_tasks, tasks, views })
    }

    pub fn id(&self) -> ShardId {
        self.common.shard
    }

    /// The journal's state and figures, for health and metrics.
    pub fn log(&self) -> &GroupCommit {
        &self.common.log
    }

    /// Keeps all records from `position` on in the journal for as long as the hold is there. What
    /// is before the first hold may be gone.
    pub fn hold_from(&self, position: Position) -> Hold {
        self.common.holds.hold_from(position)
    }

    /// A view of this journal, which ended there before this run. To be made before
    /// [`crate::Shards::spawn_threads`]: what is dropped from the journal earlier may be missing.
    pub fn view(&self, name: &'static str, end: Position) -> View {
        let latest = self.views.get(name).copied().map(Position);
        View::new(name, self.common.clone(), self.kept.clone(), end, latest)
    }

    /// Documents in this journal.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Tasks that move messages out of queues of this shard.
    pub fn move_tasks(&self) -> &MoveTasks {
        &self.move_tasks
    }

    /// Runs tasks of a kind from now on, those of earlier runs of the server included. Their
    /// documents are to be in this journal.
    pub fn run_tasks_of(&self, kind: Arc<dyn TaskKind>) {
        self.tasks.add(&self.kept, kind);
    }

    /// Every queue in this journal, by id, hidden ones included.
    pub fn queues(&self) -> Vec<Arc<SharedQueue>> {
        self.catalog.of_shard(self.id())
    }

    /// Creates a queue in this journal unless there is one of that name. Resolves after the commit.
    pub async fn create_queue(&self, new: &NewQueue) -> Result<Creation, BrokerError> {
        let (creation, ticket) = self.begin_create_queue(new)?;
        let (Creation::Created(queue) | Creation::Existing(queue)) = &creation;
        queue.committed(ticket).await?;
        Ok(creation)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_create_queue(
        &self,
        new: &NewQueue,
    ) -> Result<(Creation, Option<Ticket>), BrokerError> {
        self.catalog.begin_create_queue(&self.common, new)
    }

    /// Resolves when the ticket, which this journal gave, is committed. Cancel safe.
    pub async fn committed(&self, ticket: Option<Ticket>) -> Result<(), BrokerError> {
        self.common.committed(ticket).await
    }

    /// Does a piece of the work behind: tasks, then the log. Returns how soon to come back
    /// even if nothing calls.
    pub(crate) fn maintain(&self) -> Duration {
        let tasks = self.run_tasks();
        let log = self.look_after_log();
        tasks.map_or(log, |tasks| log.min(tasks))
    }

    pub(crate) fn run_tasks(&self) -> Option<Duration> {
        self.tasks.run(self, self.common.now())
    }

    pub(crate) fn is_maintenance_wanted(&self) -> bool {
        self.common.is_maintenance_wanted.load(Ordering::Acquire)
    }

    pub(crate) fn look_after_log(&self) -> Duration {
        self.common.is_maintenance_wanted.store(false, Ordering::Release);
        self.truncation.look()
    }

    #[cfg(test)]
    pub(crate) fn truncation(&self) -> &Truncation {
        &self.truncation
    }

    /// The key that seals the shard's receipt handles.
    pub(crate) fn receipts(&self) -> &ReceiptKey {
        &self.common.receipts
    }

    pub(crate) fn drain(&self) {
        self.common.drain();
    }

    /// Forgets documents and tasks (test mode). Resolves after the commit.
    pub(crate) async fn forget(&self) -> Result<(), BrokerError> {
        self.move_tasks.forget();
        self.committed(self.kept.forget()?).await
    }

    /// Ends what runs and closes the journal: everything appended is committed on return, later
    /// waits fail.
    pub(crate) fn close(&self) {
        self.drain();
        self.common.is_closed.store(true, Ordering::SeqCst);
        self.queues().iter().for_each(|queue| queue.disarm(&mut queue.lock()));
        self.common.log.close();
        self.common.commits.close();
    }
}

/// A queue as it was replayed. Journals its definition if that is in no record yet; what finds no
/// room is written by the first maintenance that moves definitions.
fn shared(common: &Arc<Common>, replayed: ReplayedQueue) -> Result<Arc<SharedQueue>, BrokerError> {
    let ReplayedQueue { definition, position, queue } = replayed;
    if queue.id().shard() != common.shard {
        let (of, shard) = (queue.id().shard(), common.shard);
        let text = format!("the journal of shard {shard} holds a queue of shard {of}");
        return Err(BrokerError::Internal(text));
    }
    let position = match position {
        Some(position) => position,
        None => {
            let mut records = Records::default();
            new_definition(&definition, &queue)?.write(&mut records);
            let appended = append_one(&common.log, Purpose::Store, &records);
            appended.map_or(0, |(_, position)| position)
        }
    };
    Ok(Arc::new(SharedQueue::new(common.clone(), queue, definition, position)))
}
