//! Numbers as filter policies compare them.

use std::cmp::Ordering;

/// Below this, numbers count in millionths. SNS documents ±10⁹ with five digits behind the point,
/// and was seen to compare six.
const LIMIT: f64 = 5e9;
const MILLION: f64 = 1e6;
/// 2⁶³ and 2⁶⁴: whole numbers between them and [`LIMIT`] are exact.
const LEAST: f64 = -9_223_372_036_854_775_808.0;
const MOST: f64 = 18_446_744_073_709_551_616.0;

/// A finite number. Equal numbers have the same form, whatever text they were written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    Millionths(i64),
    /// Above the limit.
    Positive(u64),
    /// Below the negative limit.
    Negative(i64),
    /// Neither: the bits of a float.
    Float(u64),
}

impl Number {
    /// Reads the value of a message attribute.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = text.parse::<i64>() {
            return Some(number.into());
        }
        // Rust reads names such as `inf`, too.
        let digits =
            text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let number = text.parse::<f64>().ok().filter(|_| digits)?;
        Self::from_float(number)
    }

    /// `None` unless the number is finite.
    pub(crate) fn from_float(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        Some(if number.abs() <= LIMIT {
            Self::Millionths((number * MILLION).round() as i64)
        } else if number.fract() != 0.0 {
            Self::Float(number.to_bits())
        } else if number > 0.0 && number < MOST {
            Self::Positive(number as u64)
        } else if (LEAST..0.0).contains(&number) {
            Self::Negative(number as i64)
        } else {
            Self::Float(number.to_bits())
        })
    }

    fn to_float(self) -> f64 {
        match self {
            Self::Millionths(number) => number as f64 / MILLION,
            Self::Positive(number) => number as f64,
            Self::Negative(number) => number as f64,
            Self::Float(bits) => f64::from_bits(bits),
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        match i64::try_from(number) {
            Ok(small) if small <= LIMIT as i64 => Self::Millionths(small * MILLION as i64),
            _ => Self::Positive(number),
        }
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        match u64::try_from(number) {
            Ok(number) => number.into(),
            Err(_) if number >= -LIMIT as i64 => Self::Millionths(number * MILLION as i64),
            Err(_) => Self::Negative(number),
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Millionths(one), Self::Millionths(other)) => one.cmp(other),
            (Self::Positive(one), Self::Positive(other)) => one.cmp(other),
            (Self::Negative(one), Self::Negative(other)) => one.cmp(other),
            _ => self.to_float().total_cmp(&other.to_float()),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
