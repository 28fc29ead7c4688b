//! One queue's state and the commands that change it.

mod attempts;
mod browse;
mod check;
mod dead_letters;
mod dedup;
mod delay;
mod delete;
mod gauges;
mod give_back;
mod groups;
mod hash_index;
mod lists;
mod purge;
mod receive;
mod relocate;
mod remember;
mod replayed;
mod reservation;
mod segments;
mod send;
mod slab;
#[cfg(test)]
mod testing;
mod timers;
mod view;
mod visibility;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_core::{QueueId, Timestamp};

pub use browse::{BrowseCursor, BrowseFilter, BrowsePage};
pub use dead_letters::{DeadLetters, MovedRecord};
pub use delete::{DeletedRecord, Expired};
pub use gauges::{Fairness, Gauges};
pub use give_back::ReturnedRecord;
pub use purge::{PurgedRecord, QueueDeletedRecord};
pub use receive::{Delivery, Receive, ReceiveError, Received, ReceivedRecord};
pub use relocate::{Relocate, RelocatedRecord};
pub use remember::{RememberedRecord, RememberedSend};
pub use reservation::{Claim, ClaimError, Claimant, ReleasedRecord};
pub use send::{Send, Sent, SentRecord};
pub use slab::MessageState;
pub use view::MessageView;
pub use visibility::{VisibilityError, VisibilityRecord};

pub(crate) use dead_letters::MOVED;
pub(crate) use delete::DELETED;
pub(crate) use give_back::RETURNED;
pub(crate) use purge::{PURGED, QUEUE_DELETED};
pub(crate) use receive::RECEIVED;
pub(crate) use relocate::{RELOCATED, RELOCATED_BEFORE_VERSIONS};
pub(crate) use remember::REMEMBERED;
pub(crate) use reservation::RELEASED;
pub(crate) use send::{SENT, SENT_BEFORE_VERSIONS};
pub(crate) use visibility::VISIBILITY_CHANGED;

use crate::definition::{DeduplicationScope, Kind, Settings};
use crate::receipt::ReceiptKey;
use attempts::Attempts;
use dedup::DedupWindow;
use delay::DelayChange;
use groups::Groups;
use segments::PerSegment;
use slab::{Entry, NONE, Slab, linked};
use timers::Timers;

/// What a message that was dead-lettered here remembers of its earlier life.
#[derive(Clone, Debug)]
struct Origin {
    /// ARN of the queue it came from.
    source: Arc<str>,
    /// SentTimestamp; on FIFO queues retention begins anew with the move.
    sent: u64,
    /// In place of the entry's, which cannot tell of what was before.
    first_received: u64,
}

/// Memory of a queue that needs it no more.
#[derive(Debug)]
pub struct Discarded {
    _chunks: Vec<Vec<Entry>>,
}

/// How many messages are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ready: u64,
    pub delayed: u64,
    pub in_flight: u64,
}

impl Counts {
    /// All that the queue holds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ready + self.delayed + self.in_flight
    }
}

/// One queue: messages, groups, timers and memory of sends. See the crate's root for the states.
#[derive(Debug)]
pub struct Queue {
    id: QueueId,
    /// What dead-lettered messages remember of where they came from.
    arn: Arc<str>,
    settings: Settings,
    slab: Slab,
    groups: Groups,
    /// One for each delayed and in-flight message.
    timers: Timers,
    /// FIFO queues: how far messages have been given a changed delay.
    delay_change: Option<DelayChange>,
    /// Ends of the list by age.
    oldest: u32,
    newest: u32,
    /// (sent, slot) of messages older than their predecessors: those moved here.
    out_of_order: BTreeSet<(u64, u32)>,
    dedup: DedupWindow,
    attempts: Attempts,
    /// Origins of dead letters, by slot. A tree, because it grows node by node: to grow, a hash
    /// table of millions would be copied for a second, with two queues locked.
    origins: BTreeMap<u32, Origin>,
    /// Bytes of the messages' records.
    live: PerSegment,
    next_seq: u64,
    /// Messages that were sent to it, ever.
    sent_total: u64,
    /// Messages of lower sequences were purged.
    purged_to: u64,
    counts: Counts,
}

impl Queue {
    /// An empty queue. Sequences begin at `first_seq`, which must exceed all that the queue gave
    /// out before a restart.
    pub fn new(id: QueueId, arn: &str, settings: Settings, first_seq: u64) -> Queue {
        Queue {
            id,
            arn: Arc::from(arn),
            settings,
            slab: Slab::default(),
            groups: Groups::new(),
            timers: Timers::default(),
            delay_change: None,
            oldest: NONE,
            newest: NONE,
            out_of_order: BTreeSet::new(),
            dedup: DedupWindow::default(),
            attempts: Attempts::default(),
            origins: BTreeMap::new(),
            live: PerSegment::default(),
            next_seq: first_seq,
            sent_total: 0,
            purged_to: 0,
            counts: Counts::default(),
        }
    }

    /// Does what is due and needs no record: ends delays and visibility timeouts, gives messages a
    /// changed delay, forgets sends. At most `budget` of each, so that no command pays for thousands
    /// of others.
    pub fn tick(&mut self, now: Timestamp, budget: usize) {
        for _ in 0..budget {
            match self.timers.first() {
                Some((deadline, slot)) if deadline <= now.0 => {
                    self.change(slot, MessageState::Ready, 0);
                }
                _ => break,
            }
        }
        self.go_on_with_delay(now, budget);
        self.dedup.expire(now, budget);
        self.attempts.expire(now, budget);
    }

    /// When [`Queue::tick`] or [`Queue::expire`] next has something to do that clients can tell;
    /// [`Timestamp::NEVER`] if neither ever has.
    pub fn next_deadline(&self) -> Timestamp {
        if self.delay_change.is_some() {
            return Timestamp(0);
        }
        let timer = self.timers.first().map(|(deadline, _)| deadline);
        let retention_ms = u64::from(self.settings.retention_s) * 1000;
        let expiry = self.oldest_message().map(|(sent, _)| sent.saturating_add(retention_ms));
        let forget = self.dedup.next_expiry();
        let next = [timer, expiry, forget].into_iter().flatten().min();
        next.map_or(Timestamp::NEVER, Timestamp)
    }

    /// When [`Queue::tick`] next has an attempt to forget, which does nothing but free memory;
    /// [`Timestamp::NEVER`] if there is none. No journal tells of attempts.
    pub fn next_attempt_end(&self) -> Timestamp {
        self.attempts.next_end().map_or(Timestamp::NEVER, Timestamp)
    }

    /// The key under which a send's deduplication id is remembered.
    pub fn dedup_key(&self, hash: &ReceiptKey, group: &str, deduplication_id: &str) -> u128 {
        match self.settings.deduplication_scope {
            DeduplicationScope::Queue => hash.hash(deduplication_id.as_bytes()),
            // Neither id holds a space, so the pair is unambiguous.
            DeduplicationScope::MessageGroup => {
                hash.hash(format!("{group} {deduplication_id}").as_bytes())
            }
        }
    }

    /// This incarnation.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// Sets what dead-lettered messages remember of where they came from.
    pub fn set_arn(&mut self, arn: &str) {
        self.arn = Arc::from(arn);
    }

    /// What is left of a large backlog that is gone, to be dropped where nobody waits.
    pub fn take_discarded(&mut self) -> Option<Discarded> {
        self.slab.take_discarded().map(|chunks| Discarded { _chunks: chunks })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Upper bound, `at_most` at most, of the receives that could get something now; 0 only if none
    /// would. A group of a FIFO queue is handed to one receive at a time, however long it is.
    pub fn receivable(&self, at_most: u64) -> u64 {
        match self.settings.kind {
            Kind::Fifo => (0..at_most).zip(self.groups.turns()).count() as u64,
            Kind::Standard if self.groups.first().is_some() => self.counts.ready.min(at_most),
            Kind::Standard => 0,
        }
    }

    /// Number of messages that the queue was sent since it was created.
    pub fn sent_total(&self) -> u64 {
        self.sent_total
    }

    /// When the oldest message was sent, as retention counts it.
    pub fn oldest_sent(&self) -> Option<Timestamp> {
        self.oldest_message().map(|(sent, _)| Timestamp(sent))
    }

    /// Journal bytes that messages need.
    pub fn live_bytes(&self) -> u64 {
        self.live.total()
    }

    /// Journal bytes that messages need in one segment.
    pub fn live_bytes_in(&self, segment: u32) -> u64 {
        self.live.in_segment(segment)
    }

    /// The oldest journal segment that messages need.
    pub fn oldest_segment(&self) -> Option<u32> {
        self.live.oldest_segment()
    }

    fn oldest_message(&self) -> Option<(u64, u32)> {
        let listed = linked(self.oldest).map(|slot| (self.slab.at(slot).sent, slot));
        [listed, self.out_of_order.first().copied()].into_iter().flatten().min()
    }
}
