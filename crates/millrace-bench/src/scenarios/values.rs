//! What flags of scenarios may hold: durations, sizes, numbers, and each only once.

use std::fmt::Debug;

use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;

use crate::{cli::UsageError, load::ID_BYTES};

const SCALE_MAX: f64 = 1000.0;

/// # Errors
///
/// If a value stands there twice: both would have one name in the report, or wait for each other.
pub(super) fn distinct<T: PartialEq + Debug>(flag: &str, values: &[T]) -> Result<()> {
    let mut before = Vec::new();
    for value in values {
        if before.contains(&value) {
            bail!(UsageError(format!("{flag} names {value:?} twice")));
        }
        before.push(value);
    }
    Ok(())
}

/// Parses the size of a body, such as `1024`, `10KiB` or `1MiB`: an id fits in. `KB` and `MB` mean
/// the same.
pub(super) fn body_size(text: &str) -> Result<usize, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit_bytes = match unit {
        "" | "B" => 1,
        "KiB" | "KB" => 1 << 10,
        "MiB" | "MB" => 1 << 20,
        _ => 0,
    };
    let number = digits.parse().ok().filter(|_| unit_bytes > 0);
    match number.and_then(|number: usize| number.checked_mul(unit_bytes)) {
        None => Err(format!("{text} is not a size such as 1024, 10KiB or 1MiB")),
        Some(bytes) if bytes < ID_BYTES => Err(format!("an id alone takes {ID_BYTES} bytes")),
        Some(bytes) => Ok(bytes),
    }
}

pub(super) fn scale(text: &str) -> Result<f64, String> {
    match positive(text)? {
        factor if factor <= SCALE_MAX => Ok(factor),
        _ => Err(format!("{SCALE_MAX} is the most")),
    }
}

/// Parses how many producers there are to be: each has a number of its own, of 16 bits.
pub(crate) fn clients() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=u64::from(u16::MAX))
}

/// Parses dollars.
pub(super) fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{text} is no price")),
    }
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("{text} is not a number above zero")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_sized_in_units_and_hold_an_id() {
        assert_eq!(["32", "10KiB", "1MiB"].map(body_size), [Ok(32), Ok(10_240), Ok(1 << 20)]);
        assert_eq!(["10KB", "1MB"].map(body_size), [Ok(10_240), Ok(1 << 20)]);
        for text in
            ["31", "", "KB", "1GB", "-1", "1.5KB", "99999999999999999999", "9223372036854775807MB"]
        {
            assert!(body_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_price_is_a_number_of_dollars() {
        assert_eq!((price("0.4"), price("0")), (Ok(0.4), Ok(0.0)));
        assert!(["nan", "inf", "-1", "x"].iter().all(|text| price(text).is_err()));
    }

    #[test]
    fn what_is_named_twice_is_refused() {
        assert!(distinct("--batch", &[1, 10]).is_ok() && distinct::<u64>("--batch", &[]).is_ok());
        let error = distinct("--batch", &[1, 10, 1]).unwrap_err();
        assert_eq!(error.to_string(), "--batch names 1 twice");
        assert!(error.is::<UsageError>());
    }
}
