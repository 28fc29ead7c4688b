//! A broker in miniature: queues, a journal in memory and the order of things between them.
//!
//! Every command does the same: tick, change the queue, journal what changed before the answer
//! goes out. Positions are `segment << 32 | offset`; a segment is a handful of records, so that
//! short tests truncate, too. A message's body is its name.

use std::collections::HashMap;

use millrace_core::{MessageId, QueueId, QueueKey, Timestamp};
use millrace_engine::record::{Record, Records, SentRecord};
use millrace_engine::{
    Claim, ClaimError, Claimant, DeadLetters, Definition, Delivery, Expired, Handle, NewDefinition,
    Queue, ReceiptKey, Receive, ReceiveError, Received, Relocate, RememberedSend, Replay, Send,
    Sent, Settings, StoredContent, VisibilityError,
};

use crate::replay::assert_replay_is_live;

/// Test time begins here.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);

const RECORDS_PER_SEGMENT: usize = 4;

/// A record as it stands in the journal.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) position: u64,
    pub(crate) index: Vec<u8>,
    pub(crate) body: String,
}

impl Stored {
    pub(crate) fn len(&self) -> u32 {
        (self.index.len() + self.body.len()) as u32
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) records: Vec<Stored>,
    tail: u64,
    in_segment: usize,
}

impl Journal {
    /// Appends what the engine says; returns where the last record stands, and its length.
    pub(crate) fn append(&mut self, records: &Records<'_>) -> (u64, u32) {
        records
            .iter()
            .map(|(index, payload)| self.append_one(index, payload))
            .last()
            .unwrap_or((0, 0))
    }

    fn append_one(&mut self, index: &[u8], payload: &[u8]) -> (u64, u32) {
        if self.in_segment == RECORDS_PER_SEGMENT {
            self.in_segment = 0;
            self.tail = ((self.tail >> 32) + 1) << 32;
        }
        self.in_segment += 1;
        let body = String::from_utf8(payload.to_vec()).expect("bodies are names");
        let stored = Stored { position: self.tail, index: index.to_vec(), body };
        let len = stored.len();
        self.tail += u64::from(len);
        self.records.push(stored);
        (self.records[self.records.len() - 1].position, len)
    }

    pub(crate) fn at(&self, position: u64) -> &Stored {
        let found = self.records.binary_search_by_key(&position, |record| record.position);
        &self.records[found.expect("records of live messages are not truncated")]
    }

    pub(crate) fn tail_segment(&self) -> u32 {
        (self.tail >> 32) as u32
    }
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) definition: Definition,
    /// Of the definition's record.
    pub(crate) position: u64,
    pub(crate) queue: Queue,
}

impl Member {
    pub(crate) fn arn(&self) -> String {
        self.definition.key().to_string()
    }
}

/// One message handed to a client.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) name: String,
    pub(crate) handle: Handle,
    pub(crate) delivery: Delivery,
}

/// The outcome of a receive.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) receipts: Vec<Receipt>,
    /// Names of messages moved to the dead-letter queue, in order.
    pub(crate) moved: Vec<String>,
    pub(crate) is_repeated: bool,
}

/// A send by words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewMessage<'a> {
    pub(crate) group: Option<&'a str>,
    pub(crate) dedup: Option<&'a str>,
    pub(crate) delay_s: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) now: Timestamp,
    pub(crate) members: Vec<Member>,
    pub(crate) journal: Journal,
    /// Names by id.
    names: HashMap<MessageId, String>,
    key: ReceiptKeyBox,
    next_queue: u64,
}

/// The key does not print itself.
struct ReceiptKeyBox(ReceiptKey);

impl std::fmt::Debug for ReceiptKeyBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReceiptKey")
    }
}

impl Broker {
    pub(crate) fn new() -> Broker {
        Broker {
            now: START,
            members: Vec::new(),
            journal: Journal::default(),
            names: HashMap::new(),
            key: ReceiptKeyBox(ReceiptKey::new([7; 16])),
            next_queue: 1,
        }
    }

    pub(crate) fn create(&mut self, name: &str, settings: Settings) -> usize {
        let id = QueueId(self.next_queue);
        self.next_queue += 1;
        let key = QueueKey::new("us-east-1", "000000000000", name);
        let definition = Definition::new(id, &key, settings.clone(), self.now);
        let queue = Queue::new(id, &key.to_string(), settings, 0);
        let mut records = Records::default();
        new(&definition, &queue).write(&mut records);
        let (position, _) = self.journal.append(&records);
        self.members.push(Member { definition, position, queue });
        self.members.len() - 1
    }

    pub(crate) fn delete_queue(&mut self, queue: usize) {
        let mut member = self.members.remove(queue);
        let mut records = Records::default();
        member.queue.delete_queue(&mut records);
        self.journal.append(&records);
    }

    /// Does all that is due in every queue.
    pub(crate) fn tick(&mut self) {
        for member in &mut self.members {
            while member.queue.next_deadline() <= self.now {
                member.queue.tick(self.now, 3);
                let mut records = Records::default();
                member.queue.expire(self.now, 3, &mut records);
                self.journal.append(&records);
            }
        }
    }

    pub(crate) fn send(&mut self, queue: usize, name: &str, message: NewMessage<'_>) -> Sent {
        self.tick();
        let id = MessageId::from_random(self.names.len() as u128 + 1);
        let member = &mut self.members[queue];
        let dedup = message
            .dedup
            .map(|d| member.queue.dedup_key(&self.key.0, message.group.unwrap_or_default(), d));
        let content = StoredContent::plain(name.as_bytes());
        let NewMessage { group, delay_s, .. } = message;
        let mut records = Records::default();
        let send = Send { id, content, group, dedup, delay_s };
        let outcome = member.queue.send(self.now, &send, &mut records);
        if let Sent::Stored { at, .. } = outcome {
            let (position, len) = self.journal.append(&records);
            member.queue.stored(at, dedup, position, len);
            self.names.insert(id, name.to_owned());
        }
        outcome
    }

    /// Receives; the dead-letter queue is at hand.
    pub(crate) fn receive(
        &mut self,
        queue: usize,
        receive: &Receive,
    ) -> Result<Outcome, ReceiveError> {
        let target = self.dead_letter_queue(queue);
        self.receive_with(queue, target, receive)
    }

    /// As [`Broker::receive`], but touches the dead-letter queue only if there is nothing else to
    /// do: a broker locks one queue as long as it can.
    pub(crate) fn receive_reluctantly(
        &mut self,
        queue: usize,
        receive: &Receive,
    ) -> Result<Outcome, ReceiveError> {
        let Some(target) = self.dead_letter_queue(queue) else {
            return self.receive_with(queue, None, receive);
        };
        self.tick();
        let mut records = Records::default();
        let from = &mut self.members[queue].queue;
        match from.receive(self.now, receive, DeadLetters::Elsewhere, &mut records) {
            Ok(received) => {
                self.journal.append(&records);
                Ok(self.outcome(queue, None, &received))
            }
            Err(ReceiveError::NeedsDeadLetterQueue) => {
                self.receive_with(queue, Some(target), receive)
            }
            Err(error) => Err(error),
        }
    }

    fn receive_with(
        &mut self,
        queue: usize,
        target: Option<usize>,
        receive: &Receive,
    ) -> Result<Outcome, ReceiveError> {
        self.tick();
        let mut all = Outcome::default();
        // One receive moves a bounded number of messages: go on until there is something to give.
        loop {
            let mut records = Records::default();
            let received = match target {
                None => {
                    let from = &mut self.members[queue].queue;
                    from.receive(self.now, receive, DeadLetters::Deliver, &mut records)?
                }
                Some(target) => {
                    let [from, to] = self
                        .members
                        .get_disjoint_mut([queue, target])
                        .expect("a queue is not its own dead-letter queue");
                    let dead_letters = DeadLetters::Move(&mut to.queue);
                    from.queue.receive(self.now, receive, dead_letters, &mut records)?
                }
            };
            self.journal.append(&records);
            let outcome = self.outcome(queue, target, &received);
            all.moved.extend(outcome.moved);
            if !received.deliveries.is_empty() || received.moved.is_empty() {
                return Ok(Outcome { moved: all.moved, ..outcome });
            }
        }
    }

    pub(crate) fn delete(&mut self, handle: &Handle) -> Result<bool, Expired> {
        self.tick();
        let Some(queue) = self.by_id(handle.queue) else { return Ok(false) };
        let handle = self.sealed(handle);
        let mut records = Records::default();
        let outcomes = self.members[queue].queue.delete(&[handle], &mut records);
        self.journal.append(&records);
        outcomes[0]
    }

    pub(crate) fn change_visibility(
        &mut self,
        handle: &Handle,
        timeout_s: u32,
    ) -> Result<(), VisibilityError> {
        self.tick();
        let handle = self.sealed(handle);
        let Some(queue) = self.by_id(handle.queue) else {
            return Err(VisibilityError::NotAvailable);
        };
        let queue = &mut self.members[queue].queue;
        let mut records = Records::default();
        queue.change_visibility(self.now, &handle, timeout_s, &mut records)?;
        self.journal.append(&records);
        Ok(())
    }

    /// Renews the reservation that is the receive of a receipt; returns the new receive count.
    pub(crate) fn touch(&mut self, receipt: &Receipt, timeout_s: u32) -> Result<u32, ClaimError> {
        let now = self.now;
        self.claim(receipt, |queue, claim, records| queue.touch(now, claim, timeout_s, records))
    }

    pub(crate) fn release(&mut self, receipt: &Receipt, delay_s: u32) -> Result<(), ClaimError> {
        let now = self.now;
        self.claim(receipt, |queue, claim, records| queue.release(now, claim, delay_s, records))
    }

    pub(crate) fn delete_claimed(&mut self, receipt: &Receipt) -> Result<usize, ClaimError> {
        let now = self.now;
        self.claim(receipt, |queue, claim, records| queue.delete_claimed(now, &[*claim], records))
    }

    fn claim<T>(
        &mut self,
        receipt: &Receipt,
        act: impl FnOnce(&mut Queue, &Claim, &mut Records<'_>) -> Result<T, ClaimError>,
    ) -> Result<T, ClaimError> {
        self.tick();
        let queue = self.by_id(receipt.handle.queue).ok_or(ClaimError::NotFound)?;
        let by = Claimant::Holder(receipt.handle.receive_count);
        let claim = Claim { at: receipt.delivery.at, by };
        let mut records = Records::default();
        let outcome = act(&mut self.members[queue].queue, &claim, &mut records)?;
        self.journal.append(&records);
        Ok(outcome)
    }

    /// The client left: returns the names that are ready again.
    pub(crate) fn give_back(&mut self, receipts: &[Receipt]) -> Vec<String> {
        self.tick();
        let Some(first) = receipts.first() else { return Vec::new() };
        let Some(queue) = self.by_id(first.handle.queue) else { return Vec::new() };
        let deliveries: Vec<_> =
            receipts.iter().map(|r| (r.delivery.at, r.delivery.receive_count)).collect();
        let mut records = Records::default();
        let returned = self.members[queue].queue.give_back(self.now, &deliveries, &mut records);
        self.journal.append(&records);
        let is_returned = |receipt: &&Receipt| returned.contains(&receipt.delivery.at);
        receipts.iter().filter(is_returned).map(|receipt| receipt.name.clone()).collect()
    }

    /// Takes out the oldest message, as a message move task does; returns its name.
    pub(crate) fn take_oldest(&mut self, queue: usize) -> Option<String> {
        self.tick();
        let member = &mut self.members[queue];
        let Delivery { at, position, .. } = member.queue.messages().next()?.delivery;
        let mut records = Records::default();
        assert!(member.queue.take(at, &mut records) && !member.queue.take(at, &mut records));
        self.journal.append(&records);
        Some(self.journal.at(position).body.clone())
    }

    pub(crate) fn purge(&mut self, queue: usize) {
        self.tick();
        let member = &mut self.members[queue];
        let mut records = Records::default();
        member.queue.purge(&mut records);
        self.journal.append(&records);
    }

    pub(crate) fn set(&mut self, queue: usize, settings: Settings) {
        self.tick();
        let member = &mut self.members[queue];
        member.definition.settings = settings;
        member.definition.modified_ms = self.now.0;
        let mut records = Records::default();
        let new = new(&member.definition, &member.queue);
        member.queue.define(&new, self.now, &mut records);
        (member.position, _) = self.journal.append(&records);
    }

    /// Queues as the journal tells them, in the order of the live ones.
    pub(crate) fn replayed(&self) -> Vec<Member> {
        let mut replay = Replay::default();
        for stored in &self.journal.records {
            replay.apply(&stored.index, stored.position, stored.len()).expect("own records");
        }
        // Truncated records told of sequences, too. Every sequence takes some bytes of the journal,
        // so none that was given out has reached its tail.
        let finished = replay.finish(self.journal.tail);
        assert!(finished.latest <= self.now, "no record is from the future");
        let members = finished.queues.into_iter().map(|replayed| Member {
            definition: replayed.definition,
            position: replayed.position.expect("no definition is lost"),
            queue: replayed.queue,
        });
        members.collect()
    }

    /// Forgets everything but the journal.
    pub(crate) fn restart(&mut self) {
        self.members = self.replayed();
        self.tick();
    }

    /// Relocates all that segments up to `segment` are needed for, then drops them.
    pub(crate) fn truncate(&mut self, segment: u32) {
        self.tick();
        self.truncate_amid_work(segment);
    }

    /// The same, with what is due left undone: maintenance comes between two pieces of it.
    pub(crate) fn truncate_amid_work(&mut self, segment: u32) {
        let segment = segment.min(self.journal.tail_segment());
        let is_old = |position: u64| (position >> 32) as u32 <= segment;
        // Nothing may be appended to a segment that is to go.
        self.journal.in_segment = RECORDS_PER_SEGMENT;
        for member in &mut self.members {
            let messages = member.queue.messages().map(|view| view.delivery);
            let old: Vec<_> = messages.filter(|message| is_old(message.position)).collect();
            for message in old {
                let stored = self.journal.at(message.position).clone();
                let id = sent_record(&stored).id;
                let content = StoredContent::plain(stored.body.as_bytes());
                let mut records = Records::default();
                let relocate = Relocate { id, message: &message, content };
                member.queue.relocate(self.now, &relocate, &mut records);
                let (position, len) = self.journal.append(&records);
                member.queue.relocated(message.at, position, len);
            }
            for send in remembered_to(&member.queue, segment) {
                let mut records = Records::default();
                member.queue.remember_again(&send, &mut records);
                let (position, _) = self.journal.append(&records);
                member.queue.remembered_at(&send, position);
            }
            if is_old(member.position) {
                let mut records = Records::default();
                new(&member.definition, &member.queue).write(&mut records);
                (member.position, _) = self.journal.append(&records);
            }
            let oldest = member.queue.oldest_segment();
            assert!(oldest.is_none_or(|oldest| oldest > segment), "nothing is left behind");
            assert_eq!(member.queue.remembered_count_to(segment), 0);
        }
        // A crash may leave both the old records and the new.
        assert_replay_is_live(self);
        self.journal.records.retain(|record| !is_old(record.position));
    }

    pub(crate) fn name(&self, id: MessageId) -> &str {
        &self.names[&id]
    }

    pub(crate) fn by_id(&self, id: QueueId) -> Option<usize> {
        self.members.iter().position(|member| member.queue.id() == id)
    }

    pub(crate) fn dead_letter_queue(&self, queue: usize) -> Option<usize> {
        let key = self.members[queue].queue.settings().redrive.as_ref()?.target();
        self.members.iter().position(|member| member.definition.key() == key)
    }

    /// The handle as it comes back from a client.
    fn sealed(&self, handle: &Handle) -> Handle {
        let text = self.key.0.seal(handle);
        self.key.0.open(&text).expect("own handle")
    }

    fn outcome(&self, queue: usize, target: Option<usize>, received: &Received) -> Outcome {
        let queue = self.members[queue].queue.id();
        let receipt = |delivery: &Delivery| Receipt {
            name: self.journal.at(delivery.position).body.clone(),
            handle: Handle {
                queue,
                seq: delivery.at.seq,
                slot: delivery.at.slot,
                receive_count: delivery.receive_count,
            },
            delivery: delivery.clone(),
        };
        let moved = received.moved.iter().map(|moved| {
            let target = &self.members[target.expect("moves have a target")];
            let view = target.queue.find(moved.to).expect("just moved");
            self.journal.at(view.delivery.position).body.clone()
        });
        Outcome {
            receipts: received.deliveries.iter().map(receipt).collect(),
            moved: moved.collect(),
            is_repeated: received.is_repeated,
        }
    }
}

/// The message in a record, first or relocated.
pub(crate) fn sent_record(stored: &Stored) -> SentRecord<'_> {
    match Record::decode(&stored.index) {
        Ok(Record::Sent(message)) => message,
        Ok(Record::Relocated(relocated)) => relocated.message,
        other => panic!("{other:?} holds no message"),
    }
}

fn new<'d>(definition: &'d Definition, queue: &Queue) -> NewDefinition<'d> {
    NewDefinition::new(definition, queue.sent_total()).expect("definitions are JSON")
}

/// All sends that are remembered by records up to that segment.
pub(crate) fn remembered_to(queue: &Queue, segment: u32) -> Vec<RememberedSend> {
    let (mut next, mut all) = (0, Vec::new());
    while let Some(some) = queue.remembered_to(segment, &mut next, 3) {
        all.extend(some);
    }
    assert_eq!(all.len() as u64, queue.remembered_count_to(segment));
    all
}
