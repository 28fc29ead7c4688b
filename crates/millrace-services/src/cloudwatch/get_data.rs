//! GetMetricStatistics, GetMetricData, ListMetrics.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use millrace_core::{Timestamp, md5};
use millrace_metrics::math::{self, Found, Query, QueryKind, Series, Span};
use millrace_metrics::{
    BASE_PERIOD_S, ListFilter, Listed, Periods, Point, Scope, SeriesQuery, Statistic,
};
use millrace_wire::ApiError;
use millrace_wire::cloudwatch::{
    Answer, Datapoint, Dimension, GetMetricData, GetMetricStatistics, ListMetrics, Message, Metric,
    MetricDataQuery, MetricStat,
};
use millrace_wire::codec::Time;

use super::page::{Curve, Place, one_page};
use super::{CloudWatch, check, error};

/// CloudWatch: data points of one GetMetricStatistics.
const DATAPOINTS_MAX: u64 = 1_440;
/// CloudWatch: data points of one page of GetMetricData.
const PAGE_DATAPOINTS: usize = 100_800;
/// CloudWatch: statistics of one GetMetricStatistics.
const STATISTICS_MAX: usize = 5;
const EXTENDED_MAX: usize = 10;
/// CloudWatch: queries of one GetMetricData.
const QUERIES_MAX: usize = 500;
/// Characters of a label, which stands with each series that an expression finds.
const LABEL_CHARS: usize = 1_024;
/// CloudWatch: metrics of one page of ListMetrics.
const PAGE_METRICS: usize = 500;
/// CloudWatch: filters of ListMetrics.
const FILTERS_MAX: usize = 10;
/// CloudWatch: metrics without values for so long are not listed.
const LISTED_S: u64 = 14 * 86_400;
/// `PT3H`, the only value that RecentlyActive takes.
const RECENTLY_S: u64 = 3 * 3_600;

impl CloudWatch {
    pub(super) async fn get_metric_statistics(
        &self,
        scope: &Scope,
        input: &GetMetricStatistics,
    ) -> Result<Answer, ApiError> {
        let namespace = check::name(input.namespace.as_ref(), "Namespace")?;
        let metric = check::name(input.metric_name.as_ref(), "MetricName")?.to_owned();
        let entity = check::entity(scope, namespace, &input.dimensions, "Dimensions")?;
        let now = self.shards.now();
        let (start_s, end_s) = check::span(input.start_time, input.end_time, now.seconds())?;
        let asked_s = check::period(input.period_s, "Period")?;
        let period_s = asked_s.max(BASE_PERIOD_S);
        let (simple, extended) = statistics(input)?;
        let unit = check::unit(input.unit.as_ref())?;
        let count = check::periods_between(input.start_time, input.end_time, asked_s);
        if count > DATAPOINTS_MAX {
            return Err(error::invalid_combination(format!(
                "You have requested up to {count} datapoints, which exceeds the limit of \
                 {DATAPOINTS_MAX}. You may reduce the datapoints requested by increasing Period, \
                 or decreasing the time range."
            )));
        }
        let store = self.monitor.store().clone();
        let label = metric.clone();
        let read = self.monitor.run(&scope.account, move |interrupt| {
            let periods = Periods { origin_s: start_s, period_s };
            let (entity, metric) = (&entity, metric.as_str());
            let query = SeriesQuery { entity, metric, unit, periods, start_s, end_s };
            store.points_unless(interrupt, &[query], now)
        });
        let points = read.await?.map_err(|error| error::of_store(&error))?;
        let points = points.into_iter().next().unwrap_or_default();
        let datapoints = points.iter().map(|point| datapoint(point, &simple, &extended));
        Ok(Answer::GetMetricStatistics { label, datapoints: datapoints.collect() })
    }

    pub(super) async fn get_metric_data(
        &self,
        scope: &Scope,
        input: &GetMetricData,
    ) -> Result<Answer, ApiError> {
        let now = self.shards.now();
        check_order(input.start_time, input.end_time)?;
        let (start_s, end_s) = check::span(input.start_time, input.end_time, now.seconds())?;
        let is_ascending = check::is_ascending(input.scan_by.as_deref())?;
        let page = match input.max_datapoints {
            None => PAGE_DATAPOINTS,
            Some(count) => usize::try_from(count)
                .ok()
                .filter(|count| (1..=PAGE_DATAPOINTS).contains(count))
                .ok_or_else(|| {
                    error::invalid_value(format!(
                        "The parameter MaxDatapoints must be between 1 and {PAGE_DATAPOINTS}."
                    ))
                })?,
        };
        let place: Option<Place> = check::place(input.next_token.as_ref())?;
        let queries = queries(scope, &input.queries, "MetricDataQueries", QUERIES_MAX)?;
        let span = Span { scope: scope.clone(), start_s, end_s, origin_s: start_s, now };
        let store = self.monitor.store().clone();
        // All in turn with the other jobs of the account: an expression of two kilobytes takes long
        // to parse, and what is found may be many times as large as the page.
        // What came, what was read of it and the queries are in memory meanwhile.
        let bytes = 3 * queries.iter().map(Query::held_bytes).sum::<usize>();
        let answer = self.monitor.run_large((&scope.account, bytes), move |interrupt| {
            let found = math::answer(&store, &queries, &span, interrupt)?;
            Ok(one_page(curves(found, is_ascending), place.as_ref(), is_ascending, page))
        });
        answer.await?.map_err(error::of_query)
    }

    pub(super) async fn list_metrics(
        &self,
        scope: &Scope,
        input: &ListMetrics,
    ) -> Result<Answer, ApiError> {
        if input.dimensions.len() > FILTERS_MAX {
            return Err(error::invalid_value(format!(
                "The collection Dimensions must not have a size greater than {FILTERS_MAX}."
            )));
        }
        let mut dimensions = Vec::new();
        for (number, filter) in input.dimensions.iter().enumerate() {
            let parameter = format!("Dimensions.member.{}.Name", number + 1);
            let name = check::name(filter.name.as_ref(), &parameter)?;
            dimensions.push((name.to_owned(), filter.value.clone()));
        }
        let now = self.shards.now();
        let kept_s = match input.recently_active.as_deref() {
            None => LISTED_S,
            Some("PT3H") => RECENTLY_S,
            Some(other) => return Err(error::not_in_enum(other, "recentlyActive", "PT3H")),
        };
        let after: Option<Listed> = check::place(input.next_token.as_ref())?;
        // No accounts are linked, so the caller's series are of no other.
        if input.owning_account.as_ref().is_some_and(|account| *account != scope.account) {
            return Ok(Answer::ListMetrics { metrics: Vec::new(), next_token: None });
        }
        let (namespace, metric) = (input.namespace.clone(), input.metric_name.clone());
        let (store, of) = (self.monitor.store().clone(), scope.clone());
        let listed = self.monitor.run(&scope.account, move |_| {
            let (namespace, metric) = (namespace.as_deref(), metric.as_deref());
            let (after, most) = (after.as_ref(), Some(PAGE_METRICS + 1));
            let filter = ListFilter { namespace, metric, dimensions: &dimensions, after, most };
            store.list(&of, &filter, Timestamp(now.0.saturating_sub(kept_s * 1000)))
        });
        let mut listed = listed.await?;
        let has_more = listed.len() > PAGE_METRICS;
        listed.truncate(PAGE_METRICS);
        let next_token = listed.last().filter(|_| has_more).and_then(check::token);
        let metrics = listed.into_iter().map(|listed| Metric {
            namespace: Some(listed.namespace),
            metric_name: Some(listed.metric),
            dimensions: listed.dimensions.into_iter().map(Dimension::from).collect(),
        });
        Ok(Answer::ListMetrics { metrics: metrics.collect(), next_token })
    }
}

fn curves(found: Vec<Found>, is_ascending: bool) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (query, found) in found.into_iter().enumerate() {
        for (number, series) in found.series.into_iter().enumerate() {
            let (messages, identity) = (messages(&series), md5(series.identity().as_bytes()));
            let mut points: Vec<(u64, f64)> = series.points.into_iter().collect();
            if !is_ascending {
                points.reverse();
            }
            let (id, label) = (found.id.clone(), series.label);
            curves.push(Curve { query, number, id, identity, label, points, messages });
        }
    }
    curves
}

/// A data point with the statistics that it has of those asked for.
fn datapoint(
    Point { time_s, unit, summary }: &Point,
    simple: &Named<&'static str>,
    extended: &Named<String>,
) -> Datapoint {
    let value = |wanted: &str| {
        let (_, statistic) = simple.iter().find(|(name, _)| *name == wanted)?;
        statistic.value(summary)
    };
    let extended: BTreeMap<String, f64> = extended
        .iter()
        .filter_map(|(name, statistic)| Some((name.clone(), statistic.value(summary)?)))
        .collect();
    Datapoint {
        timestamp: Time::of_ms(time_s * 1000),
        sample_count: value("SampleCount"),
        average: value("Average"),
        sum: value("Sum"),
        minimum: value("Minimum"),
        maximum: value("Maximum"),
        unit: unit.name().to_owned(),
        extended_statistics: (!extended.is_empty()).then_some(extended),
    }
}

/// How GetMetricData refuses times in the wrong order; GetMetricStatistics does it in other words.
fn check_order(start: Option<Time>, end: Option<Time>) -> Result<(), ApiError> {
    match start.zip(end).map(|(start, end)| end.cmp(&start)) {
        Some(Ordering::Equal) => {
            Err(error::validation("The parameter StartTime must not equal parameter EndTime."))
        }
        Some(Ordering::Less) => {
            Err(error::validation("The parameter EndTime must be greater than StartTime."))
        }
        Some(Ordering::Greater) | None => Ok(()),
    }
}

/// Which units there are, if there are several, of which the first is shown; and that values which
/// are no numbers were left out.
fn messages(series: &Series) -> Vec<Message> {
    let mut messages = Vec::new();
    if !series.units.is_empty() {
        let names: Vec<&str> = series.units.iter().map(|unit| unit.name()).collect();
        let text = format!("Multiple units returned: '[{}]'", names.join(", "));
        messages.push(Message { code: "MultipleUnits".to_owned(), value: text });
    }
    if series.has_dropped {
        let text = "One or more data-points have been dropped due to non-numeric values (NaN, \
                    -Infinite, +Infinite)";
        messages.push(Message { code: "ArithmeticError".to_owned(), value: text.to_owned() });
    }
    messages
}

type Named<T> = Vec<(T, Statistic)>;

fn statistics(
    input: &GetMetricStatistics,
) -> Result<(Named<&'static str>, Named<String>), ApiError> {
    if input.statistics.is_empty() && input.extended_statistics.is_empty() {
        return Err(error::invalid_combination(
            "Must specify either Statistics or ExtendedStatistics",
        ));
    }
    check::at_most_of(&input.statistics, STATISTICS_MAX, "statistics")?;
    check::at_most_of(&input.extended_statistics, EXTENDED_MAX, "extendedStatistics")?;
    let mut seen = HashSet::new();
    let simple = input.statistics.iter().filter(|name| seen.insert(*name));
    let simple = simple.map(|name| check::statistic(name, "statistics"));
    let simple = simple.collect::<Result<_, _>>()?;
    let mut extended = Vec::new();
    for wanted in input.extended_statistics.iter().filter(|name| seen.insert(*name)) {
        let found = Statistic::extended(wanted).ok_or_else(|| {
            error::invalid_value(format!(
                "The value {wanted} for parameter ExtendedStatistics is not supported."
            ))
        })?;
        extended.push((wanted.clone(), found));
    }
    Ok((simple, extended))
}

/// The queries of a request or an alarm, at most `max`. `parameter` is where they stand, for
/// messages.
pub(super) fn queries(
    scope: &Scope,
    queries: &[MetricDataQuery],
    parameter: &str,
    max: usize,
) -> Result<Vec<Query>, ApiError> {
    if queries.is_empty() {
        return Err(error::missing(parameter));
    }
    if queries.len() > max {
        return Err(error::validation(format!(
            "The collection {parameter} must not have a size greater than {max}."
        )));
    }
    let mut ids = HashSet::new();
    let mut checked = Vec::with_capacity(queries.len());
    for (number, query) in queries.iter().enumerate() {
        let at = format!("{parameter}.member.{}", number + 1);
        let query = checked_query(scope, query, &at)?;
        if !ids.insert(query.id.clone()) {
            return Err(error::validation(format!(
                "The values for parameter id in {parameter} are not unique."
            )));
        }
        checked.push(query);
    }
    Ok(checked)
}

fn checked_query(scope: &Scope, query: &MetricDataQuery, at: &str) -> Result<Query, ApiError> {
    let id = check::name(query.id.as_ref(), &format!("{at}.Id"))?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !id.starts_with(|c: char| c.is_ascii_lowercase()) || !id.bytes().all(is_part) {
        return Err(error::validation(format!(
            "The value {id} for parameter {at}.Id is not matching the expected pattern \
             ^[a-z][a-zA-Z0-9_]*$."
        )));
    }
    check::at_most(query.label.as_ref(), LABEL_CHARS, &format!("{at}.Label"))?;
    if let Some(account) = query.account_id.as_ref().filter(|account| **account != scope.account) {
        return Err(error::validation(format!(
            "The value {account} for parameter {at}.AccountId is not the account of the caller, {}: \
             metrics of other accounts are not available.",
            scope.account
        )));
    }
    let kind = match (&query.metric_stat, &query.expression) {
        (Some(stat), None) => metric_kind(scope, stat, &format!("{at}.MetricStat"))?,
        (None, Some(text)) => {
            let period = query.period_s.map(Some);
            let period = period.map(|p| check::period(p, &format!("{at}.Period"))).transpose()?;
            QueryKind::Expression { text: text.clone(), period_s: period }
        }
        (Some(_), Some(_)) => {
            return Err(error::validation(format!(
                "Exactly one of {at}.MetricStat and {at}.Expression must be specified."
            )));
        }
        // With the line break that CloudWatch ends each of its findings with.
        (None, None) => {
            let message = format!("The parameter {at}.MetricStat is required.\n");
            return Err(error::validation(message));
        }
    };
    Ok(Query {
        id: id.to_owned(),
        kind,
        label: query.label.clone().filter(|label| !label.is_empty()),
        account: query.account_id.clone(),
        is_returned: query.return_data.unwrap_or(true),
    })
}

fn metric_kind(scope: &Scope, stat: &MetricStat, at: &str) -> Result<QueryKind, ApiError> {
    let metric_at = format!("{at}.Metric");
    let namespace = check::name(stat.metric.namespace.as_ref(), &format!("{metric_at}.Namespace"))?;
    let metric = check::name(stat.metric.metric_name.as_ref(), &format!("{metric_at}.MetricName"))?;
    let entity = check::entity(
        scope,
        namespace,
        &stat.metric.dimensions,
        &format!("{metric_at}.Dimensions"),
    )?;
    let statistic = check::name(stat.stat.as_ref(), &format!("{at}.Stat"))?;
    if Statistic::of_name(statistic).is_none() {
        return Err(error::validation(format!(
            "The value {statistic} for parameter {at}.Stat is not a valid statistic."
        )));
    }
    check::unit(stat.unit.as_ref())?;
    Ok(QueryKind::Metric {
        entity,
        metric: metric.to_owned(),
        unit: stat.unit.clone(),
        statistic: statistic.to_owned(),
        period_s: check::period(stat.period_s, &format!("{at}.Period"))?,
    })
}

#[cfg(test)]
mod tests;
