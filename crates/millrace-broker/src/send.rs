//! Accepting messages.

use millrace_engine::record::{Records, SlotSeq};
use millrace_engine::{Kind, Send, Sent, StoredContent};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{Position, Purpose, Record, Reservation, Ticket};
use smallvec::SmallVec;

use crate::append::journal_records;
use crate::error::BrokerError;
use crate::message::{Accepted, Outgoing};
use crate::queue::{SharedQueue, State};

/// Bytes of a `Sent` record's index part besides the group id.
const INDEX_BYTES: usize = 96;

impl SharedQueue {
    /// Accepts all messages in order, or none. Resolves after their commit. Cancel safe: once
    /// polled, the messages stay accepted.
    pub async fn send(
        &self,
        messages: &[Outgoing<'_>],
    ) -> Result<SmallVec<[Accepted; 10]>, BrokerError> {
        let (accepted, ticket) = self.begin_send(messages)?;
        self.committed(ticket).await?;
        Ok(accepted)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_send(
        &self,
        messages: &[Outgoing<'_>],
    ) -> Result<(SmallVec<[Accepted; 10]>, Option<Ticket>), BrokerError> {
        let reservation = self.common.log.reserve(batch_bytes(messages), Purpose::Store)?;

        let mut batch = Batch::new(messages);
        let mut state = self.lock();
        if state.is_deleted {
            return Err(BrokerError::QueueDoesNotExist);
        }
        self.accept(&mut state, messages, &mut batch);
        if batch.stored.is_empty() {
            // Repeats of sends whose commit may still be under way.
            return Ok((batch.accepted, state.latest));
        }
        let ticket = self.append_sent(&mut state, reservation, messages, &batch);
        state.wake(batch.ready);
        self.arm(&mut state);
        Ok((batch.accepted, Some(ticket)))
    }

    /// Changes memory, but for where the messages are in the journal.
    pub(crate) fn accept<'m>(
        &self,
        state: &mut State,
        messages: &[Outgoing<'m>],
        batch: &mut Batch<'m>,
    ) {
        let now = self.common.now();
        let kind = self.kind();
        for (number, message) in messages.iter().enumerate() {
            let dedup = message.deduplication_id.filter(|_| kind == Kind::Fifo).map(|id| {
                state.queue.dedup_key(&self.common.receipts, message.group.unwrap_or_default(), id)
            });
            let Outgoing { id, group, delay_s, .. } = *message;
            let content = StoredContent::plain(message.content);
            let send = Send { id, content, group, dedup, delay_s };
            match state.queue.send(now, &send, &mut batch.records) {
                Sent::Duplicate { id, seq } => {
                    state.sends.deduplicated += 1;
                    batch.accepted.push(Accepted { id, seq, slot: None });
                }
                Sent::Stored { at, deadline, .. } => {
                    batch.accepted.push(Accepted { id, seq: at.seq, slot: Some(at.slot) });
                    batch.stored.push(Stored { at, dedup, number });
                    batch.ready += u64::from(deadline.0 == 0);
                }
            }
        }
    }

    /// Appends what was accepted and tells memory where it is.
    fn append_sent(
        &self,
        state: &mut State,
        reservation: Reservation<'_>,
        messages: &[Outgoing<'_>],
        batch: &Batch<'_>,
    ) -> Ticket {
        let records = journal_records(&batch.records);
        let mut positions: Vec<Position> = Vec::with_capacity(records.len());
        let ticket =
            self.common.log.append_before_commit_here(reservation, &records, &mut positions);
        batch.appended(state, messages, &positions, ticket);
        ticket
    }
}

impl<'m> Batch<'m> {
    pub(crate) fn new(messages: &[Outgoing<'m>]) -> Batch<'m> {
        Batch {
            records: Records::with_capacity(messages.len() * INDEX_BYTES),
            accepted: SmallVec::new(),
            stored: SmallVec::new(),
            ready: 0,
        }
    }

    /// Tells memory where the records are.
    pub(crate) fn appended(
        &self,
        state: &mut State,
        messages: &[Outgoing<'_>],
        positions: &[Position],
        ticket: Ticket,
    ) {
        let placed = positions.iter().zip(self.records.iter());
        for (stored, (position, (index, payload))) in self.stored.iter().zip(placed) {
            let record_len = Record { index, payload }.encoded_bytes() as u32;
            state.queue.stored(stored.at, stored.dedup, position.0, record_len);
        }
        for stored in &self.stored {
            state.sends.add(messages[stored.number].size_bytes);
        }
        state.latest = Some(ticket);
    }
}

/// What became of the messages of one call.
pub(crate) struct Batch<'m> {
    pub(crate) records: Records<'m>,
    pub(crate) accepted: SmallVec<[Accepted; 10]>,
    /// The messages that are no duplicates.
    pub(crate) stored: SmallVec<[Stored; 10]>,
    /// How many of these may be received at once.
    pub(crate) ready: u64,
}

pub(crate) struct Stored {
    at: SlotSeq,
    dedup: Option<u128>,
    /// Index of the message in the call.
    number: usize,
}

/// What the records take at most.
pub(crate) fn batch_bytes(messages: &[Outgoing<'_>]) -> usize {
    let content_bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    let group_bytes: usize = messages.iter().map(|message| message.group.map_or(0, str::len)).sum();
    content_bytes + group_bytes + messages.len() * (RECORD_HEADER_BYTES + INDEX_BYTES)
}
