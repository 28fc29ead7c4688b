use millrace_metrics::{Entity, Record, Summary, Unit};

use super::*;
use crate::cloudwatch::alarms::tests::{scope, service};

fn count_of(metric: &str, period_s: i64) -> MetricDataQuery {
    let of = Metric {
        namespace: Some("Shop".into()),
        metric_name: Some(metric.into()),
        dimensions: Vec::new(),
    };
    let stat = MetricStat {
        metric: of,
        period_s: Some(period_s),
        stat: Some("Sum".into()),
        ..MetricStat::default()
    };
    MetricDataQuery {
        id: Some(metric.to_lowercase()),
        metric_stat: Some(stat),
        ..MetricDataQuery::default()
    }
}

#[tokio::test]
async fn periods_begin_at_the_start_whichever_action_asks() {
    let service = service();
    // A minute before a full hour some hours ago, and 40 seconds.
    let hour_s = service.shards.now().seconds() / 3_600 * 3_600 - 5 * 3_600;
    let start_s = hour_s - 60;
    let entity = Entity::new(scope(), "Shop", Vec::new());
    for minute in 0..80 {
        let (time_s, summary) = (start_s + minute * 60, Summary::of(1.0));
        let (metric, unit) = ("Sales", Unit::Count);
        let record = Record { entity: &entity, metric, unit, time_s, summary };
        service.monitor.store().record(&[record]).unwrap();
    }
    let (start_ms, end_ms) = ((start_s + 40) as i64 * 1000, (start_s + 50 * 60) as i64 * 1000);
    let (start_time, end_time) = (Some(Time(start_ms)), Some(Time(end_ms)));

    let search = "SEARCH('{Shop} MetricName=\"Sales\"', 'Sum', 1200)";
    let of = |id: &str, text: &str| MetricDataQuery {
        id: Some(id.into()),
        expression: Some(text.into()),
        ..MetricDataQuery::default()
    };
    let queries = vec![count_of("Sales", 1_200), of("e1", search), of("e2", "FILL(sales, 0)")];
    let input = GetMetricData { queries, start_time, end_time, ..GetMetricData::default() };
    let Answer::GetMetricData { results, .. } =
        service.get_metric_data(&scope(), &input).await.unwrap()
    else {
        panic!("another answer");
    };
    let input = GetMetricStatistics {
        namespace: Some("Shop".into()),
        metric_name: Some("Sales".into()),
        start_time,
        end_time,
        period_s: Some(1_200),
        statistics: vec!["Sum".into()],
        ..GetMetricStatistics::default()
    };
    let Answer::GetMetricStatistics { datapoints, .. } =
        service.get_metric_statistics(&scope(), &input).await.unwrap()
    else {
        panic!("another answer");
    };

    let starts = [0, 20, 40].map(|minute| (start_s + minute * 60) * 1000);
    let expected: Vec<(u64, f64)> = starts.into_iter().zip([20.0, 20.0, 10.0]).collect();
    for result in &results {
        let times = result.timestamps.iter().map(|time| time.0 as u64);
        let mut found: Vec<_> = times.zip(result.values.iter().copied()).collect();
        found.reverse();
        assert_eq!(found, expected, "{}", result.id);
    }
    let found = datapoints.iter().map(|point| (point.timestamp.0 as u64, point.sum.unwrap()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(results.len(), 3);
}

#[tokio::test]
async fn refusals_are_in_the_words_of_each_action() {
    let service = service();
    let data = async |start_ms: i64, end_ms: i64, queries: Vec<MetricDataQuery>| {
        let (start_time, end_time) = (Some(Time(start_ms)), Some(Time(end_ms)));
        let input = GetMetricData { queries, start_time, end_time, ..GetMetricData::default() };
        let refused = service.get_metric_data(&scope(), &input).await.unwrap_err();
        (refused.code, refused.message.into_owned())
    };

    assert_eq!(
        data(5, 5, vec![count_of("A", 60)]).await,
        ("ValidationError", "The parameter StartTime must not equal parameter EndTime.".into())
    );
    assert_eq!(
        data(6, 5, vec![count_of("A", 60)]).await,
        ("ValidationError", "The parameter EndTime must be greater than StartTime.".into())
    );
    let unique = "The values for parameter id in MetricDataQueries are not unique.";
    let twice = vec![count_of("A", 60), count_of("A", 60)];
    assert_eq!(data(0, 60_000, twice).await, ("ValidationError", unique.into()));
    let mut of_metres = count_of("A", 60);
    of_metres.metric_stat.as_mut().unwrap().unit = Some("Metres".into());
    let (code, message) = data(0, 60_000, vec![of_metres]).await;
    assert!(code == "ValidationError" && message.contains("Metres"), "{message}");
    let account_id = Some("123456789012".to_owned());
    let foreign = vec![MetricDataQuery { account_id, ..count_of("A", 60) }];
    let (code, message) = data(0, 60_000, foreign).await;
    assert!(code == "ValidationError" && message.contains("123456789012"), "{message}");
}

#[tokio::test]
async fn as_many_data_points_may_be_asked_for_as_a_day_has_minutes() {
    let service = service();
    let asked = async |minutes: i64, period_s: i64| {
        let end_ms = service.shards.now().0 as i64;
        let input = GetMetricStatistics {
            namespace: Some("Shop".into()),
            metric_name: Some("Sales".into()),
            start_time: Some(Time(end_ms - minutes * 60_000)),
            end_time: Some(Time(end_ms)),
            period_s: Some(period_s),
            statistics: vec!["Sum".into()],
            ..GetMetricStatistics::default()
        };
        service.get_metric_statistics(&scope(), &input).await.err().map(|error| error.code)
    };

    // Also where the period is below a minute, though data points are one apart.
    assert_eq!(
        (asked(1_440, 60).await, asked(240, 10).await, asked(24, 1).await),
        (None, None, None)
    );
    assert_eq!(asked(241, 10).await, Some("InvalidParameterCombination"));
    assert_eq!(asked(25, 1).await, Some("InvalidParameterCombination"));
    assert_eq!(asked(1_441, 60).await, Some("InvalidParameterCombination"));
    assert_eq!((asked(7_200, 300).await, asked(7_205, 300).await.is_some()), (None, true));
}

#[test]
fn queries_have_ids_of_their_own_and_are_few() {
    let checked = |ids: &[&str], max| {
        let of = |id: &&str| MetricDataQuery { id: Some((*id).into()), ..count_of("Sales", 60) };
        let all: Vec<MetricDataQuery> = ids.iter().map(of).collect();
        queries(&scope(), &all, "Q", max).map(|queries| queries.len()).ok()
    };
    assert_eq!(checked(&["a", "aB_9"], 2), Some(2));
    assert_eq!((checked(&["a", "b"], 1), checked(&[], 1)), (None, None));
    for id in ["", "A", "9", "_a", "a-b", "a b", "\u{e9}", "aé"] {
        assert_eq!(checked(&[id], 1), None, "{id}");
    }
    let labelled = |len: usize| {
        let label = Some("x".repeat(len));
        queries(&scope(), &[MetricDataQuery { label, ..count_of("Sales", 60) }], "Q", 1)
            .map(|queries| queries[0].label.as_ref().map(String::len))
            .ok()
    };
    assert_eq!([0, 1_024, 1_025].map(labelled), [Some(None), Some(Some(1_024)), None]);
}

#[test]
fn what_is_not_shown_is_told() {
    let mut series = Series::default();
    assert_eq!(messages(&series), []);
    series.units = vec![Unit::Seconds, Unit::None];
    series.has_dropped = true;
    let told = messages(&series);
    assert_eq!(told[0].value, "Multiple units returned: '[Seconds, None]'");
    assert_eq!(
        told.iter().map(|message| &*message.code).collect::<Vec<_>>(),
        ["MultipleUnits", "ArithmeticError"]
    );
}

#[test]
fn statistics_are_few_and_each_is_given_once() {
    let asked = |simple: &[&str], extended: &[&str]| {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (statistics, extended_statistics) = (texts(simple), texts(extended));
        let input = GetMetricStatistics {
            statistics,
            extended_statistics,
            ..GetMetricStatistics::default()
        };
        let count = |(simple, extended): (Vec<_>, Vec<_>)| (simple.len(), extended.len());
        super::statistics(&input).map(count).map_err(|error| error.code)
    };

    assert_eq!(asked(&["Sum", "Sum"], &["p9", "p9", "p90"]), Ok((1, 2)));
    assert_eq!(asked(&["Sum"; 5], &["p9"; 10]), Ok((1, 1)));
    assert_eq!(asked(&[], &[]), Err("InvalidParameterCombination"));
    assert_eq!(asked(&["Sum"; 6], &[]), Err("ValidationError"));
    assert_eq!(asked(&[], &["p9"; 11]), Err("ValidationError"));
}
