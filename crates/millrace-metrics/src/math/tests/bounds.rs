//! What keeps expressions from taking all time and memory.

use proptest::prelude::*;

use super::*;

#[test]
fn expressions_are_bounded() {
    let spaced = |len: usize| {
        let unused =
            Query { is_returned: false, ..expression(&format!("1{}", " ".repeat(len - 1))) };
        answer(&store(&[]), &[unused], &span(1)).is_ok()
    };
    assert!(spaced(2_048) && !spaced(2_049));
    let malformed = Query { is_returned: false, ..expression("1 +") };
    assert!(answer(&store(&[]), &[malformed], &span(1)).is_err(), "though it is not returned");
    let list = |of: &str, count: usize| {
        let queries =
            [metric("m1", "orders"), expression(&format!("[{}]", [of].repeat(count).join(",")))];
        let store = store(&[("orders", &[Some(1.0)])]);
        answer(&store, &queries, &span(1)).map(|found| found[0].series.len())
    };
    assert_eq!(list("m1", SERIES_MAX).unwrap(), SERIES_MAX);
    assert!(list("m1", SERIES_MAX + 1).is_err());
    let mut budget = budget::Budget::new(&Interrupt::default(), 5_000_000);
    assert!(budget.take(4_999_999).is_ok() && budget.take(2).is_err());
    assert!(budget.take(1).is_ok() && budget.take(0).is_ok() && budget.take(1).is_err());
}

#[test]
fn labels_and_names_of_series_count_as_data_points() {
    let store = MetricStore::open(None, Timestamp(START_S * 1000)).unwrap();
    let long = |text: &str| text.repeat(250);
    for number in 0..100 {
        let dimensions = (0..30).map(|n| (format!("{n}{}", long("d")), format!("{number}")));
        let entity = Entity::new(scope(), "N", dimensions.collect());
        let summary = Summary::of(1.0);
        let (metric, unit, time_s) = ("m", Unit::None, START_S);
        store.record(&[Record { entity: &entity, metric, unit, time_s, summary }]).unwrap();
    }
    let bytes =
        |found: Result<Vec<Found>, QueryError>| found.map_err(|error| error.to_string()).err();
    let fault = |searches: usize, label: &str, store: &MetricStore| {
        let query = |number: usize| Query {
            id: format!("e{number}"),
            label: Some(label.to_owned()),
            ..expression("SEARCH('N', 'Sum', 60)")
        };
        let queries: Vec<Query> = (0..searches).map(query).collect();
        bytes(answer(store, &queries, &span(1)))
    };

    assert_eq!(fault(1, "", &store), None);
    // Some 9 KB of names a series, of 100 series: 45,000 data points a search.
    assert!(fault(150, "", &store).unwrap().contains("take more than 5000000 data points"));
    let few = store.with_memory_limits(MemoryLimits::of_bytes(4_000_000));
    assert_eq!(
        fault(1, "", &few).as_deref().map(|fault| fault.contains("data points")),
        Some(true)
    );
    assert!(few.memory_limits().expression_points < 150_000);
}

#[test]
fn long_expressions_that_refer_to_one_another_do_not_exhaust_the_stack() {
    let long = |id: &str, of: &str| {
        let text = format!("{of}{}", "+1".repeat(1_020));
        Query { id: id.into(), ..expression(&text) }
    };
    let deep = |id: &str, of: &str| {
        let text = format!("{}{of}{}", "ABS(1-".repeat(30), ")".repeat(30));
        Query { id: id.into(), ..expression(&text) }
    };
    let store = store(&[("orders", &[Some(1.0)])]);
    let answered = |make: &dyn Fn(&str, &str) -> Query| {
        let mut queries = vec![metric("m1", "orders"), make("e1", "e2")];
        queries.extend((2..60).map(|n| make(&format!("e{n}"), &format!("e{}", n + 1))));
        queries.push(make("e60", "m1"));
        answer(&store, &queries, &span(4)).map_err(|error| error.to_string())
    };

    assert_eq!(answered(&long).unwrap()[0].series[0].points[&START_S], 61_201.0);
    assert_eq!(answered(&deep).unwrap_err(), "e1: the expressions are nested too deep");
}

#[test]
fn expressions_multiply_neither_series_nor_data_points_without_bound() {
    let many = |of: &str| format!("[{}]", vec![of; 500].join(","));
    let fault = |texts: &[String], days: u64| {
        let store = store(&[("orders", &[Some(1.0)])]);
        let mut queries = vec![metric("m1", "orders")];
        for (number, text) in texts.iter().enumerate() {
            queries.push(Query { id: format!("e{number}"), ..expression(text) });
        }
        answer(&store, &queries, &span(days * 1_440)).map_err(|error| error.to_string()).err()
    };

    assert_eq!(fault(&[many("m1")], 1), None);
    let lists = [many("m1"), "[e0,e0]".to_owned()];
    assert_eq!(fault(&lists, 1).unwrap(), "e1: a list holds at most 500 time series");
    let budget = Some("e0: the expressions take more than 5000000 data points".to_owned());
    let series = format!("[{}]", vec!["TIME_SERIES(1)"; 130].join(","));
    assert_eq!(fault(&[series], 70), budget);
    let filled = format!("FILL({}, 0)", many("m1"));
    assert_eq!(fault(&[filled], 70), budget);
    let filled = [format!("FILL({}, 0)", many("m1")), vec!["e0"; 600].join("+")];
    let told = fault(&filled, 1).unwrap();
    assert_eq!(told, "e1: the expressions take more than 5000000 data points");
}

proptest! {
    #[test]
    fn no_expression_panics(text in r#"([a-z0-9_.]{1,4}|[-+*/^(),'"<>=&|\[\]{}! ]|SUM|FILL|IF|SEARCH|METRICS|m1|m2){0,12}"#) {
        let _ = values(&text);
    }
}

/// Whoever looks at the minute that has not ended interrupts the look.
struct Interrupting(Interrupt);

impl crate::Source for Interrupting {
    fn peek(&self, _: &Entity, _: Timestamp) -> Vec<crate::Value> {
        self.0.set();
        Vec::new()
    }

    fn close(&self, _: Timestamp) -> Vec<crate::Sample> {
        Vec::new()
    }
}

#[test]
fn an_answer_ends_in_the_middle_once_it_is_interrupted() {
    let store = store(&[("a", &[Some(1.0), Some(2.0)])]);
    let interrupt = Interrupt::default();
    let asked = |text: &str, minutes| {
        let queries = [metric("m1", "a"), expression(text)];
        super::super::answer(&store, &queries, &span(minutes), &interrupt)
    };
    store.set_source(
        std::sync::Arc::new(Interrupting(interrupt.clone())),
        Timestamp((START_S + 60) * 1000),
    );

    assert!(asked("m1 + 1", 1).is_ok(), "it does not look at that minute");
    let error = asked("m1 + 1", 2).unwrap_err();
    assert!(matches!(error, QueryError::Math { .. }), "{error}");
    let error = asked("m1 + 1", 1).unwrap_err();
    assert!(matches!(error, QueryError::Store(StoreError::Interrupted)), "{error}");
}
