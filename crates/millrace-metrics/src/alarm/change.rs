//! A change of an alarm's state, and the actions that it owes.

use millrace_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Alarm, HistoryItem, State, Verdict, reason};

/// A change of an alarm's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// In the state that it entered.
    pub alarm: Alarm,
    pub before: State,
}

/// A change of state and the actions that are still to be done because of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owed {
    /// Names it among all that is owed.
    pub id: u64,
    pub change: Change,
    /// ARNs of the actions, in the order in which they are to be done.
    pub arns: Vec<String>,
}

impl Alarm {
    /// Enters a state. If it is another one, returns the change and its item of the history.
    pub fn enter(
        &mut self,
        state: State,
        reason: String,
        data: Option<String>,
        now: Timestamp,
    ) -> Option<(Change, HistoryItem)> {
        let before = std::mem::replace(&mut self.state, state);
        let old_reason = std::mem::replace(&mut self.reason, reason);
        let old_data = std::mem::replace(&mut self.reason_data, data);
        self.state_updated_at = now.0;
        if before == state {
            return None;
        }
        self.state_entered_at = now.0;
        let item = HistoryItem::entered(self, (before, &old_reason, old_data.as_deref()), now);
        Some((Change { alarm: self.clone(), before }, item))
    }

    /// Enters the state that an evaluation found. If the alarm is in it, it stays as it is.
    pub fn enter_by(&mut self, verdict: &Verdict, now: Timestamp) -> Option<(Change, HistoryItem)> {
        if self.state == verdict.state {
            return None;
        }
        let (text, data) = (reason::text(self, verdict), reason::data(self, verdict, now));
        self.enter(verdict.state, text, Some(data), now)
    }
}

impl Owed {
    /// All actions of the state that was entered.
    pub fn of(id: u64, change: Change) -> Owed {
        let arns = change.alarm.actions().to_vec();
        Owed { id, change, arns }
    }

    /// The alarm in the state that it entered.
    pub fn alarm(&self) -> &Alarm {
        &self.change.alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::WatchedPoint;
    use crate::alarm::definition::tests::alarm;
    use crate::math::QueryKind;

    fn point(time_s: u64, value: f64) -> WatchedPoint {
        WatchedPoint { time_s, value, samples: Some(1.0) }
    }

    fn json(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_reason_holds_a_bounded_number_of_data_points() {
        let points = (0..1_440).rev().map(|minute| point(minute * 60, minute as f64)).collect();
        let verdict = Verdict { state: State::Alarm, points, missing: vec![0] };

        let (change, _) = alarm("a").enter_by(&verdict, Timestamp(2)).unwrap();

        let data = json(change.alarm.reason_data.as_deref().unwrap());
        let kept = data["recentDatapoints"].as_array().unwrap();
        assert_eq!((kept.len(), &kept[0], &kept[99]), (100, &1340.0.into(), &1439.0.into()));
        assert_eq!(data["evaluatedDatapoints"].as_array().unwrap().len(), 10);
    }

    #[test]
    fn reason_data_tell_what_was_looked_at() {
        let mut watching = alarm("a");
        if let QueryKind::Metric { unit, .. } = &mut watching.queries[0].kind {
            *unit = Some("Count".into());
        }
        let points = vec![point(60, 11.0), point(0, 9.0)];
        let verdict = Verdict { state: State::Alarm, points, missing: vec![120] };

        let (change, item) = watching.enter_by(&verdict, Timestamp(180_500)).unwrap();

        let evaluated = serde_json::json!([
            {"timestamp": "1970-01-01T00:02:00.000+0000"},
            {"timestamp": "1970-01-01T00:01:00.000+0000", "sampleCount": 1.0, "value": 11.0},
            {"timestamp": "1970-01-01T00:00:00.000+0000", "sampleCount": 1.0, "value": 9.0},
        ]);
        let expected = serde_json::json!({
            "version": "1.0",
            "queryDate": "1970-01-01T00:03:00.500+0000",
            "startDate": "1970-01-01T00:00:00.000+0000",
            "statistic": "Maximum",
            "unit": "Count",
            "period": 60,
            "recentDatapoints": [9.0, 11.0],
            "threshold": 10.0,
            "evaluatedDatapoints": evaluated,
        });
        assert_eq!(json(change.alarm.reason_data.as_deref().unwrap()), expected);
        let history = json(&item.data);
        assert_eq!(history["newState"]["stateReasonData"], expected);
        assert!(history["oldState"].get("stateReasonData").is_none());
    }
}
