//! What an alarm sends when its state changes.

use millrace_metrics::alarm::{Alarm, Change, time_text};
use millrace_metrics::math::{Query, QueryKind};
use millrace_metrics::{Entity, Statistic};
use serde_json::{Value, json};

/// The text that CloudWatch sends to a topic.
pub(super) fn message(change: &Change) -> Value {
    let alarm = &change.alarm;
    json!({
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": alarm.scope.account,
        "AlarmConfigurationUpdatedTimestamp": time_text(alarm.configured_at),
        "NewStateValue": alarm.state.name(),
        "NewStateReason": alarm.reason,
        "StateChangeTime": time_text(alarm.state_entered_at),
        "Region": region_name(&alarm.scope.region),
        "AlarmArn": alarm.arn(),
        "OldStateValue": change.before.name(),
        "OKActions": alarm.ok_actions,
        "AlarmActions": alarm.alarm_actions,
        "InsufficientDataActions": alarm.insufficient_data_actions,
        "Trigger": trigger(alarm),
    })
}

fn trigger(alarm: &Alarm) -> Value {
    let mut trigger = json!({
        "Period": alarm.period_s,
        "EvaluationPeriods": alarm.rule.periods,
        "ComparisonOperator": alarm.rule.comparison.name(),
        "Threshold": alarm.rule.threshold,
        "TreatMissingData": alarm.rule.missing.name(),
        "EvaluateLowSampleCountPercentile": alarm.low_sample_count.as_deref().unwrap_or_default(),
    });
    if alarm.says_to_alarm {
        trigger["DatapointsToAlarm"] = json!(alarm.rule.to_alarm);
    }
    let Some((entity, metric, statistic, unit)) = alarm.metric().filter(|_| !alarm.says_queries)
    else {
        trigger["Metrics"] = alarm.queries.iter().map(query).collect();
        return trigger;
    };
    let (kind, statistic) = match Statistic::simple(statistic) {
        Some(_) => ("Statistic", statistic.to_uppercase()),
        None => ("ExtendedStatistic", statistic.to_owned()),
    };
    trigger["MetricName"] = json!(metric);
    trigger["Namespace"] = json!(entity.namespace);
    trigger["StatisticType"] = json!(kind);
    trigger[kind] = json!(statistic);
    trigger["Unit"] = json!(unit);
    trigger["Dimensions"] = dimensions(entity);
    trigger
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

fn dimensions(entity: &Entity) -> Value {
    let dimensions = entity.dimensions().iter();
    dimensions.map(|(name, value)| json!({"value": value, "name": name})).collect()
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

    use super::*;
    use crate::cloudwatch::put_alarm::alarm;
    use crate::cloudwatch::put_alarm::tests::{example, example_of_queries};

    #[test]
    fn the_trigger_is_a_metric_or_a_list_of_queries() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let trigger = |input| trigger(&alarm(&scope, &input, Timestamp(0)).unwrap());

        let of_metric = trigger(example());
        assert_eq!(of_metric["MetricName"], "NumberOfMessagesSent");
        assert!(of_metric.get("DatapointsToAlarm").is_none() && of_metric.get("Metrics").is_none());
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
}
