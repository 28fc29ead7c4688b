//! The messages of a queue in memory, what happened to it, and what is planned to.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytestring::ByteString;
use tokio::time::Instant;

use super::fault::{CallRecord, Fault, Operation};
use crate::message::{Delivery, Outgoing, ReceiptHandle, attribute};
use crate::peer::ReceiveRequest;

#[derive(Debug)]
pub(super) struct State {
    pub(super) messages: Vec<Stored>,
    pub(super) visibility: Duration,
    pub(super) latency: Duration,
    /// How long receives wait at most, whatever is claimed.
    pub(super) longest_wait: Duration,
    pub(super) is_partitioned: bool,
    pub(super) next_id: u64,
    pub(super) faults: VecDeque<(Operation, Fault)>,
    pub(super) calls: Vec<CallRecord>,
    pub(super) deleted: Vec<ByteString>,
    /// Receives after which a message is moved away instead of received once more.
    pub(super) max_receives: Option<u32>,
    pub(super) moved: Vec<ByteString>,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) id: u64,
    pub(super) message: Outgoing,
    pub(super) receive_count: u32,
    pub(super) visible_at: Instant,
    pub(super) first_received: Option<Instant>,
}

impl State {
    /// Empty, with a visibility timeout of 30 s.
    pub(super) fn new() -> State {
        State {
            messages: Vec::new(),
            visibility: Duration::from_secs(30),
            latency: Duration::ZERO,
            longest_wait: Duration::MAX,
            is_partitioned: false,
            next_id: 1,
            faults: VecDeque::new(),
            calls: Vec::new(),
            deleted: Vec::new(),
            max_receives: None,
            moved: Vec::new(),
        }
    }

    pub(super) fn store(&mut self, message: Outgoing) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let visible_at = Instant::now() + message.delay.unwrap_or_default();
        let (receive_count, first_received) = (0, None);
        self.messages.push(Stored { id, message, receive_count, visible_at, first_received });
        id
    }

    pub(super) fn receive(&mut self, request: &ReceiveRequest, ordered: bool) -> Vec<Delivery> {
        let now = Instant::now();
        let timeout = request.visibility.unwrap_or(self.visibility);
        let in_flight = self.messages.iter().filter(|stored| stored.is_in_flight(now));
        let mut locked: HashSet<ByteString> =
            in_flight.filter_map(|stored| stored.message.group_id.clone()).collect();
        self.move_received_too_often(now);
        let mut deliveries = Vec::new();
        for stored in &mut self.messages {
            if deliveries.len() >= request.max as usize {
                break;
            }
            let group = stored.message.group_id.clone().filter(|_| ordered);
            if group.as_ref().is_some_and(|group| locked.contains(group)) {
                continue;
            }
            if stored.visible_at > now {
                // What is delayed holds back those behind it in its group.
                locked.extend(group);
                continue;
            }
            stored.receive_count += 1;
            stored.visible_at = now + timeout;
            stored.first_received.get_or_insert(now);
            deliveries.push(stored.delivery());
        }
        if let Some(call) = self.calls.iter_mut().rfind(|c| c.operation == Operation::Receive) {
            call.entries = deliveries.iter().map(|found| found.message_id().clone()).collect();
        }
        deliveries
    }

    /// SQS moves a message when it would be received more often than the redrive policy says.
    fn move_received_too_often(&mut self, now: Instant) {
        let Some(most) = self.max_receives else { return };
        let moved = self
            .messages
            .extract_if(.., |stored| stored.receive_count >= most && stored.visible_at <= now);
        self.moved.extend(moved.map(|stored| stored.message.body));
    }

    /// The message that the handle was given for, if it was the last receive of it.
    pub(super) fn find(&self, handle: &ReceiptHandle) -> Option<usize> {
        self.messages.iter().position(|stored| {
            stored.id.to_string() == *handle.message_id && stored.token() == *handle.token
        })
    }
}

impl Stored {
    pub(super) fn is_in_flight(&self, now: Instant) -> bool {
        self.receive_count > 0 && self.visible_at > now
    }

    fn token(&self) -> String {
        format!("{}-{}", self.id, self.receive_count)
    }

    fn delivery(&self) -> Delivery {
        let count = self.receive_count.to_string();
        let mut system_attributes = vec![(attribute::RECEIVE_COUNT.into(), count.into())];
        if let Some(group) = &self.message.group_id {
            system_attributes.push((attribute::GROUP_ID.into(), group.clone()));
        }
        if let Some(trace_header) = &self.message.trace_header {
            system_attributes.push((attribute::TRACE_HEADER.into(), trace_header.clone()));
        }
        Delivery {
            handle: ReceiptHandle {
                message_id: self.id.to_string().into(),
                token: self.token().into(),
            },
            body: self.message.body.clone(),
            system_attributes,
            attributes: self.message.attributes.clone(),
        }
    }
}
