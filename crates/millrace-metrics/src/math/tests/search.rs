//! SEARCH, as expressions call it.

use proptest::prelude::*;

use super::*;
use crate::math::budget::Budget;
use crate::math::search;

#[test]
fn search_finds_series_by_schema_and_words() {
    let count = |text: &str| values(text).unwrap().len();

    assert_eq!(count(r#"SEARCH('{AWS/SQS,QueueName} MetricName="Sent"', 'Sum', 60)"#), 2);
    assert_eq!(count(r#"SEARCH('{AWS/SQS,QueueName} MetricName="Sent" ORDERS', 'Sum', 60)"#), 1);
    assert_eq!(count(r#"SEARCH('{AWS/SQS,QueueName} MetricName="Sent" ORD', 'Sum', 60)"#), 0);
    assert_eq!(count(r#"SEARCH(' {AWS/SQS, "QueueName"}, MetricName="Sent" ', 'Sum', 60)"#), 2);
    assert_eq!(count(r#"SEARCH('Namespace="AWS/SQS" MetricName="Sent" "QueueName"', 'Sum')"#), 2);
    assert_eq!(count(r#"SEARCH('"QueueName"=("orders" OR "mails")', 'Sum')"#), 2);
    assert_eq!(count(r#"SEARCH('QueueName=(orders OR "nobody")', 'Sum')"#), 1);
    assert_eq!(count("SEARCH('(orders OR mails) AND Sent', 'Sum')"), 2);
    assert_eq!(count("SEARCH('(orders OR mails) NOT (mails OR (nobody))', 'Sum')"), 1);
    assert_eq!(count("SEARCH('nobody OR (Sent AND (orders OR nobody))', 'Sum')"), 1);
    assert_eq!(count("SEARCH('NOT Namespace=AWS', 'Sum')"), 0);
    assert_eq!(count("SEARCH('{AWS/SQS,QueueName}', 'Sum')"), 2);
    assert_eq!(count(r#"SEARCH('{AWS/SQS,QueueName} QueueName="mails"', 'Sum')"#), 1);
    assert_eq!(count(r#"SEARCH('orders OR mails', 'Sum', 60)"#), 2);
    assert_eq!(count(r#"SEARCH('Sent NOT mails', 'Sum', 60)"#), 1);
    assert_eq!(count(r#"SEARCH('{AWS/SQS} Sent', 'Sum', 60)"#), 0);
    assert_eq!(one("SUM(SEARCH('Sent', 'Sum', 60))")[3], Some(44.0));
}

#[test]
fn a_word_may_be_of_one_dimension_only() {
    let store = store(&[]);
    for (city, queue) in [("rome", "orders"), ("orders", "mails")] {
        let pairs = [("City", city), ("QueueName", queue)];
        let dimensions = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let entity = Entity::new(scope(), "AWS/SQS", dimensions);
        let (metric, unit, summary) = ("Sent", Unit::Count, Summary::of(1.0));
        store
            .record(&[Record { entity: &entity, metric, unit, time_s: START_S, summary }])
            .unwrap();
    }
    let count = |text: &str| {
        let query = expression(&format!("SEARCH('{text}', 'Sum')"));
        answer(&store, &[query], &span(1)).unwrap()[0].series.len()
    };

    assert_eq!((count("orders"), count("QueueName=orders"), count("City=orders")), (2, 1, 1));
    assert_eq!((count("rome"), count("City=mails"), count("Town=rome")), (1, 0, 0));
    assert_eq!((count("Orders"), count(r#""Orders""#), count(r#""orders""#)), (2, 0, 2));
    assert_eq!(count("{AWS/SQS,QueueName,City}"), 2);
    assert_eq!(count("{AWS/SQS,QueueName}"), 0);
}

#[test]
fn a_period_of_search_is_rounded_up_to_minutes() {
    let of = |period: &str| one(&format!("SUM(SEARCH('orders', 'Sum', {period}))"));

    assert_eq!(of("1"), one("m1"));
    assert_eq!(of("60.5"), one("m1"));
    assert_eq!(of("61"), of("120"));
    assert_eq!(of("1e300").iter().flatten().count(), 0);
}

#[test]
fn a_search_without_a_period_has_the_shortest_in_which_there_are_data_points() {
    const DAY_S: u64 = 86_400;
    let store = store(&[("orders", &[Some(1.0); 9])]);
    let found_after = |days: u64| {
        let now = Timestamp((START_S + days * DAY_S) * 1000);
        store.expire(now).unwrap();
        let span = Span { now, ..span(9) };
        let found = answer(&store, &[expression("SEARCH('orders', 'Sum')")], &span).unwrap();
        let series = &found[0].series[0];
        (series.period_s, series.points.values().sum::<f64>())
    };

    assert_eq!(found_after(1), (60, 9.0));
    assert_eq!(found_after(17), (300, 9.0));
    assert_eq!(found_after(65), (3_600, 9.0));
}

#[test]
fn faults_of_search_are_told() {
    for text in [
        "(orders",
        "orders)",
        "{AWS/SQS",
        "{}",
        "OR orders",
        "AND orders",
        "orders OR",
        "a=",
        "\"a",
        "-",
    ] {
        assert!(values(&format!("SEARCH('{text}', 'Sum')")).is_err(), "{text}");
    }
    let deep = format!("SEARCH('{}a{}', 'Sum')", "(".repeat(900), ")".repeat(900));
    assert_eq!(values(&deep).unwrap_err(), "e1: SEARCH is too deep");
    let deep = format!("SEARCH('{}a', 'Sum')", "NOT ".repeat(400));
    assert_eq!(values(&deep).unwrap_err(), "e1: SEARCH is too deep");
}

proptest! {
    #[test]
    fn no_search_panics(text in r#"([a-zA-Z0-9é]{1,4}|[-_{}(),="\\ ]|AND |OR |NOT |orders){0,12}"#) {
        let _ = values(&format!("SEARCH('{text}', 'Sum')"));
    }
}

#[test]
fn searches_in_vain_take_of_what_expressions_may_take() {
    let store = store(&[]);
    let (metric, unit, summary) = ("Sent", Unit::Count, Summary::of(1.0));
    for queue in 0..2_000 {
        let entity = entity(&queue.to_string());
        let summary = summary.clone();
        store
            .record(&[Record { entity: &entity, metric, unit, time_s: START_S, summary }])
            .unwrap();
    }
    let mut budget = Budget::new(&Interrupt::default(), 1_000);

    assert!(search::search(&store, "{a}", &span(1), &mut budget).unwrap().is_empty());
    assert!(budget.look(5_000_000 - 499).is_err());
    assert!(budget.look(5_000_000 - 500).is_ok());
}
