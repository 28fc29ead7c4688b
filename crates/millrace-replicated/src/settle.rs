//! The settle loop: the same bytes again until it is certain what became of them.
//!
//! ```text
//!  publish behind `last` ──At(last + 1)──────────────────────────▶ settled
//!     ▲        │ Silent   └──Refused, At(another)──▶ read behind `last`
//!     │        ▼                                      │ ours counts ─────▶ settled
//!     └─── after a pause ◀────────── nothing there ───┤ another's counts ─▶ fenced
//!              ▲   until the limit: not settled       │ void
//!              └───────────── `last` is the void one ─┘
//! ```
//! Sending again is safe because one frame is in flight at a time: copies of it have one place in
//! the chain, so of all that arrive, at whatever time, the first counts and the others are void. A
//! refusal proves nothing, for the log may count what it has not committed, such as the first copy
//! of this very frame. Only what was read does.

use std::sync::Arc;

use bytes::Bytes;
use millrace_journal::Epoch;
use millrace_journal::frame::{Chain, Frame};

use crate::clock::{Clock, Patience};
use crate::judge::{Judged, judge};
use crate::log::{LogFormat, Published, SharedLog};

/// At most one frame is looked for, and void ones before it are few.
const READ_BYTES: usize = 1 << 20;

/// The end of a log, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Behind the last frame that counts.
    pub(crate) chain: Chain,
    /// Number of the last message, whether or not it counts.
    pub(crate) last: u64,
}

/// Why an append came to no good end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// Another's frame follows.
    Fenced(Epoch),
    /// The frame may be there or not, now or later.
    Unknown(Arc<str>),
}

/// The finding behind the end.
enum Found {
    Ours,
    Nothing,
}

/// The surroundings of an append.
pub(crate) struct Settler<'a> {
    pub(crate) log: &'a dyn SharedLog,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) patience: Patience,
    pub(crate) format: LogFormat,
}

impl Settler<'_> {
    /// Appends a frame that counts behind `tail`, which then is behind the frame.
    pub(crate) fn settle(&self, tail: &mut Tail, frame: &Frame) -> Result<(), Unsettled> {
        let message = frame.to_bytes();
        let until = self.clock.now() + self.patience.limit;
        let mut timeout = self.patience.first_answer;
        loop {
            let answer = self.log.publish(tail.last, &message, timeout);
            timeout = self.patience.answer;
            let reason: Arc<str> = match answer {
                Published::At(sequence) if sequence == tail.last + 1 => {
                    *tail = Tail { chain: frame.chain(), last: sequence };
                    return Ok(());
                }
                Published::At(_) | Published::Refused => match self.look(tail, &message)? {
                    Found::Ours => return Ok(()),
                    Found::Nothing => {
                        "refused, and nothing is there that it was refused for".into()
                    }
                },
                Published::Silent(silence) => silence.to_string().into(),
            };
            if self.clock.now() >= until {
                return Err(Unsettled::Unknown(reason));
            }
            self.clock.sleep(self.patience.pause);
        }
    }

    /// Reads on behind `tail`, over what is void, up to the first frame that counts.
    fn look(&self, tail: &mut Tail, ours: &Bytes) -> Result<Found, Unsettled> {
        let Ok(messages) = self.log.read(tail.last + 1, READ_BYTES) else {
            return Ok(Found::Nothing);
        };
        for (sequence, message) in messages {
            // A reader that lacks a message, or has a damaged one, proves nothing.
            if sequence != tail.last + 1 {
                return Ok(Found::Nothing);
            }
            let Some(frame) = Frame::from_bytes(&message, self.format.salt) else {
                return Ok(Found::Nothing);
            };
            match judge(&tail.chain, &frame) {
                Judged::Counts(chain) if message == *ours => {
                    *tail = Tail { chain, last: sequence };
                    return Ok(Found::Ours);
                }
                Judged::Counts(chain) => return Err(Unsettled::Fenced(chain.epoch)),
                Judged::Void => tail.last = sequence,
                Judged::Broken => {
                    let reason = format!("message {sequence} of the log does not follow");
                    return Err(Unsettled::Unknown(reason.into()));
                }
            }
        }
        Ok(Found::Nothing)
    }
}
