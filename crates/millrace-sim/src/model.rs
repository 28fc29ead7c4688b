//! What the queues should hold, written as naively as can be: maps, no indexes, no timers.
//!
//! A [`Change`] is what one journaled batch says. Applying changes in order gives the state that
//! the broker must show, and, since a crash keeps a prefix of the batches, the state after it.

use std::collections::{BTreeMap, BTreeSet};

use millrace_broker::{DeduplicationScope, Definition, Kind, MoveTask, MoveTaskStatus};
use millrace_core::{MessageId, limits};

/// A message's state; the number is the end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    Delayed(u64),
    InFlight(u64),
}

/// A message as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Written into the body: follows the message through every move.
    pub uid: u64,
    /// Its length is chance; what it says follows from the number.
    pub body_bytes: usize,
    pub id: MessageId,
    pub seq: u64,
    pub group: Option<String>,
    /// SentTimestamp.
    pub sent: u64,
    /// When retention began.
    pub kept_from: u64,
    pub state: State,
    pub receive_count: u32,
    pub first_received: u64,
    pub last_received: u64,
    /// Received ever, even if given back.
    pub was_received: bool,
    /// ARN of the queue that it was dead-lettered from.
    pub source: Option<String>,
}

/// An accepted deduplication id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub id: MessageId,
    pub seq: u64,
    pub expires: u64,
}

/// A queue as it should be.
#[derive(Clone, Debug)]
pub struct QueueModel {
    pub definition: Definition,
    /// By sequence.
    pub messages: BTreeMap<u64, Message>,
    pub dedup: BTreeMap<String, Remembered>,
    /// Sequences of messages whose retention is over. A broker whose journal takes no changes may
    /// still hold them, but never deliver them.
    pub expired: BTreeSet<u64>,
}

/// A message that changed queues, by sequence.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub from: u64,
    pub to: u64,
}

/// What one journaled batch says.
#[derive(Clone, Debug)]
pub enum Change {
    Defined(Box<Definition>),
    QueueDeleted { queue: u64 },
    Purged { queue: u64 },
    Sent { queue: u64, messages: Vec<(Message, Option<String>)> },
    Received { queue: u64, deadline: u64, seqs: Vec<u64>, to: u64, moved: Vec<Move> },
    Visibility { queue: u64, changes: Vec<(u64, u64)> },
    Deleted { queue: u64, seqs: Vec<u64> },
    Returned { queue: u64, seqs: Vec<u64> },
    Task(Box<MoveTask>),
    TaskMoved { task: String, from: u64, from_seq: u64, to: u64, message: Box<Message> },
}

/// All queues and tasks.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub queues: BTreeMap<u64, QueueModel>,
    pub tasks: BTreeMap<String, MoveTask>,
}

impl Message {
    pub fn deadline(&self) -> Option<u64> {
        match self.state {
            State::Ready => None,
            State::Delayed(at) | State::InFlight(at) => Some(at),
        }
    }

    pub fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight(_))
    }
}

impl QueueModel {
    pub fn kind(&self) -> Kind {
        self.definition.settings.kind
    }

    pub fn dedup_key(&self, group: &str, id: &str) -> String {
        match self.definition.settings.deduplication_scope {
            DeduplicationScope::Queue => id.to_owned(),
            DeduplicationScope::MessageGroup => format!("{group} {id}"),
        }
    }

    /// Ends what is over by `now`.
    pub fn tick(&mut self, now: u64) {
        let retention_ms = u64::from(self.definition.settings.retention_s) * 1000;
        let over = self.messages.values().filter(|m| m.kept_from + retention_ms <= now);
        let over: Vec<u64> = over.map(|message| message.seq).collect();
        self.messages.retain(|seq, _| !over.contains(seq));
        self.expired.extend(over);
        for message in self.messages.values_mut() {
            if message.deadline().is_some_and(|at| at <= now) {
                message.state = State::Ready;
            }
        }
        self.dedup.retain(|_, send| send.expires > now);
    }

    pub fn in_flight(&self) -> u64 {
        self.messages.values().filter(|message| message.is_in_flight()).count() as u64
    }

    pub fn ready(&self) -> u64 {
        self.messages.values().filter(|message| message.state == State::Ready).count() as u64
    }

    /// Sequences that a receive may get as the first of their groups.
    pub fn receivable(&self) -> Vec<u64> {
        let is_first = |message: &Message| match self.kind() {
            Kind::Standard => true,
            Kind::Fifo => self.predecessors(message).next().is_none(),
        };
        let ready = self.messages.values().filter(|message| message.state == State::Ready);
        ready.filter(|message| is_first(message)).map(|message| message.seq).collect()
    }

    /// Messages of the same group that come before.
    pub fn predecessors(&self, message: &Message) -> impl Iterator<Item = &Message> {
        let group = message.group.clone();
        self.messages.range(..message.seq).map(|(_, m)| m).filter(move |m| m.group == group)
    }

    fn redefine(&mut self, definition: Definition) {
        let delay_s = definition.settings.delay_s;
        let now = definition.modified_ms;
        let changed = self.definition.settings.delay_s != delay_s;
        self.definition = definition;
        if !changed || self.kind() != Kind::Fifo {
            return;
        }
        let is_new = |message: &&mut Message| !message.was_received && message.source.is_none();
        for message in self.messages.values_mut().filter(is_new) {
            let end = message.kept_from + u64::from(delay_s) * 1000;
            message.state = if end > now { State::Delayed(end) } else { State::Ready };
        }
    }
}

impl Model {
    pub fn tick(&mut self, now: u64) {
        self.queues.values_mut().for_each(|queue| queue.tick(now));
    }

    pub fn by_name(&self, name: &str) -> Option<&QueueModel> {
        self.queues.values().find(|queue| queue.definition.name == name)
    }

    /// Nobody sees how a task ends whose queue is gone, and it has nothing to move.
    pub fn running_task(&self) -> Option<&MoveTask> {
        let has_source =
            |task: &MoveTask| task.source_id.is_some_and(|id| self.queues.contains_key(&id));
        let mut running = self.tasks.values().filter(|t| t.status == MoveTaskStatus::Running);
        running.find(|task| has_source(task))
    }

    /// Applies a change made at `now`.
    pub fn apply(&mut self, now: u64, change: Change) {
        self.tick(now);
        match change {
            Change::Defined(definition) => self.define(*definition),
            Change::QueueDeleted { queue } => {
                self.queues.remove(&queue);
            }
            Change::Purged { queue } => self.on(queue, |queue| queue.purge(now)),
            Change::Sent { queue, messages } => self.on(queue, |queue| queue.send(now, messages)),
            Change::Received { queue, deadline, seqs, to, moved } => {
                self.move_dead_letters(now, queue, to, &moved);
                self.on(queue, |queue| queue.receive(now, deadline, &seqs));
            }
            Change::Visibility { queue, changes } => self.on(queue, |queue| {
                for (seq, deadline) in changes {
                    if let Some(message) = queue.messages.get_mut(&seq) {
                        message.state = hidden_until(deadline, now);
                    }
                }
            }),
            Change::Deleted { queue, seqs } => {
                self.on(queue, |queue| queue.messages.retain(|seq, _| !seqs.contains(seq)));
            }
            Change::Returned { queue, seqs } => self.on(queue, |queue| queue.take_back(&seqs)),
            Change::Task(task) => {
                self.tasks.insert(task.id.clone(), *task);
            }
            Change::TaskMoved { task, from, from_seq, to, message } => {
                self.on(from, |queue| {
                    queue.messages.remove(&from_seq);
                });
                self.on(to, |queue| {
                    queue.messages.insert(message.seq, *message);
                });
                if let Some(task) = self.tasks.get_mut(&task) {
                    task.moved += 1;
                }
            }
        }
    }

    fn define(&mut self, definition: Definition) {
        match self.queues.get_mut(&definition.id) {
            Some(queue) => queue.redefine(definition),
            None => {
                let queue = QueueModel {
                    definition,
                    messages: BTreeMap::new(),
                    dedup: BTreeMap::new(),
                    expired: BTreeSet::new(),
                };
                self.queues.insert(queue.definition.id, queue);
            }
        }
    }

    fn on(&mut self, queue: u64, change: impl FnOnce(&mut QueueModel)) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            change(queue);
        }
    }

    fn move_dead_letters(&mut self, now: u64, from: u64, to: u64, moved: &[Move]) {
        for step in moved {
            let Some(queue) = self.queues.get_mut(&from) else { return };
            let arn = queue.definition.key().to_string();
            let Some(mut message) = queue.messages.remove(&step.from) else { continue };
            let Some(target) = self.queues.get_mut(&to) else { return };
            message.seq = step.to;
            message.source = Some(arn);
            message.was_received = false;
            message.state = State::Ready;
            if target.kind() == Kind::Fifo {
                message.kept_from = now;
            }
            target.messages.insert(message.seq, message);
        }
    }
}

impl QueueModel {
    fn purge(&mut self, now: u64) {
        self.messages.clear();
        self.dedup.clear();
        self.expired.clear();
        self.definition.purged_ms = now;
    }

    fn send(&mut self, now: u64, messages: Vec<(Message, Option<String>)>) {
        for (message, key) in messages {
            let expires = now + limits::DEDUPLICATION_WINDOW_S * 1000;
            let send = Remembered { id: message.id, seq: message.seq, expires };
            self.dedup.extend(key.map(|key| (key, send)));
            self.messages.insert(message.seq, message);
        }
    }

    fn receive(&mut self, now: u64, deadline: u64, seqs: &[u64]) {
        for seq in seqs {
            let Some(message) = self.messages.get_mut(seq) else { continue };
            if message.receive_count == 0 {
                message.first_received = now;
            }
            message.receive_count += 1;
            message.last_received = now;
            message.was_received = true;
            message.state = hidden_until(deadline, now);
        }
    }

    /// Takes back a receive whose messages nobody got.
    fn take_back(&mut self, seqs: &[u64]) {
        for seq in seqs {
            if let Some(message) = self.messages.get_mut(seq) {
                message.receive_count -= 1;
                message.state = State::Ready;
            }
        }
    }
}

fn hidden_until(deadline: u64, now: u64) -> State {
    if deadline > now { State::InFlight(deadline) } else { State::Ready }
}
