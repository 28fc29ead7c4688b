//! From deliveries to contents, and back if they do not reach their client.

use std::sync::atomic::{AtomicU64, Ordering};

use millrace_core::MessageId;
use millrace_engine::record::Record as EngineRecord;
use millrace_engine::{Content, Delivery};
use millrace_journal::{Position, ReadError, RecordBytes};

use crate::error::BrokerError;
use crate::figures::Counters;
use crate::message::Incoming;
use crate::queue::SharedQueue;

/// Deliveries on their way to a client; dropped, they go back.
pub(crate) struct Undelivered<'a> {
    pub queue: &'a SharedQueue,
    pub deliveries: &'a [Delivery],
}

impl Drop for Undelivered<'_> {
    fn drop(&mut self) {
        let deliveries = self.deliveries.iter().map(|it| (it.at, it.receive_count));
        self.queue.give_back(&deliveries.collect::<Vec<_>>());
    }
}

/// Reads what was received from a queue.
pub(crate) struct Contents<'q>(pub &'q SharedQueue);

impl Contents<'_> {
    /// Reads the contents of received messages. One that the disk has damaged, or cannot read, is
    /// left out: it stays hidden, its receive counted, so that it does not stand in the way of the
    /// others and ends in the dead-letter queue, if there is one. Also returns how many those are.
    pub(crate) fn read(&self, deliveries: &[Delivery]) -> (Vec<Incoming>, usize) {
        let mut left_out = 0;
        let place = |delivery: &Delivery| (Position(delivery.position), delivery.record_len);
        let wanted: Vec<(Position, u32)> = deliveries.iter().map(place).collect();
        let mut records = Vec::with_capacity(wanted.len());
        if self.0.common.log.read_many(&wanted, &mut records).is_ok() {
            let read = deliveries.iter().zip(records);
            let incoming = read.filter_map(|(delivery, record)| {
                self.incoming(delivery, Ok(record), &mut left_out)
            });
            return (incoming.collect(), left_out);
        }
        let incoming = deliveries.iter().filter_map(|delivery| {
            let read = self.read_present(delivery);
            self.incoming(delivery, read, &mut left_out)
        });
        (incoming.collect(), left_out)
    }

    /// Reads a delivery's record where it is now: maintenance may have moved it meanwhile.
    fn read_present(&self, delivery: &Delivery) -> Result<RecordBytes, ReadError> {
        let read = |at: &Delivery| self.0.common.log.read(Position(at.position), at.record_len);
        match read(delivery) {
            Err(gone @ ReadError::Gone(_)) => {
                find_again(self.0, delivery).map_or(Err(gone), |present| read(&present))
            }
            read => read,
        }
    }

    fn incoming(
        &self,
        delivery: &Delivery,
        read: Result<RecordBytes, ReadError>,
        left_out: &mut usize,
    ) -> Option<Incoming> {
        match read.and_then(|record| decode(Position(delivery.position), record)) {
            Ok((id, content)) => {
                let receipt_handle = self.0.receipt_handle(delivery);
                Some(Incoming { id, receipt_handle, content, delivery: delivery.clone() })
            }
            Err(error @ ReadError::Gone(_)) => {
                tracing::debug!(queue = %self.0.key(), %error, "deleted a moment ago by others");
                None
            }
            Err(error) => {
                *left_out += 1;
                self.tell_left_out(&error);
                None
            }
        }
    }

    /// One line a second: a consumer that hides nothing receives the same message over and over.
    fn tell_left_out(&self, error: &ReadError) {
        Counters::add(&self.0.counters.messages_left_out, 1);
        static LAST_S: AtomicU64 = AtomicU64::new(0);
        let now_s = self.0.common.now().seconds();
        if LAST_S.swap(now_s, Ordering::Relaxed) != now_s {
            tracing::error!(queue = %self.0.key(), %error, "message left out");
        }
    }
}

/// The delivery with its record's present position: while it was on its way, maintenance may have
/// moved the record out of a segment that is gone. None: others have deleted or purged the message.
fn find_again(queue: &SharedQueue, delivery: &Delivery) -> Option<Delivery> {
    let state = queue.lock();
    let Delivery { position, record_len, .. } = state.queue.find(delivery.at)?.delivery;
    Some(Delivery { position, record_len, ..delivery.clone() })
}

/// The content of a message's record, and the id that its index part holds. Without a content it
/// is one whose record was damaged before it was relocated.
pub(crate) fn decode(
    position: Position,
    record: RecordBytes,
) -> Result<(MessageId, Content), ReadError> {
    let damaged = ReadError::Damaged(position);
    let message = EngineRecord::decode(record.index()).ok().and_then(EngineRecord::into_message);
    let Some((id, version)) = message.map(|message| (message.id, message.version)) else {
        return Err(damaged);
    };
    let content = Content::decode(version, record.into_payload()).ok_or(damaged)?;
    Ok((id, content))
}

pub(crate) fn unreadable(error: &ReadError) -> BrokerError {
    BrokerError::Internal(format!("message content cannot be read: {error}"))
}
