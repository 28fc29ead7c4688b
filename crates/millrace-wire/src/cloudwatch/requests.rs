//! The structures that requests are made of: each member's type, how it is read, and its name on
//! the wire, declared once. Times are milliseconds since 1970.

use super::input::{Input, Structure};
use crate::ApiError;

/// `member: type = how it is read "name on the wire"`; how is a method of [`Input`].
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($member:ident: $kind:ty = $read:ident $wire:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(pub $member: $kind,)*
        }

        impl Structure for $name {
            fn read(input: &Input<'_>) -> Result<Self, ApiError> {
                Ok($name { $($member: input.$read($wire)?,)* })
            }
        }
    )*};
}

structures! {
    /// Name and value of a dimension; in the filters of ListMetrics the value may be absent.
    Dimension {
        name: Option<String> = text "Name",
        value: Option<String> = text "Value",
    }

    PutMetricData {
        namespace: Option<String> = text "Namespace",
        metric_data: Vec<MetricDatum> = each "MetricData",
        entity_metric_data: Vec<EntityMetricData> = each "EntityMetricData",
    }

    /// Data of one entity; what the entity is, is not kept.
    EntityMetricData {
        metric_data: Vec<MetricDatum> = each "MetricData",
    }

    MetricDatum {
        metric_name: Option<String> = text "MetricName",
        dimensions: Vec<Dimension> = each "Dimensions",
        timestamp_ms: Option<i64> = time_ms "Timestamp",
        value: Option<f64> = number "Value",
        statistic_values: Option<StatisticSet> = one "StatisticValues",
        values: Vec<f64> = numbers "Values",
        counts: Vec<f64> = numbers "Counts",
        unit: Option<String> = text "Unit",
        storage_resolution: Option<i64> = integer "StorageResolution",
    }

    StatisticSet {
        sample_count: Option<f64> = number "SampleCount",
        sum: Option<f64> = number "Sum",
        minimum: Option<f64> = number "Minimum",
        maximum: Option<f64> = number "Maximum",
    }

    GetMetricStatistics {
        namespace: Option<String> = text "Namespace",
        metric_name: Option<String> = text "MetricName",
        dimensions: Vec<Dimension> = each "Dimensions",
        start_time_ms: Option<i64> = time_ms "StartTime",
        end_time_ms: Option<i64> = time_ms "EndTime",
        period_s: Option<i64> = integer "Period",
        statistics: Vec<String> = texts "Statistics",
        extended_statistics: Vec<String> = texts "ExtendedStatistics",
        unit: Option<String> = text "Unit",
    }

    GetMetricData {
        queries: Vec<MetricDataQuery> = each "MetricDataQueries",
        start_time_ms: Option<i64> = time_ms "StartTime",
        end_time_ms: Option<i64> = time_ms "EndTime",
        scan_by: Option<String> = text "ScanBy",
        max_datapoints: Option<i64> = integer "MaxDatapoints",
        next_token: Option<String> = text "NextToken",
    }

    MetricDataQuery {
        id: Option<String> = text "Id",
        metric_stat: Option<MetricStat> = one "MetricStat",
        expression: Option<String> = text "Expression",
        label: Option<String> = text "Label",
        return_data: Option<bool> = truth "ReturnData",
        period_s: Option<i64> = integer "Period",
        account_id: Option<String> = text "AccountId",
    }

    Metric {
        namespace: Option<String> = text "Namespace",
        metric_name: Option<String> = text "MetricName",
        dimensions: Vec<Dimension> = each "Dimensions",
    }

    ListMetrics {
        namespace: Option<String> = text "Namespace",
        metric_name: Option<String> = text "MetricName",
        dimensions: Vec<Dimension> = each "Dimensions",
        recently_active: Option<String> = text "RecentlyActive",
        owning_account: Option<String> = text "OwningAccount",
        next_token: Option<String> = text "NextToken",
    }

    PutMetricAlarm {
        alarm_name: Option<String> = text "AlarmName",
        alarm_description: Option<String> = text "AlarmDescription",
        actions_enabled: Option<bool> = truth "ActionsEnabled",
        ok_actions: Vec<String> = texts "OKActions",
        alarm_actions: Vec<String> = texts "AlarmActions",
        insufficient_data_actions: Vec<String> = texts "InsufficientDataActions",
        metric_name: Option<String> = text "MetricName",
        namespace: Option<String> = text "Namespace",
        statistic: Option<String> = text "Statistic",
        extended_statistic: Option<String> = text "ExtendedStatistic",
        dimensions: Vec<Dimension> = each "Dimensions",
        period_s: Option<i64> = integer "Period",
        unit: Option<String> = text "Unit",
        evaluation_periods: Option<i64> = integer "EvaluationPeriods",
        datapoints_to_alarm: Option<i64> = integer "DatapointsToAlarm",
        threshold: Option<f64> = number "Threshold",
        comparison_operator: Option<String> = text "ComparisonOperator",
        treat_missing_data: Option<String> = text "TreatMissingData",
        evaluate_low_sample_count_percentile: Option<String> = text "EvaluateLowSampleCountPercentile",
        metrics: Vec<MetricDataQuery> = each "Metrics",
        threshold_metric_id: Option<String> = text "ThresholdMetricId",
        tags: Vec<(String, String)> = pairs "Tags",
    }

    DescribeAlarms {
        alarm_names: Vec<String> = texts "AlarmNames",
        alarm_name_prefix: Option<String> = text "AlarmNamePrefix",
        alarm_types: Vec<String> = texts "AlarmTypes",
        children_of_alarm_name: Option<String> = text "ChildrenOfAlarmName",
        parents_of_alarm_name: Option<String> = text "ParentsOfAlarmName",
        state_value: Option<String> = text "StateValue",
        action_prefix: Option<String> = text "ActionPrefix",
        max_records: Option<i64> = integer "MaxRecords",
        next_token: Option<String> = text "NextToken",
    }

    DescribeAlarmsForMetric {
        metric_name: Option<String> = text "MetricName",
        namespace: Option<String> = text "Namespace",
        statistic: Option<String> = text "Statistic",
        extended_statistic: Option<String> = text "ExtendedStatistic",
        dimensions: Vec<Dimension> = each "Dimensions",
        period_s: Option<i64> = integer "Period",
        unit: Option<String> = text "Unit",
    }

    DescribeAlarmHistory {
        alarm_name: Option<String> = text "AlarmName",
        alarm_contributor_id: Option<String> = text "AlarmContributorId",
        alarm_types: Vec<String> = texts "AlarmTypes",
        history_item_type: Option<String> = text "HistoryItemType",
        start_date_ms: Option<i64> = time_ms "StartDate",
        end_date_ms: Option<i64> = time_ms "EndDate",
        max_records: Option<i64> = integer "MaxRecords",
        next_token: Option<String> = text "NextToken",
        scan_by: Option<String> = text "ScanBy",
    }

    AlarmNames {
        names: Vec<String> = texts "AlarmNames",
    }

    SetAlarmState {
        alarm_name: Option<String> = text "AlarmName",
        state_value: Option<String> = text "StateValue",
        state_reason: Option<String> = text "StateReason",
        state_reason_data: Option<String> = text "StateReasonData",
    }

    /// TagResource, UntagResource and ListTagsForResource.
    ResourceTags {
        resource_arn: Option<String> = text "ResourceARN",
        tags: Vec<(String, String)> = pairs "Tags",
        tag_keys: Vec<String> = texts "TagKeys",
    }
}

/// A metric, which on the wire is a structure of its own, and what is asked of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricStat {
    pub namespace: Option<String>,
    pub metric_name: Option<String>,
    pub dimensions: Vec<Dimension>,
    pub period_s: Option<i64>,
    pub stat: Option<String>,
    pub unit: Option<String>,
}

impl Structure for MetricStat {
    fn read(input: &Input<'_>) -> Result<Self, ApiError> {
        let Metric { namespace, metric_name, dimensions } =
            input.one("Metric")?.unwrap_or_default();
        Ok(MetricStat {
            namespace,
            metric_name,
            dimensions,
            period_s: input.integer("Period")?,
            stat: input.text("Stat")?,
            unit: input.text("Unit")?,
        })
    }
}
