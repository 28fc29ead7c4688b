//! Histograms as an interval log, which HdrHistogram's own tools read: version 2, compressed,
//! base64. One interval for each run and what was timed in it; values are nanoseconds.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogWriterBuilder, Tag},
    },
};

/// What was recorded in one run.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// Such as `pc.single.send`; no comma and no space.
    pub(crate) tag: String,
    /// Since 1970.
    pub(crate) began: Duration,
    pub(crate) elapsed: Duration,
    /// Nanoseconds.
    pub(crate) histogram: Histogram<u64>,
}

/// The largest value of an interval is shown in milliseconds.
const MAX_DIVISOR: f64 = 1e6;

pub(crate) fn interval_log(recordings: &[Recording]) -> Result<String> {
    let (mut out, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let start = recordings.iter().map(|recording| recording.began).min().unwrap_or_default();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Logged with millrace bench; values are nanoseconds]")
        .with_start_time(UNIX_EPOCH + start)
        .with_base_time(UNIX_EPOCH + start)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(&mut out, &mut serializer)
        .context("beginning the interval log")?;
    for Recording { tag, began, elapsed, histogram } in recordings {
        log.write_histogram(histogram, began.saturating_sub(start), *elapsed, Tag::new(tag))
            .map_err(|error| anyhow::anyhow!("writing the interval log: {error:?}"))?;
    }
    String::from_utf8(out).context("interval log")
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use hdrhistogram::serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    };

    use super::*;

    #[test]
    fn what_is_logged_can_be_read_back() {
        let mut histogram = Histogram::new(3).unwrap();
        (1..=1000).for_each(|value| histogram.record(value * 1000).unwrap());
        let (began, elapsed) = (Duration::from_secs(1_700_000_000), Duration::from_secs(5));
        let tag = "rate.100.send".to_owned();

        let log = interval_log(&[Recording { tag, began, elapsed, histogram: histogram.clone() }]);

        let log = log.unwrap();
        let intervals: Vec<_> = IntervalLogIterator::new(log.as_bytes())
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        let [interval] = intervals.as_slice() else { panic!("{log}") };
        assert_eq!(interval.tag().unwrap().as_str(), "rate.100.send");
        assert_eq!(interval.duration(), elapsed);
        let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read, histogram);
        assert!(log.contains("#[BaseTime: 1700000000"), "{log}");
    }
}
