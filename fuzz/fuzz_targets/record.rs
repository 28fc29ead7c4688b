//! Decoding and replaying arbitrary records: each is a length u16 and that many bytes.

#![no_main]

use std::collections::HashMap;

use millrace_engine::record::{
    MovedRecord, ReceivedRecord, Record, RelocatedRecord, RememberedRecord, SlotSeq,
    VisibilityRecord,
};
use millrace_engine::{Definition, Kind, Replay};

/// Slots are as many as a queue had messages at a time; replay makes room for all up to the highest
/// that a record names, so arbitrary ones would only measure the machine's memory.
const SLOTS: u32 = 1 << 12;
/// Sequences and times stay below this for some hundred million years.
const NUMBERS: u64 = 1 << 62;

libfuzzer_sys::fuzz_target!(|input: &[u8]| replay(input));

fn replay(input: &[u8]) {
    let mut replay = Replay::default();
    let (mut kinds, mut places) = (Kinds::default(), Places::default());
    let (mut rest, mut position) = (input, 1_u64 << 32);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (index, behind) = behind.split_at(length);
        rest = behind;
        let record = Record::decode(index);
        let is_plausible =
            |record| is_plausible(record) && kinds.are_kept(record) && places.are_own(record);
        if !record.as_ref().map_or(true, is_plausible) {
            continue;
        }
        let is_applied = replay.apply(index, position, length as u32).is_ok();
        assert!(record.is_ok() || !is_applied, "an unknown record was applied");
        position += 1 << 20;
    }
    for queue in replay.finish(1 << 40).queues {
        queue.queue.assert_consistent();
    }
}

/// Whether a server could have written the record: its checksum holds when replay sees it.
fn is_plausible(record: &Record<'_>) -> bool {
    let small = |numbers: &[u64]| numbers.iter().all(|number| *number < NUMBERS);
    let place = |at: SlotSeq| at.slot < SLOTS && at.seq < NUMBERS;
    match record {
        Record::Sent(sent) => place(sent.at) && small(&[sent.sent.0, sent.deadline.0]),
        Record::Relocated(relocated) => {
            let message = &relocated.message;
            let times = [
                message.sent.0,
                message.deadline.0,
                relocated.first_received.0,
                relocated.last_received.0,
                relocated.original_sent.0,
            ];
            place(message.at) && small(&times)
        }
        Record::Received(ReceivedRecord { at, deadline, .. })
        | Record::VisibilityChanged(VisibilityRecord { at, deadline, .. }) => {
            small(&[at.0, deadline.0])
        }
        Record::Moved(MovedRecord { at, slots, .. }) => {
            small(&[at.0]) && slots.iter().all(|moved| place(moved.from) && place(moved.to))
        }
        Record::Remembered(RememberedRecord { expires, seq, .. }) => small(&[expires.0, *seq]),
        _ => true,
    }
}

/// The kind of each queue: a server never changes it.
#[derive(Default)]
struct Kinds(HashMap<u64, Kind>);

impl Kinds {
    /// Whether all that the record says of a queue's kind is what was said before.
    fn are_kept(&mut self, record: &Record<'_>) -> bool {
        let mut is_kept = |queue: u64, kind: Kind| *self.0.entry(queue).or_insert(kind) == kind;
        match record {
            Record::Sent(sent) => is_kept(sent.queue.0, sent.kind),
            Record::Relocated(RelocatedRecord { message, .. }) => {
                is_kept(message.queue.0, message.kind)
            }
            Record::Remembered(remembered) => is_kept(remembered.queue.0, Kind::Fifo),
            Record::Defined(defined) => serde_json::from_slice(defined.json)
                .is_ok_and(|found: Definition| is_kept(found.id, found.settings.kind)),
            Record::Moved(MovedRecord { from, to, .. }) => match self.0.get(&from.0).copied() {
                Some(kind) => *self.0.entry(to.0).or_insert(kind) == kind,
                None => true,
            },
            _ => true,
        }
    }
}

/// The slot of each sequence number of each queue: a server never gives a number to two messages.
#[derive(Default)]
struct Places(HashMap<(u64, u64), u32>);

impl Places {
    /// Whether no sequence number in the record belongs to another slot.
    fn are_own(&mut self, record: &Record<'_>) -> bool {
        let mut is_own =
            |queue: u64, at: SlotSeq| *self.0.entry((queue, at.seq)).or_insert(at.slot) == at.slot;
        match record {
            Record::Sent(sent) => is_own(sent.queue.0, sent.at),
            Record::Relocated(relocated) => is_own(relocated.message.queue.0, relocated.message.at),
            Record::Moved(MovedRecord { to, slots, .. }) => slots.iter().all(|moved| is_own(to.0, moved.to)),
            _ => true,
        }
    }
}
