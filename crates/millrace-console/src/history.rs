//! The last minutes: second by second of what somebody looked at, and minute by minute, as the
//! metrics have them, of the time that nobody did. So a chart is full at the first look. Longer
//! histories are CloudWatch's.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use millrace_core::Timestamp;
use millrace_services::Minute;
use serde_json::{Value, json};

use crate::sample::{Rates, Sample};
use crate::view::{Part, View};

/// Points kept of one thing, one a second.
const KEPT: usize = 300;
/// Points farther apart leave a gap that the metrics may fill: their minutes, and some seconds.
const UNWATCHED_MS: u64 = 75_000;
/// The time span of a chart.
pub(crate) const SHOWN: Duration = Duration::from_secs(KEPT as u64);
/// Things of which points are kept. Beyond, the account that looks at most loses the one that it has
/// not looked at for longest.
const MAX_WATCHED: usize = 200;

/// Points of everything that was looked at within the last minutes.
#[derive(Default)]
pub(crate) struct Histories(HashMap<View, History>);

#[derive(Default)]
struct History {
    points: VecDeque<Point>,
    watched_at_tick: u64,
    /// Those that had ended when somebody came to look, and the one that had not.
    minutes: Vec<Minute>,
}

#[derive(Clone, Copy)]
struct Point {
    tick: u64,
    time_ms: u64,
    ready: u64,
    in_flight: u64,
    delayed: u64,
    rates: Rates,
}

impl Histories {
    /// Notes that somebody looks at it.
    pub(crate) fn watch(&mut self, view: &View, sample: &Sample) {
        if matches!(view.part, Part::Queues(_) | Part::Server) {
            return;
        }
        if self.0.len() >= MAX_WATCHED
            && !self.0.contains_key(view)
            && let Some(oldest) = self.oldest_of_most()
        {
            self.0.remove(&oldest);
        }
        self.0.entry(view.clone()).or_default().watched_at_tick = sample.tick;
    }

    /// What the account that has most has not looked at for longest.
    fn oldest_of_most(&self) -> Option<View> {
        let mut counts: HashMap<&Option<String>, usize> = HashMap::new();
        self.0.keys().for_each(|view| *counts.entry(&view.account).or_default() += 1);
        let most = *counts.iter().max_by_key(|(_, count)| **count)?.0;
        let of_most = self.0.iter().filter(|(view, _)| view.account == *most);
        let oldest = of_most.min_by_key(|(_, history)| history.watched_at_tick);
        oldest.map(|(view, _)| view.clone())
    }

    /// Adds a point to each.
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.0.retain(|_, history| history.watched_at_tick + KEPT as u64 >= sample.tick);
        for (view, history) in &mut self.0 {
            let (counts, rates) = match &view.part {
                Part::Queue(key) => match sample.find(key).filter(|_| view.may_show(key)) {
                    Some(looked) => (looked.glance.counts, looked.rates),
                    None => continue,
                },
                _ => {
                    let sums = sample.sums(view);
                    (sums.counts, sums.rates)
                }
            };
            // After a pause there is no rate to tell.
            let Some(rates) = rates else { continue };
            if history.points.back().is_some_and(|last| last.tick >= sample.tick) {
                continue;
            }
            if history.points.len() == KEPT {
                history.points.pop_front();
            }
            history.points.push_back(Point {
                tick: sample.tick,
                time_ms: sample.now.0,
                ready: counts.ready,
                in_flight: counts.in_flight,
                delayed: counts.delayed,
                rates,
            });
        }
    }

    /// Returns true if there is time before `now` that nobody watched.
    pub(crate) fn has_gaps(&self, view: &View, now: Timestamp) -> bool {
        if matches!(view.part, Part::Queues(_) | Part::Server) {
            return false;
        }
        let Some(history) = self.0.get(view) else { return true };
        let from_ms = now.0.saturating_sub(SHOWN.as_millis() as u64);
        let seconds = history.points.iter().map(|point| point.time_ms);
        let minutes = history.minutes.iter().map(|minute| minute.end.0);
        let mut known: Vec<u64> = seconds.chain(minutes).filter(|at| *at >= from_ms).collect();
        known.extend([from_ms, now.0]);
        known.sort_unstable();
        known.windows(2).any(|pair| matches!(pair, [a, b] if b - a > UNWATCHED_MS))
    }

    /// Notes what the metrics know of the time that nobody watched. `started` is when the process
    /// began to serve, `created` when the queue was created, if there is only one.
    pub(crate) fn fill(
        &mut self,
        view: &View,
        minutes: Vec<Minute>,
        (started, created): (Timestamp, Timestamp),
    ) {
        let Some(history) = self.0.get_mut(view) else { return };
        history.minutes = minutes;
        for minute in &mut history.minutes {
            minute.begin = minute.begin.max(created).min(minute.end);
        }
        // Nothing is known from before the start: the first minute is as long as the process is old.
        if let [first] = &mut *history.minutes {
            first.begin = first.begin.max(started).min(first.end);
        }
    }

    /// Columns: time, available, in flight, delayed, sent, received and deleted a second.
    pub(crate) fn of(&self, view: &View) -> Value {
        let Some(history) = self.0.get(view) else { return json!([]) };
        let seconds = history.points.iter().map(|point| {
            let Point { time_ms, ready, in_flight, delayed, rates, .. } = *point;
            let rates = [rates.sent, rates.received, rates.deleted];
            (time_ms, [ready, in_flight, delayed].map(|count| count as f64), rates)
        });
        let mut all: Vec<(u64, [f64; 3], [f64; 3])> = seconds.chain(history.unwatched()).collect();
        all.sort_by_key(|(time_ms, ..)| *time_ms);
        all.into_iter()
            .map(|(time_ms, [ready, in_flight, delayed], [sent, received, deleted])| {
                json!([time_ms, ready, in_flight, delayed, sent, received, deleted])
            })
            .collect()
    }
}

impl History {
    /// Points of the time that nobody watched: at the end of each minute in which there is no point
    /// of a second, and at the beginning of the first minute if no second is that old. So one second
    /// that was watched joins the time before it, however short that was: it is not a dot.
    fn unwatched(&self) -> impl Iterator<Item = (u64, [f64; 3], [f64; 3])> {
        let known = self.minutes.iter().filter(|minute| minute.end > minute.begin);
        known.enumerate().flat_map(|(index, minute)| {
            let is_watched = |from_ms: u64, to_ms: u64| {
                self.points.iter().any(|point| point.time_ms > from_ms && point.time_ms < to_ms)
            };
            let is_begun = index > 0 || is_watched(0, minute.begin.0 + 1);
            let is_ended = is_watched(minute.begin.0, minute.end.0);
            let begin = (!is_begun).then_some(minute.begin.0);
            let end = (!is_ended).then_some(minute.end.0);
            let seconds = (minute.end.0 - minute.begin.0) as f64 / 1000.0;
            let counts = [minute.ready, minute.in_flight, minute.delayed];
            let rates = [minute.sent, minute.received, minute.deleted].map(|n| n / seconds);
            begin.into_iter().chain(end).map(move |time_ms| (time_ms, counts, rates))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(begin_s: u64, sent: f64) -> Minute {
        let (begin, end) = (Timestamp(begin_s * 1000), Timestamp((begin_s + 60) * 1000));
        Minute { begin, end, ready: 7.0, sent, ..Minute::default() }
    }

    fn second(time_s: u64) -> Point {
        let rates = Rates { sent: 9.0, ..Rates::default() };
        let (tick, time_ms) = (time_s, time_s * 1000);
        Point { tick, time_ms, ready: 8, in_flight: 0, delayed: 0, rates }
    }

    fn histories(points: &[u64], minutes: Vec<Minute>) -> (Histories, View) {
        let view = View { account: None, part: Part::Overview };
        let mut histories = Histories::default();
        let history = histories.0.entry(view.clone()).or_default();
        history.points = points.iter().map(|at| second(*at)).collect();
        histories.fill(&view, minutes, (Timestamp(0), Timestamp(0)));
        (histories, view)
    }

    /// Time and sends a second of each point.
    fn shown((histories, view): &(Histories, View)) -> Vec<(u64, f64)> {
        let points = histories.of(view);
        let point = |point: &Value| (point[0].as_u64().unwrap() / 1000, point[4].as_f64().unwrap());
        points.as_array().unwrap().iter().map(point).collect()
    }

    #[test]
    fn minutes_fill_what_nobody_watched() {
        let minutes = vec![minute(0, 60.0), minute(60, 120.0), minute(120, 180.0)];

        let known = histories(&[150, 151], minutes);

        assert_eq!(shown(&known), [(0, 1.0), (60, 1.0), (120, 2.0), (150, 9.0), (151, 9.0)]);
    }

    #[test]
    fn a_second_that_was_watched_joins_the_time_before_it() {
        let (mut histories, view) = histories(&[25], Vec::new());
        let open = Minute { end: Timestamp(30_000), ..minute(0, 50.0) };

        histories.fill(&view, vec![open], (Timestamp(0), Timestamp(20_000)));

        assert_eq!(shown(&(histories, view)), [(20, 5.0), (25, 9.0)]);
    }

    #[test]
    fn minutes_add_nothing_before_seconds_that_reach_as_far() {
        let watched: Vec<u64> = (58..62).collect();

        let known = histories(&watched, vec![minute(60, 60.0)]);

        assert_eq!(shown(&known), [(58, 9.0), (59, 9.0), (60, 9.0), (61, 9.0)]);
    }

    #[test]
    fn the_minute_of_the_start_is_as_long_as_the_process_is_old() {
        let (mut histories, view) = histories(&[], Vec::new());
        let open = Minute { end: Timestamp(30_000), ..minute(0, 50.0) };

        histories.fill(&view, vec![open], (Timestamp(20_000), Timestamp(0)));

        assert_eq!(shown(&(histories, view)), [(20, 5.0), (30, 5.0)]);
    }

    #[test]
    fn nothing_is_shown_of_the_time_before_a_queue_was_created() {
        let (mut histories, view) = histories(&[], Vec::new());

        histories.fill(
            &view,
            vec![minute(0, 40.0), minute(60, 60.0)],
            (Timestamp(0), Timestamp(20_000)),
        );

        assert_eq!(shown(&(histories, view)), [(20, 1.0), (60, 1.0), (120, 1.0)]);
    }

    #[test]
    fn minutes_are_asked_for_where_there_are_gaps() {
        let (none, view) = histories(&[], Vec::new());
        assert!(none.has_gaps(&view, Timestamp(400_000)));

        let watched: Vec<u64> = (100..400).collect();
        assert!(!histories(&watched, Vec::new()).0.has_gaps(&view, Timestamp(400_000)));
        let minutes = (0..6).map(|n| minute(60 * n, 0.0)).collect();
        assert!(!histories(&[399], minutes).0.has_gaps(&view, Timestamp(400_000)));
    }
}
