//! The last minutes second by second, of what somebody looks at: so that a chart is there at once
//! when a tab is opened again. Longer histories are CloudWatch's.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use crate::sample::{Rates, Sample};
use crate::view::{Part, View};

/// Points kept of one thing, one a second.
const KEPT: usize = 300;
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
        if matches!(view.part, Part::Queues(_)) {
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

    /// Columns: time, available, in flight, delayed, sent, received and deleted a second.
    pub(crate) fn of(&self, view: &View) -> Value {
        let Some(history) = self.0.get(view) else { return json!([]) };
        let point = |point: &Point| {
            let Point { time_ms, ready, in_flight, delayed, rates, .. } = *point;
            json!([time_ms, ready, in_flight, delayed, rates.sent, rates.received, rates.deleted])
        };
        history.points.iter().map(point).collect()
    }
}
