//! The history of alarms, as CloudWatch shows it.

use millrace_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::configuration::{self, Step};
use super::{Alarm, State};
use crate::Scope;

/// The kind of a history item.
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
    /// An alarm was put or deleted. `alarm` is as it was before it was deleted, or as it is now.
    pub fn configured(step: Step, alarm: &Alarm, now: Timestamp) -> HistoryItem {
        let summary = format!("Alarm \"{}\" {}", alarm.name, step.past());
        let kind = HistoryKind::ConfigurationUpdate;
        HistoryItem::of(alarm, kind, (summary, configuration::data(step, alarm)), now)
    }

    /// An alarm entered another state than `before`, for whose reason and data it gives others.
    pub(super) fn entered(
        alarm: &Alarm,
        before: (State, &str, Option<&str>),
        now: Timestamp,
    ) -> HistoryItem {
        let summary = format!("Alarm updated from {} to {}", before.0.name(), alarm.state.name());
        let data = serde_json::json!({
            "version": "1.0",
            "oldState": side_of_change(before),
            "newState": side_of_change((alarm.state, &alarm.reason, alarm.reason_data.as_deref())),
        });
        HistoryItem::of(alarm, HistoryKind::StateUpdate, (summary, data.to_string()), now)
    }

    /// An action was done because an alarm had entered its state, or could not be done.
    pub fn acted(alarm: &Alarm, arn: &str, failure: Option<&str>, now: Timestamp) -> HistoryItem {
        let (summary, state) = match failure {
            None => (format!("Successfully executed action {arn}"), "Succeeded"),
            Some(failure) => (format!("Failed to execute action {arn}: {failure}"), "Failed"),
        };
        let data = serde_json::json!({
            "actionState": state,
            "stateUpdateTimestamp": alarm.state_updated_at,
            "notificationResource": arn,
            "error": failure,
        });
        HistoryItem::of(alarm, HistoryKind::Action, (summary, data.to_string()), now)
    }

    fn of(
        alarm: &Alarm,
        kind: HistoryKind,
        (summary, data): (String, String),
        now: Timestamp,
    ) -> HistoryItem {
        let (scope, name) = (alarm.scope.clone(), alarm.name.clone());
        HistoryItem { scope, alarm: name, at: now.0, kind, summary, data }
    }
}

/// A state as the history tells of a change from it, or to it.
fn side_of_change((state, reason, data): (State, &str, Option<&str>)) -> serde_json::Value {
    let mut side = serde_json::json!({"stateValue": state.name(), "stateReason": reason});
    if let Some(data) = data.and_then(|data| serde_json::from_str(data).ok()) {
        side["stateReasonData"] = data;
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_history_read_back() {
        let names = ["ConfigurationUpdate", "StateUpdate", "Action"];
        assert_eq!(names.map(|name| HistoryKind::of_name(name).unwrap().name()), names);
        assert_eq!(HistoryKind::of_name("action"), None);
    }
}
