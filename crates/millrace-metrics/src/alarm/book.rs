//! All alarms, their states and what happened to them, on disk.
//!
//! The file `alarms.log` holds one JSON text a frame: an alarm as it is from then on, the name of one
//! that is gone, or an item of the history. It is written anew when it is opened and when most of it
//! is outdated.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Rule, State, Verdict};
use crate::log::Log;
use crate::math::Query;
use crate::{Entity, Scope};

/// CloudWatch: alarms of an account and region.
const ALARMS_MAX: usize = 5_000;
/// Items of the history that are kept at most, of all alarms together.
const HISTORY_MAX: usize = 10_000;
/// CloudWatch keeps the history of alarms for 30 days.
const HISTORY_KEPT_S: u64 = 30 * 86_400;
/// Frames of a file beyond those that it would need when written anew.
const OUTDATED_FRAMES_MAX: usize = 20_000;

/// Why alarms were not changed.
#[derive(Debug, thiserror::Error)]
pub enum AlarmError {
    #[error("there is no alarm of that name")]
    NotFound,
    #[error("there are {ALARMS_MAX} alarms already")]
    TooMany,
    #[error("alarms cannot be written: {0}")]
    Io(#[from] io::Error),
}

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
    /// Of the query that counts.
    pub period_s: u64,
    pub rule: Rule,
    /// As it was put, where that does not follow from the rest: for those who ask.
    pub low_sample_count: Option<String>,
    pub threshold_metric_id: Option<String>,
    /// Whether `rule.to_alarm` and `rule.missing` were said.
    pub says_to_alarm: bool,
    pub says_missing: bool,
    pub configured_at: u64,
    pub state: State,
    pub reason: String,
    /// JSON text.
    pub reason_data: Option<String>,
    pub state_updated_at: u64,
    pub state_entered_at: u64,
    pub tags: BTreeMap<String, String>,
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
        Some(match name {
            "ConfigurationUpdate" => HistoryKind::ConfigurationUpdate,
            "StateUpdate" => HistoryKind::StateUpdate,
            "Action" => HistoryKind::Action,
            _ => return None,
        })
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

/// What a change of state was.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub alarm: Alarm,
    pub before: State,
}

/// The history, oldest first.
pub type KeptHistory = VecDeque<HistoryItem>;

/// All alarms. What its methods return is durable once [`AlarmBook::take_dirty`]'s file is synced.
#[derive(Debug)]
pub struct AlarmBook {
    path: Option<PathBuf>,
    log: Log,
    frames: usize,
    alarms: BTreeMap<Scope, BTreeMap<String, Alarm>>,
    history: KeptHistory,
}

#[derive(Serialize, Deserialize)]
enum Frame {
    Alarm(Box<Alarm>),
    Deleted { scope: Scope, name: String },
    History(HistoryItem),
}

impl AlarmBook {
    /// Opens or creates `alarms.log` in `dir`; without one the book lives in memory.
    pub fn open(dir: Option<&Path>, now: Timestamp) -> io::Result<AlarmBook> {
        let mut book = AlarmBook {
            path: None,
            log: Log::in_memory(),
            frames: 0,
            alarms: BTreeMap::new(),
            history: VecDeque::new(),
        };
        if let Some(dir) = dir {
            std::fs::create_dir_all(dir)?;
            let path = dir.join("alarms.log");
            drop(Log::open(&path, |_, _, payload| match serde_json::from_slice(payload) {
                Ok(frame) => book.apply(frame),
                Err(error) => tracing::warn!(%error, "a frame of the alarms is left out"),
            })?);
            book.path = Some(path);
            book.forget(now);
            if let Err(error) = book.rewrite() {
                tracing::warn!(%error, "the file of alarms is used as it is");
                book.open_log()?;
            }
        }
        Ok(book)
    }

    /// Puts an alarm; of one that exists the state and the tags stay. Says whether it is new.
    pub fn put(&mut self, mut alarm: Alarm, now: Timestamp) -> Result<bool, AlarmError> {
        let of_scope = self.alarms.entry(alarm.scope.clone()).or_default();
        let known = of_scope.get(&alarm.name);
        let (is_new, summary) = match known {
            Some(known) => {
                alarm.state = known.state;
                alarm.reason.clone_from(&known.reason);
                alarm.reason_data.clone_from(&known.reason_data);
                alarm.state_updated_at = known.state_updated_at;
                alarm.state_entered_at = known.state_entered_at;
                alarm.tags.clone_from(&known.tags);
                (false, format!("Alarm \"{}\" updated", alarm.name))
            }
            None if of_scope.len() >= ALARMS_MAX => return Err(AlarmError::TooMany),
            None => (true, format!("Alarm \"{}\" created", alarm.name)),
        };
        let kind = if is_new { "Create" } else { "Update" };
        let data = serde_json::json!({"version": "1.0", "type": kind}).to_string();
        self.keep(alarm.clone())?;
        self.note(&alarm, HistoryKind::ConfigurationUpdate, summary, data, now)?;
        Ok(is_new)
    }

    /// Deletes an alarm; says whether there was one.
    pub fn delete(&mut self, scope: &Scope, name: &str, now: Timestamp) -> io::Result<bool> {
        let Some(alarm) = self.alarms.get_mut(scope).and_then(|alarms| alarms.remove(name)) else {
            return Ok(false);
        };
        self.append(&Frame::Deleted { scope: scope.clone(), name: name.to_owned() })?;
        let summary = format!("Alarm \"{name}\" deleted");
        let data = serde_json::json!({"version": "1.0", "type": "Delete"}).to_string();
        self.note(&alarm, HistoryKind::ConfigurationUpdate, summary, data, now)?;
        Ok(true)
    }

    /// Changes something of an alarm that is no part of its state.
    pub fn update(
        &mut self,
        scope: &Scope,
        name: &str,
        change: impl FnOnce(&mut Alarm),
    ) -> Result<(), AlarmError> {
        let mut alarm = self.alarm(scope, name).cloned().ok_or(AlarmError::NotFound)?;
        change(&mut alarm);
        Ok(self.keep(alarm)?)
    }

    /// Sets the state by hand; the next evaluation may change it again. Says if it is another one.
    pub fn set_state(
        &mut self,
        scope: &Scope,
        name: &str,
        state: State,
        (reason, data): (String, Option<String>),
        now: Timestamp,
    ) -> Result<Option<Change>, AlarmError> {
        let alarm = self.alarm(scope, name).cloned().ok_or(AlarmError::NotFound)?;
        Ok(self.enter(alarm, state, reason, data, now)?)
    }

    /// Notes what an evaluation found. Says if the state is another one.
    pub fn judged(
        &mut self,
        scope: &Scope,
        name: &str,
        verdict: &Verdict,
        now: Timestamp,
    ) -> io::Result<Option<Change>> {
        let Some(alarm) = self.alarm(scope, name).cloned() else { return Ok(None) };
        if alarm.state == verdict.state {
            return Ok(None);
        }
        let values: Vec<f64> = verdict.points.iter().rev().map(|(_, value)| *value).collect();
        let data = serde_json::json!({
            "version": "1.0",
            "period": alarm.period_s,
            "recentDatapoints": values,
            "threshold": alarm.rule.threshold,
        });
        self.enter(alarm, verdict.state, verdict.reason.clone(), Some(data.to_string()), now)
    }

    /// Notes what became of an action.
    pub fn acted(
        &mut self,
        alarm: &Alarm,
        arn: &str,
        failure: Option<&str>,
        now: Timestamp,
    ) -> io::Result<()> {
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
        self.note(alarm, HistoryKind::Action, summary, data.to_string(), now)
    }

    pub fn alarm(&self, scope: &Scope, name: &str) -> Option<&Alarm> {
        self.alarms.get(scope)?.get(name)
    }

    /// The alarms of a scope, by name.
    pub fn of_scope(&self, scope: &Scope) -> impl Iterator<Item = &Alarm> {
        self.alarms.get(scope).into_iter().flat_map(BTreeMap::values)
    }

    /// All alarms.
    pub fn all(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.values().flat_map(BTreeMap::values)
    }

    pub fn history(&self) -> &KeptHistory {
        &self.history
    }

    /// The file to be synced, if anything was changed since this was last asked.
    pub fn take_dirty(&mut self) -> Option<Arc<File>> {
        self.log.take_dirty()
    }

    fn enter(
        &mut self,
        mut alarm: Alarm,
        state: State,
        reason: String,
        data: Option<String>,
        now: Timestamp,
    ) -> io::Result<Option<Change>> {
        let before = std::mem::replace(&mut alarm.state, state);
        let old_reason = std::mem::replace(&mut alarm.reason, reason);
        let old_data = std::mem::replace(&mut alarm.reason_data, data);
        alarm.state_updated_at = now.0;
        if before != state {
            alarm.state_entered_at = now.0;
        }
        self.keep(alarm.clone())?;
        if before == state {
            return Ok(None);
        }
        let summary = format!("Alarm updated from {} to {}", before.name(), state.name());
        let side = |state: State, reason: &str, data: &Option<String>| {
            let data = data.as_deref().and_then(|d| serde_json::from_str(d).ok());
            serde_json::json!({
                "stateValue": state.name(),
                "stateReason": reason,
                "stateReasonData": data.unwrap_or(serde_json::Value::Null),
            })
        };
        let data = serde_json::json!({
            "version": "1.0",
            "oldState": side(before, &old_reason, &old_data),
            "newState": side(state, &alarm.reason, &alarm.reason_data),
        });
        self.note(&alarm, HistoryKind::StateUpdate, summary, data.to_string(), now)?;
        Ok(Some(Change { alarm, before }))
    }

    fn keep(&mut self, alarm: Alarm) -> io::Result<()> {
        self.append(&Frame::Alarm(Box::new(alarm.clone())))?;
        self.alarms.entry(alarm.scope.clone()).or_default().insert(alarm.name.clone(), alarm);
        Ok(())
    }

    fn note(
        &mut self,
        alarm: &Alarm,
        kind: HistoryKind,
        summary: String,
        data: String,
        now: Timestamp,
    ) -> io::Result<()> {
        let (scope, name) = (alarm.scope.clone(), alarm.name.clone());
        let item = HistoryItem { scope, alarm: name, at: now.0, kind, summary, data };
        self.append(&Frame::History(item.clone()))?;
        self.history.push_back(item);
        self.forget(now);
        if self.frames > self.needed_frames() + OUTDATED_FRAMES_MAX {
            self.rewrite()?;
        }
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> io::Result<()> {
        self.log.append(&serde_json::to_vec(frame)?)?;
        self.frames += 1;
        Ok(())
    }

    fn apply(&mut self, frame: Frame) {
        match frame {
            Frame::Alarm(alarm) => {
                let of_scope = self.alarms.entry(alarm.scope.clone()).or_default();
                of_scope.insert(alarm.name.clone(), *alarm);
            }
            Frame::Deleted { scope, name } => {
                self.alarms.get_mut(&scope).and_then(|alarms| alarms.remove(&name));
            }
            Frame::History(item) => self.history.push_back(item),
        }
    }

    fn forget(&mut self, now: Timestamp) {
        let is_over =
            |item: &HistoryItem| now.millis_since(Timestamp(item.at)) > HISTORY_KEPT_S * 1000;
        while self.history.len() > HISTORY_MAX || self.history.front().is_some_and(is_over) {
            self.history.pop_front();
        }
    }

    fn needed_frames(&self) -> usize {
        self.history.len() + self.alarms.values().map(BTreeMap::len).sum::<usize>()
    }

    fn open_log(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.log = Log::open(path, |_, _, _| ())?;
            self.frames = self.needed_frames();
        }
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let alarms = self.all().map(|alarm| Frame::Alarm(Box::new(alarm.clone())));
        let history = self.history.iter().map(|item| Frame::History(item.clone()));
        let frames: Result<Vec<_>, _> =
            alarms.chain(history).map(|frame| serde_json::to_vec(&frame)).collect();
        Log::replace(path, frames?.into_iter())?;
        self.open_log()
    }
}

impl Alarm {
    /// `arn:aws:cloudwatch:<region>:<account>:alarm:<name>`.
    pub fn arn(&self) -> String {
        let Scope { region, account } = &self.scope;
        format!("arn:aws:cloudwatch:{region}:{account}:alarm:{}", self.name)
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
            [
                Query {
                    kind: crate::math::QueryKind::Metric { entity, metric, statistic, unit, .. },
                    ..
                },
            ] => Some((entity, metric, statistic, unit.as_deref())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::{Comparison, MissingData};
    use crate::math::QueryKind;

    fn scope() -> Scope {
        Scope { region: "us-east-1".into(), account: "000000000000".into() }
    }

    fn alarm(name: &str) -> Alarm {
        let kind = QueryKind::Metric {
            entity: Entity::new(scope(), "AWS/SQS", vec![("QueueName".into(), "jobs".into())]),
            metric: "ApproximateNumberOfMessagesVisible".into(),
            unit: None,
            statistic: "Maximum".into(),
            period_s: 60,
        };
        let query = Query { id: "m".into(), kind, label: None, is_returned: true };
        let rule = Rule {
            comparison: Comparison::GreaterThanThreshold,
            threshold: 10.0,
            periods: 1,
            to_alarm: 1,
            missing: MissingData::Missing,
        };
        Alarm {
            scope: scope(),
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
            configured_at: 0,
            state: State::InsufficientData,
            reason: "Unchecked: Initial alarm creation".into(),
            reason_data: None,
            state_updated_at: 0,
            state_entered_at: 0,
            tags: BTreeMap::new(),
        }
    }

    fn verdict(state: State) -> Verdict {
        Verdict { state, reason: "because".into(), points: vec![(60, 11.0)] }
    }

    fn summaries(book: &AlarmBook) -> Vec<&str> {
        book.history().iter().map(|item| item.summary.as_str()).collect()
    }

    #[test]
    fn states_and_history_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
        assert!(book.put(alarm("a"), Timestamp(1)).unwrap());
        assert!(book.put(alarm("b"), Timestamp(2)).unwrap());
        let change = book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(3)).unwrap();
        assert_eq!(change.unwrap().alarm.actions(), ["arn:alarm"]);
        assert!(book.delete(&scope(), "b", Timestamp(4)).unwrap());
        assert!(!book.delete(&scope(), "b", Timestamp(4)).unwrap());
        drop(book);

        let mut book = AlarmBook::open(Some(dir.path()), Timestamp(5)).unwrap();
        let kept = book.alarm(&scope(), "a").unwrap();
        assert_eq!((kept.state, kept.state_entered_at), (State::Alarm, 3));
        let all = ["\"a\" created", "\"b\" created"].map(|what| format!("Alarm {what}"));
        let rest = ["Alarm updated from INSUFFICIENT_DATA to ALARM", "Alarm \"b\" deleted"];
        assert_eq!(summaries(&book), [&all[0][..], &all[1], rest[0], rest[1]]);
        assert!(!book.put(alarm("a"), Timestamp(6)).unwrap(), "it is there already");
        assert_eq!(book.alarm(&scope(), "a").unwrap().state, State::Alarm, "the state stays");
    }

    #[test]
    fn actions_belong_to_changes_of_state_only() {
        let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
        book.put(alarm("a"), Timestamp(1)).unwrap();
        let mut judged = |state| {
            let change = book.judged(&scope(), "a", &verdict(state), Timestamp(2)).unwrap();
            change.map(|change| (change.before, change.alarm.actions().to_vec()))
        };

        assert_eq!(judged(State::InsufficientData), None);
        let entered = |before, arn: &str| Some((before, vec![arn.to_owned()]));
        assert_eq!(judged(State::Alarm), entered(State::InsufficientData, "arn:alarm"));
        assert_eq!(judged(State::Alarm), None);
        assert_eq!(judged(State::Ok), entered(State::Alarm, "arn:ok"));
        book.update(&scope(), "a", |alarm| alarm.actions_enabled = false).unwrap();
        let change = book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(3)).unwrap();
        assert!(change.unwrap().alarm.actions().is_empty());
    }

    #[test]
    fn a_state_set_by_hand_lasts_until_the_next_evaluation() {
        let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
        book.put(alarm("a"), Timestamp(1)).unwrap();
        let why = ("drill".to_owned(), None);

        let change =
            book.set_state(&scope(), "a", State::Alarm, why.clone(), Timestamp(2)).unwrap();
        assert_eq!(change.unwrap().alarm.reason, "drill");
        let change = book.judged(&scope(), "a", &verdict(State::Ok), Timestamp(3)).unwrap();
        assert_eq!(change.unwrap().before, State::Alarm);
        let missing = book.set_state(&scope(), "z", State::Ok, why, Timestamp(4));
        assert!(matches!(missing, Err(AlarmError::NotFound)));
    }
}
