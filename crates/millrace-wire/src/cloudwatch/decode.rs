//! Requests from each protocol.

use serde_json::Value;

use super::cbor;
use super::input::Input;
use super::types::{
    Action, AlarmNames, DescribeAlarmHistory, DescribeAlarms, DescribeAlarmsForMetric, Dimension,
    GetMetricData, GetMetricStatistics, ListMetrics, MetricDataQuery, MetricDatum, MetricStat,
    PutMetricAlarm, PutMetricData, ResourceTags, SetAlarmState, StatisticSet,
};
use crate::ApiError;
use crate::protocol::{Protocol, Target};

/// Reads the request that `target` names. Content encodings must be undone.
///
/// # Errors
///
/// SerializationException or MalformedInput if members are missing their type,
/// UnknownOperationException or InvalidAction if there is no such action.
pub fn decode(target: &Target<'_>, body: &[u8]) -> Result<Action, ApiError> {
    let tree;
    let input = match target.protocol {
        Protocol::Query | Protocol::QueryAsJson => Input::Query(target.parameters.scope()),
        Protocol::Json => {
            tree = json(body)?;
            Input::Tree(&tree)
        }
        Protocol::Cbor => {
            tree = cbor_map(body)?;
            Input::Tree(&tree)
        }
    };
    decode_action(&target.action, &input)?.ok_or_else(|| match target.protocol {
        Protocol::Query | Protocol::QueryAsJson => ApiError::invalid_action(&target.action),
        Protocol::Json | Protocol::Cbor => ApiError::unknown_operation(),
    })
}

fn json(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let tree: Value =
        serde_json::from_slice(body).map_err(|error| ApiError::serialization(error.to_string()))?;
    check_map(tree)
}

/// An operation without input may have no body.
fn cbor_map(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    check_map(cbor::decode(body).ok_or_else(|| ApiError::serialization("body is not CBOR"))?)
}

fn check_map(tree: Value) -> Result<Value, ApiError> {
    match tree {
        Value::Object(_) => Ok(tree),
        _ => Err(ApiError::serialization("body is not a structure")),
    }
}

fn decode_action(name: &str, input: &Input<'_>) -> Result<Option<Action>, ApiError> {
    let names = || Ok::<_, ApiError>(AlarmNames { names: input.texts("AlarmNames")? });
    Ok(Some(match name {
        "DeleteAlarms" => Action::DeleteAlarms(names()?),
        "DescribeAlarmHistory" => Action::DescribeAlarmHistory(describe_alarm_history(input)?),
        "DescribeAlarms" => Action::DescribeAlarms(describe_alarms(input)?),
        "DescribeAlarmsForMetric" => {
            Action::DescribeAlarmsForMetric(describe_alarms_for_metric(input)?)
        }
        "DisableAlarmActions" => Action::DisableAlarmActions(names()?),
        "EnableAlarmActions" => Action::EnableAlarmActions(names()?),
        "GetMetricData" => Action::GetMetricData(get_metric_data(input)?),
        "GetMetricStatistics" => Action::GetMetricStatistics(get_metric_statistics(input)?),
        "ListMetrics" => Action::ListMetrics(list_metrics(input)?),
        "ListTagsForResource" => Action::ListTagsForResource(resource_tags(input)?),
        "PutMetricAlarm" => Action::PutMetricAlarm(Box::new(put_metric_alarm(input)?)),
        "PutMetricData" => Action::PutMetricData(put_metric_data(input)?),
        "SetAlarmState" => Action::SetAlarmState(set_alarm_state(input)?),
        "TagResource" => Action::TagResource(resource_tags(input)?),
        "UntagResource" => Action::UntagResource(resource_tags(input)?),
        _ => return Ok(None),
    }))
}

fn put_metric_data(input: &Input<'_>) -> Result<PutMetricData, ApiError> {
    let data = input.structures("MetricData")?;
    Ok(PutMetricData {
        namespace: input.text("Namespace")?,
        metric_data: data.iter().map(metric_datum).collect::<Result<_, _>>()?,
    })
}

fn metric_datum(input: &Input<'_>) -> Result<MetricDatum, ApiError> {
    let set = input.structure("StatisticValues")?;
    Ok(MetricDatum {
        metric_name: input.text("MetricName")?,
        dimensions: dimensions(input)?,
        timestamp_ms: input.time_ms("Timestamp")?,
        value: input.number("Value")?,
        statistic_values: set.as_ref().map(statistic_set).transpose()?,
        values: input.numbers("Values")?,
        counts: input.numbers("Counts")?,
        unit: input.text("Unit")?,
        storage_resolution: input.integer("StorageResolution")?,
    })
}

fn statistic_set(input: &Input<'_>) -> Result<StatisticSet, ApiError> {
    Ok(StatisticSet {
        sample_count: input.number("SampleCount")?,
        sum: input.number("Sum")?,
        minimum: input.number("Minimum")?,
        maximum: input.number("Maximum")?,
    })
}

fn dimensions(input: &Input<'_>) -> Result<Vec<Dimension>, ApiError> {
    let dimension = |input: &Input<'_>| {
        Ok(Dimension { name: input.text("Name")?, value: input.text("Value")? })
    };
    input.structures("Dimensions")?.iter().map(dimension).collect()
}

fn get_metric_statistics(input: &Input<'_>) -> Result<GetMetricStatistics, ApiError> {
    Ok(GetMetricStatistics {
        namespace: input.text("Namespace")?,
        metric_name: input.text("MetricName")?,
        dimensions: dimensions(input)?,
        start_time_ms: input.time_ms("StartTime")?,
        end_time_ms: input.time_ms("EndTime")?,
        period_s: input.integer("Period")?,
        statistics: input.texts("Statistics")?,
        extended_statistics: input.texts("ExtendedStatistics")?,
        unit: input.text("Unit")?,
    })
}

fn get_metric_data(input: &Input<'_>) -> Result<GetMetricData, ApiError> {
    let queries = input.structures("MetricDataQueries")?;
    Ok(GetMetricData {
        queries: queries.iter().map(metric_data_query).collect::<Result<_, _>>()?,
        start_time_ms: input.time_ms("StartTime")?,
        end_time_ms: input.time_ms("EndTime")?,
        scan_by: input.text("ScanBy")?,
        max_datapoints: input.integer("MaxDatapoints")?,
        next_token: input.text("NextToken")?,
    })
}

fn metric_data_query(input: &Input<'_>) -> Result<MetricDataQuery, ApiError> {
    let stat = input.structure("MetricStat")?;
    Ok(MetricDataQuery {
        id: input.text("Id")?,
        metric_stat: stat.as_ref().map(metric_stat).transpose()?,
        expression: input.text("Expression")?,
        label: input.text("Label")?,
        return_data: input.truth("ReturnData")?,
        period_s: input.integer("Period")?,
    })
}

fn metric_stat(input: &Input<'_>) -> Result<MetricStat, ApiError> {
    let metric = input.structure("Metric")?;
    let metric = metric.as_ref();
    let text = |name| metric.map_or(Ok(None), |metric| metric.text(name));
    Ok(MetricStat {
        namespace: text("Namespace")?,
        metric_name: text("MetricName")?,
        dimensions: metric.map_or(Ok(Vec::new()), dimensions)?,
        period_s: input.integer("Period")?,
        stat: input.text("Stat")?,
        unit: input.text("Unit")?,
    })
}

fn list_metrics(input: &Input<'_>) -> Result<ListMetrics, ApiError> {
    Ok(ListMetrics {
        namespace: input.text("Namespace")?,
        metric_name: input.text("MetricName")?,
        dimensions: dimensions(input)?,
        recently_active: input.text("RecentlyActive")?,
        next_token: input.text("NextToken")?,
    })
}

fn put_metric_alarm(input: &Input<'_>) -> Result<PutMetricAlarm, ApiError> {
    let metrics = input.structures("Metrics")?;
    Ok(PutMetricAlarm {
        alarm_name: input.text("AlarmName")?,
        alarm_description: input.text("AlarmDescription")?,
        actions_enabled: input.truth("ActionsEnabled")?,
        ok_actions: input.texts("OKActions")?,
        alarm_actions: input.texts("AlarmActions")?,
        insufficient_data_actions: input.texts("InsufficientDataActions")?,
        metric_name: input.text("MetricName")?,
        namespace: input.text("Namespace")?,
        statistic: input.text("Statistic")?,
        extended_statistic: input.text("ExtendedStatistic")?,
        dimensions: dimensions(input)?,
        period_s: input.integer("Period")?,
        unit: input.text("Unit")?,
        evaluation_periods: input.integer("EvaluationPeriods")?,
        datapoints_to_alarm: input.integer("DatapointsToAlarm")?,
        threshold: input.number("Threshold")?,
        comparison_operator: input.text("ComparisonOperator")?,
        treat_missing_data: input.text("TreatMissingData")?,
        evaluate_low_sample_count_percentile: input.text("EvaluateLowSampleCountPercentile")?,
        metrics: metrics.iter().map(metric_data_query).collect::<Result<_, _>>()?,
        threshold_metric_id: input.text("ThresholdMetricId")?,
        tags: tags(input)?,
    })
}

fn describe_alarms(input: &Input<'_>) -> Result<DescribeAlarms, ApiError> {
    Ok(DescribeAlarms {
        alarm_names: input.texts("AlarmNames")?,
        alarm_name_prefix: input.text("AlarmNamePrefix")?,
        alarm_types: input.texts("AlarmTypes")?,
        state_value: input.text("StateValue")?,
        action_prefix: input.text("ActionPrefix")?,
        max_records: input.integer("MaxRecords")?,
        next_token: input.text("NextToken")?,
    })
}

fn describe_alarms_for_metric(input: &Input<'_>) -> Result<DescribeAlarmsForMetric, ApiError> {
    Ok(DescribeAlarmsForMetric {
        metric_name: input.text("MetricName")?,
        namespace: input.text("Namespace")?,
        statistic: input.text("Statistic")?,
        extended_statistic: input.text("ExtendedStatistic")?,
        dimensions: dimensions(input)?,
        period_s: input.integer("Period")?,
        unit: input.text("Unit")?,
    })
}

fn describe_alarm_history(input: &Input<'_>) -> Result<DescribeAlarmHistory, ApiError> {
    Ok(DescribeAlarmHistory {
        alarm_name: input.text("AlarmName")?,
        history_item_type: input.text("HistoryItemType")?,
        start_date_ms: input.time_ms("StartDate")?,
        end_date_ms: input.time_ms("EndDate")?,
        max_records: input.integer("MaxRecords")?,
        next_token: input.text("NextToken")?,
        scan_by: input.text("ScanBy")?,
    })
}

fn set_alarm_state(input: &Input<'_>) -> Result<SetAlarmState, ApiError> {
    Ok(SetAlarmState {
        alarm_name: input.text("AlarmName")?,
        state_value: input.text("StateValue")?,
        state_reason: input.text("StateReason")?,
        state_reason_data: input.text("StateReasonData")?,
    })
}

fn resource_tags(input: &Input<'_>) -> Result<ResourceTags, ApiError> {
    Ok(ResourceTags {
        resource_arn: input.text("ResourceARN")?,
        tags: tags(input)?,
        tag_keys: input.texts("TagKeys")?,
    })
}

fn tags(input: &Input<'_>) -> Result<Vec<(String, String)>, ApiError> {
    let tag = |input: &Input<'_>| {
        Ok((input.text("Key")?.unwrap_or_default(), input.text("Value")?.unwrap_or_default()))
    };
    input.structures("Tags")?.iter().map(tag).collect()
}
