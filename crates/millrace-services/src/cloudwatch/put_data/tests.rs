use millrace_wire::cloudwatch::{Dimension, EntityMetricData};
use millrace_wire::codec::Time;

use super::*;

fn datum() -> MetricDatum {
    MetricDatum { metric_name: Some("Sales".into()), value: Some(1.0), ..MetricDatum::default() }
}

fn places(of_none: usize, of_entities: &[usize]) -> Result<Vec<String>, &'static str> {
    let entity = |count: &usize| EntityMetricData { metric_data: vec![datum(); *count] };
    let input = PutMetricData {
        namespace: Some("Shop".into()),
        metric_data: vec![datum(); of_none],
        entity_metric_data: of_entities.iter().map(entity).collect(),
    };
    let places = data(&input).map(|data| data.into_iter().map(|(at, _)| at.0).collect());
    places.map_err(|error| error.code)
}

#[test]
fn data_stand_beside_entities_and_within_them() {
    let first = "EntityMetricData.member.1.MetricData.member.1";
    let second = "EntityMetricData.member.2.MetricData.member.1";

    assert_eq!(places(1, &[1, 1]).unwrap(), ["MetricData.member.1", first, second]);
    assert_eq!(places(0, &[1]).unwrap(), [first]);
    assert_eq!(places(0, &[0]), Err("MissingParameter"));
    assert!(places(500, &[500]).is_ok());
    assert_eq!(places(500, &[501]), Err("InvalidParameterValue"));
}

#[test]
fn values_may_stand_beside_statistics_but_not_beside_a_value() {
    let at = At("MetricData.member.1".into());
    let set = StatisticSet {
        sample_count: Some(10.0),
        sum: Some(55.0),
        minimum: Some(1.0),
        maximum: Some(10.0),
    };
    let values = || MetricDatum { values: vec![1.0, 10.0], ..MetricDatum::default() };

    let both = MetricDatum { statistic_values: Some(set), ..values() };
    assert_eq!(summary(&both, &at).unwrap().count, 10.0);
    let value = MetricDatum { value: Some(1.0), ..values() };
    assert_eq!(summary(&value, &at).unwrap_err().code, "InvalidParameterCombination");
    let wrong = MetricDatum { counts: vec![1.0], ..both };
    assert_eq!(summary(&wrong, &at).unwrap_err().code, "InvalidParameterValue");
}

#[tokio::test]
async fn nobody_puts_data_beside_those_of_the_server() {
    let service = crate::cloudwatch::alarms::tests::service();
    let scope = crate::cloudwatch::alarms::tests::scope();
    let put = async |namespace: &str| {
        let (namespace, metric_data) = (Some(namespace.to_owned()), vec![datum()]);
        let input = PutMetricData { namespace, metric_data, ..PutMetricData::default() };
        service.put_metric_data(&scope, &input).await.map_err(|error| error.code).map(drop)
    };

    for namespace in ["Shop", "MyAWS/", "AWS", "Shop:"] {
        assert_eq!(put(namespace).await, Ok(()), "{namespace}");
    }
    for namespace in ["AWS/SQS", "AWS/", ":Shop", "Geschäft"] {
        assert_eq!(put(namespace).await, Err("InvalidParameterValue"), "{namespace}");
    }
}

#[test]
fn names_and_dimensions_are_ascii() {
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    let refusal = |metric: &str, name: &str, value: &str| {
        let dimension = Dimension { name: Some(name.into()), value: Some(value.into()) };
        let (metric_name, dimensions) = (Some(metric.to_owned()), vec![dimension]);
        let datum = MetricDatum { metric_name, dimensions, ..datum() };
        let checked = checked(&scope, "Shop", &datum, &at(), Timestamp(2_000_000_000_000));
        checked.err().map(|error| (error.code, error.message.into_owned()))
    };
    let not_ascii = |parameter: &str| {
        let text = "The value for parameter MetricData.member.1";
        let message = format!("{text}.{parameter} contains non-ASCII characters.");
        Some(("InvalidParameterValue", message))
    };

    assert_eq!(refusal("Sales ~", "City", ":a b"), None);
    assert_eq!(refusal("Größe", "City", "a"), not_ascii("MetricName"));
    assert_eq!(refusal("Sales", "Städte", "a"), not_ascii("Dimensions.member.1.Name"));
    for value in ["Köln", "a\nb", "\u{7f}"] {
        assert_eq!(refusal("Sales", "City", value), not_ascii("Dimensions.member.1.Value"));
    }
    for (name, value) in [("City", "  "), (" ", "a"), (":City", "a")] {
        assert_eq!(refusal("Sales", name, value).unwrap().0, "InvalidParameterValue");
    }
}

fn at() -> At {
    At("MetricData.member.1".into())
}

#[test]
fn times_are_two_weeks_old_at_most_and_two_hours_ahead() {
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    let now = Timestamp(2_000_000_000_123);
    let time_s = |after_ms: Option<i64>, resolution| {
        let timestamp = after_ms.map(|after_ms| Time(now.0 as i64 + after_ms));
        let datum = MetricDatum { timestamp, storage_resolution: resolution, ..datum() };
        checked(&scope, "Shop", &datum, &at(), now).map(|datum| datum.time_s).ok()
    };

    assert_eq!(time_s(None, None), Some(2_000_000_000));
    assert_eq!(time_s(Some(-14 * 86_400_000), Some(1)), Some(2_000_000_000 - 14 * 86_400));
    assert_eq!(time_s(Some(7_200_000), Some(60)), Some(2_000_007_200));
    assert_eq!(time_s(Some(-14 * 86_400_000 - 1), None), None);
    assert_eq!(time_s(Some(7_200_001), None), None);
    assert_eq!((time_s(None, Some(0)), time_s(None, Some(30))), (None, None));
    let of_unit = |unit: &str| {
        let datum = MetricDatum { unit: Some(unit.into()), ..datum() };
        checked(&scope, "Shop", &datum, &at(), now).map(|datum| datum.unit).ok()
    };
    assert_eq!((of_unit("Bytes"), of_unit("bytes")), (Some(Unit::Bytes), None));
}

#[test]
fn values_are_few_and_within_bounds() {
    let of = |values: &[f64], counts: &[f64]| {
        let (values, counts) = (values.to_vec(), counts.to_vec());
        let datum = MetricDatum { value: None, values, counts, ..datum() };
        summary(&datum, &at()).map(|it| (it.count, it.sum, it.min, it.max)).ok()
    };

    assert_eq!(of(&[1.0, 3.0], &[]), Some((2.0, 4.0, 1.0, 3.0)));
    assert_eq!(of(&[1.0, 3.0], &[2.0, 0.5]), Some((2.5, 3.5, 1.0, 3.0)));
    assert_eq!(of(&[1.0, 3.0], &[2.0, 0.0]), Some((2.0, 2.0, 1.0, 1.0)));
    assert_eq!(of(&[1.0; 150], &[]).map(|it| it.0), Some(150.0));
    assert_eq!(of(&[1.0; 151], &[]), None);
    for (values, counts) in [
        (&[1.0][..], &[0.0][..]),
        (&[1.0, 2.0], &[1.0, -1.0]),
        (&[1.0, 2.0], &[1.0]),
        (&[1.0], &[1.0, 1.0]),
        (&[f64::NAN], &[]),
        (&[1.0], &[f64::INFINITY]),
        (&[], &[]),
    ] {
        assert_eq!(of(values, counts), None, "{values:?} {counts:?}");
    }
    // 2^360.
    let most = 2.0_f64.powi(360);
    for (value, expected) in [
        (most, true),
        (-most, true),
        (most * 1.001, false),
        (-most * 1.001, false),
        (f64::INFINITY, false),
        (f64::NAN, false),
    ] {
        assert_eq!(number(value, &at(), "Value").is_ok(), expected, "{value}");
    }
}

#[test]
fn sets_of_statistics_are_complete_and_in_order() {
    let set = |count, minimum, maximum| StatisticSet {
        sample_count: Some(count),
        sum: Some(5.0),
        minimum: Some(minimum),
        maximum: Some(maximum),
    };
    let is_taken = |set: &StatisticSet| statistic_set(set, &at()).is_ok();

    assert!(is_taken(&set(0.5, 1.0, 1.0)) && is_taken(&set(2.0, -1.0, 6.0)));
    assert!(!is_taken(&set(0.0, 1.0, 2.0)) && !is_taken(&set(-1.0, 1.0, 2.0)));
    assert!(!is_taken(&set(2.0, 2.0, 1.0)));
    let missing = StatisticSet { sum: None, ..set(2.0, 1.0, 2.0) };
    assert_eq!(statistic_set(&missing, &at()).unwrap_err().code, "MissingParameter");
}
