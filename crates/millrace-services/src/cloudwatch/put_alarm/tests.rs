use millrace_wire::cloudwatch::{Dimension, Metric, MetricDataQuery, MetricStat, Tag};

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
    let metric = Metric {
        namespace: Some("AWS/SQS".into()),
        metric_name: Some("NumberOfMessagesSent".into()),
        dimensions: vec![Dimension { name: Some("QueueName".into()), value: Some("a".into()) }],
    };
    let stat = MetricStat { metric, period_s: Some(60), stat: Some("Sum".into()), unit: None };
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
    let tag = |n: usize| Tag { key: n.to_string(), value: String::new() };
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
    assert!(fault(|input| input.tags = vec![(long(129), String::new()).into()]).is_some());
    assert!(fault(|input| input.tags = vec![("key".into(), long(257)).into()]).is_some());
    assert_eq!(fault(|input| input.alarm_description = Some("é".repeat(1_024))), None);
    assert!(fault(|input| input.alarm_description = Some(long(1_025))).is_some());
    assert!(fault(|input| input.threshold_metric_id = Some(long(256))).is_some());
    assert_eq!(fault(|input| math(input, (0..20).map(sum).collect())), None);
    assert!(fault(|input| math(input, (0..21).map(sum).collect())).is_some());
    let labelled = MetricDataQuery { label: Some(long(256)), ..sum(0) };
    assert!(fault(|input| math(input, vec![labelled])).is_some());

    type Change = fn(&mut PutMetricAlarm);
    let beside: [(Change, &str); 7] = [
        (|input| input.metric_name = Some("M".into()), "MetricName"),
        (|input| input.namespace = Some("N".into()), "Namespace"),
        (|input| input.statistic = Some("Sum".into()), "Statistic"),
        (|input| input.extended_statistic = Some("p99".into()), "ExtendedStatistic"),
        (|input| input.unit = Some("Count".into()), "Unit"),
        (|input| input.dimensions = vec![Dimension::default()], "Dimensions"),
        (|input| input.period_s = Some(60), "Period"),
    ];
    for (change, name) in beside {
        let refusal = fault(|input| {
            math(input, vec![sum(0)]);
            change(input);
        });
        let expected = format!("{name} should not be set if list of Metrics is set.");
        assert_eq!(refusal, Some(expected));
    }
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
        let refusal = looks(period_s, most + 1).unwrap();
        let bound = if period_s < 3_600 { "<= 86400)" } else { "<= 604800)" };
        assert!(refusal.contains(bound), "{period_s}: {refusal}");
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
    for (periods, to_alarm) in [(3, Some(4)), (3, Some(0)), (0, None), (-1, None), (1 << 32, None)]
    {
        assert_eq!(counts(periods, to_alarm), None, "{periods} {to_alarm:?}");
    }
}

#[test]
fn what_an_alarm_needs_is_asked_for() {
    type Change = fn(&mut PutMetricAlarm);
    let wrong: [(Change, &str); 15] = [
        (|input| input.alarm_name = None, "AlarmName"),
        (|input| input.namespace = None, "Namespace"),
        (|input| input.metric_name = None, "MetricName must not be null"),
        (|input| input.threshold_metric_id = Some("a".into()), "cannot both be set"),
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
            |input| input.alarm_actions = vec!["arn:aws:sqs:us-east-1:000000000000:q".into(); 6],
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
    let kept = |period_s| put(period_s).map(|alarm| (alarm.period_s, alarm.evaluated_period_s()));

    assert_eq!(kept(10).unwrap(), (10, 60));
    assert_eq!(kept(30).unwrap(), (30, 60));
    assert_eq!(kept(300).unwrap(), (300, 300));
    for wrong in [-60, 0, 1, 5, 61] {
        assert_eq!(kept(wrong).unwrap_err().code, "ValidationError", "{wrong}");
    }
}
