//! HistoryData of changes of an alarm itself: a JSON text for programs, with the alarm as it is
//! after the change or was before it was deleted.
//!
//! CloudWatch has 4,095 characters at most. Of an alarm that takes more, lists and the description
//! are left out, and if that is not enough, all of it.

use serde_json::{Value, json};

use super::{Alarm, time_text};
use crate::math::{Query, QueryKind};
use crate::{Entity, Statistic};

/// CloudWatch: characters of HistoryData.
const DATA_CHARS: usize = 4_095;

/// What was done to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Create,
    Update,
    Delete,
}

impl Step {
    /// The type, and the member that holds the alarm.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Step::Create => ("Create", "createdAlarm"),
            Step::Update => ("Update", "updatedAlarm"),
            Step::Delete => ("Delete", "deletedAlarm"),
        }
    }

    /// As the summary has it.
    pub(super) fn past(self) -> &'static str {
        match self {
            Step::Create => "created",
            Step::Update => "updated",
            Step::Delete => "deleted",
        }
    }
}

/// HistoryData of a step.
pub(super) fn data(step: Step, alarm: &Alarm) -> String {
    let (kind, member) = step.names();
    let short = short(alarm);
    let mut whole = short.clone();
    add_the_rest(&mut whole, alarm);
    let texts = [whole, short].into_iter().map(|alarm| {
        let mut data = json!({"version": "1.0", "type": kind});
        data[member] = alarm;
        data.to_string()
    });
    let mut fitting = texts.filter(|text| text.chars().count() <= DATA_CHARS);
    fitting.next().unwrap_or_else(|| json!({"version": "1.0", "type": kind}).to_string())
}

fn short(alarm: &Alarm) -> Value {
    let rule = &alarm.rule;
    let mut shown = json!({
        "alarmName": alarm.name,
        "alarmArn": alarm.arn(),
        "alarmConfigurationUpdatedTimestamp": time_text(alarm.configured_at),
        "actionsEnabled": alarm.actions_enabled,
        "threshold": rule.threshold,
        "comparisonOperator": rule.comparison.name(),
        "evaluationPeriods": rule.periods,
        "stateValue": alarm.state.name(),
        "stateUpdatedTimestamp": time_text(alarm.state_updated_at),
    });
    let texts = [
        ("treatMissingData", alarm.says_missing.then(|| rule.missing.name())),
        ("evaluateLowSampleCountPercentile", alarm.low_sample_count.as_deref()),
        ("thresholdMetricId", alarm.threshold_metric_id.as_deref()),
    ];
    for (name, text) in texts {
        put(&mut shown, name, text);
    }
    put(&mut shown, "datapointsToAlarm", alarm.says_to_alarm.then_some(rule.to_alarm));
    if let Some((entity, metric, statistic, unit)) = alarm.metric().filter(|_| !alarm.says_queries)
    {
        let is_simple = Statistic::simple(statistic).is_some();
        let of = if is_simple { "statistic" } else { "extendedStatistic" };
        shown["namespace"] = json!(entity.namespace);
        shown["metricName"] = json!(metric);
        shown[of] = json!(statistic);
        shown["period"] = json!(alarm.period_s);
        put(&mut shown, "unit", unit);
    }
    shown
}

/// What may be long.
fn add_the_rest(shown: &mut Value, alarm: &Alarm) {
    put(shown, "alarmDescription", alarm.description.as_deref());
    shown["alarmActions"] = json!(alarm.alarm_actions);
    shown["insufficientDataActions"] = json!(alarm.insufficient_data_actions);
    // So spelt.
    shown["okactions"] = json!(alarm.ok_actions);
    match alarm.metric().filter(|_| !alarm.says_queries) {
        Some((entity, ..)) => shown["dimensions"] = dimensions(entity),
        None => shown["metrics"] = alarm.queries.iter().map(query).collect(),
    }
}

fn query(query: &Query) -> Value {
    let mut shown = json!({"id": query.id, "returnData": query.is_returned});
    put(&mut shown, "label", query.label.as_deref());
    put(&mut shown, "accountId", query.account.as_deref());
    match &query.kind {
        QueryKind::Metric { entity, metric, unit, statistic, period_s } => {
            let metric = json!({
                "namespace": entity.namespace,
                "metricName": metric,
                "dimensions": dimensions(entity),
            });
            shown["metricStat"] = json!({"metric": metric, "period": period_s, "stat": statistic});
            put(&mut shown["metricStat"], "unit", unit.as_deref());
        }
        QueryKind::Expression { text, period_s } => {
            shown["expression"] = json!(text);
            put(&mut shown, "period", *period_s);
        }
    }
    shown
}

fn dimensions(entity: &Entity) -> Value {
    let dimensions = entity.dimensions().iter();
    dimensions.map(|(name, value)| json!({"value": value, "name": name})).collect()
}

fn put(shown: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        shown[name] = value.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::definition::tests::alarm;

    fn told(step: Step, alarm: &Alarm) -> Value {
        let text = data(step, alarm);
        assert!(text.chars().count() <= DATA_CHARS);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_alarm_stands_in_the_member_of_its_step() {
        let expected = json!({
            "version": "1.0",
            "type": "Create",
            "createdAlarm": {
                "alarmName": "a",
                "alarmArn": "arn:aws:cloudwatch:us-east-1:000000000000:alarm:a",
                "alarmConfigurationUpdatedTimestamp": "1970-01-01T00:00:00.000+0000",
                "namespace": "AWS/SQS",
                "metricName": "ApproximateNumberOfMessagesVisible",
                "statistic": "Maximum",
                "period": 60,
                "dimensions": [{"value": "jobs", "name": "QueueName"}],
                "threshold": 10.0,
                "comparisonOperator": "GreaterThanThreshold",
                "evaluationPeriods": 1,
                "stateValue": "INSUFFICIENT_DATA",
                "stateUpdatedTimestamp": "1970-01-01T00:00:00.000+0000",
                "actionsEnabled": true,
                "alarmActions": ["arn:alarm"],
                "insufficientDataActions": [],
                "okactions": ["arn:ok"],
            },
        });

        assert_eq!(told(Step::Create, &alarm("a")), expected);
        let updated = told(Step::Update, &alarm("a"));
        assert_eq!(
            (&updated["type"], &updated["updatedAlarm"]["alarmName"]),
            (&json!("Update"), &json!("a"))
        );
        let deleted = told(Step::Delete, &alarm("a"));
        assert_eq!(
            (&deleted["type"], &deleted["deletedAlarm"]["alarmName"]),
            (&json!("Delete"), &json!("a"))
        );
    }

    #[test]
    fn a_metric_is_told_as_it_was_put() {
        let mut percentile = alarm("a");
        if let QueryKind::Metric { statistic, unit, .. } = &mut percentile.queries[0].kind {
            (*statistic, *unit) = ("p99".into(), Some("Count".into()));
        }
        let shown = told(Step::Create, &percentile)["createdAlarm"].take();
        assert_eq!((&shown["extendedStatistic"], &shown["unit"]), (&json!("p99"), &json!("Count")));
        assert!(shown.get("statistic").is_none() && shown.get("metrics").is_none());

        let listed = Alarm { says_queries: true, ..percentile };
        let shown = told(Step::Create, &listed)["createdAlarm"].take();
        let stat = &shown["metrics"][0]["metricStat"];
        assert_eq!((&stat["stat"], &stat["unit"]), (&json!("p99"), &json!("Count")));
        assert!(shown.get("metricName").is_none() && shown.get("dimensions").is_none());
    }

    #[test]
    fn an_alarm_on_expressions_has_metrics() {
        let kind = QueryKind::Expression { text: "m * 2".into(), period_s: Some(300) };
        let double = Query {
            id: "e".into(),
            kind,
            label: Some("twice".into()),
            account: None,
            is_returned: true,
        };
        let mut alarm = Alarm { says_to_alarm: true, says_missing: true, ..alarm("a") };
        alarm.queries[0].is_returned = false;
        alarm.queries.push(double);

        let shown = &told(Step::Update, &alarm)["updatedAlarm"];
        let metric = json!({
            "namespace": "AWS/SQS",
            "metricName": "ApproximateNumberOfMessagesVisible",
            "dimensions": [{"value": "jobs", "name": "QueueName"}],
        });
        let metrics = json!([
            {
                "id": "m",
                "returnData": false,
                "metricStat": {"metric": metric, "period": 60, "stat": "Maximum"},
            },
            {
                "id": "e",
                "returnData": true,
                "label": "twice",
                "expression": "m * 2",
                "period": 300,
            },
        ]);
        assert_eq!(shown["metrics"], metrics);
        assert_eq!(
            (&shown["datapointsToAlarm"], &shown["treatMissingData"]),
            (&json!(1), &json!("missing"))
        );
        assert!(shown.get("metricName").is_none() && shown.get("dimensions").is_none());
    }

    #[test]
    fn what_takes_too_much_room_is_left_out() {
        let long = Alarm { alarm_actions: vec!["x".repeat(1_024); 5], ..alarm("a") };
        let shown = &told(Step::Create, &long)["createdAlarm"];
        assert_eq!((&shown["alarmName"], &shown["threshold"]), (&json!("a"), &json!(10.0)));
        assert!(shown.get("alarmActions").is_none() && shown.get("dimensions").is_none());

        // Six characters each in JSON.
        let escaped = told(Step::Create, &alarm(&"\u{1}".repeat(400)));
        assert_eq!(escaped, json!({"version": "1.0", "type": "Create"}));
    }
}
