//! What is compared: every queue, message by message, with the model; and the rules of a receive.

use std::collections::{BTreeMap, BTreeSet};

use millrace_broker::{Kind, MessageState, Peeked, SharedQueue};
use millrace_engine::Delivery;
use millrace_journal::Purpose;

use crate::draft::uid_of;
use crate::model::{Message, Model, Move, QueueModel, State};
use crate::world::Node;

/// What the broker reserves for the expiry of messages.
const EXPIRY_BYTES: usize = 64 + 12 * 256;

/// A message as the broker shows it, and where its record ends.
#[derive(Clone, Debug)]
pub struct Seen {
    pub message: Message,
    pub end: u64,
}

/// Whether a look may change what it looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Ends what is over, as whatever a client does.
    Ends,
    /// Changes nothing: the broker is left to find in its own time that something is over.
    LeavesAsIs,
}

/// Every message of a queue, by sequence. Ends what is over on the way.
pub fn look_into(queue: &SharedQueue) -> Result<BTreeMap<u64, Seen>, String> {
    queue.count_messages();
    look_at(queue)
}

fn look_at(queue: &SharedQueue) -> Result<BTreeMap<u64, Seen>, String> {
    let peeked = queue.browser().peek(usize::MAX).map_err(|error| error.to_string())?;
    let mut all = BTreeMap::new();
    for peeked in peeked {
        let seen = seen(peeked)?;
        if let Some(twice) = all.insert(seen.message.seq, seen) {
            return Err(format!("sequence twice in one queue: {twice:?}"));
        }
    }
    Ok(all)
}

fn seen(peeked: Peeked) -> Result<Seen, String> {
    let Peeked { id, content, delivery, state, deadline } = peeked;
    let body = String::from_utf8_lossy(content.body());
    let uid =
        uid_of(&body).ok_or_else(|| format!("{} bytes of {id} are not as sent", body.len()))?;
    let state = match state {
        MessageState::Ready => State::Ready,
        MessageState::Delayed => State::Delayed(deadline.0),
        MessageState::InFlight => State::InFlight(deadline.0),
        MessageState::Free => return Err(format!("message {id} is free")),
    };
    let message = Message {
        uid,
        body_bytes: body.len(),
        id,
        seq: delivery.at.seq,
        group: delivery.group.as_deref().map(str::to_owned),
        sent: delivery.sent.0,
        kept_from: 0,
        state,
        receive_count: delivery.receive_count,
        first_received: delivery.first_received.0,
        last_received: 0,
        was_received: false,
        source: delivery.source.as_deref().map(str::to_owned),
    };
    Ok(Seen { message, end: delivery.position + u64::from(delivery.record_len) })
}

/// The broker holds what the model holds: queues, definitions, messages, counts, tasks.
pub fn compare(node: &Node, model: &Model, look: Look) -> Result<(), String> {
    let queues = node.shards.catalog().queues();
    let ids: BTreeSet<u64> = queues.iter().map(|queue| queue.id().0).collect();
    let wanted: BTreeSet<u64> = model.queues.keys().copied().collect();
    if ids != wanted {
        return Err(format!("queues are {ids:x?}, should be {wanted:x?}"));
    }
    for queue in &queues {
        if let Some(wanted) = model.queues.get(&queue.id().0) {
            compare_queue(node, queue, wanted, look)?;
        }
    }
    Ok(())
}

/// One queue is as the model, which knows what is over, has it. Panics if it disagrees with itself.
pub fn compare_queue(
    node: &Node,
    queue: &SharedQueue,
    wanted: &QueueModel,
    look: Look,
) -> Result<(), String> {
    let name = &queue.key().name;
    if *queue.definition() != wanted.definition {
        return Err(format!("{name}: {:?}, should be {:?}", queue.definition(), wanted.definition));
    }
    if look == Look::Ends {
        queue.count_messages();
    }
    queue.assert_consistent();
    let all = look_at(queue)?;
    let now = node.shards.now().0;
    let mut may_hold_expired = None;
    for (seq, seen) in &all {
        let Some(message) = wanted.messages.get(seq) else {
            let is_excused = wanted.expired.contains(seq)
                && (look == Look::LeavesAsIs
                    || *may_hold_expired.get_or_insert_with(|| refuses_expiries(node)));
            if is_excused {
                continue;
            }
            return Err(format!("{name}: should not hold {:?}", seen.message));
        };
        let mut seen = seen.message.clone();
        if look == Look::LeavesAsIs && seen.deadline().is_some_and(|at| at <= now) {
            seen.state = State::Ready;
        }
        let wanted = to_be_seen(message, &seen);
        if seen != wanted {
            return Err(format!("{name}: {seen:?}\n  should be {wanted:?}"));
        }
    }
    if let Some((_, lost)) = wanted.messages.iter().find(|(seq, _)| !all.contains_key(seq)) {
        return Err(format!("{name}: has lost {lost:?}"));
    }
    if all.len() > wanted.messages.len() || look == Look::LeavesAsIs {
        return Ok(()); // What is excused is counted, too, and what is over as it was.
    }
    let counts = queue.counts();
    let delayed = wanted.messages.len() as u64 - wanted.ready() - wanted.in_flight();
    if (counts.ready, counts.in_flight, counts.delayed)
        != (wanted.ready(), wanted.in_flight(), delayed)
    {
        return Err(format!("{name}: counts are {counts:?}"));
    }
    Ok(())
}

/// The model's message without what nobody sees of the broker's.
fn to_be_seen(message: &Message, seen: &Message) -> Message {
    let first_received = match message.receive_count {
        0 => seen.first_received, // Means nothing before the first receive.
        _ => message.first_received,
    };
    Message {
        kept_from: 0,
        last_received: 0,
        was_received: false,
        first_received,
        ..message.clone()
    }
}

/// Whether the journal has no room for a record of expiries.
fn refuses_expiries(node: &Node) -> bool {
    node.log.reserve(EXPIRY_BYTES, Purpose::Reclaim).is_err()
}

/// Marks the sequence of a message that expired before anybody saw it.
pub const UNSEEN: u64 = 1 << 63;

/// What a receive did to a queue, as seen afterwards.
#[derive(Clone, Debug, Default)]
pub struct Receipt {
    pub deadline: u64,
    /// Ascending, not in the order delivered.
    pub seqs: Vec<u64>,
    pub moved: Vec<Move>,
}

/// Finds out what a receive did by comparing the queue, and the dead-letter queue, with what they
/// held before.
pub fn receipt(
    now: u64,
    before: &QueueModel,
    after: &BTreeMap<u64, Seen>,
    dead: Option<(&QueueModel, &BTreeMap<u64, Seen>)>,
) -> Result<Receipt, String> {
    let mut receipt = Receipt { deadline: now, ..Receipt::default() };
    for (seq, message) in &before.messages {
        match after.get(seq) {
            None => {
                let to = dead.and_then(|(known, after)| moved_to(now, message, known, after));
                let to = to.ok_or_else(|| format!("lost {message:?}"))?;
                receipt.moved.push(Move { from: *seq, to });
            }
            Some(seen) if seen.message.receive_count == message.receive_count + 1 => {
                receipt.seqs.push(*seq);
                if let State::InFlight(deadline) = seen.message.state {
                    receipt.deadline = deadline;
                }
            }
            Some(_) => {}
        }
    }
    Ok(receipt)
}

/// The sequence that a message has in the dead-letter queue, or would have if it were not over.
fn moved_to(
    now: u64,
    message: &Message,
    known: &QueueModel,
    after: &BTreeMap<u64, Seen>,
) -> Option<u64> {
    let is_it = |seen: &&Seen| {
        seen.message.uid == message.uid && !known.messages.contains_key(&seen.message.seq)
    };
    match after.values().find(is_it) {
        Some(found) => Some(found.message.seq),
        None => is_over_in(known, message, now).then_some(UNSEEN | message.seq),
    }
}

/// Whether a dead-lettered message expires on arrival: its retention goes on, by the rules of the
/// queue that it comes to.
fn is_over_in(target: &QueueModel, message: &Message, now: u64) -> bool {
    let retention_ms = u64::from(target.definition.settings.retention_s) * 1000;
    target.kind() == Kind::Standard && message.kept_from + retention_ms <= now
}

/// In one answer of a FIFO queue the messages of a group stand in the order of their sequences.
pub fn check_order<'d>(
    kind: Kind,
    deliveries: impl Iterator<Item = &'d Delivery>,
) -> Result<(), String> {
    let mut latest = BTreeMap::new();
    for delivery in deliveries.filter(|_| kind == Kind::Fifo) {
        if let Some(before) = latest.insert(delivery.group.as_deref(), delivery)
            && before.at.seq > delivery.at.seq
        {
            return Err(format!("{delivery:?} comes after {before:?}"));
        }
    }
    Ok(())
}

/// What a receive asked for and may get.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub max: usize,
    pub in_flight_limit: u64,
    /// Of the redrive policy, if its target exists.
    pub max_receive_count: Option<u32>,
    /// There is a redrive policy: a receive that delivers something may leave the rest.
    pub may_stop_early: bool,
}

/// The rules of a receive, given the queue before it.
pub fn check_receive(before: &QueueModel, bounds: Bounds, receipt: &Receipt) -> Result<(), String> {
    let room = bounds.in_flight_limit.saturating_sub(before.in_flight());
    let max = bounds.max.min(usize::try_from(room).unwrap_or(usize::MAX));
    if receipt.seqs.len() > max {
        return Err(format!("{} deliveries, at most {max} allowed", receipt.seqs.len()));
    }
    let is_dead = |message: &Message| {
        message.was_received
            && bounds.max_receive_count.is_some_and(|max| message.receive_count >= max)
    };
    let mut taken: BTreeSet<u64> = receipt.seqs.iter().copied().collect();
    taken.extend(receipt.moved.iter().map(|step| step.from));
    for seq in &taken {
        let message = before.messages.get(seq).ok_or("delivered what was not there")?;
        if message.state != State::Ready {
            return Err(format!("received while not ready: {message:?}"));
        }
        if is_dead(message) == receipt.seqs.contains(seq) {
            return Err(format!("dead-lettered is {} for {message:?}", is_dead(message)));
        }
        if before.kind() == Kind::Fifo
            && let Some(first) = before.predecessors(message).find(|m| !taken.contains(&m.seq))
        {
            return Err(format!("received {message:?}\n  before {first:?}"));
        }
    }
    let may_stop_early = bounds.may_stop_early && !receipt.seqs.is_empty();
    if receipt.seqs.len() == max || may_stop_early {
        return Ok(());
    }
    let mut rest = before.clone();
    rest.messages.retain(|seq, _| !receipt.moved.iter().any(|step| step.from == *seq));
    for seq in &receipt.seqs {
        if let Some(message) = rest.messages.get_mut(seq) {
            message.state = State::InFlight(u64::MAX);
        }
    }
    match rest.receivable().first().and_then(|seq| rest.messages.get(seq)) {
        Some(left) => Err(format!("{} of {max} received, left {left:?}", receipt.seqs.len())),
        None => Ok(()),
    }
}
