//! What requests of all protocols write alike.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// RFC 3986: all but the unreserved characters.
pub(crate) const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whole seconds; parts of one count as one, so that nothing comes earlier than asked for.
pub(crate) fn seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
