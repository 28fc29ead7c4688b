//! Values of flags: durations, pauses, names and pairs.

use std::ops::RangeInclusive;
use std::time::Duration;

use millrace_core::is_account;
use millrace_process::{parse_duration, parse_whole_seconds};
use serde_json::{Map, Value};

use crate::config::UsageError;

/// Makes a parser of durations that are sent as whole seconds within bounds.
pub(super) fn seconds_within(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let seconds = parse_whole_seconds(text).map_err(|error| error.to_string())?;
        match bounds.contains(&seconds) {
            true => Ok(seconds),
            false => {
                Err(format!("expected a duration from {}s to {}s", bounds.start(), bounds.end()))
            }
        }
    }
}

/// Parses the time between two looks: not so short that the server does nothing else.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    const BOUNDS: RangeInclusive<Duration> =
        Duration::from_millis(50)..=Duration::from_secs(86_400);
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    match BOUNDS.contains(&interval) {
        true => Ok(interval),
        false => Err("expected a duration from 50ms to 1d".to_owned()),
    }
}

/// Parses an account.
pub(super) fn account(text: &str) -> Result<String, String> {
    match is_account(text) {
        true => Ok(text.to_owned()),
        false => Err("an account is twelve digits, such as 000000000000".to_owned()),
    }
}

/// The two halves of `NAME=VALUE`.
pub(super) fn pair<'a>(text: &'a str, flag: &str) -> Result<(&'a str, &'a str), UsageError> {
    text.split_once('=').ok_or_else(|| UsageError(format!("{flag} {text}: must be NAME=VALUE")))
}

/// Adds the value that a flag gives for a name, which must have none yet.
pub(super) fn give(
    given: &mut Map<String, Value>,
    flag: &str,
    name: &str,
    value: Value,
) -> Result<(), UsageError> {
    match given.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(UsageError(format!("{flag} {name} is given twice"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_a_time_that_passes() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("86400"), Ok(Duration::from_secs(86_400)));
        for wrong in ["-1", "0", "10ms", "2d", "nan", "1e9", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_whole_and_within_bounds() {
        let wait = seconds_within(0..=20);
        assert_eq!((wait("20"), wait("5s"), wait("0")), (Ok(20), Ok(5), Ok(0)));
        assert_eq!(wait("1m"), Err("expected a duration from 0s to 20s".to_owned()));
        assert!(wait("500ms").is_err());
    }

    #[test]
    fn account_is_twelve_digits() {
        assert!(account("000000000000").is_ok());
        assert!(account("12").is_err() && account("00000000000x").is_err());
    }
}
