//! The oracle: what must be true now, and what must be true after a crash now.
//!
//! ```text
//!   base ──── pending changes, in the order of the journal ────► live
//!   (committed: survives every crash)                            (what the broker shows)
//! ```
//! A crash keeps `base` and a prefix of the pending changes: those whose records end where the
//! records that replay shows end, or before.

use std::collections::{BTreeMap, VecDeque};

use millrace_broker::MoveTask;
use millrace_core::limits;
use millrace_journal::{GroupCommit, Ticket};

use crate::model::{Change, Model};
use crate::receives::Asked;

/// Number of a change since the start of the world.
pub type Serial = u64;

#[derive(Debug)]
struct Pending {
    at: u64,
    /// The change's records begin here or later.
    low: u64,
    /// The change's records end here or before; equal to `low` if their end is known exactly.
    high: u64,
    ticket: Ticket,
    change: Change,
}

/// The end of what was appended so far, and its ticket.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub end: u64,
    pub ticket: Ticket,
}

impl Mark {
    pub fn of(log: &GroupCommit) -> Mark {
        Mark { end: log.tail().0, ticket: log.latest() }
    }
}

/// What a receive attempt was given: sequence, receive count, deadline.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    pub expires: u64,
    pub given: Vec<(u64, u32, u64)>,
}

/// Expected state. See the module.
#[derive(Debug, Default)]
pub struct Oracle {
    pub live: Model,
    base: Model,
    base_end: u64,
    pending: VecDeque<Pending>,
    next_serial: Serial,
    /// By queue and attempt id; forgotten at a restart.
    pub attempts: BTreeMap<(u64, String), Attempt>,
    highest_seqs: BTreeMap<u64, u64>,
    highest_queue: u64,
    /// Ends of tasks that a crash may have kept or not: power may be off when one would look.
    doubtful_tasks: Vec<MoveTask>,
}

impl Oracle {
    /// Notes a change whose records end at the mark.
    pub fn record(&mut self, now: u64, mark: Mark, change: Change) -> Serial {
        self.record_after(now, mark.end, mark, change)
    }

    /// Notes a change whose records end somewhere between `low` and the mark.
    pub fn record_after(&mut self, now: u64, low: u64, mark: Mark, change: Change) -> Serial {
        self.live.apply(now, change.clone());
        let Mark { end: high, ticket } = mark;
        self.pending.push_back(Pending { at: now, low, high, ticket, change });
        self.next_serial += 1;
        self.next_serial
    }

    /// Moves what is committed by now into the base.
    pub fn settle(&mut self, log: &GroupCommit) {
        while let Some(first) = self.pending.front()
            && log.outcome(first.ticket) == Some(Ok(()))
            && let Some(first) = self.pending.pop_front()
        {
            self.base_end = self.base_end.max(first.high);
            self.base.apply(first.at, first.change);
        }
    }

    /// What an answer waits for that tells of earlier changes to a queue and makes none: the latest
    /// of those that a client was or will be told of.
    pub fn told_after(&self, queue: u64) -> Option<(Serial, Ticket)> {
        let is_told_of = |change: &Change| match change {
            Change::Defined(definition) => definition.id == queue,
            Change::Sent { queue: of, .. }
            | Change::Visibility { queue: of, .. }
            | Change::Deleted { queue: of, .. } => *of == queue,
            _ => false,
        };
        let newest_first = (0..=self.next_serial).rev().zip(self.pending.iter().rev());
        let mut told = newest_first.filter(|(_, pending)| is_told_of(&pending.change));
        told.next().map(|(serial, pending)| (serial, pending.ticket))
    }

    pub fn is_committed(&self, serial: Serial) -> bool {
        serial + self.pending.len() as u64 <= self.next_serial
    }

    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The process ended; replay showed records up to `end`.
    pub fn restart(&mut self, now: u64, end: u64) -> Result<(), String> {
        if end < self.base_end {
            return Err(format!("committed up to {:#x}, replayed up to {end:#x}", self.base_end));
        }
        for lost in std::mem::take(&mut self.pending) {
            if lost.high <= end {
                self.base.apply(lost.at, lost.change);
            } else if lost.low < end
                && let Change::Task(task) = lost.change
            {
                self.doubtful_tasks.push(*task);
            }
        }
        self.base.tick(now);
        self.base_end = end;
        self.live = self.base.clone();
        self.attempts.clear();
        Ok(())
    }

    /// Whether a task may be as it is seen: a crash may have kept its end or not.
    pub fn adopt_task(&mut self, seen: &MoveTask) -> bool {
        if self.doubtful_tasks.iter().any(|task| task == seen) {
            self.live.tasks.insert(seen.id.clone(), seen.clone());
            self.base.tasks.insert(seen.id.clone(), seen.clone());
            return true;
        }
        false
    }

    /// All tasks were seen, and are as they are known now.
    pub fn end_doubts(&mut self) {
        self.doubtful_tasks.clear();
    }

    /// Sequences of a queue grow, also across restarts, crashes and purges.
    pub fn check_seq(&mut self, queue: u64, seq: u64) -> Result<(), String> {
        let highest = self.highest_seqs.entry(queue).or_default();
        if seq <= *highest {
            return Err(format!("queue {queue:#x}: sequence {seq:#x} after {highest:#x}"));
        }
        *highest = seq;
        Ok(())
    }

    /// Queue ids grow.
    pub fn check_queue_id(&mut self, queue: u64) -> Result<(), String> {
        if queue <= self.highest_queue {
            return Err(format!("queue id {queue:#x} after {:#x}", self.highest_queue));
        }
        self.highest_queue = queue;
        Ok(())
    }

    /// What a repeated attempt must get: its messages, if none has changed since and it does not
    /// ask for fewer.
    pub fn repeated(&self, now: u64, asked: &Asked) -> Option<Vec<u64>> {
        let queue = asked.queue;
        let attempt = self.attempts.get(&(queue, asked.attempt.clone()?))?;
        let messages = &self.live.queues.get(&queue)?.messages;
        let is_unchanged = |&(seq, count, deadline): &(u64, u32, u64)| {
            messages.get(&seq).is_some_and(|message| {
                message.receive_count == count
                    && message.is_in_flight()
                    && message.deadline() == Some(deadline)
                    && deadline > now
            })
        };
        let is_alive = attempt.expires > now
            && attempt.given.len() <= asked.max
            && attempt.given.iter().all(is_unchanged);
        is_alive.then(|| attempt.given.iter().map(|given| given.0).collect())
    }

    /// Notes what an attempt was given.
    pub fn remember(&mut self, now: u64, queue: u64, attempt: Option<&str>, seqs: &[u64]) {
        let Some(attempt) = attempt.filter(|_| !seqs.is_empty()) else { return };
        let Some(model) = self.live.queues.get(&queue) else { return };
        let given = seqs.iter().filter_map(|seq| model.messages.get(seq));
        let given = given.map(|m| (m.seq, m.receive_count, m.deadline().unwrap_or(now)));
        let expires = now + limits::DEDUPLICATION_WINDOW_S * 1000;
        let attempted = Attempt { expires, given: given.collect() };
        self.attempts.insert((queue, attempt.to_owned()), attempted);
    }
}
