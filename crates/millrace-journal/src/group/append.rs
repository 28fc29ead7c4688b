//! Appending: into the gathering group, for whoever commits it.

use std::sync::atomic::Ordering;

use super::GroupCommit;
use super::admission::{BATCH_OVERHEAD_BYTES, Reservation};
use super::gather::Gather;
use crate::position::{Position, Ticket};
use crate::record::Record;

/// When and where an append is to be committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Here,
    Elsewhere,
    Later,
}

impl GroupCommit {
    /// Appends one atomic batch: all its records are in one frame. Pushes their final positions.
    /// Asserts that the batch keeps to its reservation and is not empty.
    pub fn append(
        &self,
        reservation: Reservation<'_>,
        records: &[Record<'_>],
        positions: &mut Vec<Position>,
    ) -> Ticket {
        self.push(reservation, records, positions, Due::Elsewhere)
    }

    /// The same for callers that go on to [`GroupCommit::commit_here`], and must: the committing
    /// thread may sleep on.
    pub fn append_before_commit_here(
        &self,
        reservation: Reservation<'_>,
        records: &[Record<'_>],
        positions: &mut Vec<Position>,
    ) -> Ticket {
        let due = if self.is_local { Due::Here } else { Due::Elsewhere };
        self.push(reservation, records, positions, due)
    }

    /// The same for what nobody waits for: committed together with what follows, at the latest
    /// after some milliseconds.
    pub fn append_unawaited(
        &self,
        reservation: Reservation<'_>,
        records: &[Record<'_>],
        positions: &mut Vec<Position>,
    ) -> Ticket {
        self.push(reservation, records, positions, Due::Later)
    }

    /// Somebody waits for the ticket, however it was appended: it is due, to be committed
    /// [here](GroupCommit::commit_here) or [elsewhere](GroupCommit::commit_elsewhere).
    pub fn set_awaited(&self, ticket: Ticket) {
        if self.awaited.load(Ordering::Acquire) < ticket.0 {
            self.note_awaited(&mut self.lock_gather(), ticket);
        }
    }

    fn note_awaited(&self, gather: &mut Gather, ticket: Ticket) {
        gather.set_awaited(ticket.0);
        self.awaited.fetch_max(ticket.0, Ordering::Release);
    }

    fn push(
        &self,
        reservation: Reservation<'_>,
        records: &[Record<'_>],
        positions: &mut Vec<Position>,
        due: Due,
    ) -> Ticket {
        assert!(!records.is_empty(), "empty batch");
        let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
        let reserved = reservation.release();
        assert!(bytes as u64 + BATCH_OVERHEAD_BYTES <= reserved, "batch exceeds its reservation");
        // Checksums before the lock; a longer batch pays for the rest inside.
        let mut headers = [[0; crate::record::RECORD_HEADER_BYTES]; 16];
        for (header, record) in headers.iter_mut().zip(records) {
            *header = record.header();
        }

        let mut gather = self.lock_gather();
        if gather.make_room(bytes, self.options.group_bytes) {
            gather.begin(self.journal.now());
        }
        for (number, record) in records.iter().enumerate() {
            let header = headers.get(number).copied().unwrap_or_else(|| record.header());
            positions.push(gather.push(record, &header));
        }
        gather.reserved_bytes -= reserved;
        let ticket = Ticket(gather.number());
        if due != Due::Later {
            self.note_awaited(&mut gather, ticket);
        }
        let must_wake = match due {
            Due::Here => false,
            Due::Elsewhere => gather.must_wake(),
            Due::Later => gather.must_wake_to_linger(),
        };
        drop(gather);
        if must_wake {
            self.gathered.notify_one();
        }
        ticket
    }
}
