//! An alarm and its state.

use std::collections::BTreeMap;

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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::alarm::{Comparison, MissingData};

    pub(in crate::alarm) fn alarm(name: &str) -> Alarm {
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let kind = QueryKind::Metric {
            entity: Entity::new(
                scope.clone(),
                "AWS/SQS",
                vec![("QueueName".into(), "jobs".into())],
            ),
            metric: "ApproximateNumberOfMessagesVisible".into(),
            unit: None,
            statistic: "Maximum".into(),
            period_s: 60,
        };
        let query = Query { id: "m".into(), kind, label: None, account: None, is_returned: true };
        let rule = Rule {
            comparison: Comparison::GreaterThanThreshold,
            threshold: 10.0,
            periods: 1,
            to_alarm: 1,
            missing: MissingData::Missing,
        };
        Alarm {
            scope,
            name: name.into(),
            description: None,
            actions_enabled: true,
            ok_actions: vec!["arn:ok".into()],
            alarm_actions: vec!["arn:alarm".into()],
            insufficient_data_actions: Vec::new(),
            queries: vec![query],
            period_s: 60,
            rule,
            low_sample_count: None,
            threshold_metric_id: None,
            says_to_alarm: false,
            says_missing: false,
            says_queries: false,
            configured_at: 0,
            state: State::InsufficientData,
            reason: "Unchecked: Initial alarm creation".into(),
            reason_data: None,
            state_updated_at: 0,
            state_entered_at: 0,
            tags: BTreeMap::new(),
        }
    }

    #[test]
    fn data_points_are_a_minute_apart_at_least() {
        let of = |period_s| Alarm { period_s, ..alarm("a") }.evaluated_period_s();
        assert_eq!([10, 60, 300].map(of), [60, 60, 300]);
    }

    #[test]
    fn percentiles_need_samples_by_the_share_beyond_them() {
        let of = |name: &str, low: Option<&str>| {
            let mut alarm = Alarm { low_sample_count: low.map(str::to_owned), ..alarm("a") };
            if let QueryKind::Metric { statistic, .. } = &mut alarm.queries[0].kind {
                name.clone_into(statistic);
            }
            alarm.samples_min()
        };

        let ignored = |name: &str| of(name, Some("ignore"));
        assert_eq!(ignored("p99"), 1_000.0);
        assert_eq!((ignored("p0"), ignored("p100")), (0.0, 0.0), "there are no more than all");
        assert_eq!(ignored("p99.9"), 10_000.0);
        assert_eq!((ignored("p50"), ignored("p50.5"), ignored("p10")), (20.0, 21.0, 100.0));
        assert_eq!((of("p99", None), of("p99", Some("evaluate"))), (0.0, 0.0));
        assert_eq!((ignored("Maximum"), ignored("tm99")), (0.0, 0.0));
    }
}
