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
    /// Memory that it takes, roughly.
    fn held_bytes(&self) -> usize {
        let dimensions = self.entity.dimensions().iter();
        let names = dimensions.map(|(name, value)| name.len() + value.len() + 48);
        let summary_bytes = self.summary.weight() * size_of::<Datum>();
        summary_bytes + self.metric.len() + names.sum::<usize>()
    }

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
        let now = self.shards.now();
        let data = data(input)?;
        let data = data.iter().map(|(at, datum)| checked(scope, namespace, datum, at, now));
        let data: Vec<Datum> = data.collect::<Result<_, _>>()?;
        let store = self.monitor.store().clone();
        // What came, what was read of it and the data are in memory meanwhile.
        let bytes = 3 * data.iter().map(Datum::held_bytes).sum::<usize>();
        let stored = self.monitor.run_large_durably((&scope.account, bytes), move || {
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
    let time_ms = datum.timestamp.map_or(now_ms, |time| time.0);
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

/// CloudWatch, API reference, "Dimension": ASCII without control characters and not only white
/// space; a name does not begin with a colon.
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
mod tests;
