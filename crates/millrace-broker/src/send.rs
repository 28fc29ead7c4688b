//! Accepting messages.

use millrace_engine::record::{self, SentRecord, SlotSeq};
use millrace_engine::{Kind, Send, Sent};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{Position, Purpose, Record, Ticket};
use smallvec::SmallVec;

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::message::{Accepted, Outgoing};
use crate::queue::SharedQueue;

/// Bytes of a `Sent` record's index part besides the group id.
const INDEX_BYTES: usize = 96;

impl Broker {
    /// Accepts all messages in order, or none. Resolves after their commit. Cancel safe: once
    /// polled, the messages stay accepted.
    pub async fn send(
        &self,
        queue: &SharedQueue,
        messages: &[Outgoing<'_>],
    ) -> Result<SmallVec<[Accepted; 10]>, BrokerError> {
        let (accepted, ticket) = self.begin_send(queue, messages)?;
        self.committed(ticket).await?;
        Ok(accepted)
    }

    /// Changes memory and appends; what it returns may be told once the ticket is committed.
    pub fn begin_send(
        &self,
        queue: &SharedQueue,
        messages: &[Outgoing<'_>],
    ) -> Result<(SmallVec<[Accepted; 10]>, Option<Ticket>), BrokerError> {
        let content_bytes: usize = messages.iter().map(|message| message.content.len()).sum();
        let group_bytes: usize =
            messages.iter().map(|message| message.group.map_or(0, str::len)).sum();
        let overhead_bytes = messages.len() * (RECORD_HEADER_BYTES + INDEX_BYTES);
        let reserved = content_bytes + group_bytes + overhead_bytes;
        let reservation = self.log.reserve(reserved, Purpose::Store)?;

        let mut indexes = Vec::with_capacity(messages.len() * INDEX_BYTES);
        let mut accepted = SmallVec::new();
        let mut stored: SmallVec<[Stored; 10]> = SmallVec::new();
        let mut state = queue.lock();
        if state.is_deleted {
            return Err(BrokerError::QueueDoesNotExist);
        }
        let now = self.now();
        let is_fifo = state.queue.settings().kind == Kind::Fifo;
        let mut ready = 0;
        for (number, message) in messages.iter().enumerate() {
            let dedup = message.deduplication_id.filter(|_| is_fifo).map(|id| {
                state.queue.dedup_key(&self.receipts, message.group.unwrap_or_default(), id)
            });
            let Outgoing { id, group, delay_s, .. } = *message;
            match state.queue.send(now, &Send { id, group, dedup, delay_s }) {
                Sent::Duplicate { id, seq } => {
                    state.sends.deduplicated += 1;
                    accepted.push(Accepted { id, seq });
                }
                Sent::Stored { at, sent, deadline } => {
                    let queue = queue.id();
                    let dedup_bits = dedup.unwrap_or_default();
                    let start = indexes.len();
                    record::sent(
                        &mut indexes,
                        &SentRecord {
                            queue,
                            at,
                            sent,
                            deadline,
                            id,
                            is_fifo,
                            group,
                            dedup: dedup_bits,
                        },
                    );
                    accepted.push(Accepted { id, seq: at.seq });
                    stored.push(Stored { at, dedup, number, index: start..indexes.len() });
                    ready += u64::from(deadline.0 == 0);
                }
            }
        }
        if stored.is_empty() {
            // Repeats of sends whose commit may still be under way.
            return Ok((accepted, state.latest));
        }
        let records: SmallVec<[Record<'_>; 10]> = stored
            .iter()
            .map(|stored| Record {
                index: &indexes[stored.index.clone()],
                payload: messages[stored.number].content,
            })
            .collect();
        let mut positions: Vec<Position> = Vec::with_capacity(records.len());
        let ticket = self.log.append_before_commit_here(reservation, &records, &mut positions);
        for ((stored, position), record) in stored.iter().zip(&positions).zip(&records) {
            let record_len = record.encoded_bytes() as u32;
            state.queue.stored(stored.at, stored.dedup, position.0, record_len);
        }
        for stored in &stored {
            state.sends.add(messages[stored.number].size_bytes);
        }
        state.latest = Some(ticket);
        state.wake(ready);
        self.arm(queue, &mut state);
        Ok((accepted, Some(ticket)))
    }
}

struct Stored {
    at: SlotSeq,
    dedup: Option<u128>,
    /// Of the message in the call.
    number: usize,
    index: std::ops::Range<usize>,
}
