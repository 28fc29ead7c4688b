//! Rules that several actions share: names, dimensions, statistics, periods, tokens, times.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millrace_metrics::{BASE_PERIOD_S, Entity, Periods, Scope, Statistic, Unit};
use millrace_wire::ApiError;
use millrace_wire::cloudwatch::{Dimension, Tag};
use millrace_wire::codec::Time;

use super::error;

/// CloudWatch: characters of names.
pub(super) const NAME_CHARS: usize = 255;
/// CloudWatch: characters of a dimension's value.
const VALUE_CHARS: usize = 1_024;
/// CloudWatch: dimensions of a metric.
const DIMENSIONS_MAX: usize = 30;

const STATISTICS: [&str; 5] = ["SampleCount", "Average", "Sum", "Minimum", "Maximum"];

/// CloudWatch: tags of a resource, characters of their keys and values.
const TAGS_MAX: usize = 50;
const TAG_KEY_CHARS: usize = 128;
const TAG_VALUE_CHARS: usize = 256;

/// A text that may be absent and has at most `max` characters.
pub(super) fn at_most(value: Option<&String>, max: usize, parameter: &str) -> Result<(), ApiError> {
    match value {
        Some(text) if text.chars().count() > max => Err(error::validation(format!(
            "The parameter {parameter} must be at most {max} characters long."
        ))),
        _ => Ok(()),
    }
}

/// A list of at most `max` texts; `member` begins with a lower-case letter.
pub(super) fn at_most_of(values: &[String], max: usize, member: &str) -> Result<(), ApiError> {
    if values.len() <= max {
        return Ok(());
    }
    Err(error::validation(format!(
        "1 validation error detected: Value at '{member}' failed to satisfy constraint: Member must \
         have length less than or equal to {max}"
    )))
}

pub(super) fn tags(tags: &[Tag]) -> Result<(), ApiError> {
    if tags.len() > TAGS_MAX {
        return Err(error::too_many_tags());
    }
    tags.iter().try_for_each(|Tag { key, value }| {
        if key.is_empty() {
            return Err(error::invalid_value("A tag has no key."));
        }
        if key.to_ascii_lowercase().starts_with("aws:") {
            return Err(error::validation(
                "aws: prefixed tag key names are not allowed for external use.",
            ));
        }
        at_most(Some(key), TAG_KEY_CHARS, "Key")?;
        at_most(Some(value), TAG_VALUE_CHARS, "Value")
    })
}

/// A text that must be there and have 1 to 255 characters.
pub(super) fn name<'a>(value: Option<&'a String>, parameter: &str) -> Result<&'a str, ApiError> {
    let value = value.ok_or_else(|| error::missing(parameter))?;
    if value.is_empty() || value.chars().count() > NAME_CHARS {
        return Err(error::invalid_value(format!(
            "The parameter {parameter} must be between 1 and {NAME_CHARS} characters long."
        )));
    }
    Ok(value)
}

/// A name that is stored has only what ASCII can show. CloudWatch says of line breaks that they are
/// none of it, too.
pub(super) fn is_ascii(text: &str, parameter: &str) -> Result<(), ApiError> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Ok(());
    }
    Err(error::invalid_value(format!(
        "The value for parameter {parameter} contains non-ASCII characters."
    )))
}

/// What is measured. `parameter` is where the dimensions stand, for messages.
pub(super) fn entity(
    scope: &Scope,
    namespace: &str,
    dimensions: &[Dimension],
    parameter: &str,
) -> Result<Entity, ApiError> {
    if dimensions.len() > DIMENSIONS_MAX {
        return Err(error::invalid_value(format!(
            "The collection {parameter} must not have a size greater than {DIMENSIONS_MAX}."
        )));
    }
    let mut pairs = Vec::with_capacity(dimensions.len());
    for (number, dimension) in dimensions.iter().enumerate() {
        let parameter = |part: &str| format!("{parameter}.member.{}.{part}", number + 1);
        let key = name(dimension.name.as_ref(), &parameter("Name"))?;
        let value = dimension.value.as_ref();
        let value = value.ok_or_else(|| error::missing(&parameter("Value")))?;
        if value.is_empty() || value.chars().count() > VALUE_CHARS {
            return Err(error::invalid_value(format!(
                "The parameter {} must be between 1 and {VALUE_CHARS} characters long.",
                parameter("Value")
            )));
        }
        pairs.push((key.to_owned(), value.clone()));
    }
    Ok(Entity::new(scope.clone(), namespace, pairs))
}

/// One of the statistics that every data point has, and its name.
pub(super) fn statistic(name: &str, member: &str) -> Result<(&'static str, Statistic), ApiError> {
    let known = STATISTICS.into_iter().find(|known| *known == name);
    let found = known.and_then(|known| Some((known, Statistic::simple(known)?)));
    found.ok_or_else(|| error::not_in_enum(name, member, &STATISTICS.join(", ")))
}

/// A unit that may be absent.
pub(super) fn unit(name: Option<&String>) -> Result<Option<Unit>, ApiError> {
    name.map(|name| {
        let allowed = "Seconds, Microseconds, Milliseconds, Bytes, Count, Percent, None and others";
        Unit::of_name(name).ok_or_else(|| error::not_in_enum(name, "unit", allowed))
    })
    .transpose()
}

/// A period in seconds. Those below a minute count as one, for data points are a minute apart.
pub(super) fn period(value: Option<i64>, parameter: &str) -> Result<u64, ApiError> {
    let value = value.ok_or_else(|| error::missing(parameter))?;
    match u64::try_from(value) {
        Ok(period_s @ (1 | 5 | 10 | 20 | 30)) => Ok(period_s),
        Ok(period_s) if period_s > 0 && period_s % BASE_PERIOD_S == 0 => Ok(period_s),
        _ => Err(error::invalid_value(format!(
            "The parameter {parameter} must be 1, 5, 10, 20, 30 or a multiple of 60."
        ))),
    }
}

/// A period of an alarm, in seconds.
pub(super) fn alarm_period(period_s: u64) -> Result<u64, ApiError> {
    if matches!(period_s, 10 | 20 | 30) || (period_s > 0 && period_s.is_multiple_of(BASE_PERIOD_S))
    {
        return Ok(period_s);
    }
    Err(error::validation("Period must be 10, 20, 30 or a multiple of 60."))
}

/// Start and end in seconds, both rounded down as CloudWatch does it: the start by its age to a
/// minute, after 15 days to five minutes, after 63 days to an hour; the end to a minute. It is not
/// included, so that who asks up to now is told of the minutes that have ended.
pub(super) fn span(
    start: Option<Time>,
    end: Option<Time>,
    now_s: u64,
) -> Result<(u64, u64), ApiError> {
    let start = start.ok_or_else(|| error::missing("StartTime"))?;
    let end = end.ok_or_else(|| error::missing("EndTime"))?;
    if start >= end {
        return Err(error::invalid_value(
            "The parameter StartTime must be less than the parameter EndTime.",
        ));
    }
    let seconds = |Time(time_ms)| u64::try_from(time_ms).unwrap_or_default() / 1000;
    let (start_s, end_s) = (seconds(start), seconds(end));
    let step_s = Periods::shortest_s(now_s.saturating_sub(start_s));
    Ok((start_s - start_s % step_s, end_s - end_s % BASE_PERIOD_S))
}

/// Whole periods from start to end as they are given: rounding makes a day at most a minute longer,
/// which must not count against those who ask for one.
pub(super) fn periods_between(start: Option<Time>, end: Option<Time>, period_s: u64) -> u64 {
    let (Time(start_ms), Time(end_ms)) = (start.unwrap_or_default(), end.unwrap_or_default());
    let length_ms = end_ms.saturating_sub(start_ms);
    u64::try_from(length_ms).unwrap_or_default() / period_s.saturating_mul(1000).max(1)
}

/// ScanBy: the newest first unless asked otherwise.
pub(super) fn is_ascending(scan_by: Option<&str>) -> Result<bool, ApiError> {
    match scan_by {
        None | Some("TimestampDescending") => Ok(false),
        Some("TimestampAscending") => Ok(true),
        Some(other) => {
            let allowed = "TimestampDescending, TimestampAscending";
            Err(error::not_in_enum(other, "scanBy", allowed))
        }
    }
}

/// An opaque token that names where the next page begins.
pub(super) fn token(place: &impl serde::Serialize) -> Option<String> {
    serde_json::to_vec(place).ok().map(|json| STANDARD.encode(json))
}

/// Where the page begins that a token asks for.
pub(super) fn place<T: serde::de::DeserializeOwned>(
    token: Option<&String>,
) -> Result<Option<T>, ApiError> {
    let read = |token: &String| {
        let json = STANDARD.decode(token).ok()?;
        serde_json::from_slice(&json).ok()
    };
    token.map(|token| read(token).ok_or_else(error::invalid_next_token)).transpose()
}

/// Whether AlarmTypes name the only type of alarms that there is; it is meant where none is named.
pub(super) fn has_metric_alarms(types: &[String]) -> Result<bool, ApiError> {
    for kind in types {
        if !matches!(kind.as_str(), "MetricAlarm" | "CompositeAlarm" | "LogAlarm") {
            let allowed = "MetricAlarm, CompositeAlarm, LogAlarm";
            return Err(error::not_in_enum(kind, "alarmTypes", allowed));
        }
    }
    Ok(types.is_empty() || types.iter().any(|kind| kind == "MetricAlarm"))
}

/// MaxRecords: 1 to 100.
pub(super) fn max_records(value: Option<i64>) -> Result<usize, ApiError> {
    match value {
        None => Ok(100),
        Some(count @ 1..=100) => Ok(count as usize),
        Some(_) => Err(error::invalid_value("The parameter MaxRecords must be between 1 and 100.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_span_are_rounded_down() {
        // A full hour, and 40 seconds after its 24th minute.
        let (hour_s, time_s) = (1_700_002_800, 1_700_004_280);
        let span = |age_s: u64| {
            let (start_ms, end_ms) = (time_s * 1000 + 999, (time_s + 120) * 1000 + 999);
            span(Some(Time(start_ms)), Some(Time(end_ms)), time_s as u64 + age_s).unwrap()
        };
        const DAY_S: u64 = 86_400;

        let end_s = hour_s + 26 * 60;
        assert_eq!(span(0), (hour_s + 24 * 60, end_s));
        assert_eq!(span(15 * DAY_S - 1), (hour_s + 24 * 60, end_s));
        assert_eq!(span(15 * DAY_S), (hour_s + 20 * 60, end_s));
        assert_eq!(span(63 * DAY_S), (hour_s, end_s));
    }

    #[test]
    fn texts_have_a_bounded_length() {
        let long = |len: usize| "\u{e9}".repeat(len);
        let named = |len: usize| name(Some(&long(len)), "N").is_ok();
        assert_eq!([0, 1, 255, 256].map(named), [false, true, true, false]);
        assert_eq!(name(None, "N").unwrap_err().code, "MissingParameter");
        let fits = |len: usize| at_most(Some(&long(len)), 3, "N").is_ok();
        assert!(fits(0) && fits(3) && !fits(4) && at_most(None, 0, "N").is_ok());
        let list = |len: usize| at_most_of(&vec![String::new(); len], 2, "n").is_ok();
        assert!(list(0) && list(2) && !list(3));
        for (key, value, expected) in
            [(1, 0, true), (128, 256, true), (0, 1, false), (129, 1, false), (1, 257, false)]
        {
            let tag = Tag { key: long(key), value: long(value) };
            assert_eq!(tags(&[tag]).is_ok(), expected, "{key} {value}");
        }
        for (key, is_reserved) in
            [("aws:a", true), ("AWS:", true), ("aws", false), ("aaws:", false)]
        {
            let refused =
                tags(&[(key.to_owned(), String::new()).into()]).err().map(|error| error.code);
            assert_eq!(refused, is_reserved.then_some("ValidationError"), "{key}");
        }
    }

    #[test]
    fn dimensions_are_few_and_have_names_and_values() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let found = |dimensions: &[(Option<&str>, Option<&str>)]| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let dimension =
                |(name, value): &(_, _)| Dimension { name: text(*name), value: text(*value) };
            let all: Vec<Dimension> = dimensions.iter().map(dimension).collect();
            entity(&scope, "Shop", &all, "Dimensions").map(|entity| entity.dimensions().len())
        };
        let long = "x".repeat(1_025);
        let many = |count| found(&vec![(Some("n"), Some("v")); count]).ok();

        assert_eq!([0, 1, 30, 31].map(many), [Some(0), Some(1), Some(30), None]);
        assert!(found(&[(Some("n"), Some(&long[1..]))]).is_ok());
        for wrong in
            [(None, Some("v")), (Some("n"), None), (Some("n"), Some("")), (Some("n"), Some(&*long))]
        {
            let refused = found(&[(Some("n"), Some("v")), wrong]).unwrap_err();
            assert!(refused.message.contains("Dimensions.member.2."), "{}", refused.message);
        }
    }

    #[test]
    fn periods_pages_and_orders_are_those_that_cloudwatch_has() {
        let periods = [1, 5, 10, 20, 30, 60, 120, 86_400];
        for period_s in periods {
            assert_eq!(period(Some(period_s), "Period").unwrap(), period_s as u64);
        }
        let other = [-60, 0, 2, 45, 59, 61, 90, i64::MIN];
        assert!(other.iter().all(|period_s| period(Some(*period_s), "Period").is_err()));
        let of_alarms: Vec<i64> =
            periods.into_iter().filter(|s| alarm_period(*s as u64).is_ok()).collect();
        assert_eq!(of_alarms, periods[2..]);
        assert_eq!(
            [0, 1, 100, 101, -1].map(|n| max_records(Some(n)).ok()),
            [None, Some(1), Some(100), None, None]
        );
        assert_eq!(max_records(None).unwrap(), 100);
        let ascending = |by| is_ascending(by).ok();
        assert_eq!(ascending(None), Some(false));
        assert_eq!(ascending(Some("TimestampAscending")), Some(true));
        assert_eq!(ascending(Some("TimestampDescending")), Some(false));
        assert_eq!(ascending(Some("Ascending")), None);
        let kinds = |names: &[&str]| {
            has_metric_alarms(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).ok()
        };
        assert_eq!(kinds(&[]), Some(true));
        assert_eq!(kinds(&["CompositeAlarm", "MetricAlarm"]), Some(true));
        assert_eq!((kinds(&["LogAlarm"]), kinds(&["MetricAlarm", "x"])), (Some(false), None));
    }

    #[test]
    fn a_span_ends_after_it_begins_and_tokens_read_back() {
        let span = |start: Option<i64>, end: Option<i64>| span(start.map(Time), end.map(Time), 0);
        let code = |start, end| span(start, end).unwrap_err().code;
        assert_eq!(
            (code(None, Some(1)), code(Some(1), None)),
            ("MissingParameter", "MissingParameter")
        );
        assert_eq!(code(Some(5), Some(5)), "InvalidParameterValue");
        assert_eq!(span(Some(-5), Some(59_999)).unwrap(), (0, 0), "of no whole minute");
        let read = place::<u64>(token(&7_u64).as_ref());
        assert_eq!((read.unwrap(), place::<u64>(None).unwrap()), (Some(7), None));
        assert_eq!(place::<u64>(Some(&"x".into())).unwrap_err().code, "InvalidNextToken");
    }

    #[test]
    fn periods_are_counted_between_times_that_are_not_rounded() {
        let start_ms = 1_700_000_030_500;
        let count = |length_ms: i64, period_s| {
            periods_between(Some(Time(start_ms)), Some(Time(start_ms + length_ms)), period_s)
        };

        assert_eq!(count(86_400_000, 60), 1_440);
        assert_eq!(count(5 * 86_400_000 + 20, 300), 1_440);
        assert_eq!(count(86_460_000, 60), 1_441);
        assert_eq!(
            periods_between(Some(Time(i64::MIN)), Some(Time(i64::MAX)), 60),
            i64::MAX as u64 / 60_000
        );
    }
}
