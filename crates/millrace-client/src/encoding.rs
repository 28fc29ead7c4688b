//! What requests of all protocols write alike.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// RFC 3986: all but the unreserved characters.
pub(crate) const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A form of parameters.
pub(crate) fn form(parameters: &[(String, String)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let pairs = parameters.iter().map(|(name, value)| encode(name) + "=" + &encode(value));
    pairs.collect::<Vec<_>>().join("&")
}

/// Whole seconds; parts of one count as one, so that nothing comes earlier than asked for.
pub(crate) fn seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
