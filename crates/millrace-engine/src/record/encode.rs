//! Appending records' index parts.

use millrace_core::{MessageId, QueueId, Timestamp};

use super::{MovedSlot, NO_GROUP, RelocatedRecord, SentRecord, SlotSeq};
use crate::definition::Kind;

pub fn sent(out: &mut Vec<u8>, record: &SentRecord<'_>) {
    out.push(1);
    put_message(out, record);
}

pub fn received(
    out: &mut Vec<u8>,
    queue: QueueId,
    at: Timestamp,
    deadline: Timestamp,
    slots: impl ExactSizeIterator<Item = SlotSeq>,
) {
    out.push(2);
    put_u64s(out, [queue.0, at.0, deadline.0]);
    put_slots(out, slots);
}

pub fn deleted(out: &mut Vec<u8>, queue: QueueId, slots: impl ExactSizeIterator<Item = SlotSeq>) {
    out.push(3);
    put_u64s(out, [queue.0]);
    put_slots(out, slots);
}

pub fn visibility_changed(
    out: &mut Vec<u8>,
    queue: QueueId,
    at: Timestamp,
    deadline: Timestamp,
    slots: impl ExactSizeIterator<Item = SlotSeq>,
) {
    out.push(4);
    put_u64s(out, [queue.0, at.0, deadline.0]);
    put_slots(out, slots);
}

pub fn returned(
    out: &mut Vec<u8>,
    queue: QueueId,
    at: Timestamp,
    slots: impl ExactSizeIterator<Item = SlotSeq>,
) {
    out.push(5);
    put_u64s(out, [queue.0, at.0]);
    put_slots(out, slots);
}

pub fn moved(
    out: &mut Vec<u8>,
    from: QueueId,
    to: QueueId,
    at: Timestamp,
    source: &str,
    slots: impl ExactSizeIterator<Item = MovedSlot>,
) {
    out.push(6);
    put_u64s(out, [from.0, to.0, at.0]);
    put_text(out, source);
    out.extend_from_slice(&(slots.len() as u32).to_le_bytes());
    for MovedSlot { from, to } in slots {
        put_slot(out, from);
        put_slot(out, to);
    }
}

pub fn purged(out: &mut Vec<u8>, queue: QueueId) {
    out.push(7);
    put_u64s(out, [queue.0]);
}

pub fn defined(out: &mut Vec<u8>, definition_json: &[u8]) {
    out.push(8);
    out.extend_from_slice(definition_json);
}

pub fn queue_deleted(out: &mut Vec<u8>, queue: QueueId) {
    out.push(9);
    put_u64s(out, [queue.0]);
}

pub fn relocated(out: &mut Vec<u8>, record: &RelocatedRecord<'_>) {
    out.push(10);
    put_message(out, &record.message);
    put_u64s(out, [record.first_received.0, record.last_received.0]);
    out.extend_from_slice(&record.receive_count.to_le_bytes());
    out.push(record.state as u8);
    put_text(out, record.source);
    put_u64s(out, [record.original_sent.0]);
}

pub fn remembered(
    out: &mut Vec<u8>,
    queue: QueueId,
    expires: Timestamp,
    seq: u64,
    id: MessageId,
    dedup: u128,
) {
    out.push(11);
    put_u64s(out, [queue.0, expires.0, seq]);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(&dedup.to_le_bytes());
}

pub fn kept(out: &mut Vec<u8>, collection: &str, key: &str, bytes: &[u8]) {
    out.push(14);
    put_text(out, collection);
    put_text(out, key);
    out.extend_from_slice(bytes);
}

pub fn kept_deleted(out: &mut Vec<u8>, collection: &str, key: &str) {
    out.push(15);
    put_text(out, collection);
    put_text(out, key);
}

pub fn secret(out: &mut Vec<u8>, secret: &[u8; 16]) {
    out.push(13);
    out.extend_from_slice(secret);
}

fn put_message(out: &mut Vec<u8>, record: &SentRecord<'_>) {
    put_u64s(out, [record.queue.0]);
    put_slot(out, record.at);
    put_u64s(out, [record.sent.0, record.deadline.0]);
    out.extend_from_slice(&record.id.0);
    out.push(u8::from(record.kind == Kind::Fifo));
    match record.group {
        Some(group) => put_text(out, group),
        None => out.extend_from_slice(&NO_GROUP.to_le_bytes()),
    }
    out.extend_from_slice(&record.dedup.to_le_bytes());
}

fn put_slot(out: &mut Vec<u8>, at: SlotSeq) {
    out.extend_from_slice(&at.slot.to_le_bytes());
    out.extend_from_slice(&at.seq.to_le_bytes());
}

fn put_slots(out: &mut Vec<u8>, slots: impl ExactSizeIterator<Item = SlotSeq>) {
    out.extend_from_slice(&(slots.len() as u32).to_le_bytes());
    slots.for_each(|at| put_slot(out, at));
}

fn put_u64s<const N: usize>(out: &mut Vec<u8>, values: [u64; N]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
