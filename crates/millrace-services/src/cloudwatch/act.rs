//! Evaluating alarms, and what they do when their state changes.

use std::sync::Arc;

use millrace_broker::{Broker, Kind, NewContent, Outgoing};
use millrace_core::{Arn, MessageId, Timestamp, md5};
use millrace_metrics::alarm::{Alarm, Change};
use millrace_metrics::math::{self, Span};
use millrace_metrics::{BASE_PERIOD_S, MetricStore};
use millrace_wire::date;
use serde_json::{Value, json};

use super::alarms::{SharedBook, lock};

/// SenderId of messages from alarms.
const SENDER: &str = "cloudwatch.amazonaws.com";

/// Judges every alarm by the minutes that have ended. What changed is in the book, not synced yet.
pub(super) fn evaluate(store: &MetricStore, book: &SharedBook, now: Timestamp) -> Vec<Change> {
    let alarms: Vec<Alarm> = lock(book).all().cloned().collect();
    let mut changes = Vec::new();
    for alarm in alarms {
        let points = match points(store, &alarm, now) {
            Ok(points) => points,
            Err(error) => {
                tracing::warn!(alarm = alarm.name, %error, "alarm cannot be evaluated");
                continue;
            }
        };
        let verdict = alarm.rule.judge(&points, alarm.state);
        match lock(book).judged(&alarm.scope, &alarm.name, &verdict, now) {
            Ok(change) => changes.extend(change),
            Err(error) => tracing::error!(alarm = alarm.name, %error, "state is not stored"),
        }
    }
    changes
}

/// The data points of the periods that an alarm looks at, the last of which has just ended.
fn points(
    store: &MetricStore,
    alarm: &Alarm,
    now: Timestamp,
) -> Result<Vec<(u64, f64)>, math::QueryError> {
    let end_s = now.seconds() - now.seconds() % BASE_PERIOD_S;
    let range_s = alarm.rule.range_periods().saturating_mul(alarm.period_s);
    let span = Span {
        scope: alarm.scope.clone(),
        start_s: end_s.saturating_sub(range_s),
        end_s,
        origin_s: end_s,
        now,
    };
    let found = math::answer(store, &alarm.queries, &span)?;
    let series = found.into_iter().flat_map(|found| found.series).next();
    Ok(series.map(|series| series.points.into_iter().collect()).unwrap_or_default())
}

/// Does what alarms are to do when they enter their states, and notes how that went.
pub(super) fn act(broker: &Arc<Broker>, book: &SharedBook, changes: &[Change]) {
    for change in changes {
        let alarm = &change.alarm;
        tracing::info!(
            alarm = alarm.name,
            from = change.before.name(),
            to = alarm.state.name(),
            "alarm changed its state"
        );
        for arn in alarm.actions() {
            let failure = send(broker, arn, change).err();
            let failure = failure.as_deref();
            if let Err(error) = lock(book).acted(alarm, arn, failure, broker.now()) {
                tracing::error!(alarm = alarm.name, %error, "history is not stored");
            }
        }
    }
}

/// Sends the message about a change to a queue and waits until it is durable.
fn send(broker: &Arc<Broker>, arn: &str, change: &Change) -> Result<(), String> {
    let key = Arn::parse(arn).and_then(|arn| arn.queue());
    let key = key.ok_or("this kind of action is not supported")?;
    let queue = broker.queue_by_key(&key).ok_or("the queue does not exist")?;
    let body = message(change).to_string();
    let mut content = Vec::new();
    let id = MessageId::from_random(fastrand::u128(..));
    let is_fifo = queue.definition().settings.kind == Kind::Fifo;
    let id_text = id.to_string();
    let deduplication_id = is_fifo.then_some(id_text.as_str());
    NewContent {
        body: body.as_bytes(),
        body_md5: md5(body.as_bytes()),
        sender: SENDER,
        deduplication_id: deduplication_id.unwrap_or_default(),
        ..NewContent::default()
    }
    .encode(&mut content);
    let outgoing = Outgoing {
        id,
        content,
        size_bytes: body.len(),
        group: is_fifo.then_some("alarms"),
        deduplication_id,
        delay_s: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let sent = runtime.block_on(broker.send(&queue, &[outgoing]));
    sent.map(drop).map_err(|error| error.to_string())
}

/// The text that CloudWatch sends to a topic.
fn message(change: &Change) -> Value {
    let alarm = &change.alarm;
    let trigger = alarm.metric().map(|(entity, metric, statistic, unit)| {
        let dimensions: Vec<Value> = entity
            .dimensions()
            .iter()
            .map(|(name, value)| json!({"value": value, "name": name}))
            .collect();
        let is_simple = millrace_metrics::Statistic::simple(statistic).is_some();
        let (kind, key) = match is_simple {
            true => ("Statistic", "Statistic"),
            false => ("ExtendedStatistic", "ExtendedStatistic"),
        };
        let statistic = if is_simple { statistic.to_uppercase() } else { statistic.to_owned() };
        json!({
            "MetricName": metric,
            "Namespace": entity.namespace,
            "StatisticType": kind,
            key: statistic,
            "Unit": unit,
            "Dimensions": dimensions,
            "Period": alarm.period_s,
            "EvaluationPeriods": alarm.rule.periods,
            "DatapointsToAlarm": alarm.rule.to_alarm,
            "ComparisonOperator": alarm.rule.comparison.name(),
            "Threshold": alarm.rule.threshold,
            "TreatMissingData": alarm.rule.missing.name(),
            "EvaluateLowSampleCountPercentile": alarm.low_sample_count.as_deref().unwrap_or_default(),
        })
    });
    let trigger = trigger.unwrap_or_else(|| {
        json!({
            "Period": alarm.period_s,
            "EvaluationPeriods": alarm.rule.periods,
            "DatapointsToAlarm": alarm.rule.to_alarm,
            "ComparisonOperator": alarm.rule.comparison.name(),
            "Threshold": alarm.rule.threshold,
            "TreatMissingData": alarm.rule.missing.name(),
        })
    });
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
        "Trigger": trigger,
    })
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
