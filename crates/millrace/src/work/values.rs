//! Values of flags: durations, sizes, queues with a weight.

use std::time::Duration;

use millrace_process::parse_duration;

/// How many messages are handled at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handlers {
    Fixed(usize),
    Auto,
}

/// A queue, by name, URL or ARN, and how many handlers start for it against those of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeightedQueue {
    pub(crate) queue: String,
    pub(crate) weight: Option<u32>,
}

/// Parses a duration of at most 12 hours, as SQS counts.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(12 * 3_600);
    match parse_duration(text).map_err(|error| error.to_string())? {
        duration if duration <= LONGEST => Ok(duration),
        _ => Err("is more than 12h".to_owned()),
    }
}

/// In no time nothing is handled.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Lambda: 300 s at most.
pub(super) fn batch_window(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(300);
    let window = duration(text)?;
    if window > LONGEST { Err("is more than 5m".to_owned()) } else { Ok(window) }
}

pub(super) fn handlers(text: &str) -> Result<Handlers, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Handlers::Auto),
        Ok(handlers @ 1..=10_000) => Ok(Handlers::Fixed(handlers)),
        _ => Err("expected auto or a number from 1 to 10000".to_owned()),
    }
}

/// `NAME`, `URL` or `ARN`, each also with `=WEIGHT`. No name of a queue holds an equals sign.
pub(super) fn weighted_queue(text: &str) -> Result<WeightedQueue, String> {
    const HEAVIEST: u32 = 1_000;
    let Some((queue, weight)) = text.rsplit_once('=') else {
        return Ok(WeightedQueue { queue: text.to_owned(), weight: None });
    };
    match weight.parse() {
        Ok(weight @ 1..=HEAVIEST) => {
            Ok(WeightedQueue { queue: queue.to_owned(), weight: Some(weight) })
        }
        // What stands behind a question mark is a query, which is refused without being quoted.
        _ if text.contains("://") && text.contains(['?', '#', '@']) => {
            Ok(WeightedQueue { queue: text.to_owned(), weight: None })
        }
        _ => Err(format!("the weight {weight:?} is no number from 1 to {HEAVIEST}")),
    }
}

/// `500KiB`, `64MiB`, `1GiB`, or plain bytes.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, u64); 4] = [("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let bytes = with_unit(text, &UNITS)?.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| "is too large".to_owned())
}

/// A number times its unit, the first of which has no name; none if that is too large.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Result<Option<u64>, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let names = || units.iter().skip(1).map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let number: u64 = number.parse().map_err(|_| format!("expected a number with {}", names()))?;
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(number.checked_mul(*factor)),
        None => Err(format!("unknown unit {unit:?}; there are {}", names())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let milliseconds = |text| duration(text).map(|duration| duration.as_millis());

        assert_eq!(milliseconds("250ms"), Ok(250));
        assert_eq!(milliseconds("30"), Ok(30_000));
        assert_eq!(milliseconds("30s"), Ok(30_000));
        assert_eq!(milliseconds("5m"), Ok(300_000));
        assert_eq!(milliseconds("12h"), Ok(43_200_000));
        for wrong in ["", "s", "-1", "13h", "99999999999999999999", "5 s", "5é"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        assert!(positive_duration("0s").is_err() && positive_duration("0ms").is_err());
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("10"), Ok(10));
        assert_eq!(bytes("2KiB"), Ok(2048));
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        for wrong in ["", "KiB", "-1", "1kb", "1.5MiB", "99999999999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn weight_stands_behind_the_queue() {
        let parsed = |text: &str| weighted_queue(text).map(|parsed| (parsed.queue, parsed.weight));

        assert_eq!(parsed("orders"), Ok(("orders".to_owned(), None)));
        assert_eq!(parsed("orders.fifo=3"), Ok(("orders.fifo".to_owned(), Some(3))));
        let url = "http://127.0.0.1:4566/000000000000/orders";
        assert_eq!(parsed(&format!("{url}=12")), Ok((url.to_owned(), Some(12))));
        let queried = format!("{url}?key=secret");
        assert_eq!(parsed(&queried), Ok((queried.clone(), None)));
        for wrong in ["orders=", "orders=0", "orders=1001", "orders=-1", "orders=many"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
