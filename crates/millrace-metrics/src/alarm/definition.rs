//! An alarm, and what is remembered of it.

use std::collections::BTreeMap;

use millrace_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Rule, State};
use crate::math::{Query, QueryKind};
use crate::{BASE_PERIOD_S, Entity, Scope, Statistic};

const DAY_S: u64 = 86_400;

/// An alarm and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    pub scope: Scope,
    pub name: String,
    pub description: Option<String>,
    pub actions_enabled: bool,
    /// ARNs, by the state that is entered.
    pub ok_actions: Vec<String>,
    pub alarm_actions: Vec<String>,
    pub insufficient_data_actions: Vec<String>,
    /// One metric, or expressions of which the one that is returned counts.
    pub queries: Vec<Query>,
    /// Of the query that counts, as it was given.
    pub period_s: u64,
    pub rule: Rule,
    /// As it was put, where that does not follow from the rest: for those who ask.
    pub low_sample_count: Option<String>,
    pub threshold_metric_id: Option<String>,
    /// Whether `rule.to_alarm` and `rule.missing` were said.
    pub says_to_alarm: bool,
    pub says_missing: bool,
    /// Whether it was put with a list of queries, though that may be one metric.
    #[serde(default)]
    pub says_queries: bool,
    pub configured_at: u64,
    pub state: State,
    pub reason: String,
    /// JSON text.
    pub reason_data: Option<String>,
    pub state_updated_at: u64,
    pub state_entered_at: u64,
    pub tags: BTreeMap<String, String>,
}

impl Alarm {
    /// `arn:<partition>:cloudwatch:<region>:<account>:alarm:<name>`.
    pub fn arn(&self) -> String {
        let Scope { region, account } = &self.scope;
        let partition = millrace_core::partition(region);
        format!("arn:{partition}:cloudwatch:{region}:{account}:alarm:{}", self.name)
    }

    /// ARNs of what is to be done when it enters its state; nothing while actions are disabled.
    pub fn actions(&self) -> &[String] {
        if !self.actions_enabled {
            return &[];
        }
        match self.state {
            State::Ok => &self.ok_actions,
            State::Alarm => &self.alarm_actions,
            State::InsufficientData => &self.insufficient_data_actions,
        }
    }

    /// The one metric that it watches, if it watches no expression.
    pub fn metric(&self) -> Option<(&Entity, &str, &str, Option<&str>)> {
        match self.queries.as_slice() {
            [Query { kind: QueryKind::Metric { entity, metric, statistic, unit, .. }, .. }] => {
                Some((entity, metric, statistic, unit.as_deref()))
            }
            _ => None,
        }
    }

    /// How far apart the data points are that are looked at: a minute at least.
    pub fn evaluated_period_s(&self) -> u64 {
        self.period_s.max(BASE_PERIOD_S)
    }

    /// Whether what counts is of more than one day. User guide, "Multi-day alarms": such a one is
    /// evaluated once an hour, with the data up to the full hour.
    pub fn is_over_days(&self) -> bool {
        u64::from(self.rule.periods).saturating_mul(self.evaluated_period_s()) > DAY_S
    }

    /// How many values the data points of a percentile must be made of so that they count, if the
    /// alarm ignores fewer. User guide, "Percentile-based alarms and low data samples": 10 by the
    /// share of the values that lie on the shorter side.
    pub fn samples_min(&self) -> f64 {
        let statistic = self.metric().and_then(|(_, _, name, _)| Statistic::of_name(name));
        match statistic {
            // Of the ends, p0 and p100, no number of values would be enough: all count.
            Some(Statistic::Percentile(0.0 | 100.0)) => 0.0,
            Some(Statistic::Percentile(percent)) if self.ignores_low_samples() => {
                let shorter = if percent >= 50.0 { 100.0 - percent } else { percent };
                // 100 - 99.9 is a little less than 0.1.
                (1_000.0 / shorter - 1e-6).ceil()
            }
            _ => 0.0,
        }
    }

    fn ignores_low_samples(&self) -> bool {
        self.low_sample_count.as_deref() == Some("ignore")
    }
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryKind {
    ConfigurationUpdate,
    StateUpdate,
    Action,
}

impl HistoryKind {
    pub fn of_name(name: &str) -> Option<HistoryKind> {
        let all = [HistoryKind::ConfigurationUpdate, HistoryKind::StateUpdate, HistoryKind::Action];
        all.into_iter().find(|kind| kind.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            HistoryKind::ConfigurationUpdate => "ConfigurationUpdate",
            HistoryKind::StateUpdate => "StateUpdate",
            HistoryKind::Action => "Action",
        }
    }
}

/// Something that happened to an alarm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryItem {
    pub scope: Scope,
    pub alarm: String,
    /// Milliseconds since 1970.
    pub at: u64,
    pub kind: HistoryKind,
    pub summary: String,
    /// JSON text.
    pub data: String,
}

impl HistoryItem {
    pub(super) fn of(
        alarm: &Alarm,
        kind: HistoryKind,
        (summary, data): (String, String),
        now: Timestamp,
    ) -> HistoryItem {
        let (scope, name) = (alarm.scope.clone(), alarm.name.clone());
        HistoryItem { scope, alarm: name, at: now.0, kind, summary, data }
    }
}

/// What a change of state was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub alarm: Alarm,
    pub before: State,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::book::tests::alarm;

    #[test]
    fn data_points_are_a_minute_apart_at_least() {
        let of = |period_s| Alarm { period_s, ..alarm("a") }.evaluated_period_s();
        assert_eq!([10, 60, 300].map(of), [60, 60, 300]);
    }

    #[test]
    fn kinds_of_history_read_back() {
        let names = ["ConfigurationUpdate", "StateUpdate", "Action"];
        assert_eq!(names.map(|name| HistoryKind::of_name(name).unwrap().name()), names);
        assert_eq!(HistoryKind::of_name("action"), None);
    }
}
