//! Alarms as answers show them.

use millrace_metrics::alarm::Alarm;
use millrace_metrics::math::{Query, QueryKind};
use millrace_wire::cloudwatch::{Dimension, Metric, MetricAlarm, MetricDataQuery, MetricStat};
use millrace_wire::codec::Time;

/// An alarm as answers show it.
pub(super) fn shown(alarm: &Alarm) -> MetricAlarm {
    let rule = &alarm.rule;
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut shown = MetricAlarm {
        alarm_name: Some(alarm.name.clone()),
        arn: alarm.arn(),
        alarm_description: alarm.description.clone(),
        configured_at: Time::of_ms(alarm.configured_at),
        actions_enabled: alarm.actions_enabled,
        ok_actions: alarm.ok_actions.clone(),
        alarm_actions: alarm.alarm_actions.clone(),
        insufficient_data_actions: alarm.insufficient_data_actions.clone(),
        state_value: alarm.state.name().to_owned(),
        state_reason: alarm.reason.clone(),
        state_reason_data: alarm.reason_data.clone(),
        state_updated_at: Time::of_ms(alarm.state_updated_at),
        evaluation_periods: Some(i64::from(rule.periods)),
        threshold: Some(rule.threshold),
        comparison_operator: Some(rule.comparison.name().to_owned()),
        treat_missing_data: alarm.says_missing.then(|| rule.missing.name().to_owned()),
        evaluate_low_sample_count_percentile: alarm.low_sample_count.clone(),
        datapoints_to_alarm: alarm.says_to_alarm.then_some(i64::from(rule.to_alarm)),
        threshold_metric_id: alarm.threshold_metric_id.clone(),
        state_transitioned_at: Time::of_ms(alarm.state_entered_at),
        ..MetricAlarm::default()
    };
    match alarm.metric().filter(|_| !alarm.says_queries) {
        Some((entity, metric, statistic, unit)) => {
            shown.namespace = Some(entity.namespace.clone());
            shown.metric_name = Some(metric.to_owned());
            shown.dimensions = dimensions(entity.dimensions());
            shown.period_s = Some(integer(alarm.period_s));
            shown.unit = unit.map(str::to_owned);
            let is_simple = millrace_metrics::Statistic::simple(statistic).is_some();
            let of = if is_simple { &mut shown.statistic } else { &mut shown.extended_statistic };
            *of = Some(statistic.to_owned());
        }
        None => shown.metrics = Some(alarm.queries.iter().map(shown_query).collect()),
    }
    shown
}

fn shown_query(query: &Query) -> MetricDataQuery {
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (metric_stat, expression, period_s) = match &query.kind {
        QueryKind::Metric { entity, metric, unit, statistic, period_s } => {
            let metric = Metric {
                namespace: Some(entity.namespace.clone()),
                metric_name: Some(metric.clone()),
                dimensions: dimensions(entity.dimensions()),
            };
            let stat = MetricStat {
                metric,
                period_s: Some(integer(*period_s)),
                stat: Some(statistic.clone()),
                unit: unit.clone(),
            };
            (Some(stat), None, None)
        }
        QueryKind::Expression { text, period_s } => {
            (None, Some(text.clone()), period_s.map(integer))
        }
    };
    MetricDataQuery {
        id: Some(query.id.clone()),
        metric_stat,
        expression,
        label: query.label.clone(),
        return_data: Some(query.is_returned),
        period_s,
        account_id: query.account.clone(),
    }
}

fn dimensions(pairs: &[(String, String)]) -> Vec<Dimension> {
    pairs.iter().cloned().map(Dimension::from).collect()
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_metrics::Scope;

    use super::*;
    use crate::cloudwatch::put_alarm::alarm;
    use crate::cloudwatch::put_alarm::tests::example_of_queries;

    #[test]
    fn a_list_of_one_metric_comes_back_as_a_list() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let mut input = example_of_queries();
        input.metrics[0].account_id = Some(scope.account.clone());

        let shown = shown(&alarm(&scope, &input, Timestamp(0)).unwrap());
        assert_eq!((shown.metrics, shown.metric_name), (Some(input.metrics), None));
    }
}
