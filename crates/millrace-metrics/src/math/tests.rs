mod bounds;
mod search;

use super::*;
use crate::{MemoryLimits, Record, Summary, Unit};

const START_S: u64 = 1_700_000_040;

fn answer(store: &MetricStore, queries: &[Query], span: &Span) -> Result<Vec<Found>, QueryError> {
    super::answer(store, queries, span, &Interrupt::default())
}

fn scope() -> Scope {
    Scope { region: "us-east-1".into(), account: "000000000000".into() }
}

fn entity(queue: &str) -> Entity {
    Entity::new(scope(), "AWS/SQS", vec![("QueueName".into(), queue.into())])
}

fn span(minutes: u64) -> Span {
    let end_s = START_S + minutes * 60;
    Span { scope: scope(), start_s: START_S, end_s, origin_s: 0, now: Timestamp(end_s * 1000) }
}

/// A store where each queue has these values, one a minute; `None` for a minute without any.
fn store(queues: &[(&str, &[Option<f64>])]) -> MetricStore {
    let store = MetricStore::open(None, Timestamp(START_S * 1000)).unwrap();
    for (queue, values) in queues {
        let entity = entity(queue);
        for (minute, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let record = Record {
                entity: &entity,
                metric: "Sent",
                unit: Unit::Count,
                time_s: START_S + minute as u64 * 60,
                summary: Summary::of(*value),
            };
            store.record(&[record]).unwrap();
        }
    }
    store
}

fn metric(id: &str, queue: &str) -> Query {
    let kind = QueryKind::Metric {
        entity: entity(queue),
        metric: "Sent".into(),
        unit: None,
        statistic: "Sum".into(),
        period_s: 60,
    };
    Query { id: id.into(), kind, label: None, account: None, is_returned: false }
}

fn expression(text: &str) -> Query {
    let kind = QueryKind::Expression { text: text.into(), period_s: None };
    Query { id: "e1".into(), kind, label: None, account: None, is_returned: true }
}

/// The values of an expression over `m1` = 1, 2, -, 4 and `m2` = 10, 0, 30, 40.
fn values(text: &str) -> Result<Vec<Vec<Option<f64>>>, String> {
    let store = store(&[
        ("orders", &[Some(1.0), Some(2.0), None, Some(4.0)]),
        ("mails", &[Some(10.0), Some(0.0), Some(30.0), Some(40.0)]),
    ]);
    let queries = [metric("m1", "orders"), metric("m2", "mails"), expression(text)];
    let found = answer(&store, &queries, &span(4)).map_err(|error| error.to_string())?;
    let value = |series: &Series, minute: u64| series.points.get(&(START_S + minute * 60)).copied();
    let values = |series: &Series| (0..4).map(|minute| value(series, minute)).collect();
    Ok(found[0].series.iter().map(values).collect())
}

/// The single series of an expression over `m1` and the others, `-1.0` where one has no value.
fn of_series(all: &[&[f64]], text: &str) -> Vec<Option<f64>> {
    let known = |value: &f64| (*value >= 0.0).then_some(*value);
    let all: Vec<Vec<Option<f64>>> =
        all.iter().map(|values| values.iter().map(known).collect()).collect();
    let names = ["a", "b", "c"];
    let named: Vec<(&str, &[Option<f64>])> =
        names.iter().zip(&all).map(|(name, values)| (*name, &values[..])).collect();
    let store = store(&named);
    let ids = ["m1", "m2", "m3"];
    let mut queries: Vec<Query> =
        ids.iter().zip(names).take(all.len()).map(|(id, name)| metric(id, name)).collect();
    queries.push(expression(text));
    let minutes = all[0].len() as u64;
    let found = answer(&store, &queries, &span(minutes)).unwrap();
    let points = &found[0].series[0].points;
    (0..minutes).map(|minute| points.get(&(START_S + minute * 60)).copied()).collect()
}

fn one(text: &str) -> [Option<f64>; 4] {
    let series = values(text).unwrap();
    assert_eq!(series.len(), 1, "{text}");
    series[0].clone().try_into().unwrap()
}

#[test]
fn a_value_that_one_series_lacks_is_zero() {
    let pair: [&[f64]; 2] = [&[30.0, 20.0, 0.0, 0.0], &[20.0, -1.0, 20.0, -1.0]];
    let all = |values: [f64; 4]| values.map(Some).to_vec();

    // The user guide's table.
    assert_eq!(of_series(&pair, "m1 < m2"), all([0.0, 0.0, 1.0, 0.0]));
    assert_eq!(of_series(&pair, "m1 >= 30"), all([1.0, 0.0, 0.0, 0.0]));
    assert_eq!(of_series(&pair, "m1 > 15 AND m2 > 15"), all([1.0, 0.0, 0.0, 0.0]));
    assert_eq!(of_series(&pair, "m1 OR m2"), all([1.0, 1.0, 1.0, 0.0]));
    assert_eq!(of_series(&pair, "m1 - m2"), all([10.0, 20.0, -20.0, 0.0]));
    assert_eq!(of_series(&pair, "m1 * m2"), all([600.0, 0.0, 0.0, 0.0]));
    assert_eq!(of_series(&pair, "m1 / m2"), [Some(1.5), None, Some(0.0), None]);
    assert_eq!(of_series(&pair, "m1 ^ m2")[1..], [Some(1.0), Some(0.0), Some(1.0)]);
    assert_eq!(of_series(&pair, "AVG([m1, m2])"), all([25.0, 10.0, 10.0, 0.0]));
    let both: [&[f64]; 2] = [&[1.0, -1.0], &[1.0, -1.0]];
    assert_eq!(of_series(&both, "m1 == m2"), [Some(1.0), None], "where there is any");
}

#[test]
fn a_series_knows_of_data_points_that_would_be_no_number() {
    let has_dropped = |text: &str| {
        let store = store(&[
            ("orders", &[Some(1.0), Some(2.0), None, Some(4.0)]),
            ("mails", &[Some(10.0), Some(0.0), Some(30.0), Some(40.0)]),
        ]);
        let queries = [metric("m1", "orders"), metric("m2", "mails"), expression(text)];
        let found = answer(&store, &queries, &span(4)).unwrap();
        assert!(found[0].series[0].points.values().all(|value| value.is_finite()), "{text}");
        found[0].series[0].has_dropped
    };

    for text in [
        "m1 / m2",
        "1 / m2",
        "LOG(m2)",
        "m1 / (m2 - m2)",
        "RUNNING_SUM(m1 * 1e308)",
        "ABS(m1 / m2) + m1",
        "m1 + m1 / m2",
        "SUM([m1, m1 / m2])",
        "FILL(m1 / m2, 0)",
        "IF(m1, m1 / m2)",
        "REMOVE_EMPTY([m1 / m2])",
        "m2 / m1 * 0 + m1",
    ] {
        assert!(has_dropped(text), "{text}");
    }
    for text in ["m1 / (m2 + 1)", "IF(m1 > 1, m1)", "SUM([m1, m2])", "DIFF(m1)", "FILL(m1, 0)"] {
        assert!(!has_dropped(text), "{text}");
    }
}

#[test]
fn if_chooses_as_the_user_guide_says() {
    let none = -1.0;
    let three: [&[f64]; 3] =
        [&[1.0, 1.0, 0.0, 0.0, none], &[30.0, none, 0.0, 0.0, 30.0], &[0.0, 0.0, 20.0, none, 20.0]];

    for (text, expected) in [
        ("IF(m1, m2, m3)", [Some(30.0), Some(0.0), Some(20.0), None, None]),
        ("IF(m1, 5, m3)", [Some(5.0), Some(5.0), Some(20.0), None, None]),
        ("IF(m1, m2, 5)", [Some(30.0), Some(0.0), Some(5.0), Some(5.0), None]),
        ("IF(m1, m2)", [Some(30.0), Some(0.0), None, None, None]),
        ("IF(1, m2, m3)", [Some(30.0), None, Some(0.0), Some(0.0), Some(30.0)]),
        ("IF(0, m2, m3)", [Some(0.0), Some(0.0), Some(20.0), None, Some(20.0)]),
        ("IF(0, m2)", [None; 5]),
    ] {
        assert_eq!(of_series(&three, text), expected, "{text}");
    }
    assert!(values("IF(m1, [m1, m2])").is_err());
}

#[test]
fn operators_apply_where_either_has_a_value() {
    assert_eq!(one("m1 + m2"), [Some(11.0), Some(2.0), Some(30.0), Some(44.0)]);
    let shares = [Some(0.1), None, Some(0.0), Some(0.1)];
    assert_eq!(one("m1 / m2"), shares, "nothing is divided by zero");
    assert_eq!(one("2 * m1 - 1"), [Some(1.0), Some(3.0), None, Some(7.0)]);
    assert_eq!(one("-m1 ^ 2"), [Some(-1.0), Some(-4.0), None, Some(-16.0)]);
    assert_eq!(one("m2 > 10 AND m2 < 40"), [Some(0.0), Some(0.0), Some(1.0), Some(0.0)]);
    assert_eq!(one("(1 + 2) * 3 - m2 / 10"), [Some(8.0), Some(9.0), Some(6.0), Some(5.0)]);
}

#[test]
fn functions_over_one_series() {
    assert_eq!(one("FILL(m1, 0)"), [Some(1.0), Some(2.0), Some(0.0), Some(4.0)]);
    assert_eq!(one("FILL(m1, REPEAT)"), [Some(1.0), Some(2.0), Some(2.0), Some(4.0)]);
    assert_eq!(one("FILL(m1, LINEAR)"), [Some(1.0), Some(2.0), Some(3.0), Some(4.0)]);
    assert_eq!(one("RATE(m2) * 60"), [None, Some(-10.0), Some(30.0), Some(10.0)]);
    assert_eq!(one("DIFF(m1)"), [None, Some(1.0), None, Some(2.0)]);
    assert_eq!(one("DIFF_TIME(m1)"), [None, Some(60.0), None, Some(120.0)]);
    assert_eq!(one("RUNNING_SUM(m2)"), [Some(10.0), Some(10.0), Some(40.0), Some(80.0)]);
    assert_eq!(one("m1 - AVG(m2)"), [Some(-19.0), Some(-18.0), None, Some(-16.0)]);
    assert_eq!(one("m2 / PERIOD(m2)")[2], Some(0.5));
    assert_eq!(one("IF(m2 > 5, m2, 7)"), [Some(10.0), Some(7.0), Some(30.0), Some(40.0)]);
    assert_eq!(one("IF(m2, m1)"), [Some(1.0), None, Some(0.0), Some(4.0)]);
    assert_eq!(one("TIME_SERIES(5)"), [Some(5.0); 4]);
    assert_eq!(one("FILL(m1, m2)"), [Some(1.0), Some(2.0), Some(30.0), Some(4.0)]);
    assert_eq!(one("m2 / DATAPOINT_COUNT(m1)")[2], Some(10.0));
}

#[test]
fn each_function_and_operator_does_what_it_is_called() {
    for (text, expected) in [
        ("ABS(0 - m1)", [1.0, 2.0, -1.0, 4.0]),
        ("CEIL(m2 / 25)", [1.0, 0.0, 2.0, 2.0]),
        ("FLOOR(m2 / 25)", [0.0, 0.0, 1.0, 1.0]),
        ("FLOOR(LOG10(m2 * 10))", [2.0, -1.0, 2.0, 2.0]),
        ("LOG(m1 / m1)", [0.0, 0.0, -1.0, 0.0]),
        ("MIN(METRICS())", [1.0, 0.0, 30.0, 4.0]),
        ("m2 - MIN(m1)", [9.0, -1.0, 29.0, 39.0]),
        ("m2 - MAX(m1)", [6.0, -4.0, 26.0, 36.0]),
        ("m2 + SUM(m1)", [17.0, 7.0, 37.0, 47.0]),
        // Of 10, 0, 30 and 40 the mean is 20.
        ("m1 * STDDEV(m2) ^ 2", [250.0, 500.0, -1.0, 1_000.0]),
        ("STDDEV([m1, m2])", [4.5, 1.0, 0.0, 18.0]),
        ("m1 * METRIC_COUNT(m1)", [1.0, 2.0, -1.0, 4.0]),
        ("FIRST([m1, m2])", [1.0, 2.0, -1.0, 4.0]),
        ("LAST([m1, m2])", [10.0, 0.0, 30.0, 40.0]),
        ("m1 != 2", [1.0, 0.0, -1.0, 1.0]),
        ("m1 <= 2", [1.0, 1.0, -1.0, 0.0]),
        ("m1 < 2 || m1 == 4", [1.0, 0.0, -1.0, 1.0]),
        ("m1 >= 2 && m1 > 2", [0.0, 0.0, -1.0, 1.0]),
        ("m1 * 2.5e+1 * 4E-2 + .5", [1.5, 2.5, -1.0, 4.5]),
    ] {
        let known = |value: f64| (value >= 0.0 || text.starts_with("m2 -")).then_some(value);
        assert_eq!(one(text), expected.map(known), "{text}");
    }
    assert_eq!(values("REMOVE_EMPTY([m1, m1 * (1 / 0)])").unwrap().len(), 1);
    assert!(values("FILL(m1, 1, 2)").is_err());
}

#[test]
fn what_has_a_value_at_all_periods_ends_with_the_span() {
    let store = store(&[("orders", &[Some(1.0)])]);
    for text in ["FILL(m1, 0)", "TIME_SERIES(1)", "EPOCH(m1)", "FILL(FIRST(SEARCH('x', 'Sum')), 0)"]
    {
        let queries = [metric("m1", "orders"), expression(text)];
        let found = answer(&store, &queries, &span(4)).unwrap();
        let times: Vec<u64> = found[0].series[0].points.keys().copied().collect();
        assert_eq!(times, [0, 60, 120, 180].map(|after_s| START_S + after_s), "{text}");
        assert_eq!(found[0].series[0].period_s, 60, "{text}");
    }
}

#[test]
fn series_are_told_apart_by_what_differs() {
    let store = store(&[("orders", &[Some(1.0)]), ("mails", &[Some(1.0)])]);
    let of = |id: &str, queue: &str, by: &str| {
        let mut query = Query { is_returned: true, ..metric(id, queue) };
        if let QueryKind::Metric { statistic, .. } = &mut query.kind {
            by.clone_into(statistic);
        }
        query
    };
    let found = |queries: &[Query]| {
        let found = answer(&store, queries, &span(4)).unwrap();
        let series = found.into_iter().flat_map(|found| found.series);
        series.map(|series| (series.label.clone(), series.identity())).collect::<Vec<_>>()
    };
    let identity = |queue: &str| format!("AWS/SQS\0Sent\0QueueName\0{queue}");

    let alone = found(&[of("m1", "orders", "Sum")]);
    assert_eq!(alone, [("Sent".to_owned(), identity("orders"))]);
    let labels =
        |queries: &[Query]| found(queries).into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    let (sum, most) = (of("m1", "orders", "Sum"), of("m2", "orders", "Maximum"));
    assert_eq!(labels(&[sum.clone(), most.clone()]), ["Sent Sum", "Sent Maximum"]);
    let all = [sum, most, of("m3", "mails", "Sum")];
    assert_eq!(labels(&all), ["orders Sent Sum", "orders Sent Maximum", "mails Sent Sum"]);
    let made = Query { id: "e1".into(), ..expression("m1 + m2") };
    assert_eq!(found(&[metric("m1", "orders"), metric("m2", "mails"), made])[0].1, "");
}

#[test]
fn periods_are_those_asked_for_and_a_minute_at_least() {
    let store = store(&[("orders", &[Some(1.0), Some(2.0), None, Some(4.0)])]);
    let of = |id: &str, period: u64| {
        let mut query = Query { is_returned: true, ..metric(id, "orders") };
        if let QueryKind::Metric { period_s, .. } = &mut query.kind {
            *period_s = period;
        }
        query
    };
    let math = |id: &str, text: &str, period_s: Option<u64>| {
        let kind = QueryKind::Expression { text: text.into(), period_s };
        Query { id: id.into(), kind, ..expression("") }
    };
    let queries = [
        of("m1", 10),
        of("m2", 120),
        math("e1", "m1 + m2", None),
        math("e2", "m1", Some(300)),
        math("e3", "m1", Some(1)),
        math("e4", "TIME_SERIES(PERIOD(m2))", None),
    ];

    let span = Span { origin_s: START_S, ..span(4) };
    let found = answer(&store, &queries, &span).unwrap();
    let series = |at: usize| &found[at].series[0];
    let periods: Vec<u64> = (0..6).map(|at| series(at).period_s).collect();
    assert_eq!(periods, [60, 120, 120, 300, 60, 60]);
    let points = |at: usize| series(at).points.iter().map(|(s, v)| (s - START_S, *v)).collect();
    let expected: Vec<Vec<(u64, f64)>> = vec![
        vec![(0, 1.0), (60, 2.0), (180, 4.0)],
        vec![(0, 3.0), (120, 4.0)],
        vec![(0, 4.0), (120, 4.0)],
    ];
    assert_eq!((0..3).map(points).collect::<Vec<Vec<_>>>(), expected);
    assert_eq!(series(5).points[&START_S], 120.0);
    assert_eq!(series(0).label, "Sent 10", "what tells it from the other");
}

#[test]
fn an_alarm_may_use_what_it_does_not_watch() {
    let unused = |text: &str| Query { id: "e2".into(), is_returned: false, ..expression(text) };
    for text in ["METRICS()", "SUM(m1)", "'text'"] {
        let queries = [metric("m1", "orders"), expression("m1 * 2"), unused(text)];
        assert!(check_watched(&scope(), &queries, &Interrupt::default()).is_ok(), "{text}");
    }
}

#[test]
fn functions_of_time_have_values_at_all_periods() {
    // 2023-11-14, a Tuesday, 22:14:00.
    for (text, expected) in [
        ("YEAR(m1)", 2023.0),
        ("MONTH(m1)", 11.0),
        ("DATE(m1)", 14.0),
        ("DAY(m1)", 2.0),
        ("HOUR(m1)", 22.0),
    ] {
        assert_eq!(one(text), [Some(expected); 4], "{text}");
    }
    assert_eq!(one("MINUTE(m1)"), [14.0, 15.0, 16.0, 17.0].map(Some));
    assert_eq!(one("EPOCH(m1)")[2], Some(START_S as f64 + 120.0));
    assert_eq!(one("IF(DAY(m1) < 6, m1)"), [Some(1.0), Some(2.0), Some(0.0), Some(4.0)]);
}

#[test]
fn lists_are_sorted_and_sliced() {
    let first = |text: &str| values(text).unwrap()[0][0];
    let count = |text: &str| values(text).unwrap().len();

    assert_eq!(first("SORT(METRICS(), AVG, DESC)"), Some(10.0));
    assert_eq!(first("SORT([m2, m1], MAX, ASC)"), Some(1.0));
    assert_eq!(first("SORT([m2, m1], MIN, ASC)"), Some(10.0));
    assert_eq!(count("SORT(METRICS(), SUM, DESC, 1)"), 1);
    assert_eq!(one("FIRST(SORT([m1 * (1 / 0), m1], SUM, DESC))"), one("m1"), "the empty is last");
    assert_eq!(first("SLICE(SORT(METRICS(), AVG, ASC), 1)"), Some(10.0));
    assert_eq!(first("SLICE(METRICS(), 0, 1)"), Some(1.0));
    assert_eq!(count("SLICE(METRICS(), 0 - 1, 1e300)"), 2);
    assert_eq!((count("SLICE(METRICS(), 5)"), count("SLICE(METRICS(), 2, 1)")), (0, 0));
    assert_eq!(one("DATAPOINT_COUNT(METRICS())"), [2.0, 2.0, 1.0, 2.0].map(Some));
    for text in
        ["SORT(METRICS(), AVG)", "SORT(METRICS(), LOG, ASC)", "SORT(m1, AVG, ASC)", "SLICE(m1, 1)"]
    {
        assert!(values(text).is_err(), "{text}");
    }
}

#[test]
fn functions_over_several_series() {
    let sums = [Some(11.0), Some(2.0), Some(30.0), Some(44.0)];
    assert_eq!(one("SUM(METRICS())"), sums);
    assert_eq!(one("SUM([m1, m2])"), sums);
    assert_eq!(one("MAX([m1, m2])"), [Some(10.0), Some(2.0), Some(30.0), Some(40.0)]);
    assert_eq!(values("METRICS('m2')").unwrap().len(), 1);
    assert_eq!(values("METRICS() * 2").unwrap().len(), 2);
    assert_eq!(one("m1 * METRIC_COUNT(METRICS())")[3], Some(8.0));
}

#[test]
fn of_several_units_one_is_shown() {
    let store = MetricStore::open(None, Timestamp(START_S * 1000)).unwrap();
    let entity = entity("orders");
    for (minute, unit) in [Unit::Seconds, Unit::Milliseconds, Unit::None].into_iter().enumerate() {
        let (metric, summary) = ("Sent", Summary::of(minute as f64));
        let time_s = START_S + minute as u64 * 60;
        store.record(&[Record { entity: &entity, metric, unit, time_s, summary }]).unwrap();
    }
    let shown = Query { is_returned: true, ..metric("m1", "orders") };

    let found = answer(&store, &[shown, expression("m1 + 1")], &span(3)).unwrap();
    let series = &found[0].series[0];
    assert_eq!(series.units, [Unit::Milliseconds, Unit::Seconds, Unit::None]);
    assert_eq!(series.points, [(START_S + 60, 1.0)].into());
    assert_eq!(found[1].series[0].units, [], "it is told once");
}

#[test]
fn results_are_labelled_by_expression_and_metric() {
    let store = store(&[("orders", &[Some(1.0)]), ("mails", &[Some(10.0)])]);
    let labels = |text: &str, label: Option<&str>| {
        let asked = Query { label: label.map(str::to_owned), ..expression(text) };
        let queries = [metric("m1", "orders"), metric("m2", "mails"), asked];
        let found = answer(&store, &queries, &span(4)).unwrap();
        found[0].series.iter().map(|series| series.label.clone()).collect::<Vec<_>>()
    };
    let (one, both) = ("SEARCH('orders', 'Sum')", "SEARCH('Sent', 'Sum')");

    assert_eq!(labels("m1 + m2", None), ["e1"]);
    assert_eq!(labels("m1 + m2", Some("all")), ["all"]);
    assert_eq!(labels("m1 * 2", Some("${PROP('Dim.QueueName')}: ${MAX}")), ["orders: 2"]);
    assert_eq!(labels("FILL(METRICS(), 0)", Some("f")), ["f orders Sent", "f mails Sent"]);
    assert_eq!(labels(both, None), ["mails Sent", "orders Sent"]);
    assert_eq!(labels(one, None), ["orders Sent"], "as if it were one of several");
    assert_eq!(labels(one, Some("found")), ["found orders Sent"]);
    assert_eq!(labels(both, Some("${PROP('Dim.QueueName')} ${MAX}")), ["mails 10", "orders 1"]);
    assert_eq!(labels("[m1 + m2, m1]", None), ["orders Sent"; 2]);
    assert_eq!(labels("[SUM(METRICS())]", None), ["e1"]);
    let asked =
        Query { label: Some("${LABEL}!".into()), is_returned: true, ..metric("m1", "orders") };
    assert_eq!(answer(&store, &[asked], &span(4)).unwrap()[0].series[0].label, "Sent!");
}

#[test]
fn metrics_without_data_points_give_none() {
    let store = store(&[("orders", &[Some(1.0), Some(2.0)])]);
    for text in [
        "m1 - AVG(m0)",
        "m1 > AVG(m0)",
        "IF(AVG(m0), m1)",
        "SUM(m1) / MAX(m0) * TIME_SERIES(1)",
        "FIRST(SEARCH('nothing', 'Sum', 60))",
        "RATE(LAST(REMOVE_EMPTY([m0])))",
        "m1 * (1 / 0)",
        "TIME_SERIES(AVG(m0))",
        "FILL(m0, AVG(m0))",
    ] {
        let queries = [metric("m0", "nobody"), metric("m1", "orders"), expression(text)];
        let found = answer(&store, &queries, &span(4)).map_err(|error| error.to_string());
        assert!(found.is_ok_and(|found| found[0].series[0].points.is_empty()), "{text}");
    }
    assert_eq!(one("FILL(FIRST(SEARCH('nothing', 'Sum', 60)), 0)"), [Some(0.0); 4]);
}

#[test]
fn what_is_no_finite_number_is_no_data_point() {
    for text in [
        "TIME_SERIES(1e999)",
        "FILL(m1, 1e999) - m1",
        "RUNNING_SUM(m1 * 1e308)",
        "SUM([m1 * 1e308, m1 * 1e308])",
        "IF(m1, 1e999)",
    ] {
        let values = one(text);
        assert!(values.iter().flatten().all(|value| value.is_finite()), "{text}: {values:?}");
    }
}

#[test]
fn faults_are_told() {
    for (text, fault) in [
        ("m3 + 1", "e1: m3 is not defined"),
        ("e1 + 1", "e1: expressions refer to one another in a circle"),
        ("m1 +", "e1: the expression ends early"),
        ("m1 m2", "e1: unexpected m2"),
        (" SELECT SUM(m) FROM N", "e1: queries of Metrics Insights (SELECT) are not supported"),
        ("FOO(m1)", "e1: FOO is not a function"),
        ("AVG(m1)", "e1: an expression must give a time series"),
        ("AVG(FIRST(SEARCH('nothing', 'Sum')))", "e1: an expression must give a time series"),
        ("ABS(m1, m2)", "e1: ABS takes 1 arguments, not 2"),
        ("m1 @ 2", "e1: unexpected @"),
    ] {
        assert_eq!(values(text).unwrap_err(), fault, "{text}");
    }
    let deep = format!("{}m1{}", "(".repeat(500), ")".repeat(500));
    assert_eq!(values(&deep).unwrap_err(), "e1: the expression is too deep");
}

#[test]
fn an_alarm_watches_one_series_that_data_cannot_take_from_it() {
    let fault = |text: &str| {
        let queries = [metric("m1", "orders"), metric("m2", "mails"), expression(text)];
        check_watched(&scope(), &queries, &Interrupt::default())
            .err()
            .map(|error| error.to_string())
    };

    for text in [
        "m1 + m2",
        "SUM(METRICS())",
        "IF(m1 > AVG(m2), 1, 0)",
        "FILL(m1, REPEAT) / PERIOD(m1)",
        "FIRST(SORT(METRICS(), AVG, DESC))",
        "IF(0, m1)",
        "TIME_SERIES(MAX(m1))",
    ] {
        assert_eq!(fault(text), None, "{text}");
    }
    for (text, expected) in [
        ("SUM(m1)", "e1: an expression must give a time series"),
        ("5", "e1: an expression must give a time series"),
        ("METRICS()", "e1: an alarm watches one time series, not a list"),
        ("SLICE(METRICS(), 0, 1)", "e1: an alarm watches one time series, not a list"),
        ("m3 * 2", "e1: m3 is not defined"),
        ("e1 * 2", "e1: expressions refer to one another in a circle"),
        ("HALVE(m1)", "e1: HALVE is not a function"),
        ("SUM(SEARCH('orders', 'Sum', 60))", "SEARCH is not supported on Metric Alarms."),
    ] {
        assert_eq!(fault(text).as_deref(), Some(expected), "{text}");
    }
    let unused = Query { id: "e2".into(), is_returned: false, ..expression("m9") };
    assert!(
        check_watched(&scope(), &[expression("TIME_SERIES(1)"), unused], &Interrupt::default())
            .is_err()
    );
}
