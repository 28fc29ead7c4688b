//! Evaluating alarms.

use millrace_core::Timestamp;
use millrace_metrics::alarm::{Alarm, Watched, WatchedPoint};
use millrace_metrics::math::{self, Found, Query, QueryError, QueryKind, Span};
use millrace_metrics::{BASE_PERIOD_S, Interrupt, MetricStore};

use super::act::announce;
use super::alarms::{SharedBook, lock};

/// Data points of alarms that are in memory at a time, as far as is known before they are read.
const POINTS_PER_READ: u64 = 50_000;

const HOUR_S: u64 = 3_600;

type Points = Result<Vec<WatchedPoint>, QueryError>;

/// The alarms of an account that are to be evaluated: those for which another minute has ended
/// since `since`, the latest evaluation of this process if there was one, and those that were
/// configured since then.
pub(super) fn due(
    book: &SharedBook,
    account: &str,
    since: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Alarm> {
    let is_due = |alarm: &&Alarm| {
        since.is_none_or(|since| {
            alarm.configured_at >= since.0 || end_s(alarm, since) != end_s(alarm, now)
        })
    };
    let book = lock(book);
    let of_account = book.scopes().filter(|scope| scope.account == account);
    of_account.flat_map(|scope| book.of_scope(scope)).filter(is_due).cloned().collect()
}

/// Judges the first of the alarms that are left by the minutes that have ended, and takes them from
/// there. Says whether any changed; that and what is to be done about it is in the book, not synced
/// yet. An interrupt leaves the alarms as they are.
pub(super) fn evaluate_batch(
    store: &MetricStore,
    book: &SharedBook,
    left: &mut Vec<Alarm>,
    (interrupt, now): (&Interrupt, Timestamp),
) -> bool {
    let count = batches(left).next().map_or(0, <[Alarm]>::len);
    let batch: Vec<Alarm> = left.drain(..count).collect();
    let points = points_of_all(store, &batch, (interrupt, now));
    if interrupt.is_set() {
        return false;
    }
    let judged = batch.iter().zip(points).map(|(alarm, points)| judge(book, alarm, points, now));
    judged.fold(false, |any, has_changed| any | has_changed)
}

/// Alarms whose data points are read together.
fn batches(alarms: &[Alarm]) -> impl Iterator<Item = &[Alarm]> {
    let mut left = alarms;
    std::iter::from_fn(move || {
        let mut points = 0;
        let is_within = |alarm: &&Alarm| {
            points += alarm.rule.range_periods() * (alarm.queries.len() as u64 + 1);
            points <= POINTS_PER_READ
        };
        let count = left.iter().take_while(is_within).count().max(1);
        let (batch, rest) = left.split_at(count.min(left.len()));
        left = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Says whether the alarm changed.
fn judge(book: &SharedBook, alarm: &Alarm, points: Points, now: Timestamp) -> bool {
    let points = match points {
        Ok(points) => points,
        // A fault of its expression shows as missing data; it would stay as it is for ever.
        Err(error @ QueryError::Math { .. }) => {
            tracing::debug!(alarm = alarm.name, %error, "an alarm's expression has no value");
            Vec::new()
        }
        Err(error) => {
            tracing::warn!(alarm = alarm.name, %error, "alarm cannot be evaluated");
            return false;
        }
    };
    let (end_s, period_s) = (end_s(alarm, now), alarm.evaluated_period_s());
    let samples_min = alarm.samples_min();
    let watched = Watched { points: &points, period_s, end_s, samples_min };
    let mut book = lock(book);
    // Its state may have been set by hand meanwhile; data of another configuration say nothing.
    let present = book.alarm(&alarm.scope, &alarm.name);
    let present = present.filter(|present| present.configured_at == alarm.configured_at);
    let Some(present) = present.map(|present| present.state) else { return false };
    let verdict = alarm.rule.judge(&watched, present);
    match book.judged(&alarm.scope, &alarm.name, &verdict, now) {
        Ok(Some(owed)) => {
            announce(&owed.change);
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::error!(alarm = alarm.name, %error, "state is not stored");
            false
        }
    }
}

/// The data points of the periods that alarms look at, the last of which has just ended.
fn points_of_all(
    store: &MetricStore,
    alarms: &[Alarm],
    (interrupt, now): (&Interrupt, Timestamp),
) -> Vec<Points> {
    let asked: Vec<(Vec<Query>, Span)> =
        alarms.iter().map(|alarm| (with_samples(alarm), span(alarm, now))).collect();
    let asked: Vec<(&[Query], &Span)> =
        asked.iter().map(|(queries, span)| (queries.as_slice(), span)).collect();
    match math::answer_all(store, &asked, (interrupt, now)) {
        Ok(answers) => answers.into_iter().map(|found| found.map(watched_points)).collect(),
        // One of them may ask for too much: the others are to be evaluated.
        Err(_) if alarms.len() > 1 => {
            let alone = alarms.chunks(1);
            alone.flat_map(|alarm| points_of_all(store, alarm, (interrupt, now))).collect()
        }
        Err(error) => vec![Err(error.into())],
    }
}

fn span(alarm: &Alarm, now: Timestamp) -> Span {
    let end_s = end_s(alarm, now);
    let range_s = alarm.rule.range_periods().saturating_mul(alarm.evaluated_period_s());
    let start_s = end_s.saturating_sub(range_s);
    Span { scope: alarm.scope.clone(), start_s, end_s, origin_s: end_s, now }
}

fn watched_points(found: Vec<Found>) -> Vec<WatchedPoint> {
    let mut found = found.into_iter();
    let mut next = || found.next().and_then(|found| found.series.into_iter().next());
    let (values, samples) = (next().unwrap_or_default(), next().unwrap_or_default());
    let point = |(time_s, value)| {
        let samples = samples.points.get(&time_s).copied();
        WatchedPoint { time_s, value, samples }
    };
    values.points.into_iter().map(point).collect()
}

/// What an alarm watches and, of one metric, how many values its data points are made of.
fn with_samples(alarm: &Alarm) -> Vec<Query> {
    let mut queries = alarm.queries.clone();
    if let [only] = alarm.queries.as_slice()
        && let QueryKind::Metric { .. } = only.kind
    {
        let mut samples = Query { id: format!("{}_samples", only.id), ..only.clone() };
        if let QueryKind::Metric { statistic, .. } = &mut samples.kind {
            "SampleCount".clone_into(statistic);
        }
        queries.push(samples);
    }
    queries
}

/// Until when the alarm looks: the end of the last minute that has ended; over several days, of the
/// last hour.
fn end_s(alarm: &Alarm, now: Timestamp) -> u64 {
    let step_s = if alarm.is_over_days() { HOUR_S } else { BASE_PERIOD_S };
    now.seconds() - now.seconds() % step_s
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use millrace_metrics::alarm::{MissingData, State};
    use millrace_metrics::{Entity, Record, Scope, Summary, Unit};
    use millrace_wire::cloudwatch::{MetricDataQuery, PutMetricAlarm};

    use super::*;
    use crate::cloudwatch::book::tests::book;
    use crate::cloudwatch::put_alarm::alarm;
    use crate::cloudwatch::put_alarm::tests::{example, example_of_queries};

    /// Evaluates all alarms of the account of these tests that are due.
    fn evaluate(
        store: &MetricStore,
        book: &SharedBook,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let mut left = due(book, "000000000000", since, now);
        let mut has_changed = false;
        while !left.is_empty() {
            has_changed |= evaluate_batch(store, book, &mut left, (&Interrupt::default(), now));
        }
        has_changed
    }

    #[test]
    fn an_alarm_whose_expression_fails_has_no_data() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let query = MetricDataQuery {
            id: Some("e".into()),
            expression: Some("SUM(gone)".into()),
            ..MetricDataQuery::default()
        };
        let input = PutMetricAlarm {
            metrics: vec![query],
            treat_missing_data: Some("breaching".into()),
            ..example_of_queries()
        };
        let mut book = book();
        book.put(alarm(&scope, &input, Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
        let book: SharedBook = Arc::new(Mutex::new(book));
        let store = MetricStore::open(None, Timestamp(1)).unwrap();

        assert!(evaluate(&store, &book, None, Timestamp(600_000)));
        assert_eq!(lock(&book).alarm(&scope, "many").unwrap().state, State::Alarm);
    }

    #[test]
    fn an_alarm_looks_at_minutes_that_have_ended_and_two_more_than_count() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let store = MetricStore::open(None, Timestamp(1)).unwrap();
        let entity = Entity::new(scope.clone(), "AWS/SQS", Vec::new());
        let (metric, unit, summary) = ("NumberOfMessagesSent", Unit::Count, Summary::of(5.0));
        store.record(&[Record { entity: &entity, metric, unit, time_s: 540, summary }]).unwrap();
        let state_at = |now_s: u64, period_s: i64, periods: i64| {
            let input = PutMetricAlarm {
                period_s: Some(period_s),
                evaluation_periods: Some(periods),
                datapoints_to_alarm: Some(1),
                ..example()
            };
            let mut book = book();
            book.put(alarm(&scope, &input, Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
            let book: SharedBook = Arc::new(Mutex::new(book));
            let has_changed = evaluate(&store, &book, None, Timestamp(now_s * 1000));
            let state = lock(&book).alarm(&scope, "many").unwrap().state;
            assert_eq!(has_changed, state != State::InsufficientData);
            state
        };

        for (now_s, period_s, periods, expected) in [
            (599, 60, 1, State::InsufficientData),
            (600, 60, 1, State::Alarm),
            (779, 60, 1, State::Alarm),
            (780, 60, 1, State::InsufficientData),
            (839, 60, 2, State::Alarm),
            (840, 60, 2, State::InsufficientData),
            // Periods end with the minute, whenever that is; those below one are one.
            (1_499, 300, 1, State::Alarm),
            (1_500, 300, 1, State::InsufficientData),
            (779, 10, 1, State::Alarm),
            (780, 10, 1, State::InsufficientData),
        ] {
            assert_eq!(
                state_at(now_s, period_s, periods),
                expected,
                "{now_s} {period_s} {periods}"
            );
        }
    }

    #[test]
    fn an_alarm_over_days_is_evaluated_once_an_hour_with_what_was_measured_until_then() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let store = MetricStore::open(None, Timestamp(1)).unwrap();
        let entity = Entity::new(scope.clone(), "AWS/SQS", Vec::new());
        let minute = |minute: u64| Timestamp((100 * 60 + minute) * 60_000);
        let (metric, unit, summary) = ("NumberOfMessagesSent", Unit::Count, Summary::of(5.0));
        let time_s = minute(30).seconds();
        store.record(&[Record { entity: &entity, metric, unit, time_s, summary }]).unwrap();
        let mut book = book();
        for (name, periods) in [("day", 24), ("days", 25)] {
            let input = PutMetricAlarm {
                alarm_name: Some(name.into()),
                period_s: Some(3_600),
                evaluation_periods: Some(periods),
                datapoints_to_alarm: Some(1),
                ..example()
            };
            book.put(alarm(&scope, &input, Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
        }
        let book: SharedBook = Arc::new(Mutex::new(book));
        let states_at = |since: Option<u64>, now: u64| {
            evaluate(&store, &book, since.map(minute), minute(now));
            ["day", "days"].map(|name| lock(&book).alarm(&scope, name).unwrap().state)
        };

        let (none, high, set) = (State::InsufficientData, State::Alarm, State::Ok);
        assert_eq!(states_at(None, 45), [high, none]);
        assert_eq!(states_at(Some(45), 59), [high, none]);
        assert_eq!(states_at(Some(59), 60), [high, high]);
        for name in ["day", "days"] {
            let reason = ("by hand".to_owned(), None);
            lock(&book).set_state(&scope, name, set, reason, minute(61)).unwrap();
        }
        assert_eq!(states_at(Some(60), 61), [high, set]);
        assert_eq!(states_at(Some(61), 119), [high, set]);
        let mut configured = lock(&book).alarm(&scope, "days").unwrap().clone();
        configured.configured_at = minute(119).0;
        lock(&book).put(configured, minute(119)).unwrap();
        assert_eq!(states_at(Some(119), 119), [high, high], "once it is configured");
    }

    #[test]
    fn a_state_that_is_set_by_hand_during_an_evaluation_stays() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let store = MetricStore::open(None, Timestamp(1)).unwrap();
        let mut book = book();
        for name in ["kept", "configured", "deleted"] {
            let (alarm_name, treat_missing_data) = (Some(name.into()), Some("ignore".into()));
            let input = PutMetricAlarm { alarm_name, treat_missing_data, ..example() };
            book.put(alarm(&scope, &input, Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
        }
        let book: SharedBook = Arc::new(Mutex::new(book));
        let now = Timestamp(600_000);
        let mut left = due(&book, "000000000000", None, now);
        {
            let (mut book, by_hand) = (lock(&book), || ("by hand".to_owned(), None));
            book.set_state(&scope, "kept", State::Ok, by_hand(), now).unwrap();
            let mut configured = book.alarm(&scope, "configured").unwrap().clone();
            (configured.configured_at, configured.rule.missing) = (now.0, MissingData::Breaching);
            book.put(configured, now).unwrap();
            book.delete(&scope, "deleted", now).unwrap();
        }

        let has_changed = evaluate_batch(&store, &book, &mut left, (&Interrupt::default(), now));

        assert!(!has_changed);
        let states =
            ["kept", "configured"].map(|name| lock(&book).alarm(&scope, name).unwrap().state);
        assert_eq!(states, [State::Ok, State::InsufficientData]);
    }

    #[test]
    fn alarms_that_are_read_together_are_judged_each_by_its_own_periods() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let store = MetricStore::open(None, Timestamp(1)).unwrap();
        let entity = Entity::new(scope.clone(), "AWS/SQS", Vec::new());
        let (metric, unit, summary) = ("NumberOfMessagesSent", Unit::Count, Summary::of(1.0));
        let minutes = (0..60).map(|minute| {
            let (summary, time_s) = (summary.clone(), minute * 60);
            Record { entity: &entity, metric, unit, time_s, summary }
        });
        store.record(&minutes.collect::<Vec<_>>()).unwrap();
        let mut book = book();
        for minutes in 1..=60 {
            let input = PutMetricAlarm {
                alarm_name: Some(format!("{minutes}")),
                period_s: Some(60 * minutes),
                threshold: Some(29.5),
                ..example()
            };
            book.put(alarm(&scope, &input, Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
        }
        let book: SharedBook = Arc::new(Mutex::new(book));

        assert!(evaluate(&store, &book, None, Timestamp(3_600_000)));
        for minutes in 1..=60 {
            let state = lock(&book).alarm(&scope, &minutes.to_string()).unwrap().state;
            let expected = if minutes >= 30 { State::Alarm } else { State::Ok };
            assert_eq!(state, expected, "of {minutes} minutes");
        }
    }

    #[test]
    fn alarms_are_read_in_batches_of_a_bounded_number_of_data_points() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let alarm_over = |periods: i64| {
            let input = PutMetricAlarm { evaluation_periods: Some(periods), ..example() };
            alarm(&scope, &input, Timestamp(1)).unwrap()
        };
        let sizes = |alarms: &[Alarm]| batches(alarms).map(<[Alarm]>::len).collect::<Vec<_>>();

        // Two periods more are looked at, and the number of values beside the statistic.
        assert_eq!(sizes(&vec![alarm_over(98); 600]), [250, 250, 100]);
        assert_eq!(sizes(&[alarm_over(1), alarm_over(1_440), alarm_over(1)]), [3]);
        assert!(sizes(&[]).is_empty());
        let mut large = alarm_over(1_440);
        large.queries = vec![large.queries[0].clone(); 20];
        assert_eq!(sizes(&[alarm_over(1), large.clone(), large, alarm_over(1)]), [2, 2]);
    }

    #[test]
    fn a_percentile_of_few_values_changes_nothing_if_it_is_to_be_ignored() {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let input = |low: &str| PutMetricAlarm {
            alarm_name: Some(low.into()),
            statistic: None,
            extended_statistic: Some("p90".into()),
            evaluate_low_sample_count_percentile: Some(low.into()),
            ..example()
        };
        let mut book = book();
        for low in ["evaluate", "ignore"] {
            book.put(alarm(&scope, &input(low), Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
        }
        let book: SharedBook = Arc::new(Mutex::new(book));
        let store = MetricStore::open(None, Timestamp(1)).unwrap();
        let entity = Entity::new(scope.clone(), "AWS/SQS", Vec::new());
        let state = |name: &str| lock(&book).alarm(&scope, name).unwrap().state;
        let mut states = Vec::new();
        for (minute, count) in [(9, 99.0), (10, 100.0)] {
            let summary = Summary::of_values([(5.0, count)]).unwrap();
            let (time_s, unit, metric) = (minute * 60, Unit::Count, "NumberOfMessagesSent");
            store.record(&[Record { entity: &entity, metric, unit, time_s, summary }]).unwrap();
            evaluate(&store, &book, None, Timestamp((time_s + 60) * 1000));
            states.push((state("evaluate"), state("ignore")));
        }

        let before = (State::Alarm, State::InsufficientData);
        assert_eq!(states, [before, (State::Alarm, State::Alarm)]);
    }
}
