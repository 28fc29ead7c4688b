//! CloudWatch's three protocols agree: what one says the others say, too.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use millrace_wire::cloudwatch::{
    Action, AlarmHistoryItem, Answer, Datapoint, Dimension, Message, Metric, MetricAlarm,
    MetricDataResult, decode, response,
};
use millrace_wire::codec::Time;
use millrace_wire::protocol::{Protocol, detect};
use millrace_wire::{ApiError, Header, Request};

const PATH: &str = "/service/GraniteServiceVersion20100801/operation/";

fn call(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Action, ApiError> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| Header::new(name, value)).collect();
    let request = Request { path, ..Request::post(&headers, body) };
    let target = detect(&request).unwrap();
    decode(&target, &target.parameters, body)
}

fn json(action: &str, body: &str) -> Result<Action, ApiError> {
    let target = format!("GraniteServiceVersion20100801.{action}");
    let headers = [("x-amz-target", &*target), ("content-type", "application/x-amz-json-1.0")];
    call("/", &headers, body.as_bytes())
}

fn query(form: &str) -> Result<Action, ApiError> {
    let form = format!("{form}&Version=2010-08-01");
    call("/", &[("content-type", "application/x-www-form-urlencoded")], form.as_bytes())
}

fn cbor(action: &str, body: &[u8]) -> Result<Action, ApiError> {
    let headers = [("smithy-protocol", "rpc-v2-cbor"), ("content-type", "application/cbor")];
    call(&format!("{PATH}{action}"), &headers, body)
}

#[test]
fn requests_agree_in_all_protocols() {
    let of_json = json(
        "PutMetricData",
        r#"{"Namespace":"Shop","MetricData":[{"MetricName":"Sales","Dimensions":[{"Name":"A",
           "Value":"1"}],"Timestamp":1767323045.5,"Values":[1,2.5],"Counts":[3,4],"Unit":null}]}"#,
    )
    .unwrap();
    let of_query = query(
        "Action=PutMetricData&Namespace=Shop&MetricData.member.1.MetricName=Sales\
         &MetricData.member.1.Dimensions.member.1.Name=A&MetricData.member.1.Dimensions.member.1.Value=1\
         &MetricData.member.1.Timestamp=2026-01-02T03%3A04%3A05.500Z\
         &MetricData.member.1.Values.member.1=1&MetricData.member.1.Values.member.2=2.5\
         &MetricData.member.1.Counts.member.1=3&MetricData.member.1.Counts.member.2=4",
    )
    .unwrap();
    let mut body =
        b"\xbf\x69Namespace\x64Shop\x6aMetricData\x9f\xbf\x6aMetricName\x65Sales".to_vec();
    body.extend(b"\x6aDimensions\x81\xa2\x64Name\x61A\x65Value\x611\x69Timestamp\xc1\xfb");
    body.extend(1_767_323_045.5_f64.to_be_bytes());
    body.extend(b"\x66Values\x82\x01\xf9\x41\x00\x66Counts\x9f\x03\x04\xff\xff\xff\xff");
    let of_cbor = cbor("PutMetricData", &body).unwrap();

    let Action::PutMetricData(put) = &of_json else { panic!("{of_json:?}") };
    let datum = &put.metric_data[0];
    assert_eq!(datum.timestamp, Some(Time(1_767_323_045_500)));
    assert_eq!((&datum.values[..], &datum.counts[..]), (&[1.0, 2.5][..], &[3.0, 4.0][..]));
    assert_eq!(of_json, of_query);
    assert_eq!(of_json, of_cbor);
}

#[test]
fn wrong_types_are_refused_in_the_words_of_the_protocol() {
    let body = r#"{"Namespace":"S","MetricData":{}}"#;
    assert_eq!(json("PutMetricData", body).unwrap_err().shape, "SerializationException");
    assert_eq!(json("Nonsense", "{}").unwrap_err().code, "UnknownOperationException");
    let form = "Action=GetMetricStatistics&Period=x";
    assert_eq!(query(form).unwrap_err().code, "MalformedInput");
    let form = "Action=GetMetricStatistics&StartTime=yesterday";
    assert_eq!(query(form).unwrap_err().code, "MalformedInput");
    assert_eq!(query("Action=Nonsense&Namespace=S").unwrap_err().code, "InvalidAction");
    assert_eq!(cbor("ListMetrics", b"\x81\x01").unwrap_err().shape, "SerializationException");
}

fn alarms(alarms: Vec<MetricAlarm>, next_token: Option<&str>) -> Answer {
    let (composite_alarms, log_alarms) = (Vec::new(), Vec::new());
    let next_token = next_token.map(str::to_owned);
    Answer::DescribeAlarms { composite_alarms, alarms, log_alarms, next_token }
}

fn body(answer: &Answer, action: &str, protocol: Protocol) -> Vec<u8> {
    response(answer, action, protocol, "id-1").body
}

fn text(answer: &Answer, action: &str, protocol: Protocol) -> String {
    String::from_utf8(body(answer, action, protocol)).unwrap()
}

#[test]
fn statistics_in_all_protocols() {
    let datapoint = Datapoint {
        timestamp: Time(1_767_323_040_000),
        sum: Some(3.0),
        extended_statistics: Some(BTreeMap::from([("p95".to_owned(), 1.5)])),
        unit: "Count".to_owned(),
        ..Datapoint::default()
    };
    let answer =
        Answer::GetMetricStatistics { label: "Sales".to_owned(), datapoints: vec![datapoint] };
    let of = |protocol| text(&answer, "GetMetricStatistics", protocol);

    assert_eq!(
        of(Protocol::Json),
        r#"{"Label":"Sales","Datapoints":[{"Timestamp":1767323040.0,"Sum":3.0,"Unit":"Count","ExtendedStatistics":{"p95":1.5}}]}"#
    );
    assert_eq!(
        of(Protocol::Query),
        "<GetMetricStatisticsResponse xmlns=\"http://monitoring.amazonaws.com/doc/2010-08-01/\">\
         <GetMetricStatisticsResult><Label>Sales</Label><Datapoints><member>\
         <Timestamp>2026-01-02T03:04:00Z</Timestamp><Sum>3.0</Sum><Unit>Count</Unit>\
         <ExtendedStatistics><entry><key>p95</key><value>1.5</value></entry></ExtendedStatistics>\
         </member></Datapoints></GetMetricStatisticsResult><ResponseMetadata><RequestId>id-1\
         </RequestId></ResponseMetadata></GetMetricStatisticsResponse>"
    );
    let mut cbor = b"\xa2\x65Label\x65Sales\x6aDatapoints\x81\xa4\x69Timestamp\xc1\xfb".to_vec();
    cbor.extend(1_767_323_040_f64.to_be_bytes());
    cbor.extend(b"\x63Sum\xfb\x40\x08\0\0\0\0\0\0\x64Unit\x65Count");
    cbor.extend(b"\x72ExtendedStatistics\xa1\x63p95\xfb\x3f\xf8\0\0\0\0\0\0");
    assert_eq!(body(&answer, "GetMetricStatistics", Protocol::Cbor), cbor);
}

#[test]
fn an_answer_without_content_is_empty() {
    let of = |action, protocol| text(&Answer::Done, action, protocol);

    assert_eq!(of("PutMetricData", Protocol::Json), "{}");
    assert_eq!(body(&Answer::Done, "PutMetricData", Protocol::Cbor), b"\xa0");
    assert!(!of("PutMetricData", Protocol::Query).contains("Result"));
    for action in ["TagResource", "UntagResource"] {
        let result = format!("<{action}Result></{action}Result>");
        assert!(text(&Answer::Empty {}, action, Protocol::Query).contains(&result));
    }
}

#[test]
fn lists_are_there_even_if_empty_except_the_messages_of_a_result() {
    let result = MetricDataResult {
        id: "m".to_owned(),
        label: "M".to_owned(),
        timestamps: Vec::new(),
        values: Vec::new(),
        status_code: "Complete".to_owned(),
        messages: None,
    };
    let results = vec![result];
    let answer = Answer::GetMetricData { results, messages: Vec::new(), next_token: None };
    assert_eq!(
        text(&answer, "GetMetricData", Protocol::Json),
        r#"{"MetricDataResults":[{"Id":"m","Label":"M","Timestamps":[],"Values":[],"StatusCode":"Complete"}],"Messages":[]}"#
    );
    let xml = text(&answer, "GetMetricData", Protocol::Query);
    assert!(
        xml.contains("<Timestamps/><Values/><StatusCode>Complete</StatusCode></member>"),
        "{xml}"
    );
    assert!(xml.contains("</MetricDataResults><Messages/>"), "{xml}");
    let cbor = body(&answer, "GetMetricData", Protocol::Cbor);
    assert_eq!(cbor.windows(9).filter(|bytes| bytes == b"\x68Messages").count(), 1);
}

#[test]
fn answers_have_the_members_of_their_action() {
    let next_token = || Some("t".to_owned());
    let item = AlarmHistoryItem {
        alarm_name: "a".to_owned(),
        alarm_type: "MetricAlarm".to_owned(),
        timestamp: Time(1500),
        item_type: "StateUpdate".to_owned(),
        summary: "s".to_owned(),
        data: "{}".to_owned(),
    };
    let metric = Metric {
        namespace: Some("N".to_owned()),
        metric_name: Some("M".to_owned()),
        dimensions: vec![("d".to_owned(), "v".to_owned()).into()],
    };
    let datapoint = Datapoint { unit: "None".to_owned(), ..Datapoint::default() };
    for (answer, expected) in [
        (alarms(vec![], None), r#"{"CompositeAlarms":[],"MetricAlarms":[],"LogAlarms":[]}"#),
        (Answer::DescribeAlarmsForMetric { alarms: vec![] }, r#"{"MetricAlarms":[]}"#),
        (
            Answer::DescribeAlarmHistory { items: vec![item], next_token: next_token() },
            r#"{"AlarmHistoryItems":[{"AlarmName":"a","AlarmType":"MetricAlarm","Timestamp":1.5,"HistoryItemType":"StateUpdate","HistorySummary":"s","HistoryData":"{}"}],"NextToken":"t"}"#,
        ),
        (
            Answer::ListMetrics { metrics: vec![metric], next_token: next_token() },
            r#"{"Metrics":[{"Namespace":"N","MetricName":"M","Dimensions":[{"Name":"d","Value":"v"}]}],"NextToken":"t"}"#,
        ),
        (
            Answer::ListTagsForResource { tags: vec![("k".to_owned(), "v".to_owned()).into()] },
            r#"{"Tags":[{"Key":"k","Value":"v"}]}"#,
        ),
        (
            Answer::GetMetricStatistics { label: "L".to_owned(), datapoints: vec![datapoint] },
            r#"{"Label":"L","Datapoints":[{"Timestamp":0.0,"Unit":"None"}]}"#,
        ),
    ] {
        let response = response(&answer, "Any", Protocol::Json, "id-1");
        assert_eq!(str::from_utf8(&response.body).unwrap(), expected);
        assert_eq!((response.status, &*response.request_id), (200, "id-1"));
    }
}

#[test]
fn requests_without_a_body_are_empty() {
    for (action, of_cbor) in [("", cbor("ListMetrics", b"")), ("{}", cbor("ListMetrics", b"\xa0"))]
    {
        assert_eq!(json("ListMetrics", action).unwrap(), of_cbor.unwrap());
    }
    let no_cbor = "body is not CBOR, or has more than 65536 structures";
    for (refusal, message) in [
        (cbor("ListMetrics", b"\x81"), no_cbor),
        (cbor("ListMetrics", b"\x80"), "body is not a structure"),
        (json("ListMetrics", "[]"), "body is not a structure"),
    ] {
        assert_eq!(refusal.unwrap_err().message, message);
    }
}

#[test]
fn series_in_all_protocols() {
    let result = MetricDataResult {
        id: "m".to_owned(),
        label: "<M>".to_owned(),
        timestamps: vec![Time(60_000), Time(500)],
        values: vec![-0.5, 1e16],
        status_code: "PartialData".to_owned(),
        messages: Some(vec![Message { code: "c".to_owned(), value: "v".to_owned() }]),
    };
    let results = vec![result];
    let answer = Answer::GetMetricData { results, messages: vec![], next_token: Some("t".into()) };

    let json = r#"{"MetricDataResults":[{"Id":"m","Label":"<M>","Timestamps":[60.0,0.5],"Values":[-0.5,1e16],"StatusCode":"PartialData","Messages":[{"Code":"c","Value":"v"}]}],"Messages":[],"NextToken":"t"}"#;
    assert_eq!(text(&answer, "GetMetricData", Protocol::Json), json);
    assert_eq!(
        text(&answer, "GetMetricData", Protocol::QueryAsJson),
        format!(
            r#"{{"GetMetricDataResponse":{{"GetMetricDataResult":{json},"ResponseMetadata":{{"RequestId":"id-1"}}}}}}"#
        )
    );
    let xml = text(&answer, "GetMetricData", Protocol::Query);
    assert!(
        xml.contains(
            "<MetricDataResults><member><Id>m</Id><Label>&lt;M&gt;</Label><Timestamps>\
             <member>1970-01-01T00:01:00Z</member><member>1970-01-01T00:00:00.500Z</member>\
             </Timestamps><Values><member>-0.5</member><member>1e16</member></Values>\
             <StatusCode>PartialData</StatusCode><Messages><member><Code>c</Code>\
             <Value>v</Value></member></Messages></member></MetricDataResults><Messages/>\
             <NextToken>t</NextToken></GetMetricDataResult>"
        ),
        "{xml}"
    );
    let cbor = response(&answer, "GetMetricData", Protocol::Cbor, "id-1");
    assert_eq!(cbor.headers, [("Smithy-Protocol", "rpc-v2-cbor".to_owned())]);
    assert!(response(&answer, "GetMetricData", Protocol::Json, "id-1").headers.is_empty());
    let mut values = b"\x66Values\x82\xfb".to_vec();
    values.extend((-0.5_f64).to_be_bytes());
    values.push(0xfb);
    values.extend(1e16_f64.to_be_bytes());
    assert!(cbor.body.windows(values.len()).any(|bytes| bytes == values));
}

#[test]
fn several_extended_statistics_are_members_of_one_object() {
    let datapoint = Datapoint {
        extended_statistics: Some(BTreeMap::from([("p95".into(), 1.5), ("p99".into(), 2.0)])),
        unit: "None".to_owned(),
        ..Datapoint::default()
    };
    let answer = Answer::GetMetricStatistics { label: String::new(), datapoints: vec![datapoint] };

    let json = text(&answer, "GetMetricStatistics", Protocol::Json);
    assert!(json.contains(r#""ExtendedStatistics":{"p95":1.5,"p99":2.0}"#), "{json}");
}

/// A metric of a query is a structure within a structure.
#[test]
fn queries_name_metrics_alike_in_json_and_parameters() {
    let of_json = json(
        "GetMetricData",
        r#"{"MetricDataQueries":[{"Id":"m","MetricStat":{"Metric":{"Namespace":"N","MetricName":"M",
           "Dimensions":[{"Name":"A","Value":"1"}]},"Period":60,"Stat":"p95","Unit":"Count"},
           "ReturnData":false}]}"#,
    )
    .unwrap();
    let stat = "MetricDataQueries.member.1.MetricStat";
    let of_query = query(&format!(
        "Action=GetMetricData&MetricDataQueries.member.1.Id=m&{stat}.Metric.Namespace=N\
         &{stat}.Metric.MetricName=M&{stat}.Metric.Dimensions.member.1.Name=A\
         &{stat}.Metric.Dimensions.member.1.Value=1&{stat}.Period=60&{stat}.Stat=p95\
         &{stat}.Unit=Count&MetricDataQueries.member.1.ReturnData=false"
    ))
    .unwrap();

    let Action::GetMetricData(get) = &of_json else { panic!("{of_json:?}") };
    let stat = get.queries[0].metric_stat.as_ref().unwrap();
    assert_eq!(stat.metric.metric_name.as_deref(), Some("M"));
    assert_eq!((stat.metric.dimensions.len(), stat.period_s), (1, Some(60)));
    assert_eq!(of_json, of_query);
}

#[test]
fn an_alarm_shows_what_was_put() {
    let dimension = Dimension { name: Some("QueueName".into()), value: Some("a&b".into()) };
    let alarm = MetricAlarm {
        arn: "arn".to_owned(),
        state_value: "OK".to_owned(),
        alarm_name: Some("n".into()),
        dimensions: vec![dimension],
        threshold: Some(1e21),
        ..MetricAlarm::default()
    };
    let answer = alarms(vec![alarm], Some("t"));

    let xml = text(&answer, "DescribeAlarms", Protocol::Query);
    let json = text(&answer, "DescribeAlarms", Protocol::Json);

    assert!(xml.contains("<Name>QueueName</Name><Value>a&amp;b</Value>"), "{xml}");
    assert!(xml.contains("<OKActions/>") && xml.contains("<NextToken>t</NextToken>"), "{xml}");
    assert!(json.contains(r#""Threshold":1e21"#) && json.contains(r#""OKActions":[]"#), "{json}");
    assert!(!json.contains("TreatMissingData"), "{json}");
}

#[test]
fn members_of_an_alarm_come_in_cloudwatchs_order() {
    let some = || Some("x".to_owned());
    let alarm = MetricAlarm {
        namespace: some(),
        statistic: some(),
        extended_statistic: some(),
        unit: some(),
        evaluation_periods: Some(2),
        datapoints_to_alarm: Some(1),
        threshold: Some(1.0),
        comparison_operator: some(),
        treat_missing_data: some(),
        evaluate_low_sample_count_percentile: some(),
        threshold_metric_id: some(),
        ..MetricAlarm::default()
    };
    let answer = alarms(vec![alarm], None);

    let xml = text(&answer, "DescribeAlarms", Protocol::Query);

    let names = [
        "Statistic",
        "Dimensions",
        "Unit",
        "EvaluationPeriods",
        "Threshold",
        "ComparisonOperator",
        "ExtendedStatistic",
        "TreatMissingData",
        "EvaluateLowSampleCountPercentile",
        "DatapointsToAlarm",
        "ThresholdMetricId",
        "StateTransitionedTimestamp",
    ];
    let place = |name: &&str| xml.find(&format!("<{name}")).unwrap();
    assert!(names.iter().map(place).is_sorted(), "{xml}");
}
