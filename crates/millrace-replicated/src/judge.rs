//! Which frames of a shared log count: the journal's rule, and what it means for late frames.

use millrace_journal::frame::{Chain, Frame, Verdict};

/// The meaning of a frame to a reader of the log up to it.
pub(crate) enum Judged {
    /// It counts, and the chain goes on behind it.
    Counts(Chain),
    /// As if it were not there: late, or a second copy of one that counted.
    Void,
    /// Something between is missing.
    Broken,
}

pub(crate) fn judge(chain: &Chain, frame: &Frame) -> Judged {
    match chain.judge(&frame.header, frame.crc) {
        Verdict::Valid(behind) => Judged::Counts(behind),
        Verdict::Void => Judged::Void,
        // It was to follow a frame that another followed, which is here already: the second copy
        // of a frame, or the OPEN frame of one who lost against a later owner or a later frame.
        Verdict::Broken if frame.header.counter <= chain.counter => Judged::Void,
        Verdict::Broken => Judged::Broken,
    }
}
