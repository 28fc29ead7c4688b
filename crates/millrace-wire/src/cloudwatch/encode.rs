//! Answers in each protocol.

use super::output::Node;
use super::requests::{Dimension, MetricDataQuery, MetricStat};
use super::service::SERVICE;
use super::types::{AlarmHistoryItem, Answer, Datapoint, MetricAlarm, MetricDataResult, MetricId};
use crate::Response;
use crate::protocol::Protocol;

/// The answer to `action` as it goes out.
pub fn response(answer: &Answer, action: &str, protocol: Protocol, request_id: &str) -> Response {
    let node = tree(answer);
    let mut body = Vec::with_capacity(1024);
    match protocol {
        Protocol::Json => node.put_json(&mut body),
        Protocol::Cbor => node.put_cbor(&mut body),
        Protocol::Query => put_query(&node, action, request_id, &mut body),
        Protocol::QueryAsJson => {
            let metadata = Node::Structure(vec![("RequestId", text(request_id))]);
            for part in [&b"{\""[..], action.as_bytes(), b"Response\":{\"", action.as_bytes()] {
                body.extend_from_slice(part);
            }
            body.extend_from_slice(b"Result\":");
            node.put_json(&mut body);
            body.extend_from_slice(b",\"ResponseMetadata\":");
            metadata.put_json(&mut body);
            body.extend_from_slice(b"}}");
        }
    }
    let mut response = Response::new(200, protocol.content_type(), body);
    response.request_id = request_id.to_owned();
    if protocol == Protocol::Cbor {
        response.headers.push(("Smithy-Protocol", "rpc-v2-cbor".to_owned()));
    }
    response
}

fn put_query(node: &Node, action: &str, request_id: &str, out: &mut Vec<u8>) {
    let namespace = SERVICE.xml_namespace;
    put(out, &["<", action, "Response xmlns=\"", namespace, "\">"]);
    // Of the answers without content, these two have an element for it.
    let has_result = !matches!(node, Node::Structure(members) if members.is_empty())
        || matches!(action, "TagResource" | "UntagResource");
    if has_result {
        put(out, &["<", action, "Result>"]);
        node.put_xml(out);
        put(out, &["</", action, "Result>"]);
    }
    put(out, &["<ResponseMetadata><RequestId>", request_id, "</RequestId></ResponseMetadata>"]);
    put(out, &["</", action, "Response>"]);
}

fn put(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

fn tree(answer: &Answer) -> Node {
    let (name, list, next_token) = match answer {
        Answer::Done => return Node::Structure(Vec::new()),
        Answer::GetMetricStatistics { label, datapoints } => {
            let datapoints = list(datapoints, datapoint);
            return Node::Structure(vec![("Label", text(label)), ("Datapoints", datapoints)]);
        }
        Answer::GetMetricData { results, messages, next_token } => {
            let mut members = vec![
                ("MetricDataResults", list(results, metric_data_result)),
                ("Messages", list(messages, message)),
            ];
            members.extend(next_token.as_ref().map(|token| ("NextToken", text(token))));
            return Node::Structure(members);
        }
        Answer::DescribeAlarms { alarms, next_token } => {
            let mut members = vec![
                ("CompositeAlarms", Node::List(Vec::new())),
                ("MetricAlarms", list(alarms, metric_alarm)),
                ("LogAlarms", Node::List(Vec::new())),
            ];
            members.extend(next_token.as_ref().map(|token| ("NextToken", text(token))));
            return Node::Structure(members);
        }
        Answer::DescribeAlarmsForMetric { alarms } => {
            ("MetricAlarms", list(alarms, metric_alarm), &None)
        }
        Answer::DescribeAlarmHistory { items, next_token } => {
            ("AlarmHistoryItems", list(items, history_item), next_token)
        }
        Answer::ListMetrics { metrics, next_token } => {
            ("Metrics", list(metrics, metric_id), next_token)
        }
        Answer::ListTagsForResource { tags } => ("Tags", list(tags, tag), &None),
    };
    let mut members = vec![(name, list)];
    members.extend(next_token.as_ref().map(|token| ("NextToken", text(token))));
    Node::Structure(members)
}

fn text(value: &str) -> Node {
    Node::Text(value.to_owned())
}

fn list<T>(values: &[T], node: impl Fn(&T) -> Node) -> Node {
    Node::List(values.iter().map(node).collect())
}

fn message((code, value): &(String, String)) -> Node {
    Node::Structure(vec![("Code", text(code)), ("Value", text(value))])
}

fn tag((key, value): &(String, String)) -> Node {
    Node::Structure(vec![("Key", text(key)), ("Value", text(value))])
}

fn pair(name: &str, value: &str) -> Node {
    Node::Structure(vec![("Name", text(name)), ("Value", text(value))])
}

fn datapoint(point: &Datapoint) -> Node {
    let mut members = vec![("Timestamp", Node::Time(point.timestamp_ms))];
    let statistics = point.statistics.iter();
    members.extend(statistics.map(|(name, value)| (*name, Node::Float(*value))));
    members.push(("Unit", text(point.unit)));
    if !point.extended_statistics.is_empty() {
        members.push(("ExtendedStatistics", Node::Map(point.extended_statistics.clone())));
    }
    Node::Structure(members)
}

fn metric_data_result(result: &MetricDataResult) -> Node {
    let mut members = vec![
        ("Id", text(&result.id)),
        ("Label", text(&result.label)),
        ("Timestamps", list(&result.timestamps_ms, |time| Node::Time(*time))),
        ("Values", list(&result.values, |value| Node::Float(*value))),
        ("StatusCode", text(result.status_code)),
    ];
    if !result.messages.is_empty() {
        members.push(("Messages", list(&result.messages, message)));
    }
    Node::Structure(members)
}

fn metric_id(metric: &MetricId) -> Node {
    Node::Structure(vec![
        ("Namespace", text(&metric.namespace)),
        ("MetricName", text(&metric.metric_name)),
        ("Dimensions", list(&metric.dimensions, |(name, value)| pair(name, value))),
    ])
}

fn history_item(item: &AlarmHistoryItem) -> Node {
    Node::Structure(vec![
        ("AlarmName", text(&item.alarm_name)),
        ("AlarmType", text("MetricAlarm")),
        ("Timestamp", Node::Time(item.timestamp_ms)),
        ("HistoryItemType", text(item.item_type)),
        ("HistorySummary", text(&item.summary)),
        ("HistoryData", text(&item.data)),
    ])
}

/// The order of the members is that of CloudWatch's XML.
fn metric_alarm(shown: &MetricAlarm) -> Node {
    let alarm = &shown.alarm;
    let some_text = |value: &Option<String>| value.as_deref().map(text);
    let texts = |values: &[String]| Some(list(values, |value| text(value)));
    let integer = |value: Option<i64>| value.map(Node::Integer);
    let metrics = (!alarm.metrics.is_empty()).then(|| list(&alarm.metrics, metric_data_query));
    // An alarm on an expression has none of its own.
    let dimensions = metrics.is_none().then(|| list(&alarm.dimensions, dimension));
    let members = [
        ("AlarmName", some_text(&alarm.alarm_name)),
        ("AlarmArn", Some(text(&shown.arn))),
        ("AlarmDescription", some_text(&alarm.alarm_description)),
        ("AlarmConfigurationUpdatedTimestamp", Some(Node::Time(shown.configured_at_ms))),
        ("ActionsEnabled", Some(Node::Truth(alarm.actions_enabled.unwrap_or(true)))),
        ("OKActions", texts(&alarm.ok_actions)),
        ("AlarmActions", texts(&alarm.alarm_actions)),
        ("InsufficientDataActions", texts(&alarm.insufficient_data_actions)),
        ("StateValue", Some(text(shown.state_value))),
        ("StateReason", Some(text(&shown.state_reason))),
        ("StateReasonData", some_text(&shown.state_reason_data)),
        ("StateUpdatedTimestamp", Some(Node::Time(shown.state_updated_at_ms))),
        ("MetricName", some_text(&alarm.metric_name)),
        ("Namespace", some_text(&alarm.namespace)),
        ("Statistic", some_text(&alarm.statistic)),
        ("Dimensions", dimensions.or_else(|| Some(Node::List(Vec::new())))),
        ("Period", integer(alarm.period_s)),
        ("Unit", some_text(&alarm.unit)),
        ("EvaluationPeriods", integer(alarm.evaluation_periods)),
        ("Threshold", alarm.threshold.map(Node::Float)),
        ("ComparisonOperator", some_text(&alarm.comparison_operator)),
        ("ExtendedStatistic", some_text(&alarm.extended_statistic)),
        ("TreatMissingData", some_text(&alarm.treat_missing_data)),
        (
            "EvaluateLowSampleCountPercentile",
            some_text(&alarm.evaluate_low_sample_count_percentile),
        ),
        ("DatapointsToAlarm", integer(alarm.datapoints_to_alarm)),
        ("Metrics", metrics),
        ("ThresholdMetricId", some_text(&alarm.threshold_metric_id)),
        ("StateTransitionedTimestamp", Some(Node::Time(shown.state_transitioned_at_ms))),
    ];
    Node::Structure(members.into_iter().filter_map(|(name, node)| Some((name, node?))).collect())
}

fn dimension(dimension: &Dimension) -> Node {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    pair(&part(&dimension.name), &part(&dimension.value))
}

fn metric_data_query(query: &MetricDataQuery) -> Node {
    let members = [
        ("Id", query.id.as_deref().map(text)),
        ("MetricStat", query.metric_stat.as_ref().map(metric_stat)),
        ("Expression", query.expression.as_deref().map(text)),
        ("Label", query.label.as_deref().map(text)),
        ("ReturnData", query.return_data.map(Node::Truth)),
        ("Period", query.period_s.map(Node::Integer)),
        ("AccountId", query.account_id.as_deref().map(text)),
    ];
    Node::Structure(members.into_iter().filter_map(|(name, node)| Some((name, node?))).collect())
}

fn metric_stat(stat: &MetricStat) -> Node {
    let metric = vec![
        ("Namespace", text(stat.namespace.as_deref().unwrap_or_default())),
        ("MetricName", text(stat.metric_name.as_deref().unwrap_or_default())),
        ("Dimensions", list(&stat.dimensions, dimension)),
    ];
    let members = [
        ("Metric", Some(Node::Structure(metric))),
        ("Period", stat.period_s.map(Node::Integer)),
        ("Stat", stat.stat.as_deref().map(text)),
        ("Unit", stat.unit.as_deref().map(text)),
    ];
    Node::Structure(members.into_iter().filter_map(|(name, node)| Some((name, node?))).collect())
}
