//! What a request asks, and its answer. Times are milliseconds since 1970.

use super::input::{Input, Structure};
use super::requests::{
    AlarmNames, DescribeAlarmHistory, DescribeAlarms, DescribeAlarmsForMetric, GetMetricData,
    GetMetricStatistics, ListMetrics, PutMetricAlarm, PutMetricData, ResourceTags, SetAlarmState,
};
use crate::ApiError;

/// Declares the actions, each with the structure of its request.
macro_rules! actions {
    ($($action:ident($request:ty),)*) => {
        /// What the actions are called.
        pub const ACTIONS: [&str; [$(stringify!($action)),*].len()] = [$(stringify!($action)),*];

        /// A request.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Action {
            $($action($request),)*
        }

        impl Action {
            /// None: there is no action of that name.
            pub(super) fn read(name: &str, input: &Input<'_>) -> Result<Option<Action>, ApiError> {
                Ok(Some(match name {
                    $(stringify!($action) => Action::$action(Structure::read(input)?),)*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

actions! {
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
