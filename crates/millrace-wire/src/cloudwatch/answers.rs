//! The answers and the structures that they are made of, members in the order of CloudWatch's XML.

use std::collections::BTreeMap;

use super::requests::{Dimension, Metric, MetricDataQuery, Tag};
use crate::codec::Time;
use crate::{answers, structures};

answers! {
    /// An answer.
    pub Answer {
        /// Nothing to say.
        Done,
        /// Nothing to say, of the actions that have an element for it.
        Empty {},
        DescribeAlarmHistory {
            items: Vec<AlarmHistoryItem> = "AlarmHistoryItems",
            next_token: Option<String> = "NextToken",
        },
        /// Alarms of other types than on metrics there are none.
        DescribeAlarms {
            composite_alarms: Vec<MetricAlarm> = "CompositeAlarms",
            alarms: Vec<MetricAlarm> = "MetricAlarms",
            log_alarms: Vec<MetricAlarm> = "LogAlarms",
            next_token: Option<String> = "NextToken",
        },
        DescribeAlarmsForMetric {
            alarms: Vec<MetricAlarm> = "MetricAlarms",
        },
        GetMetricData {
            results: Vec<MetricDataResult> = "MetricDataResults",
            messages: Vec<Message> = "Messages",
            next_token: Option<String> = "NextToken",
        },
        GetMetricStatistics {
            label: String = "Label",
            datapoints: Vec<Datapoint> = "Datapoints",
        },
        ListMetrics {
            metrics: Vec<Metric> = "Metrics",
            next_token: Option<String> = "NextToken",
        },
        ListTagsForResource {
            tags: Vec<Tag> = "Tags",
        },
    }
}

structures! {
    /// One data point of GetMetricStatistics: the statistics that were asked for.
    pub Datapoint {
        timestamp: Time = "Timestamp",
        sample_count: Option<f64> = "SampleCount",
        average: Option<f64> = "Average",
        sum: Option<f64> = "Sum",
        minimum: Option<f64> = "Minimum",
        maximum: Option<f64> = "Maximum",
        unit: String = "Unit",
        extended_statistics: Option<BTreeMap<String, f64>> = "ExtendedStatistics",
    }

    /// The data points of one query of GetMetricData.
    pub MetricDataResult {
        id: String = "Id",
        label: String = "Label",
        timestamps: Vec<Time> = "Timestamps",
        values: Vec<f64> = "Values",
        /// `Complete` or `PartialData`.
        status_code: String = "StatusCode",
        messages: Option<Vec<Message>> = "Messages",
    }

    pub Message {
        code: String = "Code",
        value: String = "Value",
    }

    /// An alarm as DescribeAlarms shows it.
    pub MetricAlarm {
        alarm_name: Option<String> = "AlarmName",
        arn: String = "AlarmArn",
        alarm_description: Option<String> = "AlarmDescription",
        configured_at: Time = "AlarmConfigurationUpdatedTimestamp",
        actions_enabled: bool = "ActionsEnabled",
        ok_actions: Vec<String> = "OKActions",
        alarm_actions: Vec<String> = "AlarmActions",
        insufficient_data_actions: Vec<String> = "InsufficientDataActions",
        state_value: String = "StateValue",
        state_reason: String = "StateReason",
        state_reason_data: Option<String> = "StateReasonData",
        state_updated_at: Time = "StateUpdatedTimestamp",
        metric_name: Option<String> = "MetricName",
        namespace: Option<String> = "Namespace",
        statistic: Option<String> = "Statistic",
        dimensions: Vec<Dimension> = "Dimensions",
        period_s: Option<i64> = "Period",
        unit: Option<String> = "Unit",
        evaluation_periods: Option<i64> = "EvaluationPeriods",
        threshold: Option<f64> = "Threshold",
        comparison_operator: Option<String> = "ComparisonOperator",
        extended_statistic: Option<String> = "ExtendedStatistic",
        treat_missing_data: Option<String> = "TreatMissingData",
        evaluate_low_sample_count_percentile: Option<String> = "EvaluateLowSampleCountPercentile",
        datapoints_to_alarm: Option<i64> = "DatapointsToAlarm",
        metrics: Option<Vec<MetricDataQuery>> = "Metrics",
        threshold_metric_id: Option<String> = "ThresholdMetricId",
        state_transitioned_at: Time = "StateTransitionedTimestamp",
    }

    /// One entry of an alarm's history.
    pub AlarmHistoryItem {
        alarm_name: String = "AlarmName",
        /// `MetricAlarm`.
        alarm_type: String = "AlarmType",
        timestamp: Time = "Timestamp",
        /// `ConfigurationUpdate`, `StateUpdate` or `Action`.
        item_type: String = "HistoryItemType",
        summary: String = "HistorySummary",
        /// JSON text.
        data: String = "HistoryData",
    }
}
