//! PutMetricData.

use millrace_core::Timestamp;
use millrace_metrics::{Entity, Record, Scope, Summary, Unit};
use millrace_wire::ApiError;
use millrace_wire::cloudwatch::{Answer, MetricDatum, PutMetricData, StatisticSet};

use super::{CloudWatch, check, error};

/// CloudWatch: entries of one request.
const DATA_MAX: usize = 1_000;
/// CloudWatch: values of one entry.
const VALUES_MAX: usize = 150;
/// CloudWatch: values lie between -2^360 and 2^360.
const MAGNITUDE_MAX: f64 = 2.348_542_582_773_833_3e108;
/// CloudWatch: how old and how far in the future a time may be.
const PAST_MS: i64 = 14 * 86_400_000;
const FUTURE_MS: i64 = 2 * 3_600_000;

struct Datum {
    entity: Entity,
    metric: String,
    unit: Unit,
    time_s: u64,
    summary: Summary,
}

impl Datum {
    fn record(&self) -> Record<'_> {
        Record {
            entity: &self.entity,
            metric: &self.metric,
            unit: self.unit,
            time_s: self.time_s,
            summary: self.summary.clone(),
        }
    }
}

impl CloudWatch {
    pub(super) async fn put_metric_data(
        &self,
        scope: &Scope,
        input: &PutMetricData,
    ) -> Result<Answer, ApiError> {
        let namespace = check::name(input.namespace.as_ref(), "Namespace")?;
        if namespace.starts_with(':') || namespace.starts_with("AWS/") {
            return Err(error::invalid_value(format!(
                "The value {namespace} for parameter Namespace is invalid."
            )));
        }
        check::is_ascii(namespace, "Namespace")?;
        let now = self.broker.now();
        let data = data(input)?;
        let data = data.iter().map(|(at, datum)| checked(scope, namespace, datum, at, now));
        let data: Vec<Datum> = data.collect::<Result<_, _>>()?;
        let store = self.monitor.store().clone();
        let stored = self.monitor.run_durably(move || {
            let records: Vec<Record<'_>> = data.iter().map(Datum::record).collect();
            store.record(&records).map_err(|error| error::of_store(&error))
        });
        stored.await.map(|()| Answer::Done)
    }
}

/// Where in the request something stands, as messages name it in every protocol.
struct At(String);

impl At {
    fn member(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }
}

/// The data of the request, those of entities last, and where each stands.
fn data(input: &PutMetricData) -> Result<Vec<(At, &MetricDatum)>, ApiError> {
    let of_entities = input.entity_metric_data.iter().enumerate();
    let lists = of_entities.map(|(number, entity)| {
        (format!("EntityMetricData.member.{}.MetricData", number + 1), &entity.metric_data)
    });
    let mut data = Vec::new();
    for (at, list) in std::iter::once(("MetricData".to_owned(), &input.metric_data)).chain(lists) {
        let numbered = list.iter().enumerate();
        data.extend(numbered.map(|(n, datum)| (At(format!("{at}.member.{}", n + 1)), datum)));
    }
    if data.is_empty() {
        return Err(error::missing("MetricData"));
    }
    if data.len() > DATA_MAX {
        return Err(error::invalid_value(format!(
            "The collection MetricData must not have a size greater than {DATA_MAX}."
        )));
    }
    Ok(data)
}

fn checked(
    scope: &Scope,
    namespace: &str,
    datum: &MetricDatum,
    at: &At,
    now: Timestamp,
) -> Result<Datum, ApiError> {
    let metric = check::name(datum.metric_name.as_ref(), &at.member("MetricName"))?.to_owned();
    let entity = check::entity(scope, namespace, &datum.dimensions, &at.member("Dimensions"))?;
    check::is_ascii(&metric, &at.member("MetricName"))?;
    check_dimensions(datum, at)?;
    let unit = match &datum.unit {
        None => Unit::None,
        Some(name) => Unit::of_name(name).ok_or_else(|| {
            let parameter = at.member("Unit");
            error::invalid_value(format!("The value {name} for parameter {parameter} is invalid."))
        })?,
    };
    if !matches!(datum.storage_resolution, None | Some(1 | 60)) {
        let parameter = at.member("StorageResolution");
        return Err(error::invalid_value(format!("The parameter {parameter} must be 1 or 60.")));
    }
    let now_ms = now.0 as i64;
    let time_ms = datum.timestamp_ms.unwrap_or(now_ms);
    let limit = match time_ms {
        time_ms if time_ms < now_ms.saturating_sub(PAST_MS) => Some("two weeks in the past"),
        time_ms if time_ms > now_ms.saturating_add(FUTURE_MS) => Some("two hours in the future"),
        _ => None,
    };
    if let Some(limit) = limit {
        return Err(error::invalid_value(format!(
            "The parameter {} must specify a time no more than {limit}.",
            at.member("Timestamp")
        )));
    }
    let time_s = u64::try_from(time_ms).unwrap_or_default() / 1000;
    Ok(Datum { entity, metric, unit, time_s, summary: summary(datum, at)? })
}

/// CloudWatch, API reference, "Dimension": ASCII without control characters and not only white space;
/// a name does not begin with a colon.
fn check_dimensions(datum: &MetricDatum, at: &At) -> Result<(), ApiError> {
    for (number, dimension) in datum.dimensions.iter().enumerate() {
        let parts = [("Name", &dimension.name), ("Value", &dimension.value)];
        for (part, text) in
            parts.into_iter().filter_map(|(part, text)| Some((part, text.as_ref()?)))
        {
            let parameter = at.member(&format!("Dimensions.member.{}.{part}", number + 1));
            check::is_ascii(text, &parameter)?;
            if text.trim().is_empty() || (part == "Name" && text.starts_with(':')) {
                return Err(error::invalid_value(format!(
                    "The value {text} for parameter {parameter} is invalid."
                )));
            }
        }
    }
    Ok(())
}

fn summary(datum: &MetricDatum, at: &At) -> Result<Summary, ApiError> {
    let has_values = !datum.values.is_empty();
    if let Some(value) = datum.value {
        let others =
            [("Values", has_values), ("StatisticValues", datum.statistic_values.is_some())];
        if let Some((other, _)) = others.iter().find(|(_, is_given)| *is_given) {
            return Err(error::invalid_combination(format!(
                "The parameters {} and {} are mutually exclusive and you have specified both.",
                at.member("Value"),
                at.member(other)
            )));
        }
        return Ok(Summary::of(number(value, at, "Value")?));
    }
    let values = has_values.then(|| values(datum, at)).transpose()?;
    let set = datum.statistic_values.as_ref();
    let set = set.map(|set| statistic_set(set, &At(at.member("StatisticValues")))).transpose()?;
    // CloudWatch takes both; the statistics are those of all values, of which some may be listed.
    set.or(values).ok_or_else(|| error::missing(&at.member("Value")))
}

fn values(datum: &MetricDatum, at: &At) -> Result<Summary, ApiError> {
    if datum.values.len() > VALUES_MAX {
        return Err(error::invalid_value(format!(
            "The collection {} must not have a size greater than {VALUES_MAX}.",
            at.member("Values")
        )));
    }
    if !datum.counts.is_empty() && datum.counts.len() != datum.values.len() {
        return Err(error::invalid_value(format!(
            "The parameters {} and {} must be of the same size.",
            at.member("Values"),
            at.member("Counts")
        )));
    }
    let counts = datum.counts.iter().copied().chain(std::iter::repeat(1.0));
    let mut pairs = Vec::with_capacity(datum.values.len());
    for (value, count) in datum.values.iter().zip(counts) {
        let (value, count) = (number(*value, at, "Values")?, number(count, at, "Counts")?);
        if count < 0.0 {
            return Err(invalid(count, &at.member("Counts")));
        }
        pairs.push((value, count));
    }
    Summary::of_values(pairs).ok_or_else(|| invalid(0.0, &at.member("Counts")))
}

fn statistic_set(set: &StatisticSet, at: &At) -> Result<Summary, ApiError> {
    let part = |value: Option<f64>, name: &str| {
        number(value.ok_or_else(|| error::missing(&at.member(name)))?, at, name)
    };
    let count = part(set.sample_count, "SampleCount")?;
    let sum = part(set.sum, "Sum")?;
    let minimum = part(set.minimum, "Minimum")?;
    let maximum = part(set.maximum, "Maximum")?;
    if count <= 0.0 {
        return Err(invalid(count, &at.member("SampleCount")));
    }
    if minimum > maximum {
        return Err(error::invalid_value(format!(
            "The parameter {} must be less than the parameter {}.",
            at.member("Minimum"),
            at.member("Maximum")
        )));
    }
    Ok(Summary::of_set(count, sum, minimum, maximum))
}

fn number(value: f64, at: &At, name: &str) -> Result<f64, ApiError> {
    if value.is_finite() && value.abs() <= MAGNITUDE_MAX {
        return Ok(value);
    }
    Err(invalid(value, &at.member(name)))
}

fn invalid(value: f64, parameter: &str) -> ApiError {
    error::invalid_value(format!("The value {value:?} for parameter {parameter} is invalid."))
}

#[cfg(test)]
mod tests {
    use millrace_wire::cloudwatch::{Dimension, EntityMetricData};

    use super::*;

    fn datum() -> MetricDatum {
        MetricDatum {
            metric_name: Some("Sales".into()),
            value: Some(1.0),
            ..MetricDatum::default()
        }
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
        let book = millrace_metrics::alarm::AlarmBook::open(None, Timestamp(1)).unwrap();
        let service = crate::cloudwatch::alarms::tests::service(book);
        let scope = crate::cloudwatch::alarms::tests::scope();
        let put = async |namespace: &str| {
            let (namespace, metric_data) = (Some(namespace.to_owned()), vec![datum()]);
            let input = PutMetricData { namespace, metric_data, ..PutMetricData::default() };
            service.put_metric_data(&scope, &input).await.map_err(|error| error.code).map(drop)
        };

        for namespace in ["Shop", "MyAWS/", "AWS", "Shop:"] {
            assert_eq!(put(namespace).await, Ok(()), "{namespace}");
        }
        for namespace in ["AWS/SQS", "AWS/", ":Shop"] {
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
            let timestamp_ms = after_ms.map(|after_ms| now.0 as i64 + after_ms);
            let datum = MetricDatum { timestamp_ms, storage_resolution: resolution, ..datum() };
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
}
