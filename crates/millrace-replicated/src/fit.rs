//! The check of a copy against the log: is it one of this log, and where in the log does it end?

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millrace_journal::frame::{Chain, Frame};
use millrace_journal::store::End;
use millrace_journal::{Journal, Origin, SegmentId, UnownedLocal};

use crate::clock::{Clock, Patience};
use crate::error::FollowError;
use crate::log::{Bounds, LogFormat, SharedLog};

pub(crate) const READ_BYTES: usize = 8 << 20;

/// A log with the patience to read it.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) log: Arc<dyn SharedLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) patience: Patience,
}

/// Tries that have an end.
pub(crate) struct Tries<'a> {
    reader: &'a Reader,
    until: Duration,
}

/// The oldest frame that a log holds. A log is only purged up to the first of a segment.
#[derive(Clone)]
pub(crate) struct First {
    pub(crate) sequence: u64,
    pub(crate) frame: Frame,
}

/// The relation of a copy to the log.
pub(crate) enum Fit {
    /// It ends with the message that has this number.
    EndsAt(u64),
    /// It is of no use.
    Misfit(&'static str),
}

impl Reader {
    pub(crate) fn format(&self) -> LogFormat {
        self.log.format()
    }

    pub(crate) fn tries(&self) -> Tries<'_> {
        Tries { reader: self, until: self.clock.now() + self.patience.limit }
    }

    pub(crate) fn bounds(&self) -> Result<Bounds, FollowError> {
        let tries = self.tries();
        loop {
            match self.log.bounds() {
                Ok(bounds) => return Ok(bounds),
                Err(silence) => tries.again(0, &silence.to_string())?,
            }
        }
    }

    /// The messages behind `last`, in order and without gaps; none if the reader that was asked has
    /// none.
    pub(crate) fn read_behind(&self, last: u64) -> Vec<(u64, Bytes)> {
        let mut messages = self.log.read(last + 1, READ_BYTES).unwrap_or_default();
        let whole = (last + 1..).zip(&messages).take_while(|(due, (found, _))| due == found);
        let whole = whole.count();
        messages.truncate(whole);
        messages
    }

    /// None if the log is empty.
    pub(crate) fn first(&self) -> Result<Option<First>, FollowError> {
        let tries = self.tries();
        loop {
            let bounds = self.bounds()?;
            if bounds.last == 0 {
                return Ok(None);
            }
            let message =
                self.log.read(bounds.first, 1).ok().and_then(|read| read.into_iter().next());
            let found = message.and_then(|(sequence, bytes)| {
                let frame = Frame::from_bytes(&bytes, self.format().salt)?;
                Some(First { sequence, frame })
            });
            match found {
                Some(first) if first.is_first_of_segment() => return Ok(Some(first)),
                _ => tries.again(bounds.first, "no first frame of a segment")?,
            }
        }
    }

    /// The number of the first message from `from` up to `until` for which `is_wanted`.
    pub(crate) fn find(
        &self,
        from: u64,
        until: u64,
        is_wanted: impl Fn(&Frame) -> bool,
    ) -> Result<Option<u64>, FollowError> {
        let mut last = from.saturating_sub(1);
        let mut tries = self.tries();
        while last < until {
            let messages = self.read_behind(last);
            if messages.is_empty() {
                tries.again(last + 1, "not there")?;
                continue;
            }
            tries = self.tries();
            for (sequence, bytes) in messages {
                let frame = Frame::from_bytes(&bytes, self.format().salt);
                if frame.is_some_and(|frame| is_wanted(&frame)) {
                    return Ok(Some(sequence));
                }
                last = sequence;
            }
        }
        Ok(None)
    }

    /// Compares a copy with the log, which begins with `first`.
    pub(crate) fn fit(
        &self,
        copy: &UnownedLocal,
        first: Option<&First>,
    ) -> Result<Fit, FollowError> {
        let End { chain, .. } = copy.end();
        let is_new = is_without_frames(copy);
        let Some(first) = first else {
            // What has come to be there since is not skipped.
            return if is_new && chain == Chain::default() {
                Ok(Fit::EndsAt(0))
            } else {
                Err(self.silent_or_ahead(&chain)?)
            };
        };
        let before = Chain::before(&first.frame.header);
        if is_new {
            let leads_on = (before.counter, before.previous) == (chain.counter, chain.previous);
            let at = Fit::EndsAt(first.sequence.saturating_sub(1));
            return Ok(if leads_on { at } else { Fit::Misfit("it begins elsewhere") });
        }
        if chain.counter <= before.counter {
            return Ok(Fit::Misfit("the log begins behind it"));
        }
        self.locate(&chain, first)
    }

    /// The log looked empty to those who have a copy of something: the answer may have lagged.
    fn silent_or_ahead(&self, chain: &Chain) -> Result<FollowError, FollowError> {
        let tries = self.tries();
        while self.bounds()?.last == 0 {
            if tries.again(1, "the log is empty").is_err() {
                return Ok(FollowError::Ahead { copied: chain.counter, last: 0 });
            }
        }
        Ok(FollowError::Silent { sequence: 1, reason: "the log looked empty".into() })
    }

    /// Finds the frame with which a copy ends.
    fn locate(&self, chain: &Chain, first: &First) -> Result<Fit, FollowError> {
        let is_end = |frame: &Frame| frame.chain() == *chain;
        let estimate = first.estimate(chain.counter);
        let tries = self.tries();
        // The answer may lag.
        let last = loop {
            let last = self.bounds()?.last;
            if last >= estimate || tries.again(last, "the log is short").is_err() {
                break last;
            }
        };
        if let Some(sequence) = self.find(estimate, last, is_end)? {
            return Ok(Fit::EndsAt(sequence));
        }
        // A gap in the chain, where a journal was repaired before it became a shared log, makes the
        // estimate too late.
        if let Some(sequence) = self.find(first.sequence, last, is_end)? {
            return Ok(Fit::EndsAt(sequence));
        }
        if last < estimate {
            return Err(FollowError::Ahead { copied: chain.counter, last });
        }
        Ok(Fit::Misfit("the log has something else where it ends"))
    }
}

impl Tries<'_> {
    /// Lets time pass; an error once there was enough.
    pub(crate) fn again(&self, sequence: u64, reason: &str) -> Result<(), FollowError> {
        if self.reader.clock.now() >= self.until {
            return Err(FollowError::Silent { sequence, reason: reason.into() });
        }
        self.reader.clock.sleep(self.reader.patience.pause);
        Ok(())
    }
}

impl First {
    fn is_first_of_segment(&self) -> bool {
        self.frame.header.place.offset() as usize == millrace_journal::SEGMENT_HEADER_BYTES
    }

    pub(crate) fn segment(&self) -> SegmentId {
        self.frame.header.place.segment()
    }

    /// Where a copy of the log begins.
    pub(crate) fn origin(&self, salt: u64) -> Origin {
        Origin { salt, segment: self.segment(), start: Chain::before(&self.frame.header) }
    }

    /// The number that the frame with this counter has if none before it is void; else it has a
    /// greater one.
    pub(crate) fn estimate(&self, counter: u64) -> u64 {
        let frames = counter.saturating_sub(self.frame.header.counter);
        self.sequence.saturating_add(frames)
    }
}

/// Returns true if nothing was appended to a copy yet.
fn is_without_frames(copy: &UnownedLocal) -> bool {
    let journal = copy.journal();
    let tail = copy.end().tail;
    let is_at_start = tail == journal.placement().start(tail.segment());
    is_at_start && journal.segments().len() <= 1
}
