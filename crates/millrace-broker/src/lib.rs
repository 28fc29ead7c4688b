//! The broker joins engine and journal: it knows queues by name, appends what the engine says,
//! waits for commits, parks long polls and keeps the timers. No HTTP, no AWS names.
//!
//! ```text
//!  Shards ── threads, clock ──┬── Catalog: queues of all shards by name
//!    └─ Shard: one journal    │      │
//!         ├─ Kept             │   SharedQueue: what is done with one queue
//!         ├─ Tasks, MoveTasks │      │
//!         └─ Truncation ──────┴── Common: the shard's journal, commit waits, keys
//! ```
//!
//! What it promises: a future that resolves to success resolves after its records are committed
//! (receives from standard queues excepted: forgetting one is a redelivery). What it never does:
//! block on a commit in a future, spawn, or poll in a loop. (Reads of messages that are not in
//! memory go to the page cache, or to the disk.)
//!
//! Locks: in the order that ARCHITECTURE.md gives. None is held across an await.
//!
//! In reading order: [`Shards`] and [`Shard`], [`SharedQueue`], sends, receives, deletes, the
//! [`Catalog`], [`Kept`] documents, [`View`]s, then what runs behind: what is due, waits for
//! commits, waiters, timers, tasks, maintenance.

mod append;
mod browse;
mod catalog;
mod commit;
mod common;
mod deliver;
mod due;
mod error;
mod fan_out;
mod figures;
mod holds;
mod kept;
mod maintenance;
mod message;
mod move_task;
mod queue;
mod receive;
mod reservation;
mod send;
mod settle;
mod shard;
mod shards;
mod tasks;
#[cfg(test)]
mod testing;
mod timers;
mod view;
mod waiter;

pub use browse::{Browse, Browsed, Browser};
pub use catalog::{Catalog, Creation, NewQueue, OnDelete};
pub use commit::commit_driver;
pub use common::{Options, Random};
pub use error::BrokerError;
pub use fan_out::{AcceptedByQueue, SendTo};
pub use figures::{QueueFigures, QueueGlance, QueueTotals};
pub use holds::Hold;
pub use kept::{
    Collection, DOCUMENT_BYTES_MAX, Document, Expected, Found, KEY_BYTES_MAX, Kept, KeptChange,
    KeptError, KeptFigures, KeptListener,
};
pub use message::{Accepted, Incoming, Outgoing, Peeked};
pub use move_task::{
    MoveTask, MoveTaskError, MoveTaskFailure, MoveTaskStatus, MoveTasks, StartMoveTask,
};
pub use queue::SharedQueue;
pub use receive::ReceiveRequest;
pub use shard::{OpenShard, Shard};
pub use shards::Shards;
pub use tasks::{Appended, Step, TaskKind};
pub use view::{View, ViewError, VisitRecord};

pub use millrace_journal::{
    Pinned, Position, Purpose, ReadError, SYNC_BUCKETS, SYNC_FIRST_BUCKET_US,
    Stats as JournalStats, Ticket, Unavailable,
};

pub use millrace_engine::{
    Attribute, BrowseCursor, BrowseFilter, Claim, ClaimError, Claimant, Content, Counts,
    DeduplicationScope, Definition, Fairness, Gauges, Handle, Kind, MessageState, MessageView,
    NewContent, Redrive, Settings, record::SlotSeq,
};
