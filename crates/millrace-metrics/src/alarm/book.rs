//! All alarms, their states and what happened to them, on disk.
//!
//! The file `alarms.log` holds one JSON text a frame: an alarm as it is from then on, the name of
//! one that is gone, an item of the history, a change of state with what is to be done about it, or
//! an action that was done. It is written anew when it is opened, when most of it is outdated, and
//! after a sync that failed.

mod error;
mod frame;
mod history;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_core::{Timestamp, may_take};

pub use self::error::AlarmError;
use self::error::{ALARMS_MAX, ALARMS_OF_ACCOUNT_MAX, TAGS_MAX};
use self::frame::Frame;
pub use self::history::KeptHistory;
use super::configuration::{self, Step};
use super::outbox::{Outbox, Owed};
use super::{Alarm, Change, HistoryItem, HistoryKind, State, Verdict, reason};
use crate::Scope;
use crate::directory::Directory;
use crate::log::Log;
use crate::pin::PinnedFile;

/// Changes whose actions wait at most, of all alarms together: each holds its alarm. Beyond, the
/// account that has most gives up its oldest.
const OWED_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
/// Frames of a file beyond those that it would need when written anew.
const OUTDATED_FRAMES_MAX: usize = if cfg!(test) { 60 } else { 20_000 };
/// Bytes of a file beyond twice those that it had when it was written anew: an alarm may take 760
/// KB.
const OUTDATED_BYTES_MAX: u64 = if cfg!(test) { 256 << 10 } else { 64 << 20 };

/// All alarms. What its methods return is durable once [`AlarmBook::take_dirty`]'s file is synced.
#[derive(Debug)]
pub struct AlarmBook {
    /// None: in memory.
    dir: Option<Directory>,
    log: Log,
    frames: usize,
    /// Bytes of the file when it was opened.
    opened_bytes: u64,
    alarms: BTreeMap<Scope, BTreeMap<String, Alarm>>,
    history: KeptHistory,
    outbox: Outbox,
    /// A sync failed: the file is not to be trusted until it is written anew.
    is_suspect: bool,
    /// The file could not be opened: what is changed would be lost.
    is_unavailable: bool,
}

impl AlarmBook {
    /// Opens or creates `alarms.log` in `dir`; without one the book lives in memory.
    pub fn open(dir: Option<&Path>, now: Timestamp) -> io::Result<AlarmBook> {
        let Some(dir) = dir else { return Ok(AlarmBook::in_memory()) };
        let mut book = AlarmBook::read(Directory::open(dir)?)?;
        book.forget(now);
        if let Err(error) = book.rewrite() {
            tracing::warn!(%error, "the file of alarms is used as it is");
            book.open_log()?;
        }
        Ok(book)
    }

    /// What the file says; it is not open for changes yet.
    fn read(dir: Directory) -> io::Result<AlarmBook> {
        let mut book = AlarmBook::in_memory();
        drop(Log::open(&file_in(&dir), |_, _, payload| match serde_json::from_slice(payload) {
            Ok(frame) => book.apply(frame),
            Err(error) => tracing::warn!(%error, "a frame of the alarms is left out"),
        })?);
        book.dir = Some(dir);
        Ok(book)
    }

    /// A book without alarms that is not to be changed, where [`AlarmBook::open`] failed.
    pub fn unavailable() -> AlarmBook {
        AlarmBook { is_unavailable: true, ..AlarmBook::in_memory() }
    }

    fn in_memory() -> AlarmBook {
        AlarmBook {
            dir: None,
            log: Log::to_nowhere(),
            frames: 0,
            opened_bytes: 0,
            alarms: BTreeMap::new(),
            history: KeptHistory::default(),
            outbox: Outbox::default(),
            is_suspect: false,
            is_unavailable: false,
        }
    }

    /// Puts an alarm; of one that exists the state and the tags stay. Says whether it is new.
    pub fn put(&mut self, mut alarm: Alarm, now: Timestamp) -> Result<bool, AlarmError> {
        let known = self.alarm(&alarm.scope, &alarm.name);
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
            None if !self.has_room_for(&alarm.scope) => return Err(AlarmError::TooMany),
            None => (true, format!("Alarm \"{}\" created", alarm.name)),
        };
        let data = configuration::data(if is_new { Step::Create } else { Step::Update }, &alarm);
        self.keep(alarm.clone())?;
        self.note(&alarm, HistoryKind::ConfigurationUpdate, summary, data, now)?;
        Ok(is_new)
    }

    /// Deletes an alarm; says whether there was one.
    pub fn delete(&mut self, scope: &Scope, name: &str, now: Timestamp) -> io::Result<bool> {
        let Some(alarm) = self.alarm(scope, name).cloned() else { return Ok(false) };
        let deleted = Frame::Deleted { scope: scope.clone(), name: name.to_owned() };
        self.append(&deleted)?;
        self.apply(deleted);
        let summary = format!("Alarm \"{name}\" deleted");
        let data = configuration::data(Step::Delete, &alarm);
        self.note(&alarm, HistoryKind::ConfigurationUpdate, summary, data, now)?;
        Ok(true)
    }

    /// Changes the tags of an alarm.
    pub fn tag(
        &mut self,
        scope: &Scope,
        name: &str,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<(), AlarmError> {
        let mut alarm = self.alarm(scope, name).cloned().ok_or(AlarmError::NotFound)?;
        // The file may hold one with more: that may lose some.
        let most = TAGS_MAX.max(alarm.tags.len());
        change(&mut alarm.tags);
        if alarm.tags.len() > most {
            return Err(AlarmError::TooManyTags);
        }
        Ok(self.keep(alarm)?)
    }

    /// Sets the state by hand; the next evaluation may change it again. If it is another one, says
    /// what is to be done about it.
    pub fn set_state(
        &mut self,
        scope: &Scope,
        name: &str,
        state: State,
        (reason, data): (String, Option<String>),
        now: Timestamp,
    ) -> Result<Option<Owed>, AlarmError> {
        let alarm = self.alarm(scope, name).cloned().ok_or(AlarmError::NotFound)?;
        Ok(self.enter(alarm, state, reason, data, now)?)
    }

    /// Notes what an evaluation found. If the state is another one, says what is to be done about
    /// it.
    pub fn judged(
        &mut self,
        scope: &Scope,
        name: &str,
        verdict: &Verdict,
        now: Timestamp,
    ) -> io::Result<Option<Owed>> {
        let Some(alarm) = self.alarm(scope, name).cloned() else { return Ok(None) };
        if alarm.state == verdict.state {
            return Ok(None);
        }
        let (text, data) = (reason::text(&alarm, verdict), reason::data(&alarm, verdict, now));
        self.enter(alarm, verdict.state, text, Some(data), now)
    }

    /// Notes what became of an action, which is not owed any more; if that cannot be written, until
    /// the next start.
    pub fn acted(
        &mut self,
        owed: &Owed,
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
            "stateUpdateTimestamp": owed.alarm().state_updated_at,
            "notificationResource": arn,
            "error": failure,
        });
        let item =
            HistoryItem::of(owed.alarm(), HistoryKind::Action, (summary, data.to_string()), now);
        self.outbox.settle(owed.id, arn);
        let frame = Frame::Acted { id: owed.id, arn: arn.to_owned(), item: item.clone() };
        self.append(&frame)?;
        self.remember(item, now)
    }

    /// Forgets all alarms, their history and what is still to be done.
    pub fn clear(&mut self) -> io::Result<()> {
        (self.alarms, self.history) = (BTreeMap::new(), KeptHistory::default());
        self.outbox.clear();
        self.rewrite()
    }

    /// Actions that are still to be done, those of the oldest change first.
    pub fn owed(&self) -> impl Iterator<Item = &Owed> {
        self.outbox.iter()
    }

    /// Whether an action is still to be done.
    pub fn owes(&self, id: u64, arn: &str) -> bool {
        self.outbox.owes(id, arn)
    }

    /// Whether changes may be asked for.
    pub fn check_writable(&self) -> Result<(), AlarmError> {
        if self.is_unavailable { Err(AlarmError::Unavailable) } else { Ok(()) }
    }

    pub fn alarm(&self, scope: &Scope, name: &str) -> Option<&Alarm> {
        self.alarms.get(scope)?.get(name)
    }

    /// The alarms of a scope, by name.
    pub fn of_scope(&self, scope: &Scope) -> impl Iterator<Item = &Alarm> {
        self.alarms.get(scope).into_iter().flat_map(BTreeMap::values)
    }

    /// Scopes that have alarms.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.alarms.keys()
    }

    /// All alarms.
    pub fn all(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.values().flat_map(BTreeMap::values)
    }

    pub fn history(&self) -> &KeptHistory {
        &self.history
    }

    /// The file as it is, to be copied; none of a book in memory.
    pub fn pin(&self) -> io::Result<Option<PinnedFile>> {
        let Some(dir) = &self.dir else { return Ok(None) };
        dir.check()?;
        PinnedFile::open(&file_in(dir)).map(Some)
    }

    /// The file to be synced, if anything was changed since this was last asked.
    pub fn take_dirty(&mut self) -> io::Result<Option<Arc<File>>> {
        self.dir.as_ref().map_or(Ok(()), Directory::check)?;
        if self.is_suspect || self.log.is_removed() {
            self.rewrite()?;
        }
        Ok(self.log.take_dirty())
    }

    /// The sync of that file failed: what is in it is unknown, and it is never synced again.
    pub fn sync_failed(&mut self) {
        self.is_suspect = true;
    }

    fn enter(
        &mut self,
        mut alarm: Alarm,
        state: State,
        reason: String,
        data: Option<String>,
        now: Timestamp,
    ) -> io::Result<Option<Owed>> {
        let before = std::mem::replace(&mut alarm.state, state);
        let old_reason = std::mem::replace(&mut alarm.reason, reason);
        let old_data = std::mem::replace(&mut alarm.reason_data, data);
        alarm.state_updated_at = now.0;
        if before == state {
            self.keep(alarm)?;
            return Ok(None);
        }
        alarm.state_entered_at = now.0;
        let summary = format!("Alarm updated from {} to {}", before.name(), state.name());
        let data = serde_json::json!({
            "version": "1.0",
            "oldState": side_of_change(before, &old_reason, old_data.as_deref()),
            "newState": side_of_change(state, &alarm.reason, alarm.reason_data.as_deref()),
        });
        let item =
            HistoryItem::of(&alarm, HistoryKind::StateUpdate, (summary, data.to_string()), now);
        let owed = Owed::of(self.outbox.next_id(), Change { alarm, before });
        self.append(&Frame::Entered {
            id: owed.id,
            change: Box::new(owed.change.clone()),
            item: item.clone(),
        })?;
        self.insert(owed.alarm().clone());
        self.outbox.add(owed.clone());
        self.remember(item, now)?;
        self.give_up(now)?;
        Ok(Some(owed))
    }

    /// Gives up the actions that have waited longest, of the account that has most, where too many
    /// do: alarms go on changing however long the journal takes nothing.
    fn give_up(&mut self, now: Timestamp) -> io::Result<()> {
        while self.outbox.len() > OWED_MAX {
            let Some(oldest) = self.outbox.oldest_of_most().cloned() else { break };
            for arn in &oldest.arns {
                self.acted(&oldest, arn, Some("too many actions wait"), now)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, alarm: Alarm) -> io::Result<()> {
        self.append(&Frame::Alarm(Box::new(alarm.clone())))?;
        self.insert(alarm);
        self.tidy()
    }

    fn insert(&mut self, alarm: Alarm) {
        self.alarms.entry(alarm.scope.clone()).or_default().insert(alarm.name.clone(), alarm);
    }

    fn note(
        &mut self,
        alarm: &Alarm,
        kind: HistoryKind,
        summary: String,
        data: String,
        now: Timestamp,
    ) -> io::Result<()> {
        let item = HistoryItem::of(alarm, kind, (summary, data), now);
        self.append(&Frame::History(item.clone()))?;
        self.remember(item, now)
    }

    /// Adds an item that is in the file already.
    fn remember(&mut self, item: HistoryItem, now: Timestamp) -> io::Result<()> {
        self.history.add(item);
        self.forget(now);
        self.tidy()
    }

    /// Writes the file anew if most of it is outdated. What was appended has to be applied before.
    fn tidy(&mut self) -> io::Result<()> {
        let has_frames = self.frames > self.needed_frames() + OUTDATED_FRAMES_MAX;
        let has_bytes = self.log.len() > 2 * self.opened_bytes + OUTDATED_BYTES_MAX;
        if has_frames || has_bytes { self.rewrite() } else { Ok(()) }
    }

    fn append(&mut self, frame: &Frame) -> io::Result<()> {
        self.log.append(&serde_json::to_vec(frame)?)?;
        self.frames += 1;
        Ok(())
    }

    fn apply(&mut self, frame: Frame) {
        match frame {
            Frame::Alarm(alarm) => self.insert(*alarm),
            Frame::Deleted { scope, name } => {
                if let Some(of_scope) = self.alarms.get_mut(&scope) {
                    of_scope.remove(&name);
                    if of_scope.is_empty() {
                        self.alarms.remove(&scope);
                    }
                }
            }
            Frame::History(item) => self.history.add(item),
            Frame::Entered { id, change, item } => {
                self.insert(change.alarm.clone());
                self.history.add(item);
                self.outbox.add(Owed::of(id, *change));
            }
            Frame::Owed(owed) => self.outbox.add(*owed),
            Frame::Acted { id, arn, item } => {
                self.outbox.settle(id, &arn);
                self.history.add(item);
            }
        }
    }

    /// Forgets what the history need not hold any more.
    pub fn forget(&mut self, now: Timestamp) {
        self.history.forget(now);
    }

    /// Whether there may be one more alarm of that scope.
    fn has_room_for(&self, scope: &Scope) -> bool {
        let counts = self.alarms.iter().map(|(other, alarms)| (other, alarms.len()));
        let of_account = counts.clone().filter(|(other, _)| other.account == scope.account);
        let of_account = of_account.map(|(_, count)| count).sum();
        let of_all = counts.map(|(_, count)| count).sum();
        self.count_of(scope) < ALARMS_MAX && may_take(of_account, of_all, ALARMS_OF_ACCOUNT_MAX)
    }

    fn count_of(&self, scope: &Scope) -> usize {
        self.alarms.get(scope).map_or(0, BTreeMap::len)
    }

    fn needed_frames(&self) -> usize {
        let alarms: usize = self.alarms.values().map(BTreeMap::len).sum();
        alarms + self.history.len() + self.outbox.len()
    }

    fn open_log(&mut self) -> io::Result<()> {
        if let Some(dir) = &self.dir {
            self.log = Log::open(&file_in(dir), |_, _, _| ())?;
            self.frames = self.needed_frames();
            self.opened_bytes = self.log.len();
        }
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        dir.check()?;
        let alarms = self.all().map(|alarm| Frame::Alarm(Box::new(alarm.clone())));
        let history = self.history.iter().map(|item| Frame::History(item.clone()));
        let owed = self.owed().map(|owed| Frame::Owed(Box::new(owed.clone())));
        let frames = alarms.chain(history).chain(owed);
        Log::replace(&file_in(dir), frames.map(|frame| Ok(serde_json::to_vec(&frame)?)))?;
        // Until the new file is open, what is appended goes to one that has no name any more.
        self.is_suspect = true;
        self.open_log()?;
        self.is_suspect = false;
        Ok(())
    }
}

/// A state as the history tells of a change from it, or to it.
fn side_of_change(state: State, reason: &str, data: Option<&str>) -> serde_json::Value {
    let mut side = serde_json::json!({"stateValue": state.name(), "stateReason": reason});
    if let Some(data) = data.and_then(|data| serde_json::from_str(data).ok()) {
        side["stateReasonData"] = data;
    }
    side
}

fn file_in(dir: &Directory) -> PathBuf {
    dir.path().join("alarms.log")
}

#[cfg(test)]
pub(super) mod tests;
