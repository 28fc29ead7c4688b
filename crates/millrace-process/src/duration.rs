//! Durations as people write them: `45s`, `2m`, `1h30m`, `500ms`, `4d`, or plain seconds.
//!
//! The one parser for flags, environment variables and configuration files.

use std::time::Duration;

/// Units with their lengths in nanoseconds. Longer names first: `ms` is not `m` and `s`.
const UNITS: [(&str, u128); 5] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const SECOND_NS: u128 = 1_000_000_000;

/// A number has no more digits than this, so that no product of it overflows.
const DIGITS_MAX: usize = 18;

/// A century, so that sums of durations and additions to instants do not overflow.
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Not numbers with units.
    #[error("expected a duration such as 45s, 2m, 1h30m or 500ms; a plain number is in seconds")]
    Malformed,
    /// A number is followed by something that is no unit.
    #[error("{0:?} is not a unit of time; the units are ms, s, m, h and d")]
    UnknownUnit(String),
    /// A part of a second, where only whole seconds can be sent.
    #[error("expected whole seconds, such as 45s or 2m")]
    NotWholeSeconds,
    /// More than a century.
    #[error("is longer than a century")]
    TooLong,
}

/// Parses a duration. A number without a unit is in seconds; numbers may have decimals.
///
/// # Errors
///
/// If the text is not a duration.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut nanoseconds: u128 = 0;
    let mut rest = text;
    let mut has_unit = true;
    if text.is_empty() {
        return Err(DurationError::Malformed);
    }
    while !rest.is_empty() {
        // Only the whole text may be a number without a unit.
        if !has_unit {
            return Err(DurationError::Malformed);
        }
        let (whole, after) = digits(rest);
        let (decimals, after) = match after.strip_prefix('.') {
            Some(after) => match digits(after) {
                ("", _) => return Err(DurationError::Malformed),
                found => found,
            },
            None => ("", after),
        };
        if whole.is_empty() || whole.len() > DIGITS_MAX || decimals.len() > DIGITS_MAX {
            return Err(DurationError::Malformed);
        }
        let letters = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit()).len();
        let (unit, after) = after.split_at_checked(letters).unwrap_or((after, ""));
        has_unit = !unit.is_empty();
        let unit_ns = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, unit_ns)) => *unit_ns,
            None if has_unit => return Err(DurationError::UnknownUnit(unit.to_owned())),
            None if rest.len() == text.len() => SECOND_NS,
            None => return Err(DurationError::Malformed),
        };
        nanoseconds += number(whole) * unit_ns + fraction(decimals, unit_ns);
        rest = after;
    }
    let seconds = u64::try_from(nanoseconds / SECOND_NS).map_err(|_| DurationError::TooLong)?;
    let below = u32::try_from(nanoseconds % SECOND_NS).unwrap_or(0);
    Some(Duration::new(seconds, below))
        .filter(|duration| *duration <= LONGEST)
        .ok_or(DurationError::TooLong)
}

/// Parses a duration that must be whole seconds, as SQS counts them.
///
/// # Errors
///
/// If the text is not a duration, or not one of whole seconds.
pub fn parse_whole_seconds(text: &str) -> Result<u64, DurationError> {
    let duration = parse_duration(text)?;
    if duration.subsec_nanos() > 0 {
        return Err(DurationError::NotWholeSeconds);
    }
    Ok(duration.as_secs())
}

/// The digits at the beginning, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let length = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    text.split_at_checked(length).unwrap_or((text, ""))
}

/// Of at most [`DIGITS_MAX`] digits, so it fits.
fn number(digits: &str) -> u128 {
    digits.parse().unwrap_or(0)
}

/// Decimals of a unit, in nanoseconds.
fn fraction(decimals: &str, unit_ns: u128) -> u128 {
    let scale = 10_u128.pow(u32::try_from(decimals.len()).unwrap_or(0));
    number(decimals) * unit_ns / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_seconds() {
        let milliseconds = |text| parse_duration(text).map(|duration| duration.as_millis());

        for (text, expected) in [
            ("0", 0),
            ("30", 30_000),
            ("0.5", 500),
            ("250ms", 250),
            ("30s", 30_000),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("12h", 43_200_000),
            ("4d", 345_600_000),
            ("1h30m", 5_400_000),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(milliseconds(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "s",
            "-1",
            ".5s",
            "1.s",
            "5 s",
            "1h30",
            "30 ",
            "nan",
            "inf",
            "1e9",
            "5é",
            "99999999999999999999",
            "999999999999999999d",
        ] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_duration("36526d"), Err(DurationError::TooLong));
        assert_eq!(parse_duration("5min"), Err(DurationError::UnknownUnit("min".to_owned())));
    }

    #[test]
    fn whole_seconds_have_no_rest() {
        assert_eq!(parse_whole_seconds("2m"), Ok(120));
        assert_eq!(parse_whole_seconds("45"), Ok(45));
        assert_eq!(parse_whole_seconds("1500ms"), Err(DurationError::NotWholeSeconds));
    }
}
