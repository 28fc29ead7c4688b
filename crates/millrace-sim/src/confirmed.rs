//! Deletes that clients were told of: what they deleted must never be seen again, whatever crashes
//! between the receive and the delete, or after it.
//!
//! The model alone cannot tell: it takes a handle whose message is not there for a delete that is
//! repeated, though the message may be elsewhere because a crash undid a move that nobody should
//! have been told of.

use std::collections::{BTreeMap, BTreeSet};

use millrace_journal::{GroupCommit, Ticket};

use crate::model::Model;
use crate::world::Held;

/// What clients may rely on. Messages by the numbers in their bodies.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    /// The poll that was the last to take a message, if nothing has taken or moved it since.
    holders: BTreeMap<u64, u64>,
    /// Deletes that are told when this is committed.
    awaited: Vec<(Ticket, Vec<u64>)>,
    gone: BTreeSet<u64>,
}

impl Confirmed {
    /// A receive took the message; `None`: by a client that was not answered, or it was moved.
    pub(crate) fn take(&mut self, uid: u64, poll: Option<u64>) {
        match poll {
            Some(poll) => self.holders.insert(uid, poll),
            None => self.holders.remove(&uid),
        };
    }

    /// A delete by these handles succeeds, and is told when the ticket is committed. It counts for
    /// those whose holder was answered by a poll, if nobody has had the message since.
    pub(crate) fn delete<'a>(
        &mut self,
        handles: impl Iterator<Item = &'a Held>,
        ticket: Option<Ticket>,
    ) {
        let given = handles.filter_map(|held| held.given);
        let told = given.filter(|given| self.holders.get(&given.uid) == Some(&given.poll));
        let told: Vec<u64> = told.map(|given| given.uid).collect();
        match ticket {
            Some(ticket) => self.awaited.push((ticket, told)),
            None => self.gone.extend(told),
        }
    }

    /// Tells what is committed by now.
    pub(crate) fn settle(&mut self, log: &GroupCommit) {
        let is_committed = |ticket: Ticket| log.outcome(ticket) == Some(Ok(()));
        let told = self.awaited.extract_if(.., |(ticket, _)| is_committed(*ticket));
        self.gone.extend(told.flat_map(|(_, uids)| uids));
    }

    /// The process ended: what was not committed was told to nobody.
    pub(crate) fn restart(&mut self) {
        self.awaited.clear();
    }

    /// A deleted message that is there.
    pub(crate) fn returned(&self, live: &Model) -> Option<u64> {
        let messages = live.queues.values().flat_map(|queue| queue.messages.values());
        messages.map(|message| message.uid).find(|uid| self.gone.contains(uid))
    }
}
