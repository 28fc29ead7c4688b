//! PutMetricAlarm.

use std::collections::BTreeMap;

use millrace_core::{Arn, Timestamp};
use millrace_metrics::alarm::{Alarm, Comparison, MissingData, Rule, State};
use millrace_metrics::math::{self, Query, QueryKind};
use millrace_metrics::{BASE_PERIOD_S, Scope, Statistic, Unit};
use millrace_wire::ApiError;
use millrace_wire::cloudwatch::{Answer, PutMetricAlarm};

use super::get_data::queries;
use super::{CloudWatch, check, error};

/// CloudWatch: characters of a description.
const DESCRIPTION_CHARS: usize = 1_024;
/// CloudWatch: characters of an action's ARN.
const ACTION_CHARS: usize = 1_024;
/// CloudWatch: actions of one kind.
const ACTIONS_MAX: usize = 5;
/// CloudWatch: metrics and expressions of one alarm.
const QUERIES_MAX: usize = 20;
/// CloudWatch: how far back an alarm looks, and with periods of an hour and more.
const LOOKS_BACK_S: u64 = 86_400;
const LOOKS_BACK_BY_HOURS_S: u64 = 7 * 86_400;

impl CloudWatch {
    pub(super) async fn put_metric_alarm(
        &self,
        scope: &Scope,
        input: &PutMetricAlarm,
    ) -> Result<Answer, ApiError> {
        let alarm = alarm(scope, input, self.broker.now())?;
        if alarm.metric().is_none() {
            let (scope, queries) = (scope.clone(), alarm.queries.clone());
            let checked = self.monitor.run(move || math::check_watched(&scope, &queries));
            checked.await?.map_err(error::of_watch)?;
        }
        self.change_alarms(move |book, now| book.put(alarm, now)).await.map(|_| Answer::Done)
    }
}

pub(super) fn alarm(
    scope: &Scope,
    input: &PutMetricAlarm,
    now: Timestamp,
) -> Result<Alarm, ApiError> {
    let name = check::name(input.alarm_name.as_ref(), "AlarmName")?;
    let description = input.alarm_description.clone();
    check::at_most(description.as_ref(), DESCRIPTION_CHARS, "AlarmDescription")?;
    check::at_most(input.threshold_metric_id.as_ref(), check::NAME_CHARS, "ThresholdMetricId")?;
    check::tags(&input.tags)?;
    for (name, actions) in [
        ("OKActions", &input.ok_actions),
        ("AlarmActions", &input.alarm_actions),
        ("InsufficientDataActions", &input.insufficient_data_actions),
    ] {
        check_actions(name, actions)?;
    }
    let (queries, period_s) = watched(scope, input)?;
    let rule = rule(input)?;
    let looks_back_s = u64::from(rule.periods).saturating_mul(period_s.max(BASE_PERIOD_S));
    if looks_back_s > LOOKS_BACK_S && (period_s < 3_600 || looks_back_s > LOOKS_BACK_BY_HOURS_S) {
        return Err(error::validation(
            "Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be \
             <= 86400).",
        ));
    }
    let low_sample_count = input.evaluate_low_sample_count_percentile.clone();
    if let Some(other) =
        low_sample_count.as_deref().filter(|v| !matches!(*v, "evaluate" | "ignore"))
    {
        return Err(error::validation(format!(
            "Option {other} is not supported. Supported options for parameter \
             EvaluateLowSampleCountPercentile are evaluate and ignore."
        )));
    }
    Ok(Alarm {
        scope: scope.clone(),
        name: name.to_owned(),
        description,
        actions_enabled: input.actions_enabled.unwrap_or(true),
        ok_actions: input.ok_actions.clone(),
        alarm_actions: input.alarm_actions.clone(),
        insufficient_data_actions: input.insufficient_data_actions.clone(),
        queries,
        period_s,
        rule,
        low_sample_count,
        threshold_metric_id: input.threshold_metric_id.clone(),
        says_to_alarm: input.datapoints_to_alarm.is_some(),
        says_missing: input.treat_missing_data.is_some(),
        says_queries: !input.metrics.is_empty(),
        configured_at: now.0,
        state: State::InsufficientData,
        reason: "Unchecked: Initial alarm creation".to_owned(),
        reason_data: None,
        state_updated_at: now.0,
        state_entered_at: now.0,
        tags: input.tags.iter().cloned().collect::<BTreeMap<_, _>>(),
    })
}

fn check_actions(name: &str, actions: &[String]) -> Result<(), ApiError> {
    if actions.len() > ACTIONS_MAX {
        return Err(error::validation(format!(
            "An alarm has at most {ACTIONS_MAX} actions of each kind."
        )));
    }
    for action in actions {
        check::at_most(Some(action), ACTION_CHARS, name)?;
    }
    match actions.iter().find(|action| Arn::parse(action).is_none()) {
        None => Ok(()),
        Some(action) => Err(error::validation(format!("Invalid arn syntax: {action}"))),
    }
}

/// What is watched, and the period of its data points.
fn watched(scope: &Scope, input: &PutMetricAlarm) -> Result<(Vec<Query>, u64), ApiError> {
    let Some(metric) = &input.metric_name else {
        if input.metrics.is_empty() {
            return Err(error::missing("MetricName"));
        }
        return expressions(scope, input);
    };
    if !input.metrics.is_empty() {
        return Err(error::invalid_combination(
            "The parameters MetricName and Metrics are mutually exclusive and you have specified \
             both.",
        ));
    }
    let metric = check::name(Some(metric), "MetricName")?;
    let namespace = check::name(input.namespace.as_ref(), "Namespace")?;
    let entity = check::entity(scope, namespace, &input.dimensions, "Dimensions")?;
    let period_s = input.period_s.ok_or_else(|| error::missing("Period"))?;
    let period_s = check::alarm_period(u64::try_from(period_s).unwrap_or_default())?;
    let statistic = match (&input.statistic, &input.extended_statistic) {
        (Some(name), None) => {
            check::statistic(name, "statistic")?;
            name
        }
        (None, Some(name)) => {
            let known = Statistic::extended(name);
            known.ok_or_else(|| {
                error::invalid_value(format!(
                    "The value {name} for parameter ExtendedStatistic is not supported."
                ))
            })?;
            name
        }
        (None, None) => return Err(error::missing("Statistic")),
        (Some(_), Some(_)) => {
            return Err(error::invalid_combination(
                "The parameters Statistic and ExtendedStatistic are mutually exclusive and you \
                 have specified both.",
            ));
        }
    };
    if let Some(unit) = input.unit.as_ref().filter(|unit| Unit::of_name(unit).is_none()) {
        return Err(error::invalid_value(format!(
            "The value {unit} for parameter Unit is invalid."
        )));
    }
    let kind = QueryKind::Metric {
        entity,
        metric: metric.to_owned(),
        unit: input.unit.clone(),
        statistic: statistic.clone(),
        period_s,
    };
    let (id, is_returned) = ("m1".to_owned(), true);
    let query = Query { id, kind, label: None, account: None, is_returned };
    Ok((vec![query], period_s))
}

/// Expressions, of which exactly one is returned.
fn expressions(scope: &Scope, input: &PutMetricAlarm) -> Result<(Vec<Query>, u64), ApiError> {
    for query in &input.metrics {
        check::at_most(query.label.as_ref(), check::NAME_CHARS, "Label")?;
    }
    let queries = queries(scope, &input.metrics, "Metrics", QUERIES_MAX)?;
    let mut returned = queries.iter().filter(|query| query.is_returned);
    let (Some(returned), None) = (returned.next(), returned.next()) else {
        return Err(error::validation(
            "Exactly one element of the metrics list should return data.",
        ));
    };
    let own_s = period_of(returned);
    let all = queries.iter().filter_map(period_of).map(check::alarm_period);
    let longest_s = all.collect::<Result<Vec<u64>, _>>()?.into_iter().max();
    Ok((queries, own_s.or(longest_s).unwrap_or(BASE_PERIOD_S)))
}

fn period_of(query: &Query) -> Option<u64> {
    match query.kind {
        QueryKind::Metric { period_s, .. } => Some(period_s),
        QueryKind::Expression { period_s, .. } => period_s,
    }
}

fn rule(input: &PutMetricAlarm) -> Result<Rule, ApiError> {
    let periods = input.evaluation_periods.ok_or_else(|| error::missing("EvaluationPeriods"))?;
    let positive = |value: i64, name: &str| {
        u32::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| {
            error::validation(format!("The parameter {name} must be greater than or equal to 1."))
        })
    };
    let periods = positive(periods, "EvaluationPeriods")?;
    let to_alarm = match input.datapoints_to_alarm {
        None => periods,
        Some(value) => positive(value, "DatapointsToAlarm")?,
    };
    if to_alarm > periods {
        return Err(error::validation(
            "The parameter DatapointsToAlarm must be less than or equal to EvaluationPeriods.",
        ));
    }
    let comparison = input.comparison_operator.as_deref();
    let comparison = comparison.ok_or_else(|| error::missing("ComparisonOperator"))?;
    let allowed = "GreaterThanOrEqualToThreshold, GreaterThanThreshold, LessThanThreshold, \
                   LessThanOrEqualToThreshold";
    let comparison = Comparison::of_name(comparison)
        .ok_or_else(|| error::not_in_enum(comparison, "comparisonOperator", allowed))?;
    let missing = match input.treat_missing_data.as_deref() {
        None => MissingData::default(),
        Some(name) => MissingData::of_name(name).ok_or_else(|| {
            error::validation(format!(
                "The value {name} is not supported for TreatMissingData parameter. Supported values \
                 are [breaching, notBreaching, ignore, missing]."
            ))
        })?,
    };
    let threshold = input.threshold.ok_or_else(|| error::missing("Threshold"))?;
    if !threshold.is_finite() {
        return Err(error::validation("The parameter Threshold must be a number."));
    }
    Ok(Rule { comparison, threshold, periods, to_alarm, missing })
}

#[cfg(test)]
pub(super) mod tests {
    use millrace_wire::cloudwatch::{Dimension, MetricDataQuery, MetricStat};

    use super::*;

    /// A request that is all right.
    pub(in crate::cloudwatch) fn example() -> PutMetricAlarm {
        PutMetricAlarm {
            alarm_name: Some("many".into()),
            namespace: Some("AWS/SQS".into()),
            metric_name: Some("NumberOfMessagesSent".into()),
            statistic: Some("Sum".into()),
            period_s: Some(60),
            evaluation_periods: Some(1),
            threshold: Some(1.0),
            comparison_operator: Some("GreaterThanThreshold".into()),
            ..PutMetricAlarm::default()
        }
    }

    /// A list of one metric.
    pub(in crate::cloudwatch) fn example_of_queries() -> PutMetricAlarm {
        let stat = MetricStat {
            namespace: Some("AWS/SQS".into()),
            metric_name: Some("NumberOfMessagesSent".into()),
            dimensions: vec![Dimension { name: Some("QueueName".into()), value: Some("a".into()) }],
            period_s: Some(60),
            stat: Some("Sum".into()),
            unit: None,
        };
        let query = MetricDataQuery {
            id: Some("sent".into()),
            metric_stat: Some(stat),
            label: Some("sent to a".into()),
            return_data: Some(true),
            ..MetricDataQuery::default()
        };
        let (namespace, metric_name, statistic, period_s) = (None, None, None, None);
        let metrics = vec![query];
        PutMetricAlarm { namespace, metric_name, statistic, period_s, metrics, ..example() }
    }

    fn fault(change: impl FnOnce(&mut PutMetricAlarm)) -> Option<String> {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let mut input = example();
        change(&mut input);
        alarm(&scope, &input, Timestamp(0)).err().map(|error| error.message.into_owned())
    }

    #[test]
    fn what_an_alarm_keeps_is_bounded() {
        let long = |len: usize| "x".repeat(len);
        let arn = |len: usize| format!("arn:aws:sqs:us-east-1:000000000000:{}", long(len - 35));
        let tag = |n: usize| (n.to_string(), String::new());
        let sum = |n: usize| MetricDataQuery {
            id: Some(format!("e{n}")),
            expression: Some("TIME_SERIES(1)".into()),
            return_data: Some(n == 0),
            ..MetricDataQuery::default()
        };
        let math = |input: &mut PutMetricAlarm, queries: Vec<MetricDataQuery>| {
            (input.namespace, input.metric_name, input.statistic) = (None, None, None);
            (input.period_s, input.metrics) = (None, queries);
        };

        assert_eq!(fault(|input| input.alarm_actions = vec![arn(1_024)]), None);
        assert!(fault(|input| input.alarm_actions = vec![arn(1_025)]).is_some());
        assert!(fault(|input| input.ok_actions = vec![arn(1_025)]).is_some());
        assert_eq!(fault(|input| input.tags = (0..50).map(tag).collect()), None);
        assert!(fault(|input| input.tags = (0..51).map(tag).collect()).is_some());
        assert!(fault(|input| input.tags = vec![(long(129), String::new())]).is_some());
        assert!(fault(|input| input.tags = vec![("key".into(), long(257))]).is_some());
        assert!(fault(|input| input.threshold_metric_id = Some(long(256))).is_some());
        assert_eq!(fault(|input| math(input, (0..20).map(sum).collect())), None);
        assert!(fault(|input| math(input, (0..21).map(sum).collect())).is_some());
        let labelled = MetricDataQuery { label: Some(long(256)), ..sum(0) };
        assert!(fault(|input| math(input, vec![labelled])).is_some());
    }

    #[test]
    fn an_alarm_looks_back_a_day_and_a_week_if_its_period_is_an_hour() {
        let looks = |period_s, periods| {
            fault(|input| {
                (input.period_s, input.evaluation_periods) = (Some(period_s), Some(periods));
            })
        };
        for (period_s, most) in
            [(10, 1_440), (60, 1_440), (300, 288), (3_540, 24), (3_600, 168), (86_400, 7)]
        {
            assert_eq!(looks(period_s, most), None, "{period_s}");
            assert!(looks(period_s, most + 1).is_some(), "{period_s}");
        }
    }

    #[test]
    fn how_many_data_points_decide_is_positive_and_in_order() {
        let counts = |periods: i64, to_alarm: Option<i64>| {
            let of = PutMetricAlarm {
                evaluation_periods: Some(periods),
                datapoints_to_alarm: to_alarm,
                ..example()
            };
            rule(&of).map(|rule| (rule.periods, rule.to_alarm)).ok()
        };
        assert_eq!(counts(3, None), Some((3, 3)));
        assert_eq!((counts(3, Some(3)), counts(3, Some(1))), (Some((3, 3)), Some((3, 1))));
        for (periods, to_alarm) in
            [(3, Some(4)), (3, Some(0)), (0, None), (-1, None), (1 << 32, None)]
        {
            assert_eq!(counts(periods, to_alarm), None, "{periods} {to_alarm:?}");
        }
    }

    #[test]
    fn what_an_alarm_needs_is_asked_for() {
        type Change = fn(&mut PutMetricAlarm);
        let wrong: [(Change, &str); 14] = [
            (|input| input.alarm_name = None, "AlarmName"),
            (|input| input.namespace = None, "Namespace"),
            (|input| input.metric_name = None, "MetricName"),
            (|input| input.period_s = None, "Period"),
            (|input| input.statistic = None, "Statistic"),
            (|input| input.statistic = Some("p99".into()), "statistic"),
            (|input| input.extended_statistic = Some("p99".into()), "mutually exclusive"),
            (|input| input.unit = Some("count".into()), "Unit"),
            (|input| input.threshold = None, "Threshold"),
            (|input| input.threshold = Some(f64::NAN), "Threshold"),
            (|input| input.comparison_operator = None, "ComparisonOperator"),
            (|input| input.treat_missing_data = Some("Missing".into()), "TreatMissingData"),
            (|input| input.ok_actions = vec!["x".into()], "Invalid arn syntax: x"),
            (
                |input| {
                    input.alarm_actions = vec!["arn:aws:sqs:us-east-1:000000000000:q".into(); 6]
                },
                "at most 5 actions",
            ),
        ];
        for (change, part) in wrong {
            let message = fault(change).unwrap();
            assert!(message.contains(part), "{message}");
        }
        let few = vec!["arn:aws:sqs:us-east-1:000000000000:q".to_owned(); 5];
        assert_eq!(fault(|input| input.alarm_actions = few), None);
        assert_eq!(fault(|input| input.unit = Some("Count".into())), None);
        let of_values = |statistic: &str| {
            fault(|input| {
                (input.statistic, input.extended_statistic) = (None, Some(statistic.to_owned()));
            })
        };
        assert!(of_values("p99").is_none() && of_values("Sum").is_some());
        for (low, expected) in [("evaluate", true), ("ignore", true), ("Ignore", false)] {
            let given = |input: &mut PutMetricAlarm| {
                input.evaluate_low_sample_count_percentile = Some(low.into());
            };
            assert_eq!(fault(given).is_none(), expected, "{low}");
        }
    }

    #[test]
    fn the_period_of_expressions_is_their_own_or_the_longest() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let put = |own_s: Option<i64>, of_metrics: &[i64]| {
            let mut input = example_of_queries();
            let metric = input.metrics.remove(0);
            for (number, period_s) in of_metrics.iter().enumerate() {
                let mut query = MetricDataQuery { return_data: Some(false), ..metric.clone() };
                query.id = Some(format!("m{number}"));
                query.metric_stat.as_mut().unwrap().period_s = Some(*period_s);
                input.metrics.push(query);
            }
            input.metrics.push(MetricDataQuery {
                id: Some("e".into()),
                expression: Some("TIME_SERIES(1)".into()),
                period_s: own_s,
                ..MetricDataQuery::default()
            });
            alarm(&scope, &input, Timestamp(0)).map(|alarm| alarm.period_s).ok()
        };
        assert_eq!((put(None, &[]), put(None, &[60, 300, 120])), (Some(60), Some(300)));
        assert_eq!((put(Some(120), &[300]), put(None, &[5])), (Some(120), None));
    }

    #[test]
    fn periods_below_a_minute_are_kept_as_they_are_given() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let put = |period_s: i64| {
            let input = PutMetricAlarm { period_s: Some(period_s), ..example() };
            alarm(&scope, &input, Timestamp(0))
        };
        let kept =
            |period_s| put(period_s).map(|alarm| (alarm.period_s, alarm.evaluated_period_s()));

        assert_eq!(kept(10).unwrap(), (10, 60));
        assert_eq!(kept(30).unwrap(), (30, 60));
        assert_eq!(kept(300).unwrap(), (300, 300));
        for wrong in [-60, 0, 1, 5, 61] {
            assert_eq!(kept(wrong).unwrap_err().code, "ValidationError", "{wrong}");
        }
    }
}
