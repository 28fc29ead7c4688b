//! What an alarm sends when its state changes.

use millrace_metrics::Statistic;
use millrace_metrics::alarm::{Alarm, Change};
use millrace_wire::date;
use serde_json::{Value, json};

/// The text that CloudWatch sends to a topic.
pub(super) fn message(change: &Change) -> Value {
    let alarm = &change.alarm;
    json!({
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": alarm.scope.account,
        "AlarmConfigurationUpdatedTimestamp": time(alarm.configured_at),
        "NewStateValue": alarm.state.name(),
        "NewStateReason": alarm.reason,
        "StateChangeTime": time(alarm.state_entered_at),
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
        "DatapointsToAlarm": alarm.rule.to_alarm,
        "ComparisonOperator": alarm.rule.comparison.name(),
        "Threshold": alarm.rule.threshold,
        "TreatMissingData": alarm.rule.missing.name(),
    });
    let Some((entity, metric, statistic, unit)) = alarm.metric() else { return trigger };
    let dimensions = entity.dimensions().iter();
    let dimensions = dimensions.map(|(name, value)| json!({"value": value, "name": name}));
    let (kind, statistic) = match Statistic::simple(statistic) {
        Some(_) => ("Statistic", statistic.to_uppercase()),
        None => ("ExtendedStatistic", statistic.to_owned()),
    };
    trigger["MetricName"] = json!(metric);
    trigger["Namespace"] = json!(entity.namespace);
    trigger["StatisticType"] = json!(kind);
    trigger[kind] = json!(statistic);
    trigger["Unit"] = json!(unit);
    trigger["Dimensions"] = dimensions.collect();
    trigger["EvaluateLowSampleCountPercentile"] =
        json!(alarm.low_sample_count.as_deref().unwrap_or_default());
    trigger
}

/// `2026-01-02T03:04:05.678+0000`.
fn time(time_ms: u64) -> String {
    format!("{}+0000", date::format_iso8601_ms(time_ms).trim_end_matches('Z'))
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
