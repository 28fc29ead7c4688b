//! A node that copies the log, and may become its owner.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use millrace_journal::frame::{Chain, Frame, FrameKind, Prior};
use millrace_journal::journal::Placement;
use millrace_journal::store::{End, Unowned};
use millrace_journal::{
    Journal, LocalJournal, OpenError, Origin, Owner, Position, ReadError, Replayed, SegmentId,
    UnownedLocal,
};

use crate::clock::{Clock, Patience};
use crate::copy::CopyPlace;
use crate::error::FollowError;
use crate::fit::{First, Fit, Reader};
use crate::judge::{Judged, judge};
use crate::log::SharedLog;
use crate::replicated::Replicated;
use crate::settle::{Settler, Tail, Unsettled};

/// The receiver of records, in order.
pub type Show<'a> = &'a mut dyn FnMut(Replayed<'_>);

/// Copies the frames that count into a local journal. Nothing of this node is in the log.
pub struct Follower {
    pub(crate) reader: Reader,
    pub(crate) copy: UnownedLocal,
    pub(crate) tail: Tail,
    /// Number of the first message of each segment that was begun since the start.
    pub(crate) starts: BTreeMap<SegmentId, u64>,
    /// Number of the oldest message, as far as known.
    first: u64,
}

/// An epoch was not started, and the follower may go on.
pub struct NotOwner {
    pub follower: Follower,
    /// `Fenced` if another's frame follows what was read.
    pub error: OpenError,
}

impl Follower {
    /// Opens the copy of the log at `place` and shows the records in it. One that does not fit the
    /// log is thrown away, and a new one begun; one that is ahead of it is refused.
    pub fn start(
        log: Arc<dyn SharedLog>,
        clock: Arc<dyn Clock>,
        patience: Patience,
        place: &CopyPlace,
        show: Show<'_>,
    ) -> Result<Self, FollowError> {
        let reader = Reader { log, clock, patience };
        let first = reader.first()?;
        let salt = reader.format().salt;
        let new_log = Origin { salt, segment: SegmentId(1), start: Chain::default() };
        let origin = first.as_ref().map_or(new_log, |first| first.origin(salt));
        let mut copy = place.open(reader.format(), origin)?;
        let mut fit = reader.fit(&copy, first.as_ref())?;
        if let Fit::Misfit(reason) = fit {
            drop(copy);
            place.throw_away(&reason)?;
            copy = place.open(reader.format(), origin)?;
            fit = reader.fit(&copy, first.as_ref())?;
        }
        let last = match fit {
            Fit::EndsAt(last) => last,
            Fit::Misfit(reason) => {
                return Err(FollowError::Damaged { sequence: origin_sequence(&first), reason });
            }
        };
        let tail = Tail { chain: copy.end().chain, last };
        let mut follower =
            Self { reader, copy, tail, starts: BTreeMap::new(), first: origin_sequence(&first) };
        if let Some(first) = first {
            follower.forget_before(first.segment());
        }
        if let Err(error) = follower.show_copy(show) {
            drop(follower);
            // What is damaged here is whole in the log.
            place.throw_away(&error)?;
            return Err(error.into());
        }
        Ok(follower)
    }

    /// Copies what is in the log by now, and shows its records. Returns the number of frames.
    pub fn catch_up(&mut self, show: Show<'_>) -> Result<u64, FollowError> {
        let bounds = self.reader.bounds()?;
        let mut frames = 0;
        while self.tail.last < bounds.last {
            let reader = self.reader.clone();
            let tries = reader.tries();
            let messages = loop {
                let messages = reader.read_behind(self.tail.last);
                if !messages.is_empty() {
                    break messages;
                }
                let first = reader.bounds()?.first;
                if first > self.tail.last + 1 {
                    return Err(FollowError::Overtaken { first });
                }
                tries.again(self.tail.last + 1, "not there")?;
            };
            for (sequence, message) in messages {
                frames += u64::from(self.take(sequence, &message, show)?);
            }
        }
        self.follow_purges(bounds.first)?;
        Ok(frames)
    }

    /// Makes `owner` the owner of a new epoch, if nothing that counts is behind what was copied.
    pub fn start_epoch(mut self, owner: &Owner) -> Result<Replicated, Box<NotOwner>> {
        match self.open(owner) {
            Ok(opened) => Ok(Replicated::new(self, opened)),
            Err(error) => Err(Box::new(NotOwner { follower: self, error })),
        }
    }

    /// Where the copy ends.
    #[must_use]
    pub fn end(&self) -> End {
        self.copy.end()
    }

    /// The owner of the epoch in which the copy ends.
    pub fn owner(&self) -> Result<Option<Owner>, ReadError> {
        self.copy.owner()
    }

    /// The copy, to be read.
    #[must_use]
    pub fn copy(&self) -> &LocalJournal {
        self.copy.journal()
    }

    /// Does one piece of background work; false if there was none.
    pub fn background_step(&self) -> bool {
        self.copy().background_step()
    }

    pub(crate) fn settler(&self) -> Settler<'_> {
        Settler {
            log: &*self.reader.log,
            clock: &*self.reader.clock,
            patience: self.reader.patience,
            format: self.reader.format(),
        }
    }

    /// Puts a frame that counts into the copy.
    pub(crate) fn put(&mut self, sequence: u64, frame: &Frame) -> Result<(), FollowError> {
        put(self.copy.journal(), frame)?;
        self.note_start(sequence, frame.header.place);
        Ok(())
    }

    fn note_start(&mut self, sequence: u64, place: Position) {
        if place == self.copy().placement().start(place.segment()) {
            self.starts.insert(place.segment(), sequence);
        }
    }

    /// Takes the next message of the log. Returns true if it counts.
    fn take(
        &mut self,
        sequence: u64,
        message: &Bytes,
        show: Show<'_>,
    ) -> Result<bool, FollowError> {
        let damaged = |reason| FollowError::Damaged { sequence, reason };
        let format = self.reader.format();
        let frame =
            Frame::from_bytes(message, format.salt).ok_or(damaged("no frame of this log"))?;
        let counts = match judge(&self.tail.chain, &frame) {
            Judged::Void => false,
            Judged::Broken => return Err(damaged("something before it is missing")),
            Judged::Counts(chain) => {
                if !is_placed(
                    &frame,
                    self.end().tail,
                    self.copy().placement(),
                    format.segment_bytes,
                ) {
                    return Err(damaged("it is at no place that follows"));
                }
                self.put(sequence, &frame)?;
                self.tail.chain = chain;
                let _ = frame.show(&mut |record| {
                    show(record);
                    ControlFlow::Continue(())
                });
                true
            }
        };
        self.tail.last = sequence;
        Ok(counts)
    }

    fn show_copy(&self, show: Show<'_>) -> Result<(), ReadError> {
        for segment in self.copy().segments() {
            self.copy().replay_segment(segment.id, &mut |record| {
                show(record);
                ControlFlow::Continue(())
            })?;
        }
        Ok(())
    }

    /// Forgets the segments that the log has forgotten.
    fn follow_purges(&mut self, first: u64) -> Result<(), FollowError> {
        if first <= self.first {
            return Ok(());
        }
        if let Some(first) = self.reader.first()? {
            self.first = first.sequence;
            self.forget_before(first.segment());
        }
        Ok(())
    }

    fn forget_before(&mut self, segment: SegmentId) {
        // Never the active one.
        let segment = segment.min(self.end().tail.segment());
        let _ = self.copy().truncate_before(segment);
        self.starts = self.starts.split_off(&segment);
    }

    /// Appends the OPEN frame to the log and the copy. Returns the frame.
    fn open(&mut self, owner: &Owner) -> Result<Frame, OpenError> {
        let format = self.reader.format();
        let End { chain, tail } = self.end();
        let placement =
            Placement { data_end_bytes: format.segment_bytes, ..self.copy().placement() };
        let place = placement.place(tail, owner.frame_bytes());
        self.copy()
            .prepare(place.segment())
            .map_err(|error| OpenError::from(FollowError::CopyFull(error)))?;
        let header = chain.next(FrameKind::Open, place, Prior::Durable);
        let frame = Frame::open(header, owner, format.salt);
        let mut end = self.tail;
        let settled = self.settler().settle(&mut end, &frame);
        match settled {
            Ok(()) => {}
            Err(Unsettled::Fenced(epoch)) => return Err(OpenError::Fenced(epoch)),
            Err(Unsettled::Unknown(reason)) => {
                let sequence = end.last + 1;
                return Err(FollowError::Silent { sequence, reason }.into());
            }
        }
        // If this fails, the epoch has an owner that does nothing, until the next one.
        self.put(end.last, &frame)?;
        self.tail = end;
        Ok(frame)
    }
}

/// Appends a frame to a copy.
pub(crate) fn put(copy: &LocalJournal, frame: &Frame) -> Result<(), FollowError> {
    copy.prepare(frame.header.place.segment()).map_err(FollowError::CopyFull)?;
    copy.append(frame).map_err(|error| FollowError::CopyFailed(error.to_string().into()))
}

/// Returns true if a frame is at one of the two places that may follow `tail`, and ends in its
/// segment.
fn is_placed(frame: &Frame, tail: Position, placement: Placement, segment_bytes: u32) -> bool {
    let place = frame.header.place;
    let is_next = place == tail || place == placement.roll(tail);
    is_next && frame.header.length <= segment_bytes.saturating_sub(place.offset())
}

fn origin_sequence(first: &Option<First>) -> u64 {
    first.as_ref().map_or(1, |first| first.sequence)
}
