//! From deliveries to contents, and back if they do not reach their client.

use millrace_core::MessageId;
use millrace_engine::record::{self, Record as EngineRecord};
use millrace_engine::{Content, Delivery, MessageView};
use millrace_journal::{Position, Purpose, ReadError, RecordBytes};

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::message::Incoming;
use crate::queue::SharedQueue;

/// Deliveries on their way to a client; dropped, they go back.
pub(crate) struct Undelivered<'a> {
    pub broker: &'a Broker,
    pub queue: &'a SharedQueue,
    pub deliveries: &'a [Delivery],
}

impl Drop for Undelivered<'_> {
    fn drop(&mut self) {
        self.broker.give_back(self.queue, self.deliveries);
    }
}

impl Broker {
    /// Reads the contents of received messages. One that the disk has damaged, or cannot read, is
    /// left out: it stays hidden, its receive counted, so that it does not stand in the way of the
    /// others and ends in the dead-letter queue, if there is one.
    pub(crate) fn read_deliveries(
        &self,
        queue: &SharedQueue,
        deliveries: &[Delivery],
    ) -> Result<Vec<Incoming>, BrokerError> {
        let place = |delivery: &Delivery| (Position(delivery.position), delivery.record_len);
        let wanted: Vec<(Position, u32)> = deliveries.iter().map(place).collect();
        let mut records = Vec::with_capacity(wanted.len());
        if self.log.read_many(&wanted, &mut records).is_ok() {
            let incoming = deliveries.iter().zip(records);
            return incoming
                .map(|(delivery, record)| self.incoming(queue, delivery, record))
                .collect();
        }
        let mut incoming = Vec::with_capacity(deliveries.len());
        for (delivery, (position, record_len)) in deliveries.iter().zip(wanted) {
            match self.log.read(position, record_len) {
                Ok(record) => incoming.push(self.incoming(queue, delivery, record)?),
                // Or gone: deleted a moment ago by another handle.
                Err(error) => {
                    tracing::error!(queue = %queue.key(), %error, "message left out");
                }
            }
        }
        Ok(incoming)
    }

    fn incoming(
        &self,
        queue: &SharedQueue,
        delivery: &Delivery,
        record: RecordBytes,
    ) -> Result<Incoming, BrokerError> {
        let (id, content) = decode(record)?;
        let receipt_handle = self.receipt_handle(queue, delivery);
        Ok(Incoming { id, receipt_handle, content, delivery: delivery.clone() })
    }

    /// Gives deliveries back that did not reach their client. If the journal takes no changes they
    /// come back when their visibility timeout ends: memory never runs ahead of what a restart
    /// would show.
    pub(crate) fn give_back(&self, queue: &SharedQueue, deliveries: &[Delivery]) {
        if deliveries.is_empty() {
            return;
        }
        let reservation = match self.log.reserve(64 + 12 * deliveries.len(), Purpose::Reclaim) {
            Ok(reservation) => reservation,
            Err(error) => {
                tracing::warn!(queue = %queue.key(), %error, "messages could not be given back");
                return;
            }
        };
        let mut state = queue.lock();
        let returned = state.queue.give_back(deliveries);
        if returned.is_empty() {
            return;
        }
        let count = returned.len() as u64;
        let mut index = Vec::with_capacity(32 + 12 * returned.len());
        record::returned(&mut index, queue.id(), self.now(), returned.into_iter());
        let record = millrace_journal::Record { index: &index, payload: &[] };
        state.latest = Some(self.log.append(reservation, &[record], &mut Vec::new()));
        state.waiters.wake(count);
    }
}

/// The deliveries that still are in the queue, with their records' present positions: while a
/// receive waited for its commit, others may have deleted or purged messages, and maintenance may
/// have moved records out of segments that are gone.
pub(crate) fn find_again(queue: &SharedQueue, deliveries: &[Delivery]) -> Vec<Delivery> {
    let state = queue.lock();
    let present = |delivery: &Delivery| {
        let MessageView { position, record_len, .. } = state.queue.find(delivery.at)?;
        Some(Delivery { position, record_len, ..delivery.clone() })
    };
    deliveries.iter().filter_map(present).collect()
}

/// The content of a message's record, and the id that its index part holds.
pub(crate) fn decode(record: RecordBytes) -> Result<(MessageId, Content), BrokerError> {
    let id = match EngineRecord::decode(record.index()) {
        Some(EngineRecord::Sent(sent)) => sent.id,
        Some(EngineRecord::Relocated(relocated)) => relocated.message.id,
        _ => return Err(BrokerError::Internal("record holds no message".to_owned())),
    };
    let content = Content::decode(record.into_payload())
        .ok_or_else(|| BrokerError::Internal("message content is malformed".to_owned()))?;
    Ok((id, content))
}

pub(crate) fn unreadable(error: &ReadError) -> BrokerError {
    BrokerError::Internal(format!("message content cannot be read: {error}"))
}
