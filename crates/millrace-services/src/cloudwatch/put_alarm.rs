//! PutMetricAlarm.

use std::collections::BTreeMap;

use millrace_core::{Arn, Timestamp};
use millrace_metrics::alarm::{Alarm, Comparison, MissingData, Rule, State};
use millrace_metrics::math::{self, Query, QueryKind};
use millrace_metrics::{BASE_PERIOD_S, Interrupt, Scope, Statistic, Unit};
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
        let alarm = alarm(scope, input, self.shards.now())?;
        if alarm.metric().is_none() {
            let (of, queries) = (scope.clone(), alarm.queries.clone());
            let check = move |interrupt: &Interrupt| math::check_watched(&of, &queries, interrupt);
            let checked = self.monitor.run(&scope.account, check);
            checked.await?.map_err(error::of_watch)?;
        }
        self.change_alarms(scope, move |book, _, now| book.put(alarm, now))
            .await
            .map(|_| Answer::Done)
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
    check_span(rule.periods, period_s)?;
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
        tags: input.tags.iter().cloned().map(Into::into).collect::<BTreeMap<_, _>>(),
    })
}

/// How far back an alarm looks.
fn check_span(periods: u32, period_s: u64) -> Result<(), ApiError> {
    let looks_back_s = u64::from(periods).saturating_mul(period_s.max(BASE_PERIOD_S));
    let (span, most_s) = match period_s {
        ..3_600 => ("a day", LOOKS_BACK_S),
        _ => ("seven days", LOOKS_BACK_BY_HOURS_S),
    };
    if looks_back_s <= most_s {
        return Ok(());
    }
    Err(error::validation(format!(
        "Metrics cannot be checked across more than {span} (EvaluationPeriods * Period must be \
         <= {most_s})."
    )))
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
    match (&input.metric_name, input.metrics.is_empty()) {
        (Some(metric), true) => one_metric(scope, metric, input),
        (None, false) => {
            check_nothing_else(input)?;
            expressions(scope, input)
        }
        (None, true) => Err(error::validation("MetricName must not be null")),
        (Some(_), false) => Err(beside_metrics("MetricName")),
    }
}

fn one_metric(
    scope: &Scope,
    metric: &String,
    input: &PutMetricAlarm,
) -> Result<(Vec<Query>, u64), ApiError> {
    let metric = check::name(Some(metric), "MetricName")?;
    if check::is_ascii(metric, "MetricName").is_err() {
        return Err(error::validation("MetricName must not contain Non-ASCII characters"));
    }
    let namespace = check::name(input.namespace.as_ref(), "Namespace")?;
    let entity = check::entity(scope, namespace, &input.dimensions, "Dimensions")?;
    let period_s = input.period_s.ok_or_else(|| error::missing("Period"))?;
    let period_s = check::alarm_period(u64::try_from(period_s).unwrap_or_default())?;
    let statistic = statistic(input)?;
    if let Some(unit) = input.unit.as_ref().filter(|unit| Unit::of_name(unit).is_none()) {
        return Err(error::invalid_value(format!(
            "The value {unit} for parameter Unit is invalid."
        )));
    }
    let kind = QueryKind::Metric {
        entity,
        metric: metric.to_owned(),
        unit: input.unit.clone(),
        statistic: statistic.to_owned(),
        period_s,
    };
    let (id, is_returned) = ("m1".to_owned(), true);
    let query = Query { id, kind, label: None, account: None, is_returned };
    Ok((vec![query], period_s))
}

/// Beside a list of metrics nothing else says what is watched.
fn check_nothing_else(input: &PutMetricAlarm) -> Result<(), ApiError> {
    let texts = [
        ("Namespace", &input.namespace),
        ("Statistic", &input.statistic),
        ("ExtendedStatistic", &input.extended_statistic),
        ("Unit", &input.unit),
    ];
    let text = texts.into_iter().find(|(_, value)| value.is_some()).map(|(name, _)| name);
    let dimensions = (!input.dimensions.is_empty()).then_some("Dimensions");
    match text.or(dimensions).or(input.period_s.map(|_| "Period")) {
        None => Ok(()),
        Some(name) => Err(beside_metrics(name)),
    }
}

fn beside_metrics(name: &str) -> ApiError {
    error::validation(format!("{name} should not be set if list of Metrics is set."))
}

/// The name of the statistic, which is known.
fn statistic(input: &PutMetricAlarm) -> Result<&str, ApiError> {
    match (&input.statistic, &input.extended_statistic) {
        (Some(name), None) => check::statistic(name, "statistic").map(|_| name.as_str()),
        (None, Some(name)) if Statistic::extended(name).is_some() => Ok(name),
        (None, Some(name)) => Err(error::invalid_value(format!(
            "The value {name} for parameter ExtendedStatistic is not supported."
        ))),
        (None, None) => Err(error::missing("Statistic")),
        (Some(_), Some(_)) => Err(error::invalid_combination(
            "The parameters Statistic and ExtendedStatistic are mutually exclusive and you have \
             specified both.",
        )),
    }
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
    if input.threshold_metric_id.is_some() {
        return Err(error::validation("Threshold and ThresholdMetricId cannot both be set"));
    }
    if !threshold.is_finite() {
        return Err(error::validation("The parameter Threshold must be a number."));
    }
    Ok(Rule { comparison, threshold, periods, to_alarm, missing })
}

#[cfg(test)]
pub(super) mod tests;
