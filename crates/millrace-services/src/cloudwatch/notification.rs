//! What an alarm sends when its state changes.

use millrace_metrics::alarm::{Alarm, Change, time_text};
use millrace_metrics::math::{Query, QueryKind};
use millrace_metrics::{Entity, Statistic};
use serde::Serialize;
use serde_json::{Value, json};

/// SNS: characters of a subject.
const SUBJECT_CHARS: usize = 99;

/// The text that CloudWatch sends to a topic, members in the same order.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Message<'a> {
    alarm_name: &'a str,
    alarm_description: Option<&'a str>,
    #[serde(rename = "AWSAccountId")]
    account: &'a str,
    alarm_configuration_updated_timestamp: String,
    new_state_value: &'static str,
    new_state_reason: &'a str,
    state_change_time: String,
    region: &'a str,
    alarm_arn: String,
    old_state_value: &'static str,
    /// There are no rules here that mute alarms.
    action_executed_after_mute_window: bool,
    #[serde(rename = "OKActions")]
    ok_actions: &'a [String],
    alarm_actions: &'a [String],
    insufficient_data_actions: &'a [String],
    trigger: Trigger<'a>,
}

/// What the alarm watches: a metric, or a list of queries.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Trigger<'a> {
    #[serde(flatten)]
    metric: Option<Metric<'a>>,
    period: u64,
    evaluation_periods: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    datapoints_to_alarm: Option<u32>,
    comparison_operator: &'static str,
    threshold: f64,
    treat_missing_data: &'static str,
    evaluate_low_sample_count_percentile: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Vec<Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metric<'a> {
    metric_name: &'a str,
    namespace: &'a str,
    statistic_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    statistic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extended_statistic: Option<&'a str>,
    unit: Option<&'a str>,
    dimensions: Vec<Dimension<'a>>,
}

#[derive(Serialize)]
struct Dimension<'a> {
    value: &'a str,
    name: &'a str,
}

/// The subject under which CloudWatch publishes, without what SNS does not take in one.
pub(super) fn subject(change: &Change) -> String {
    let alarm = &change.alarm;
    let (state, region) = (alarm.state.name(), region_name(&alarm.scope.region));
    let name: String = alarm.name.chars().filter(|it| !it.is_control()).collect();
    let subject = format!("{state}: \"{name}\" in {region}");
    match subject.chars().count() > SUBJECT_CHARS {
        true => subject.chars().take(SUBJECT_CHARS - 3).chain("...".chars()).collect(),
        false => subject,
    }
}

impl<'a> Message<'a> {
    pub(super) fn of(change: &'a Change) -> Message<'a> {
        let alarm = &change.alarm;
        Message {
            alarm_name: &alarm.name,
            alarm_description: alarm.description.as_deref(),
            account: &alarm.scope.account,
            alarm_configuration_updated_timestamp: time_text(alarm.configured_at),
            new_state_value: alarm.state.name(),
            new_state_reason: &alarm.reason,
            state_change_time: time_text(alarm.state_entered_at),
            region: region_name(&alarm.scope.region),
            alarm_arn: alarm.arn(),
            old_state_value: change.before.name(),
            action_executed_after_mute_window: false,
            ok_actions: &alarm.ok_actions,
            alarm_actions: &alarm.alarm_actions,
            insufficient_data_actions: &alarm.insufficient_data_actions,
            trigger: Trigger::of(alarm),
        }
    }
}

impl<'a> Trigger<'a> {
    fn of(alarm: &'a Alarm) -> Trigger<'a> {
        let metric = alarm.metric().filter(|_| !alarm.says_queries);
        Trigger {
            metrics: metric.is_none().then(|| alarm.queries.iter().map(query).collect()),
            metric: metric.map(|(entity, name, statistic, unit)| {
                let is_simple = Statistic::simple(statistic).is_some();
                Metric {
                    metric_name: name,
                    namespace: &entity.namespace,
                    statistic_type: if is_simple { "Statistic" } else { "ExtendedStatistic" },
                    statistic: is_simple.then(|| spelled_out(statistic)),
                    extended_statistic: (!is_simple).then_some(statistic),
                    unit,
                    dimensions: dimensions(entity),
                }
            }),
            period: alarm.period_s,
            evaluation_periods: alarm.rule.periods,
            datapoints_to_alarm: alarm.says_to_alarm.then_some(alarm.rule.to_alarm),
            comparison_operator: alarm.rule.comparison.name(),
            threshold: alarm.rule.threshold,
            treat_missing_data: alarm.rule.missing.name(),
            evaluate_low_sample_count_percentile: alarm
                .low_sample_count
                .as_deref()
                .unwrap_or_default(),
        }
    }
}

/// A statistic as these messages spell it: `SampleCount` is `SAMPLE_COUNT`.
fn spelled_out(statistic: &str) -> String {
    let mut spelled = String::with_capacity(statistic.len() + 1);
    for letter in statistic.chars() {
        if letter.is_ascii_uppercase() && !spelled.is_empty() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_uppercase());
    }
    spelled
}

/// One of the queries of an alarm that watches an expression.
fn query(query: &Query) -> Value {
    let mut shown = json!({"Id": query.id, "ReturnData": query.is_returned});
    if let Some(label) = &query.label {
        shown["Label"] = json!(label);
    }
    if let Some(account) = &query.account {
        shown["AccountId"] = json!(account);
    }
    match &query.kind {
        QueryKind::Metric { entity, metric, unit, statistic, period_s } => {
            shown["MetricStat"] = json!({
                "Metric": {
                    "Dimensions": dimensions(entity),
                    "MetricName": metric,
                    "Namespace": entity.namespace,
                },
                "Period": period_s,
                "Stat": statistic,
            });
            if let Some(unit) = unit {
                shown["MetricStat"]["Unit"] = json!(unit);
            }
        }
        QueryKind::Expression { text, period_s } => {
            shown["Expression"] = json!(text);
            if let Some(period_s) = period_s {
                shown["Period"] = json!(period_s);
            }
        }
    }
    shown
}

fn dimensions(entity: &Entity) -> Vec<Dimension<'_>> {
    let dimensions = entity.dimensions().iter();
    dimensions.map(|(name, value)| Dimension { value, name }).collect()
}

/// Regions as people call them; others by their code.
fn region_name(code: &str) -> &str {
    match code {
        "us-east-1" => "US East (N. Virginia)",
        "us-east-2" => "US East (Ohio)",
        "us-west-1" => "US West (N. California)",
        "us-west-2" => "US West (Oregon)",
        "ca-central-1" => "Canada (Central)",
        "eu-central-1" => "EU (Frankfurt)",
        "eu-north-1" => "EU (Stockholm)",
        "eu-west-1" => "EU (Ireland)",
        "eu-west-2" => "EU (London)",
        "eu-west-3" => "EU (Paris)",
        "ap-northeast-1" => "Asia Pacific (Tokyo)",
        "ap-northeast-2" => "Asia Pacific (Seoul)",
        "ap-south-1" => "Asia Pacific (Mumbai)",
        "ap-southeast-1" => "Asia Pacific (Singapore)",
        "ap-southeast-2" => "Asia Pacific (Sydney)",
        "sa-east-1" => "South America (Sao Paulo)",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_metrics::Scope;
    use millrace_metrics::alarm::State;
    use millrace_wire::cloudwatch::PutMetricAlarm;

    use super::*;
    use crate::cloudwatch::put_alarm::alarm;
    use crate::cloudwatch::put_alarm::tests::{example, example_of_queries};

    #[test]
    fn the_trigger_is_a_metric_or_a_list_of_queries() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let trigger = |input| {
            let alarm = alarm(&scope, &input, Timestamp(0)).unwrap();
            serde_json::to_value(Trigger::of(&alarm)).unwrap()
        };

        let of_metric = trigger(example());
        assert_eq!(of_metric["MetricName"], "NumberOfMessagesSent");
        assert!(of_metric.get("DatapointsToAlarm").is_none() && of_metric.get("Metrics").is_none());
        for (statistic, spelled) in
            [("SampleCount", "SAMPLE_COUNT"), ("Average", "AVERAGE"), ("Sum", "SUM")]
        {
            let input = PutMetricAlarm { statistic: Some(statistic.into()), ..example() };
            assert_eq!(trigger(input)["Statistic"], spelled);
        }
        let of_queries = trigger(example_of_queries());
        assert_eq!(of_queries["EvaluateLowSampleCountPercentile"], "");
        let metric = json!({
            "Dimensions": [{"name": "QueueName", "value": "a"}],
            "MetricName": "NumberOfMessagesSent",
            "Namespace": "AWS/SQS",
        });
        let expected = json!([{
            "Id": "sent",
            "Label": "sent to a",
            "ReturnData": true,
            "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"},
        }]);
        assert_eq!(of_queries["Metrics"], expected);
    }

    #[test]
    fn the_subject_fits_into_a_topics() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let named = |name: &str| {
            let input = PutMetricAlarm { alarm_name: Some(name.into()), ..example() };
            let alarm = alarm(&scope, &input, Timestamp(1)).unwrap();
            subject(&Change { alarm, before: State::Ok })
        };
        assert_eq!(named("many"), "INSUFFICIENT_DATA: \"many\" in US East (N. Virginia)");
        let long = named(&"é".repeat(255));
        assert!(long.chars().count() == 99 && long.ends_with("..."), "{long}");
    }

    #[test]
    fn members_come_in_the_order_that_cloudwatch_sends() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let input = PutMetricAlarm { datapoints_to_alarm: Some(1), ..example() };
        let alarm = alarm(&scope, &input, Timestamp(0)).unwrap();
        let change = Change { alarm, before: State::Ok };

        let text = serde_json::to_string(&Message::of(&change)).unwrap();

        let names = [
            "AlarmName",
            "AlarmDescription",
            "AWSAccountId",
            "AlarmConfigurationUpdatedTimestamp",
            "NewStateValue",
            "NewStateReason",
            "StateChangeTime",
            "Region",
            "AlarmArn",
            "OldStateValue",
            "ActionExecutedAfterMuteWindow",
            "OKActions",
            "AlarmActions",
            "InsufficientDataActions",
            "Trigger",
            "MetricName",
            "Namespace",
            "StatisticType",
            "Statistic",
            "Unit",
            "Dimensions",
            "Period",
            "EvaluationPeriods",
            "DatapointsToAlarm",
            "ComparisonOperator",
            "Threshold",
            "TreatMissingData",
            "EvaluateLowSampleCountPercentile",
        ];
        let place = |name: &&str| text.find(&format!("\"{name}\":")).unwrap();
        assert!(names.iter().map(place).is_sorted(), "{text}");
        assert_eq!(text.matches("\":").count(), names.len(), "{text}");
    }
}
