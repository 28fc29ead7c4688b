//! The id ledger: which messages were sent, acknowledged, received and deleted.
//!
//! One 64-bit word a message, shared by all threads without a lock:
//!
//! ```text
//! sent at, µs of the run, 40 bits | receives 16 bits | unused 6 | deleted 1 | acknowledged 1
//! ```
//! Words are made a chunk at a time as sequence numbers are taken. Every body begins with its
//! [`Id`], 32 hexadecimal digits, so that what comes back names itself. Where several processes
//! share a queue, each keeps a book of every other's messages as well; see `tally`.

use std::{
    collections::HashMap,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};

use serde::{Deserialize, Serialize};

use super::tally::{self, Tally};
use crate::live::Standing;

/// Bytes that an [`Id`] takes at the start of a body.
pub(crate) const ID_BYTES: usize = 32;

const ACKNOWLEDGED: u64 = 1;
const DELETED: u64 = 2;
const RECEIVE: u64 = 1 << 8;
const RECEIVES_SHIFT: u32 = 8;
const SENT_SHIFT: u32 = 24;

const CHUNK: u64 = 1 << 16;
const CHUNKS: u64 = 1 << 12;
/// Messages of a run at most.
pub(super) const COUNT_MAX: u64 = CHUNK * CHUNKS;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// First receives behind a later message of the same producer and group. A fault on FIFO
    /// queues only.
    pub(crate) out_of_order: u64,
}

pub(crate) struct Ledger {
    next: AtomicU64,
    /// Acknowledged and not yet received.
    waiting: AtomicI64,
    foreign: AtomicU64,
    out_of_order: AtomicU64,
    order: Sequences,
    /// Our own first.
    books: Vec<Book>,
}

/// The messages that one process sent.
struct Book {
    run: u32,
    again: AtomicU64,
    chunks: Vec<OnceLock<Box<[AtomicU64]>>>,
}

/// The last sequence number that was received.
enum Sequences {
    /// By producer, in the order of `books`.
    Producers(Vec<Vec<AtomicU64>>),
    /// By run, group and producer. A lock, because one group's receives come over any connection,
    /// though never two at once.
    Groups(Mutex<HashMap<(u32, u64), u64>>),
}

/// In which order messages are to come: in any, or each group's as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Any,
    Fifo,
}

impl Ledger {
    /// Of a process that sends as `run`, while those of `others` use the same queue.
    pub(crate) fn new(run: u32, others: &[u32], order: Order) -> Ledger {
        let runs = std::iter::once(run).chain(others.iter().copied());
        let books: Vec<Book> = runs.map(Book::new).collect();
        let producers = || (0..=u16::MAX).map(|_| AtomicU64::new(0)).collect();
        let order = match order {
            Order::Fifo => Sequences::Groups(Mutex::default()),
            Order::Any => Sequences::Producers(books.iter().map(|_| producers()).collect()),
        };
        Ledger {
            next: AtomicU64::new(0),
            waiting: AtomicI64::new(0),
            foreign: AtomicU64::new(0),
            out_of_order: AtomicU64::new(0),
            order,
            books,
        }
    }

    /// Takes `count` fresh sequence numbers and returns the first; `None` once `limit` is reached.
    pub(crate) fn take(&self, count: u64, limit: u64, now_us: u64) -> Option<u64> {
        let limit = limit.min(COUNT_MAX);
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

    /// Notes a receive. For the first one of our own messages: when it was sent, in µs of the run.
    pub(crate) fn receive(&self, id: Option<Id>) -> Option<u64> {
        let Some((id, at)) = id.and_then(|id| Some((id, self.book(id)?))) else {
            self.foreign.fetch_add(1, Relaxed);
            return None;
        };
        let book = self.books.get(at)?;
        let before = book.word(id.sequence)?.fetch_add(RECEIVE, Relaxed);
        if receives(before) > 0 {
            book.again.fetch_add(1, Relaxed);
            return None;
        }
        if before & ACKNOWLEDGED != 0 {
            self.waiting.fetch_sub(1, Relaxed);
        }
        self.check_order(at, id);
        (at == 0).then_some(before >> SENT_SHIFT)
    }

    pub(crate) fn delete(&self, id: Option<Id>) {
        let Some(id) = id else { return };
        let book = self.book(id).and_then(|at| self.books.get(at));
        if let Some(word) = book.and_then(|book| book.word(id.sequence)) {
            word.fetch_or(DELETED, Relaxed);
        }
    }

    /// Whom our own messages name as their sender.
    pub(crate) fn run(&self) -> u32 {
        self.books.first().map_or(0, |book| book.run)
    }

    /// Acknowledged and not yet received. Receives may overtake their acknowledgement.
    pub(crate) fn waiting(&self) -> u64 {
        u64::try_from(self.waiting.load(Relaxed)).unwrap_or(0)
    }

    /// How it stands while messages come and go; less than the verdict knows.
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            waiting: self.waiting(),
            duplicated: self.books.iter().map(|book| book.again.load(Relaxed)).sum(),
            foreign: self.foreign.load(Relaxed),
            out_of_order: match self.order {
                Sequences::Groups(_) => self.out_of_order.load(Relaxed),
                // Nobody promised any.
                Sequences::Producers(_) => 0,
            },
        }
    }

    /// What this process alone can say.
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict {
            foreign: self.foreign.load(Relaxed),
            out_of_order: self.out_of_order.load(Relaxed),
            ..tally::verdict(&self.tallies())
        }
    }

    /// What this process saw of its own and the others' messages.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        self.books.iter().map(Book::tally).collect()
    }

    fn check_order(&self, book: usize, id: Id) {
        let last = match &self.order {
            Sequences::Producers(books) => {
                let producers = books.get(book);
                let last = producers.and_then(|all| all.get(usize::from(id.producer)));
                last.map_or(0, |last| last.fetch_max(id.sequence, Relaxed))
            }
            Sequences::Groups(groups) => {
                let key = (id.run, u64::from(id.group) << 16 | u64::from(id.producer));
                let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
                let last = groups.entry(key).or_insert(id.sequence);
                let before = *last;
                *last = id.sequence.max(before);
                before
            }
        };
        if last > id.sequence {
            self.out_of_order.fetch_add(1, Relaxed);
        }
    }

    /// The book that knows a message; `None` for strangers.
    fn book(&self, id: Id) -> Option<usize> {
        let at = self.books.iter().position(|book| book.run == id.run)?;
        let end = if at == 0 { self.next.load(Relaxed) } else { COUNT_MAX };
        (id.sequence < end).then_some(at)
    }

    fn word(&self, sequence: u64) -> Option<&AtomicU64> {
        self.books.first()?.word(sequence)
    }
}

impl Book {
    fn new(run: u32) -> Book {
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        Book { run, again: AtomicU64::new(0), chunks }
    }

    fn word(&self, sequence: u64) -> Option<&AtomicU64> {
        let chunk = self.chunks.get((sequence / CHUNK) as usize)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        chunk.get((sequence % CHUNK) as usize)
    }

    fn tally(&self) -> Tally {
        let mut tally =
            Tally { run: self.run, again: self.again.load(Relaxed), ..Tally::default() };
        let chunks = self.chunks.iter().zip((0..).step_by(CHUNK as usize));
        for (chunk, first) in chunks.filter_map(|(chunk, first)| Some((chunk.get()?, first))) {
            for (word, sequence) in chunk.iter().zip(first..) {
                let word = word.load(Relaxed);
                if word & ACKNOWLEDGED != 0 {
                    tally.acknowledged.insert(sequence);
                }
                if word & DELETED != 0 {
                    tally.deleted.insert(sequence);
                }
                if receives(word) > 0 {
                    tally.received.insert(sequence);
                }
            }
        }
        tally
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
        let ledger = Ledger::new(7, &[], Order::Any);
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
        let standing = Standing { waiting: 2, duplicated: 1, foreign: 3, out_of_order: 0 };
        assert_eq!(ledger.standing(), standing);
    }

    #[test]
    fn order_is_kept_by_producer_and_group_on_fifo_queues() {
        let ledger = Ledger::new(7, &[], Order::Fifo);
        ledger.take(10, 10, 1);

        ledger.receive(id(2));
        ledger.receive(id(1));
        ledger.receive(Some(Id { run: 7, producer: 2, group: 2, sequence: 0 }));
        ledger.receive(id(2));

        assert_eq!(ledger.verdict().out_of_order, 1);
    }

    #[test]
    fn other_processes_messages_are_known_and_checked_by_the_tallies() {
        let (ours, theirs) = (Ledger::new(7, &[8], Order::Any), Ledger::new(8, &[7], Order::Any));
        theirs.take(3, 3, 1);
        (0..3).for_each(|sequence| theirs.acknowledge(sequence));
        let sent_by_them = |sequence| Some(Id { run: 8, producer: 0, group: 0, sequence });

        assert_eq!(ours.receive(sent_by_them(0)), None);
        ours.receive(sent_by_them(1));
        theirs.receive(sent_by_them(1));
        ours.receive(Some(Id { run: 9, producer: 0, group: 0, sequence: 0 }));

        let all = [ours.tallies(), theirs.tallies()].concat();
        let verdict = tally::verdict(&all);
        assert_eq!((verdict.acknowledged, verdict.received, verdict.lost), (3, 2, 1));
        assert_eq!((verdict.duplicates, ours.verdict().foreign), (1, 1));
    }
}
