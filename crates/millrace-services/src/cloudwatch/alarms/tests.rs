use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::time::Duration;

use millrace_metrics::MetricStore;
use millrace_wire::cloudwatch::{DescribeAlarmHistory, MetricDataQuery, PutMetricAlarm};

use super::*;
use crate::cloudwatch::act::tests::shards;
use crate::cloudwatch::put_alarm::tests::{example, example_of_queries};
use crate::cloudwatch::{Monitor, QueueAccess};

pub(in crate::cloudwatch) fn service() -> CloudWatch {
    let shards = shards();
    let store = Arc::new(MetricStore::open(None, shards.now()).unwrap());
    let monitor = Monitor::start(shards.clone(), store, QueueAccess::Open).unwrap();
    let monitor = Arc::new(monitor);
    CloudWatch::new(shards, monitor)
}

pub(in crate::cloudwatch) fn scope() -> Scope {
    Scope { region: "us-east-1".into(), account: "000000000000".into() }
}

#[tokio::test]
async fn nothing_is_changed_where_the_journal_takes_nothing() {
    let service = service();
    service.put_metric_alarm(&scope(), &example()).await.unwrap();
    service.shards.home().unwrap().log().close();
    let names = AlarmNames { names: vec!["many".into()] };

    let put = service.put_metric_alarm(&scope(), &example()).await.unwrap_err();
    let deleted = service.delete_alarms(&scope(), &names).await.unwrap_err();
    assert_eq!((put.status, deleted.status), (503, 503));
}

#[tokio::test]
async fn an_alarm_on_what_never_has_a_value_is_refused() {
    let service = service();
    let put = async |text: &str| {
        let query = MetricDataQuery {
            id: Some("e".into()),
            expression: Some(text.into()),
            ..MetricDataQuery::default()
        };
        let input = PutMetricAlarm { metrics: vec![query], ..example_of_queries() };
        let refused = service.put_metric_alarm(&scope(), &input).await.err();
        refused.map(|error| (error.code, error.message.into_owned()))
    };

    assert_eq!(put("TIME_SERIES(1)").await, None);
    let search = "SEARCH is not supported on Metric Alarms.".to_owned();
    assert_eq!(put("SUM(SEARCH('x', 'Sum'))").await, Some(("ValidationError", search)));
    let unknown = "Error in expression 'e' [m1 is not defined]".to_owned();
    assert_eq!(put("SUM([m1])").await, Some(("ValidationError", unknown)));
}

#[test]
fn children_are_asked_for_alone() {
    let of = |change: fn(&mut DescribeAlarms)| {
        let children_of_alarm_name = Some("all".into());
        let mut input = DescribeAlarms { children_of_alarm_name, ..DescribeAlarms::default() };
        change(&mut input);
        check_relation(&input).map_err(|error| error.code)
    };

    assert_eq!(of(|input| input.max_records = Some(5)), Ok(()));
    assert_eq!(of(|input| input.state_value = Some("OK".into())), Err("ValidationError"));
    assert_eq!(of(|input| input.alarm_names = vec!["a".into()]), Err("ValidationError"));
    assert_eq!(of(|input| input.alarm_types = vec!["a".into()]), Err("ValidationError"));
    assert_eq!(of(|input| input.parents_of_alarm_name = Some("a".into())), Err("ValidationError"));
}

#[tokio::test]
async fn alarms_are_nobodys_but_their_scopes() {
    let service = service();
    let far = Scope { region: "eu-west-1".into(), ..scope() };
    let other = Scope { account: "111111111111".into(), ..scope() };
    service.put_metric_alarm(&scope(), &example()).await.unwrap();
    let arn = |scope: &Scope, name: &str| {
        format!("arn:aws:cloudwatch:{}:{}:alarm:{name}", scope.region, scope.account)
    };
    let tags = async |scope: &Scope, arn: String| {
        let resource_arn = Some(arn);
        let (tags, tag_keys) = (vec![("a".to_owned(), "b".to_owned()).into()], Vec::new());
        let input = ResourceTags { resource_arn, tags, tag_keys };
        service.tag_resource(scope, &input).await.err().map(|error| error.code)
    };

    let names = AlarmNames { names: vec!["many".into()] };
    for scope in [&far, &other] {
        let described = service.describe_alarms(scope, &DescribeAlarms::default()).await;
        assert!(
            matches!(described, Ok(Answer::DescribeAlarms { alarms, .. }) if alarms.is_empty())
        );
        let of_metric = DescribeAlarmsForMetric {
            namespace: Some("AWS/SQS".into()),
            metric_name: Some("NumberOfMessagesSent".into()),
            ..DescribeAlarmsForMetric::default()
        };
        let described = service.describe_alarms_for_metric(scope, &of_metric).await;
        assert!(
            matches!(described, Ok(Answer::DescribeAlarmsForMetric { alarms }) if alarms.is_empty())
        );
        let history = DescribeAlarmHistory::default();
        let told = service.describe_alarm_history(scope, &history).await;
        assert!(matches!(told, Ok(Answer::DescribeAlarmHistory { items, .. }) if items.is_empty()));
        service.delete_alarms(scope, &names).await.unwrap();
        service.set_actions_enabled(scope, &names, Switch::Off).await.unwrap();
        let refused = tags(scope, arn(&super::tests::scope(), "many")).await;
        assert_eq!(refused, Some("InvalidParameterValue"));
        let refused = tags(scope, arn(scope, "many")).await;
        assert_eq!(refused, Some("ResourceNotFoundException"));
    }
    let kept = lock(&service.alarms).alarm(&scope(), "many").cloned().unwrap();
    assert!(kept.actions_enabled && kept.tags.is_empty());
    assert_eq!(tags(&scope(), arn(&scope(), "many")).await, None);
    let of_queue = arn(&scope(), "many").replace("cloudwatch", "sqs");
    assert_eq!(tags(&scope(), of_queue).await, Some("InvalidParameterValue"));
    let of_rule = arn(&scope(), "many").replace(":alarm:", ":insight-rule/");
    assert_eq!(tags(&scope(), of_rule).await, Some("ResourceNotFoundException"));
    service.delete_alarms(&scope(), &names).await.unwrap();
    assert!(lock(&service.alarms).alarm(&scope(), "many").is_none());
}

#[tokio::test]
async fn alarms_are_described_by_name_state_and_action_and_page() {
    let service = service();
    for name in ["a1", "a2", "b1"] {
        let action = format!("arn:aws:sqs:us-east-1:000000000000:{name}");
        let more = "arn:aws:sns:us-east-1:000000000000:t".to_owned();
        let input = PutMetricAlarm {
            alarm_name: Some(name.into()),
            ok_actions: vec![more, action],
            // The thread, which may evaluate it at any time, leaves its state alone.
            treat_missing_data: Some("ignore".into()),
            ..example()
        };
        service.put_metric_alarm(&scope(), &input).await.unwrap();
    }
    let why = ("by hand".to_owned(), None);
    let now = service.shards.now();
    lock(&service.alarms).set_state(&scope(), "a2", State::Alarm, why, now).unwrap();
    let found = async |change: &dyn Fn(&mut DescribeAlarms)| {
        let mut input = DescribeAlarms::default();
        change(&mut input);
        match service.describe_alarms(&scope(), &input).await.unwrap() {
            Answer::DescribeAlarms { alarms, next_token, .. } => {
                let names = alarms.into_iter().map(|alarm| alarm.alarm_name.unwrap());
                (names.collect::<Vec<_>>().join(" "), next_token)
            }
            _ => panic!("another answer"),
        }
    };
    let names = async |change: &dyn Fn(&mut DescribeAlarms)| found(change).await.0;

    assert_eq!(names(&|_| ()).await, "a1 a2 b1");
    assert_eq!(names(&|input| input.alarm_names = vec!["b1".into(), "c".into()]).await, "b1");
    assert_eq!(names(&|input| input.alarm_name_prefix = Some("a".into())).await, "a1 a2");
    assert_eq!(names(&|input| input.alarm_name_prefix = Some("1".into())).await, "");
    assert_eq!(names(&|input| input.state_value = Some("ALARM".into())).await, "a2");
    let action = "arn:aws:sqs:us-east-1:000000000000:a";
    assert_eq!(names(&|input| input.action_prefix = Some(action.into())).await, "a1 a2");
    assert_eq!(names(&|input| input.action_prefix = Some("a1".into())).await, "");
    assert_eq!(names(&|input| input.alarm_types = vec!["CompositeAlarm".into()]).await, "");
    assert_eq!(names(&|input| input.children_of_alarm_name = Some("a1".into())).await, "");
    assert_eq!(names(&|input| input.parents_of_alarm_name = Some("a1".into())).await, "");
    let children_of_alarm_name = Some("a1".to_owned());
    let state_value = Some("OK".to_owned());
    let both = DescribeAlarms { children_of_alarm_name, state_value, ..DescribeAlarms::default() };
    assert!(service.describe_alarms(&scope(), &both).await.is_err());
    let (first, token) = found(&|input| input.max_records = Some(2)).await;
    assert_eq!(first, "a1 a2");
    let next = |input: &mut DescribeAlarms| {
        (input.max_records, input.next_token) = (Some(1), token.clone());
    };
    assert_eq!(found(&next).await, ("b1".to_owned(), None));
    let many = DescribeAlarms { alarm_names: vec!["a".into(); 101], ..DescribeAlarms::default() };
    assert!(service.describe_alarms(&scope(), &many).await.is_err());
    let many = AlarmNames { names: vec!["a".into(); 101] };
    assert!(service.delete_alarms(&scope(), &many).await.is_err());
    let none = AlarmNames { names: Vec::new() };
    assert!(service.delete_alarms(&scope(), &none).await.is_err());
}

#[tokio::test]
async fn alarms_of_a_metric_are_found_by_statistics_and_units_that_there_are() {
    let service = service();
    service.put_metric_alarm(&scope(), &example()).await.unwrap();
    let found = async |statistic: Option<&str>, unit: Option<&str>| {
        let input = DescribeAlarmsForMetric {
            namespace: Some("AWS/SQS".into()),
            metric_name: Some("NumberOfMessagesSent".into()),
            statistic: statistic.map(str::to_owned),
            unit: unit.map(str::to_owned),
            ..DescribeAlarmsForMetric::default()
        };
        match service.describe_alarms_for_metric(&scope(), &input).await {
            Ok(Answer::DescribeAlarmsForMetric { alarms }) => Ok(alarms.len()),
            Ok(_) => panic!("another answer"),
            Err(error) => Err(error.code),
        }
    };

    assert_eq!(found(Some("Sum"), None).await, Ok(1));
    assert_eq!(found(Some("Average"), None).await, Ok(0));
    assert_eq!(found(None, Some("Bytes")).await, Ok(0));
    assert_eq!(found(Some("sum"), None).await, Err("ValidationError"));
    assert_eq!(found(None, Some("count")).await, Err("ValidationError"));
}

#[test]
fn no_worker_waits_while_the_alarms_are_being_changed() {
    let service = service();
    let book = service.alarms.clone();
    let changing = lock(&book);
    let (sender, polled) = channel();
    std::thread::spawn(move || {
        let scope = scope();
        let arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:many";
        let tags = ResourceTags { resource_arn: Some(arn.into()), ..ResourceTags::default() };
        let alarms = DescribeAlarms::default();
        let context = &mut Context::from_waker(Waker::noop());
        let is_pending = [
            std::pin::pin!(service.describe_alarms(&scope, &alarms)).poll(context).is_pending(),
            std::pin::pin!(service.list_tags(&scope, &tags)).poll(context).is_pending(),
        ];
        sender.send(is_pending).unwrap();
    });

    assert_eq!(polled.recv_timeout(Duration::from_secs(60)), Ok([true; 2]));
    drop(changing);
}
