//! The id ledger: which messages were sent, acknowledged, received and deleted.
//!
//! One 64-bit word a message, shared by all threads without a lock:
//!
//! ```text
//! sent at, µs of the run, 40 bits | receives 16 bits | unused 6 | deleted 1 | acknowledged 1
//! ```
//! Words are made a chunk at a time as sequence numbers are taken. Every body begins with its
//! [`Id`], 32 hexadecimal digits, so that what comes back names itself.

use std::{
    collections::HashMap,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};

/// Bytes that an [`Id`] takes at the start of a body.
pub(crate) const ID_BYTES: usize = 32;

const ACKNOWLEDGED: u64 = 1;
const DELETED: u64 = 2;
const RECEIVE: u64 = 1 << 8;
const RECEIVES_SHIFT: u32 = 8;
const SENT_SHIFT: u32 = 24;

const CHUNK: u64 = 1 << 16;
/// 268 million messages a run.
const CHUNKS: u64 = 1 << 12;

/// What a body begins with: `run 8 | producer 4 | group 8 | sequence 12` hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) run: u32,
    pub(crate) producer: u16,
    pub(crate) group: u32,
    /// Below 2^48.
    pub(crate) sequence: u64,
}

impl Id {
    pub(crate) fn digits(&self) -> [u8; ID_BYTES] {
        let mut out = [0; ID_BYTES];
        put_hex(&mut out[..8], u64::from(self.run));
        put_hex(&mut out[8..12], u64::from(self.producer));
        put_hex(&mut out[12..20], u64::from(self.group));
        put_hex(&mut out[20..], self.sequence);
        out
    }

    pub(crate) fn parse(body: &[u8]) -> Option<Id> {
        let digits = body.get(..ID_BYTES)?;
        Some(Id {
            run: take_hex(&digits[..8])? as u32,
            producer: take_hex(&digits[8..12])? as u16,
            group: take_hex(&digits[12..20])? as u32,
            sequence: take_hex(&digits[20..])?,
        })
    }
}

/// What became of the messages of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) acknowledged: u64,
    pub(crate) received: u64,
    pub(crate) deleted: u64,
    /// Acknowledged and never received.
    pub(crate) lost: u64,
    /// Receives beyond the first of each message.
    pub(crate) duplicates: u64,
    /// Received although the send was not acknowledged: allowed, the answer may have been lost.
    pub(crate) unacknowledged: u64,
    /// Messages of some other run, or altered on the way.
    pub(crate) foreign: u64,
    /// First receives behind a later message of the same producer and group.
    pub(crate) out_of_order: u64,
}

pub(crate) struct Ledger {
    run: u32,
    next: AtomicU64,
    /// Acknowledged and not yet received.
    waiting: AtomicI64,
    foreign: AtomicU64,
    out_of_order: AtomicU64,
    /// The last sequence number by group and producer; only of FIFO queues. A lock, because one
    /// group's receives come over any connection, though never two at once.
    order: Option<Mutex<HashMap<u64, u64>>>,
    chunks: Vec<OnceLock<Box<[AtomicU64]>>>,
}

/// Whether messages of a group must come in the order they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Any,
    Fifo,
}

impl Ledger {
    pub(crate) fn new(run: u32, order: Order) -> Ledger {
        Ledger {
            run,
            next: AtomicU64::new(0),
            waiting: AtomicI64::new(0),
            foreign: AtomicU64::new(0),
            out_of_order: AtomicU64::new(0),
            order: (order == Order::Fifo).then(Mutex::default),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Takes `count` fresh sequence numbers and returns the first; `None` once `limit` is reached.
    pub(crate) fn take(&self, count: u64, limit: u64, now_us: u64) -> Option<u64> {
        let limit = limit.min(CHUNK * CHUNKS);
        let step = |next: u64| Some(next + count).filter(|end| *end <= limit);
        let first = self.next.fetch_update(Relaxed, Relaxed, step).ok()?;
        for sequence in first..first + count {
            if let Some(word) = self.word(sequence) {
                word.store(now_us << SENT_SHIFT, Relaxed);
            }
        }
        Some(first)
    }

    pub(crate) fn acknowledge(&self, sequence: u64) {
        let Some(word) = self.word(sequence) else { return };
        let before = word.fetch_or(ACKNOWLEDGED, Relaxed);
        if receives(before) == 0 && before & ACKNOWLEDGED == 0 {
            self.waiting.fetch_add(1, Relaxed);
        }
    }

    /// Notes a receive. For the first one of a message: when it was sent, in µs of the run.
    pub(crate) fn receive(&self, id: Option<Id>) -> Option<u64> {
        let known = id.filter(|id| id.run == self.run && id.sequence < self.next.load(Relaxed));
        let Some((id, word)) = known.and_then(|id| Some((id, self.word(id.sequence)?))) else {
            self.foreign.fetch_add(1, Relaxed);
            return None;
        };
        let before = word.fetch_add(RECEIVE, Relaxed);
        if receives(before) > 0 {
            return None;
        }
        if before & ACKNOWLEDGED != 0 {
            self.waiting.fetch_sub(1, Relaxed);
        }
        self.check_order(id);
        Some(before >> SENT_SHIFT)
    }

    pub(crate) fn delete(&self, id: Option<Id>) {
        let known = id.filter(|id| id.run == self.run);
        if let Some(word) = known.and_then(|id| self.word(id.sequence)) {
            word.fetch_or(DELETED, Relaxed);
        }
    }

    pub(crate) fn run(&self) -> u32 {
        self.run
    }

    /// Acknowledged and not yet received. Receives may overtake their acknowledgement.
    pub(crate) fn waiting(&self) -> u64 {
        u64::try_from(self.waiting.load(Relaxed)).unwrap_or(0)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let mut verdict = Verdict {
            foreign: self.foreign.load(Relaxed),
            out_of_order: self.out_of_order.load(Relaxed),
            ..Verdict::default()
        };
        let words = self.chunks.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter());
        for word in words.map(|word| word.load(Relaxed)) {
            let (is_acknowledged, receives) = (word & ACKNOWLEDGED != 0, receives(word));
            verdict.acknowledged += u64::from(is_acknowledged);
            verdict.received += u64::from(receives > 0);
            verdict.deleted += u64::from(word & DELETED != 0);
            verdict.lost += u64::from(is_acknowledged && receives == 0);
            verdict.duplicates += receives.saturating_sub(1);
            verdict.unacknowledged += u64::from(!is_acknowledged && receives > 0);
        }
        verdict
    }

    fn check_order(&self, id: Id) {
        let Some(order) = &self.order else { return };
        let key = u64::from(id.group) << 16 | u64::from(id.producer);
        let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
        let last = order.entry(key).or_insert(id.sequence);
        if *last > id.sequence {
            self.out_of_order.fetch_add(1, Relaxed);
        }
        *last = id.sequence.max(*last);
    }

    fn word(&self, sequence: u64) -> Option<&AtomicU64> {
        let chunk = self.chunks.get((sequence / CHUNK) as usize)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        chunk.get((sequence % CHUNK) as usize)
    }
}

fn receives(word: u64) -> u64 {
    word >> RECEIVES_SHIFT & 0xffff
}

fn put_hex(out: &mut [u8], value: u64) {
    for (place, digit) in out.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (4 * place) & 15) as usize];
    }
}

fn take_hex(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |value, digit| Some(value << 4 | u64::from(char::from(*digit).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> Option<Id> {
        Some(Id { run: 7, producer: 1, group: 2, sequence })
    }

    #[test]
    fn ids_survive_the_way_through_a_body() {
        let id = Id { run: 0xdead_beef, producer: 0xffff, group: 10_000, sequence: 1 << 40 };
        let body = [&id.digits()[..], b"the rest"].concat();

        assert_eq!(Id::parse(&body), Some(id));
        assert_eq!(Id::parse(b"too short"), None);
        assert_eq!(Id::parse(&[b'x'; ID_BYTES]), None);
    }

    #[test]
    fn losses_duplicates_and_strangers_are_counted() {
        let ledger = Ledger::new(7, Order::Any);
        assert_eq!(ledger.take(4, 4, 10), Some(0));
        assert_eq!(ledger.take(1, 4, 11), None);

        (0..3).for_each(|sequence| ledger.acknowledge(sequence));
        assert_eq!(ledger.receive(id(0)), Some(10));
        assert_eq!(ledger.receive(id(0)), None);
        assert_eq!(ledger.receive(id(3)), Some(10));
        ledger.receive(id(99));
        ledger.receive(Some(Id { run: 8, producer: 0, group: 0, sequence: 1 }));
        ledger.receive(None);
        ledger.delete(id(0));
        ledger.delete(id(0));

        let verdict = ledger.verdict();
        assert_eq!((verdict.acknowledged, verdict.received, verdict.deleted), (3, 2, 1));
        assert_eq!((verdict.lost, verdict.duplicates, verdict.foreign), (2, 1, 3));
        assert_eq!((verdict.unacknowledged, ledger.waiting()), (1, 2));
    }

    #[test]
    fn order_is_kept_by_producer_and_group_on_fifo_queues() {
        let ledger = Ledger::new(7, Order::Fifo);
        ledger.take(10, 10, 1);

        ledger.receive(id(2));
        ledger.receive(id(1));
        ledger.receive(Some(Id { run: 7, producer: 2, group: 2, sequence: 0 }));
        ledger.receive(id(2));

        assert_eq!(ledger.verdict().out_of_order, 1);
    }
}
