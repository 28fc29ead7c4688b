//! What the series of an answer are called.
//!
//! User guide, "Using dynamic labels": in a label `${MAX}` and the like stand for what is known of
//! the series, `${PROP('Dim.QueueName')}` for what tells its metric, `${LABEL}` for what it would
//! be called without a label. Times are in UTC.

use millrace_core::Date;

use super::{Origin, Query, QueryKind, Series};
use crate::SeriesQuery;

/// What is filled in in one label at most: each may take a look at all data points. CloudWatch has
/// five.
const DYNAMIC_MAX: usize = 16;

/// A metric's name; with what tells it apart if another query has the same.
pub(super) fn of_metric(
    queries: &[Query],
    wanted: &SeriesQuery<'_>,
    statistic: &str,
    period_s: u64,
) -> String {
    let same: Vec<_> = queries
        .iter()
        .filter_map(|query| match &query.kind {
            QueryKind::Metric { entity, metric, statistic, period_s, .. } => {
                Some((entity, metric, statistic, period_s))
            }
            QueryKind::Expression { .. } => None,
        })
        .filter(|(_, metric, ..)| *metric == wanted.metric)
        .collect();
    let mut label = wanted.metric.to_owned();
    if same.iter().any(|(entity, ..)| *entity != wanted.entity) {
        label = of_found(wanted);
    }
    if same.iter().any(|(.., s, _)| *s != statistic) {
        label = format!("{label} {statistic}");
    }
    if same.iter().any(|(.., p)| **p != period_s) {
        label = format!("{label} {period_s}");
    }
    label
}

/// What a search found: the values of its dimensions and its name.
pub(super) fn of_found(found: &SeriesQuery<'_>) -> String {
    let values = found.entity.dimensions().iter().map(|(_, value)| value.as_str());
    values.chain([found.metric]).collect::<Vec<_>>().join(" ")
}

/// Calls the single series of a query by the query's label.
pub(super) fn name_one(series: &mut Series, label: &str) {
    series.label = filled_in(label, series).unwrap_or_else(|| label.to_owned());
}

/// Calls a series of a list "Expression-Label Metric-Label"; a label with something dynamic in it
/// says by itself which series it is.
pub(super) fn name_one_of_many(series: &mut Series, label: &str) {
    let parts = [label, &series.label];
    let joined = || parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    series.label = filled_in(label, series).unwrap_or_else(joined);
}

/// `None`: there is nothing dynamic in it.
fn filled_in(label: &str, series: &Series) -> Option<String> {
    let mut filled = String::with_capacity(label.len());
    let mut count = 0;
    let mut rest = label;
    while let Some((before, after)) = rest.split_once("${").filter(|_| count < DYNAMIC_MAX) {
        filled.push_str(before);
        let known =
            after.split_once('}').and_then(|(name, rest)| Some((value(name, series)?, rest)));
        match known {
            Some((value, behind)) => {
                filled.push_str(&value);
                count += 1;
                rest = behind;
            }
            None => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    (count > 0).then_some(filled)
}

/// What stands for a name; `None`: it is no such name. A series without data points has no numbers.
fn value(name: &str, series: &Series) -> Option<String> {
    if name == "LABEL" {
        return Some(series.label.clone());
    }
    if let Some(property) = name.strip_prefix("PROP('").and_then(|rest| rest.strip_suffix("')")) {
        return property_of(property, series.origin.as_deref());
    }
    if name == "DATAPOINT_COUNT" {
        return Some(series.points.len().to_string());
    }
    let points = || series.points.iter().map(|(time_s, value)| (*time_s, *value));
    let by_value = |a: &(u64, f64), b: &(u64, f64)| a.1.total_cmp(&b.1);
    let (first, last) = (points().next(), points().next_back());
    let (lowest, highest) = (points().min_by(by_value), points().max_by(by_value));
    let sum = || points().map(|(_, value)| value).sum::<f64>();
    let value = |point: Option<(u64, f64)>| point.map(|(_, value)| number(value));
    let time = |point: Option<(u64, f64)>| point.map(|(time_s, _)| time(time_s));
    let known = match name {
        "AVG" => first.map(|_| number(sum() / series.points.len() as f64)),
        "SUM" => first.map(|_| number(sum())),
        "FIRST" => value(first),
        "LAST" => value(last),
        "MIN" => value(lowest),
        "MAX" => value(highest),
        "FIRST_TIME" => time(first),
        "LAST_TIME" => time(last),
        "MIN_TIME" => time(lowest),
        "MAX_TIME" => time(highest),
        "FIRST_LAST_RANGE" => first.zip(last).map(|(a, b)| number((b.1 - a.1).abs())),
        "MIN_MAX_RANGE" => lowest.zip(highest).map(|(a, b)| number(b.1 - a.1)),
        _ => return None,
    };
    Some(known.unwrap_or_else(|| "--".to_owned()))
}

/// Empty if there is no single metric, or if it has no such dimension.
fn property_of(property: &str, origin: Option<&Origin>) -> Option<String> {
    let scope = origin.map(|origin| &origin.entity.scope);
    let known = match property {
        "AccountId" => scope.map(|scope| scope.account.clone()),
        "Region" => scope.map(|scope| scope.region.clone()),
        "MetricName" => origin.map(|origin| origin.metric.clone()),
        "Namespace" => origin.map(|origin| origin.entity.namespace.clone()),
        "Period" => origin.map(|origin| origin.period_s.to_string()),
        "Stat" => origin.map(|origin| origin.statistic.clone()),
        other => {
            let wanted = other.strip_prefix("Dim.")?;
            let mut dimensions = origin.into_iter().flat_map(|origin| origin.entity.dimensions());
            dimensions.find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
        }
    };
    Some(known.unwrap_or_default())
}

/// With at most three digits behind the point.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `2026-01-02 03:04 UTC`.
fn time(time_s: u64) -> String {
    let Date { year, month, day } = Date::of_seconds(time_s);
    let (hour, minute) = (time_s / 3_600 % 24, time_s / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Entity, Scope};

    fn series(points: &[(u64, f64)]) -> Series {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let dimensions = vec![("QueueName".into(), "jobs".into())];
        let origin = Origin {
            entity: Entity::new(scope, "AWS/SQS", dimensions),
            metric: "Sent".into(),
            statistic: "Sum".into(),
            period_s: 60,
            names_bytes: 0,
        };
        Series {
            label: "jobs Sent".into(),
            points: points.iter().copied().collect(),
            origin: Some(Arc::new(origin)),
            ..Series::default()
        }
    }

    #[test]
    fn labels_tell_what_is_known_of_a_series() {
        let series = series(&[(1_767_323_040, 2.0), (1_767_323_100, 10.5), (1_767_323_160, 1.0)]);

        for (label, expected) in [
            ("${MAX} at ${MAX_TIME}", "10.5 at 2026-01-02 03:05 UTC"),
            ("${MIN} ${SUM} ${AVG} ${DATAPOINT_COUNT}", "1 13.5 4.5 3"),
            ("${FIRST_TIME}, ${LAST_TIME}", "2026-01-02 03:04 UTC, 2026-01-02 03:06 UTC"),
            ("${MIN_TIME}", "2026-01-02 03:06 UTC"),
            ("${PROP('Namespace')} ${PROP('AccountId')}", "AWS/SQS 000000000000"),
            ("${FIRST} ${LAST} ${FIRST_LAST_RANGE} ${MIN_MAX_RANGE}", "2 1 1 9.5"),
            ("${PROP('Dim.QueueName')}: ${PROP('MetricName')}", "jobs: Sent"),
            ("${PROP('Stat')} ${PROP('Period')} ${PROP('Region')}", "Sum 60 us-east-1"),
            ("[${LABEL}] ${PROP('Dim.None')}", "[jobs Sent] "),
            ("${MAX} of ${WHAT} ${", "10.5 of ${WHAT} ${"),
        ] {
            assert_eq!(filled_in(label, &series).as_deref(), Some(expected), "{label}");
        }
        assert_eq!(filled_in("sent ${WHAT}", &series), None);
        assert_eq!(filled_in(&"${MAX}".repeat(17), &series).unwrap(), "10.5".repeat(16) + "${MAX}");
    }

    #[test]
    fn a_series_without_data_points_has_no_numbers() {
        assert_eq!(filled_in("${MAX}, ${DATAPOINT_COUNT}", &series(&[])).unwrap(), "--, 0");
        assert_eq!(filled_in("${PROP('Dim.Q')}", &Series::default()).unwrap(), "");
    }

    #[test]
    fn lists_have_the_label_of_the_expression_and_of_the_metric() {
        let mut list = [series(&[]), Series::default()];
        list.iter_mut().for_each(|series| name_one_of_many(series, "filled"));
        assert_eq!(list.map(|series| series.label), ["filled jobs Sent", "filled"]);
        let mut list = [series(&[])];
        list.iter_mut().for_each(|s| name_one_of_many(s, "${PROP('Dim.QueueName')}"));
        assert_eq!(list[0].label, "jobs");
    }
}
