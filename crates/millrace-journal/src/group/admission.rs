//! Admission: deciding at the door whether a batch will find room.

use std::sync::atomic::Ordering;

use super::GroupCommit;
use crate::error::Unavailable;
use crate::frame::{FRAME_ALIGN, FRAME_HEADER_BYTES};
use crate::position::{Purpose, SegmentId};

/// What a batch can add to a frame beside its records.
pub(super) const BATCH_OVERHEAD_BYTES: u64 = (FRAME_HEADER_BYTES + FRAME_ALIGN) as u64;

/// Space that is promised to one append. Dropped unused, it gives the space back.
#[must_use]
pub struct Reservation<'a> {
    group_commit: &'a GroupCommit,
    bytes: u64,
}

impl GroupCommit {
    /// Asks for room for one batch. `bytes` is the sum of [`crate::Record::encoded_bytes`], or
    /// more. Once granted, the append cannot fail for lack of space.
    pub fn reserve(&self, bytes: usize, purpose: Purpose) -> Result<Reservation<'_>, Unavailable> {
        let bytes = bytes as u64 + BATCH_OVERHEAD_BYTES;
        if bytes > self.max_batch_bytes {
            let limit_bytes = self.max_batch_bytes - BATCH_OVERHEAD_BYTES;
            return Err(Unavailable::TooLarge { bytes: bytes - BATCH_OVERHEAD_BYTES, limit_bytes });
        }
        let mut refusal = None;
        while let Some(missing) = self.admit(bytes, purpose, refusal.is_some())? {
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            refusal = self.journal.prepare(missing).err();
            if self.journal.failure().is_some() {
                // It ends the journal and tells: the caller may hold locks that those who are told take.
                self.preparing.wake();
            }
        }
        Ok(Reservation { group_commit: self, bytes })
    }

    /// Grants `bytes`, or names the segment that has to be prepared first.
    ///
    /// The promise rests on two facts. If the segment behind the gathering one is ready, whatever
    /// is reserved crosses into it at most once and fits there whole, because all that waits is
    /// bounded by a segment. If not, nothing may cross, so the reserved bytes must fit behind what
    /// has gathered.
    fn admit(
        &self,
        bytes: u64,
        purpose: Purpose,
        is_refused: bool,
    ) -> Result<Option<SegmentId>, Unavailable> {
        if let Some(end) = self.ended() {
            return Err(end);
        }
        let mut gather = self.lock_gather();
        if gather.is_closed {
            return Err(Unavailable::Closed);
        }
        let waiting_bytes = gather.waiting_bytes + gather.reserved_bytes;
        let limit_bytes = self.options.max_waiting_bytes;
        if waiting_bytes + bytes > limit_bytes {
            return Err(Unavailable::Backlog { waiting_bytes, limit_bytes });
        }
        let next = gather.tail().segment().next();
        // While the thread is on its way to prepare the next segment, nobody waits for it, but
        // half of this one is kept for what frees space.
        let is_coming = self.has_threads.load(Ordering::Relaxed) && !self.journal.is_full();
        let is_coming_or_refused = is_coming || is_refused;
        let may_use_rest = match purpose {
            Purpose::Store => is_coming && gather.fits_in_eighths(4, bytes),
            Purpose::Lease => is_coming_or_refused && gather.fits_in_eighths(6, bytes),
            Purpose::Relocate => is_coming_or_refused && gather.fits_in_eighths(7, bytes),
            Purpose::Reclaim => is_coming_or_refused && gather.fits(bytes),
        };
        if self.journal.is_ready(next) || may_use_rest {
            gather.reserved_bytes += bytes;
            return Ok(None);
        }
        Ok(Some(next))
    }
}

impl Reservation<'_> {
    /// Takes the bytes out, so that dropping gives nothing back.
    pub(super) fn release(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.group_commit.lock_gather().reserved_bytes -= self.bytes;
        }
    }
}
