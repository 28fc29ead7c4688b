//! The requests and the structures that they are made of.

use crate::codec::Time;
use crate::{actions, structures};

actions! {
    /// A request.
    pub Action {
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
}

/// The names of the actions.
pub const ACTIONS: [&str; Action::NAMES.len()] = Action::NAMES;

structures! {
    /// Name and value of a dimension; in the filters of ListMetrics the value may be absent.
    pub Dimension {
        name: Option<String> = "Name",
        value: Option<String> = "Value",
    }

    pub Tag {
        key: String = "Key",
        value: String = "Value",
    }

    pub PutMetricData {
        namespace: Option<String> = "Namespace",
        metric_data: Vec<MetricDatum> = "MetricData",
        entity_metric_data: Vec<EntityMetricData> = "EntityMetricData",
    }

    /// Data of one entity; what the entity is, is not kept.
    pub EntityMetricData {
        metric_data: Vec<MetricDatum> = "MetricData",
    }

    pub MetricDatum {
        metric_name: Option<String> = "MetricName",
        dimensions: Vec<Dimension> = "Dimensions",
        timestamp: Option<Time> = "Timestamp",
        value: Option<f64> = "Value",
        statistic_values: Option<StatisticSet> = "StatisticValues",
        values: Vec<f64> = "Values",
        counts: Vec<f64> = "Counts",
        unit: Option<String> = "Unit",
        storage_resolution: Option<i64> = "StorageResolution",
    }

    pub StatisticSet {
        sample_count: Option<f64> = "SampleCount",
        sum: Option<f64> = "Sum",
        minimum: Option<f64> = "Minimum",
        maximum: Option<f64> = "Maximum",
    }

    pub GetMetricStatistics {
        namespace: Option<String> = "Namespace",
        metric_name: Option<String> = "MetricName",
        dimensions: Vec<Dimension> = "Dimensions",
        start_time: Option<Time> = "StartTime",
        end_time: Option<Time> = "EndTime",
        period_s: Option<i64> = "Period",
        statistics: Vec<String> = "Statistics",
        extended_statistics: Vec<String> = "ExtendedStatistics",
        unit: Option<String> = "Unit",
    }

    pub GetMetricData {
        queries: Vec<MetricDataQuery> = "MetricDataQueries",
        start_time: Option<Time> = "StartTime",
        end_time: Option<Time> = "EndTime",
        scan_by: Option<String> = "ScanBy",
        max_datapoints: Option<i64> = "MaxDatapoints",
        next_token: Option<String> = "NextToken",
    }

    pub MetricDataQuery {
        id: Option<String> = "Id",
        metric_stat: Option<MetricStat> = "MetricStat",
        expression: Option<String> = "Expression",
        label: Option<String> = "Label",
        return_data: Option<bool> = "ReturnData",
        period_s: Option<i64> = "Period",
        account_id: Option<String> = "AccountId",
    }

    /// A metric and what is asked of it.
    pub MetricStat {
        metric: Metric = "Metric",
        period_s: Option<i64> = "Period",
        stat: Option<String> = "Stat",
        unit: Option<String> = "Unit",
    }

    pub Metric {
        namespace: Option<String> = "Namespace",
        metric_name: Option<String> = "MetricName",
        dimensions: Vec<Dimension> = "Dimensions",
    }

    pub ListMetrics {
        namespace: Option<String> = "Namespace",
        metric_name: Option<String> = "MetricName",
        dimensions: Vec<Dimension> = "Dimensions",
        recently_active: Option<String> = "RecentlyActive",
        owning_account: Option<String> = "OwningAccount",
        next_token: Option<String> = "NextToken",
    }

    pub PutMetricAlarm {
        alarm_name: Option<String> = "AlarmName",
        alarm_description: Option<String> = "AlarmDescription",
        actions_enabled: Option<bool> = "ActionsEnabled",
        ok_actions: Vec<String> = "OKActions",
        alarm_actions: Vec<String> = "AlarmActions",
        insufficient_data_actions: Vec<String> = "InsufficientDataActions",
        metric_name: Option<String> = "MetricName",
        namespace: Option<String> = "Namespace",
        statistic: Option<String> = "Statistic",
        extended_statistic: Option<String> = "ExtendedStatistic",
        dimensions: Vec<Dimension> = "Dimensions",
        period_s: Option<i64> = "Period",
        unit: Option<String> = "Unit",
        evaluation_periods: Option<i64> = "EvaluationPeriods",
        datapoints_to_alarm: Option<i64> = "DatapointsToAlarm",
        threshold: Option<f64> = "Threshold",
        comparison_operator: Option<String> = "ComparisonOperator",
        treat_missing_data: Option<String> = "TreatMissingData",
        evaluate_low_sample_count_percentile: Option<String> = "EvaluateLowSampleCountPercentile",
        metrics: Vec<MetricDataQuery> = "Metrics",
        threshold_metric_id: Option<String> = "ThresholdMetricId",
        tags: Vec<Tag> = "Tags",
    }

    pub DescribeAlarms {
        alarm_names: Vec<String> = "AlarmNames",
        alarm_name_prefix: Option<String> = "AlarmNamePrefix",
        alarm_types: Vec<String> = "AlarmTypes",
        children_of_alarm_name: Option<String> = "ChildrenOfAlarmName",
        parents_of_alarm_name: Option<String> = "ParentsOfAlarmName",
        state_value: Option<String> = "StateValue",
        action_prefix: Option<String> = "ActionPrefix",
        max_records: Option<i64> = "MaxRecords",
        next_token: Option<String> = "NextToken",
    }

    pub DescribeAlarmsForMetric {
        metric_name: Option<String> = "MetricName",
        namespace: Option<String> = "Namespace",
        statistic: Option<String> = "Statistic",
        extended_statistic: Option<String> = "ExtendedStatistic",
        dimensions: Vec<Dimension> = "Dimensions",
        period_s: Option<i64> = "Period",
        unit: Option<String> = "Unit",
    }

    pub DescribeAlarmHistory {
        alarm_name: Option<String> = "AlarmName",
        alarm_contributor_id: Option<String> = "AlarmContributorId",
        alarm_types: Vec<String> = "AlarmTypes",
        history_item_type: Option<String> = "HistoryItemType",
        start_date: Option<Time> = "StartDate",
        end_date: Option<Time> = "EndDate",
        max_records: Option<i64> = "MaxRecords",
        next_token: Option<String> = "NextToken",
        scan_by: Option<String> = "ScanBy",
    }

    pub AlarmNames {
        names: Vec<String> = "AlarmNames",
    }

    pub SetAlarmState {
        alarm_name: Option<String> = "AlarmName",
        state_value: Option<String> = "StateValue",
        state_reason: Option<String> = "StateReason",
        state_reason_data: Option<String> = "StateReasonData",
    }

    /// TagResource, UntagResource and ListTagsForResource.
    pub ResourceTags {
        resource_arn: Option<String> = "ResourceARN",
        tags: Vec<Tag> = "Tags",
        tag_keys: Vec<String> = "TagKeys",
    }
}

impl From<(String, String)> for Dimension {
    fn from((name, value): (String, String)) -> Dimension {
        Dimension { name: Some(name), value: Some(value) }
    }
}

impl From<(String, String)> for Tag {
    fn from((key, value): (String, String)) -> Tag {
        Tag { key, value }
    }
}

impl From<Tag> for (String, String) {
    fn from(Tag { key, value }: Tag) -> (String, String) {
        (key, value)
    }
}
