//! What clients do: how they send, what handles they keep, and what the oracle is told of it all.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use millrace_broker::{BrokerError, Kind, NewContent, Outgoing, SharedQueue};
use millrace_core::MessageId;
use millrace_journal::Ticket;

use crate::draft::{self, Draft};
use crate::executor::{Output, Purpose, Task};
use crate::model::{Change, Message, QueueModel};
use crate::oracle::{Mark, Serial};
use crate::world::{Given, Held, Step, Trouble, World};

/// Senders leave a queue alone that holds this many.
const FULL_QUEUE: usize = 50;

/// A queue and handles of its messages.
pub(crate) type HeldOfQueue = (Arc<SharedQueue>, Vec<Held>);

/// Messages that a send stored, and their deduplication keys.
type Stored = Vec<(Message, Option<String>)>;

impl World {
    pub(crate) fn send(&mut self) -> Step {
        let Some(queue) = self.some_queue()? else { return Ok(()) };
        let (id, now) = (queue.id().0, self.now());
        self.oracle.live.tick(now);
        let Some(model) = self.oracle.live.queues.get(&id).cloned() else { return Ok(()) };
        if model.messages.len() > FULL_QUEUE {
            return Ok(());
        }
        let count = self.random.pick(&[1, 1, 1, 2, 4, 10]);
        let drafts: Vec<Draft> = (0..count).map(|_| self.draft(model.kind())).collect();
        if self.profile.awaits_answers {
            return self.send_and_wait(&queue, &model, drafts);
        }
        let outgoing: Vec<Outgoing<'_>> = drafts.iter().map(Draft::outgoing).collect();
        let sent = queue.begin_send(&outgoing);
        let (accepted, ticket) = match sent {
            Ok(sent) => sent,
            Err(error) => {
                self.note(format!("send {count} to {}: {error}", queue.key().name));
                return self.check_refusal(&error);
            }
        };
        if accepted.len() != drafts.len() {
            return Err(format!("{} of {} accepted", accepted.len(), drafts.len()).into());
        }
        let mut stored = Stored::new();
        for (draft, accepted) in drafts.iter().zip(&accepted) {
            let key = draft.key(&model);
            if let Some(earlier) = earlier(&model, &stored, key.as_deref()) {
                if earlier != (accepted.id, accepted.seq) {
                    return Err(format!("{key:?} is {earlier:?}, accepted {accepted:?}").into());
                }
                continue;
            }
            if accepted.id != draft.id {
                return Err(format!("{key:?} is new, yet taken for {accepted:?}").into());
            }
            self.oracle.check_seq(id, accepted.seq)?;
            stored.push((draft.message(&model, accepted.seq, now), key));
        }
        let change = self.note_sent(&queue, count, stored);
        self.record_told(id, ticket, change)?;
        self.compare_queue(id)
    }

    /// A send by its future, which resolves later. What it stored is found by the messages' ids.
    fn send_and_wait(
        &mut self,
        queue: &Arc<SharedQueue>,
        model: &QueueModel,
        drafts: Vec<Draft>,
    ) -> Step {
        let (id, now) = (queue.id().0, self.now());
        let drafts = Rc::new(drafts);
        // Filled in as soon as the call is made, before it resolves.
        let wanted: Rc<RefCell<Vec<(MessageId, u64)>>> = Rc::default();
        let send = {
            let queue = Arc::clone(queue);
            let (drafts, wanted) = (Rc::clone(&drafts), Rc::clone(&wanted));
            async move {
                let outgoing: Vec<Outgoing<'_>> = drafts.iter().map(Draft::outgoing).collect();
                let sent = queue.send(&outgoing).await;
                Output::Done(sent.and_then(|sent| {
                    let sent: Vec<_> = sent.iter().map(|sent| (sent.id, sent.seq)).collect();
                    let is_right = sent == *wanted.borrow();
                    let told = || format!("told {sent:x?}, should be {:x?}", wanted.borrow());
                    if is_right { Ok(()) } else { Err(BrokerError::Internal(told())) }
                }))
            }
        };
        let count = drafts.len();
        let mut known = Vec::new();
        for draft in drafts.iter() {
            known.extend(earlier(model, &Stored::new(), draft.key(model).as_deref()));
        }
        if known.len() == count {
            wanted.replace(known);
        }
        self.begin_told("send", queue, send, |world| {
            let after = world.look_into(queue)?;
            let mut stored = Stored::new();
            let mut told = Vec::new();
            for draft in drafts.iter() {
                let key = draft.key(model);
                if let Some(earlier) = earlier(model, &stored, key.as_deref()) {
                    told.push(earlier);
                    continue;
                }
                let seq = after.values().find(|seen| seen.message.id == draft.id);
                let seq = seq.ok_or_else(|| format!("{:?} is not stored", draft.id))?.message.seq;
                world.oracle.check_seq(id, seq)?;
                told.push((draft.id, seq));
                stored.push((draft.message(model, seq, now), key));
            }
            wanted.replace(told);
            Ok(world.note_sent(queue, count, stored))
        })
    }

    fn note_sent(&mut self, queue: &SharedQueue, count: usize, messages: Stored) -> Option<Change> {
        let seqs: Vec<u64> = messages.iter().map(|(message, _)| message.seq).collect();
        self.note(format!("send {count} to {}: {seqs:x?}", queue.key().name));
        (!messages.is_empty()).then_some(Change::Sent { queue: queue.id().0, messages })
    }

    fn draft(&mut self, kind: Kind) -> Draft {
        self.next_uid += 1;
        let uid = self.next_uid;
        let is_fifo = kind == Kind::Fifo;
        let group =
            (is_fifo || self.random.chance(40)).then(|| format!("g{}", self.random.below(4)));
        let dedup_id = is_fifo.then(|| match self.random.below(3) {
            0 => format!("d{}", self.random.below(8)),
            _ => format!("u{uid}"),
        });
        let delay_s =
            (!is_fifo && self.random.chance(25)).then(|| self.random.pick(&[0, 1, 20, 900]));
        let body = draft::body(uid, self.random.below(self.profile.body_bytes));
        let mut content = Vec::new();
        let deduplication_id = dedup_id.as_deref().unwrap_or_default();
        NewContent { body: body.as_bytes(), deduplication_id, ..NewContent::default() }
            .encode(&mut content);
        let id = MessageId::from_random(self.random.wide_bits());
        Draft { uid, id, group, dedup_id, delay_s, body_bytes: body.len(), content }
    }

    pub(crate) fn keep_handle(
        &mut self,
        client: usize,
        queue: u64,
        text: String,
        given: Option<Given>,
    ) -> Step {
        let handle = self.shards()?.open_receipt_handle(&text);
        let handle = handle.ok_or_else(|| format!("handle {text} does not open"))?;
        if handle.queue.0 != queue {
            return Err(format!("handle of {queue:#x} says {handle:?}").into());
        }
        if let Some(client) = self.clients.get_mut(client) {
            client.handles.push(Held { text, handle, given });
        }
        Ok(())
    }

    /// Handles of one queue that a client holds, new, old, used and useless ones.
    pub(crate) fn some_handles(&mut self) -> Result<Option<HeldOfQueue>, String> {
        let index = self.random.below(self.clients.len() as u64) as usize;
        let held = self.clients.get(index).map(|c| c.handles.clone()).unwrap_or_default();
        if held.is_empty() {
            return Ok(None);
        }
        // Mostly a recent one.
        let newest = held.len() as u64 - 1;
        let back =
            if self.random.chance(70) { self.random.below(12) } else { self.random.below(400) };
        let Some(first) = held.get((newest - back.min(newest)) as usize) else { return Ok(None) };
        let queue = first.handle.queue.0;
        let Some(shared) = self.queue_by_id(queue)? else {
            if let Some(client) = self.clients.get_mut(index) {
                client.handles.retain(|held| held.handle.queue.0 != queue);
            }
            return Ok(None);
        };
        let of_queue: Vec<&Held> = held.iter().filter(|h| h.handle.queue.0 == queue).collect();
        let mut chosen = vec![first.clone()];
        for _ in 0..self.random.pick(&[0, 0, 0, 1, 3, 9]) {
            let back = self.random.below(of_queue.len().min(15) as u64) as usize;
            chosen.extend(of_queue.get(of_queue.len() - 1 - back).map(|held| (*held).clone()));
        }
        for held in &chosen {
            if self.shards()?.open_receipt_handle(&held.text) != Some(held.handle) {
                return Err(format!("handle {held:?} no longer opens"));
            }
        }
        Ok(Some((shared, chosen)))
    }

    /// Tells the oracle of a change that the latest append made.
    pub(crate) fn record(&mut self, change: Change) -> Result<Serial, String> {
        let mark = self.mark()?;
        Ok(self.oracle.record(self.now(), mark, change))
    }

    /// Tells the oracle of a change that the latest append made, if there is one, and checks what
    /// its answer waits for: the commit of the change, or of the earlier ones that the answer
    /// tells of.
    pub(crate) fn record_told(
        &mut self,
        queue: u64,
        ticket: Option<Ticket>,
        change: Option<Change>,
    ) -> Result<(), String> {
        let Some(change) = change else {
            let told_after = self.oracle.told_after(queue).map(|(_, ticket)| ticket);
            if ticket < told_after {
                return Err(format!("told after {ticket:?}, should be after {told_after:?}"));
            }
            return Ok(());
        };
        let mark = self.mark()?;
        if ticket != Some(mark.ticket) {
            return Err(format!("told after {ticket:?}, appended up to {mark:?}"));
        }
        self.oracle.record(self.now(), mark, change);
        Ok(())
    }

    /// Polls a call once, which makes its change, if any, and leaves the rest to the executor: it
    /// must not resolve before the change is committed, nor before the earlier ones that its
    /// answer tells of.
    pub(crate) fn begin_told(
        &mut self,
        what: &'static str,
        queue: &SharedQueue,
        future: impl Future<Output = Output> + 'static,
        find_change: impl FnOnce(&mut World) -> Result<Option<Change>, Trouble>,
    ) -> Step {
        let id = queue.id().0;
        self.next_task += 1;
        let mut task = Task::new(self.next_task, Purpose::Commit { what, serial: None }, future);
        let output = task.poll();
        if let Some(Output::Done(Err(error))) = &output {
            self.note(format!("{what} in {}: {error}", queue.key().name));
            return self.check_refusal(error);
        }
        // Before anybody looks, which ends what is over and so appends.
        let mark = self.mark()?;
        let told_after = self.oracle.told_after(id);
        let serial = match find_change(self)? {
            Some(change) => Some(self.oracle.record(self.now(), mark, change)),
            None => told_after.map(|(serial, _)| serial),
        };
        if output.is_none() {
            task.purpose = Purpose::Commit { what, serial };
            self.tasks.push(task);
        } else if let Some(serial) = serial
            && !self.oracle.is_committed(serial)
        {
            return Err(format!("{what} resolved before its commit").into());
        }
        self.compare_queue(id)
    }

    /// To be taken right after a call whose change is found out later.
    pub(crate) fn mark(&self) -> Result<Mark, String> {
        Ok(Mark::of(&self.node()?.log))
    }
}

/// The message that a deduplication key stands for already: known before, or of the same batch.
fn earlier(model: &QueueModel, stored: &Stored, key: Option<&str>) -> Option<(MessageId, u64)> {
    let key = key?;
    let known = model.dedup.get(key).map(|known| (known.id, known.seq));
    known.or_else(|| {
        let in_batch = stored.iter().find(|(_, known)| known.as_deref() == Some(key));
        in_batch.map(|(message, _)| (message.id, message.seq))
    })
}
