//! Requests and answers, one type each. Times are milliseconds since 1970.

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    DeleteAlarms(AlarmNames),
    DescribeAlarmHistory(DescribeAlarmHistory),
    DescribeAlarms(DescribeAlarms),
    DescribeAlarmsForMetric(DescribeAlarmsForMetric),
    DisableAlarmActions(AlarmNames),
    EnableAlarmActions(AlarmNames),
    GetMetricData(GetMetricData),
    GetMetricStatistics(GetMetricStatistics),
    ListMetrics(ListMetrics),
    ListTagsForResource(ResourceTags),
    PutMetricAlarm(Box<PutMetricAlarm>),
    PutMetricData(PutMetricData),
    SetAlarmState(SetAlarmState),
    TagResource(ResourceTags),
    UntagResource(ResourceTags),
}

/// Name and value of a dimension; in the filters of ListMetrics the value may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dimension {
    pub name: Option<String>,
    pub value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutMetricData {
    pub namespace: Option<String>,
    pub metric_data: Vec<MetricDatum>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricDatum {
    pub metric_name: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub timestamp_ms: Option<i64>,
    pub value: Option<f64>,
    pub statistic_values: Option<StatisticSet>,
    pub values: Vec<f64>,
    pub counts: Vec<f64>,
    pub unit: Option<String>,
    pub storage_resolution: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatisticSet {
    pub sample_count: Option<f64>,
    pub sum: Option<f64>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GetMetricStatistics {
    pub namespace: Option<String>,
    pub metric_name: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub start_time_ms: Option<i64>,
    pub end_time_ms: Option<i64>,
    pub period_s: Option<i64>,
    pub statistics: Vec<String>,
    pub extended_statistics: Vec<String>,
    pub unit: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GetMetricData {
    pub queries: Vec<MetricDataQuery>,
    pub start_time_ms: Option<i64>,
    pub end_time_ms: Option<i64>,
    pub scan_by: Option<String>,
    pub max_datapoints: Option<i64>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricDataQuery {
    pub id: Option<String>,
    pub metric_stat: Option<MetricStat>,
    pub expression: Option<String>,
    pub label: Option<String>,
    pub return_data: Option<bool>,
    pub period_s: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricStat {
    pub namespace: Option<String>,
    pub metric_name: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub period_s: Option<i64>,
    pub stat: Option<String>,
    pub unit: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListMetrics {
    pub namespace: Option<String>,
    pub metric_name: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub recently_active: Option<String>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutMetricAlarm {
    pub alarm_name: Option<String>,
    pub alarm_description: Option<String>,
    pub actions_enabled: Option<bool>,
    pub ok_actions: Vec<String>,
    pub alarm_actions: Vec<String>,
    pub insufficient_data_actions: Vec<String>,
    pub metric_name: Option<String>,
    pub namespace: Option<String>,
    pub statistic: Option<String>,
    pub extended_statistic: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub period_s: Option<i64>,
    pub unit: Option<String>,
    pub evaluation_periods: Option<i64>,
    pub datapoints_to_alarm: Option<i64>,
    pub threshold: Option<f64>,
    pub comparison_operator: Option<String>,
    pub treat_missing_data: Option<String>,
    pub evaluate_low_sample_count_percentile: Option<String>,
    pub metrics: Vec<MetricDataQuery>,
    pub threshold_metric_id: Option<String>,
    pub tags: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeAlarms {
    pub alarm_names: Vec<String>,
    pub alarm_name_prefix: Option<String>,
    pub alarm_types: Vec<String>,
    pub state_value: Option<String>,
    pub action_prefix: Option<String>,
    pub max_records: Option<i64>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeAlarmsForMetric {
    pub metric_name: Option<String>,
    pub namespace: Option<String>,
    pub statistic: Option<String>,
    pub extended_statistic: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub period_s: Option<i64>,
    pub unit: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeAlarmHistory {
    pub alarm_name: Option<String>,
    pub history_item_type: Option<String>,
    pub start_date_ms: Option<i64>,
    pub end_date_ms: Option<i64>,
    pub max_records: Option<i64>,
    pub next_token: Option<String>,
    pub scan_by: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlarmNames {
    pub names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetAlarmState {
    pub alarm_name: Option<String>,
    pub state_value: Option<String>,
    pub state_reason: Option<String>,
    pub state_reason_data: Option<String>,
}

/// TagResource, UntagResource and ListTagsForResource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceTags {
    pub resource_arn: Option<String>,
    pub tags: Vec<(String, String)>,
    pub tag_keys: Vec<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Nothing to say.
    Done,
    DescribeAlarmHistory {
        items: Vec<AlarmHistoryItem>,
        next_token: Option<String>,
    },
    DescribeAlarms {
        alarms: Vec<MetricAlarm>,
        next_token: Option<String>,
    },
    DescribeAlarmsForMetric {
        alarms: Vec<MetricAlarm>,
    },
    GetMetricData {
        results: Vec<MetricDataResult>,
        messages: Vec<(String, String)>,
        next_token: Option<String>,
    },
    GetMetricStatistics {
        label: String,
        datapoints: Vec<Datapoint>,
    },
    ListMetrics {
        metrics: Vec<MetricId>,
        next_token: Option<String>,
    },
    ListTagsForResource {
        tags: Vec<(String, String)>,
    },
}

/// One data point of GetMetricStatistics: the statistics that were asked for.
#[derive(Clone, Debug)]
pub struct Datapoint {
    pub timestamp_ms: u64,
    /// `SampleCount`, `Average`, `Sum`, `Minimum` or `Maximum`, and its value.
    pub statistics: Vec<(&'static str, f64)>,
    pub extended_statistics: Vec<(String, f64)>,
    pub unit: &'static str,
}

/// The data points of one query of GetMetricData.
#[derive(Clone, Debug)]
pub struct MetricDataResult {
    pub id: String,
    pub label: String,
    pub timestamps_ms: Vec<u64>,
    pub values: Vec<f64>,
    /// `Complete` or `PartialData`.
    pub status_code: &'static str,
    /// Code and text.
    pub messages: Vec<(String, String)>,
}

/// A series as ListMetrics names it.
#[derive(Clone, Debug)]
pub struct MetricId {
    pub namespace: String,
    pub metric_name: String,
    pub dimensions: Vec<(String, String)>,
}

/// An alarm as DescribeAlarms shows it.
#[derive(Clone, Debug, Default)]
pub struct MetricAlarm {
    pub arn: String,
    pub configured_at_ms: u64,
    pub state_value: &'static str,
    pub state_reason: String,
    pub state_reason_data: Option<String>,
    pub state_updated_at_ms: u64,
    pub state_transitioned_at_ms: u64,
    /// As it was put.
    pub alarm: PutMetricAlarm,
}

/// One entry of an alarm's history.
#[derive(Clone, Debug)]
pub struct AlarmHistoryItem {
    pub alarm_name: String,
    pub timestamp_ms: u64,
    /// `ConfigurationUpdate`, `StateUpdate` or `Action`.
    pub item_type: &'static str,
    pub summary: String,
    /// JSON text.
    pub data: String,
}
