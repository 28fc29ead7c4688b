//! All alarms, their states, what happened to them, and what they still have to do.
//!
//! Three collections of kept documents: alarms, items of the history, and changes of state whose
//! actions are owed. A change of state, its item and what it owes are one batch of the journal; that
//! an action is done is another, after the message that it sent. So a process that is killed
//! between the two does the action at its next start: at least once. What a method changes is in
//! memory at once, and durable when the ticket of [`AlarmBook::latest`] is committed.

mod conversion;
mod history;
mod outbox;

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{Collection, KeptChange, KeptError, Purpose, Shard, Ticket};
use millrace_core::{Timestamp, may_take};
use millrace_metrics::Scope;
use millrace_metrics::alarm::{Alarm, Change, HistoryItem, Owed, State, Step, Verdict};

pub use self::conversion::convert_alarms;
pub(super) use self::history::history_of;
use self::history::{HISTORY, History};
use self::outbox::{OUTBOX, Outbox};

/// CloudWatch: alarms of an account and region.
const ALARMS_MAX: usize = 5_000;
/// Alarms of an account in all regions, which it may name as it likes; of all accounts together there
/// are a tenth more.
const ALARMS_OF_ACCOUNT_MAX: usize = if cfg!(test) { 5_500 } else { 100_000 };
/// CloudWatch: tags of a resource.
const TAGS_MAX: usize = 50;
/// Bytes of an alarm as it is put. Some are left for the reason of its state, and for what is beside
/// it in a change that is owed.
const ALARM_BYTES_MAX: usize = millrace_broker::DOCUMENT_BYTES_MAX / 8 * 7;

const ALARMS: Collection<Alarm> =
    Collection::new("alarms", |alarm| alarm_key(&alarm.scope, &alarm.name));

fn alarm_key(Scope { region, account }: &Scope, name: &str) -> String {
    format!("{account}/{region}/{name}")
}

/// A key that orders the items of an account by their number.
fn numbered_key(account: &str, id: u64) -> String {
    format!("{account}/{id:020}")
}

/// Why alarms were not changed.
#[derive(Debug, thiserror::Error)]
pub enum AlarmError {
    #[error("there is no alarm of that name")]
    NotFound,
    #[error("there are {ALARMS_MAX} alarms of the region already, or too many of all")]
    TooMany,
    #[error("an alarm has {TAGS_MAX} tags at most")]
    TooManyTags,
    #[error("an alarm has {ALARM_BYTES_MAX} bytes at most")]
    TooLarge,
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// All alarms.
pub struct AlarmBook {
    shard: Arc<Shard>,
    /// In memory once more, for they are looked at each minute.
    alarms: BTreeMap<Scope, BTreeMap<String, Alarm>>,
    history: History,
    outbox: Outbox,
    /// Numbers items of the history and what is owed.
    last_id: u64,
    latest: Option<Ticket>,
}

impl AlarmBook {
    /// The alarms that a shard keeps.
    pub fn open(shard: Arc<Shard>) -> AlarmBook {
        let (history, outbox) = (History::open(shard.kept()), Outbox::open(shard.kept()));
        let last_id = history.last_id().max(outbox.last_id());
        let alarms = ALARMS.scan(shard.kept(), "", None, usize::MAX);
        let mut book =
            AlarmBook { shard, alarms: BTreeMap::new(), history, outbox, last_id, latest: None };
        alarms.into_iter().for_each(|alarm| book.insert(alarm));
        book
    }

    /// Puts an alarm; of one that exists the state and the tags stay. Says whether it is new.
    pub fn put(&mut self, mut alarm: Alarm, now: Timestamp) -> Result<bool, AlarmError> {
        let known = self.alarm(&alarm.scope, &alarm.name);
        let step = match known {
            Some(known) => {
                alarm.state = known.state;
                alarm.reason.clone_from(&known.reason);
                alarm.reason_data.clone_from(&known.reason_data);
                alarm.state_updated_at = known.state_updated_at;
                alarm.state_entered_at = known.state_entered_at;
                alarm.tags.clone_from(&known.tags);
                Step::Update
            }
            None if !self.has_room_for(&alarm.scope) => return Err(AlarmError::TooMany),
            None => Step::Create,
        };
        let item = HistoryItem::configured(step, &alarm, now);
        self.change(sized(&alarm)?, Some(item), None, Purpose::Store)?;
        self.insert(alarm);
        Ok(step == Step::Create)
    }

    /// Deletes an alarm; says whether there was one.
    pub fn delete(
        &mut self,
        scope: &Scope,
        name: &str,
        now: Timestamp,
    ) -> Result<bool, AlarmError> {
        let Some(alarm) = self.alarm(scope, name) else { return Ok(false) };
        let item = HistoryItem::configured(Step::Delete, alarm, now);
        self.change(ALARMS.delete(alarm_key(scope, name)), Some(item), None, Purpose::Reclaim)?;
        if let Some(of_scope) = self.alarms.get_mut(scope) {
            of_scope.remove(name);
            if of_scope.is_empty() {
                self.alarms.remove(scope);
            }
        }
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
        // What is kept may have more: that may lose some.
        let most = TAGS_MAX.max(alarm.tags.len());
        change(&mut alarm.tags);
        if alarm.tags.len() > most {
            return Err(AlarmError::TooManyTags);
        }
        self.change(sized(&alarm)?, None, None, Purpose::Store)?;
        self.insert(alarm);
        Ok(())
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
        let mut alarm = self.alarm(scope, name).cloned().ok_or(AlarmError::NotFound)?;
        let entered = alarm.enter(state, reason, data, now);
        self.keep(alarm, entered, now)
    }

    /// Notes what an evaluation found. If the state is another one, says what is to be done about
    /// it.
    pub fn judged(
        &mut self,
        scope: &Scope,
        name: &str,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<Option<Owed>, AlarmError> {
        let Some(mut alarm) = self.alarm(scope, name).cloned() else { return Ok(None) };
        match alarm.enter_by(verdict, now) {
            Some(entered) => self.keep(alarm, Some(entered), now),
            None => Ok(None),
        }
    }

    /// Notes what became of an action, which is not owed any more.
    pub fn acted(
        &mut self,
        owed: &Owed,
        arn: &str,
        failure: Option<&str>,
        now: Timestamp,
    ) -> Result<(), AlarmError> {
        let account = &owed.alarm().scope.account;
        let Some(left) = self.outbox.without(self.shard.kept(), owed, arn) else { return Ok(()) };
        let is_last = left.arns.is_empty();
        let change = match is_last {
            true => OUTBOX.delete(numbered_key(account, owed.id)),
            false => OUTBOX.put(&left)?,
        };
        let item = HistoryItem::acted(owed.alarm(), arn, failure, now);
        self.change(change, Some(item), None, Purpose::Reclaim)?;
        if is_last {
            self.outbox.removed(account);
        }
        Ok(())
    }

    /// Forgets all alarms, their history and what is still to be done.
    pub fn clear(&mut self) -> Result<(), AlarmError> {
        for collection in [ALARMS.name(), HISTORY.name(), OUTBOX.name()] {
            self.latest = self.shard.kept().clear(collection)?.or(self.latest);
        }
        self.alarms.clear();
        (self.history, self.outbox) = (History::default(), Outbox::default());
        Ok(())
    }

    /// Forgets what the history need not hold any more.
    pub fn forget(&mut self, now: Timestamp) -> Result<(), AlarmError> {
        while let Some(oldest) = self.history.outdated(now) {
            self.append(&[HISTORY.delete(oldest.key())], Purpose::Reclaim)?;
            self.history.remove(&oldest);
        }
        Ok(())
    }

    /// When the latest change is durable, and all before it.
    pub fn latest(&self) -> Option<Ticket> {
        self.latest
    }

    /// Accounts for which something is still to be done.
    pub fn owing(&self) -> impl Iterator<Item = &str> {
        self.outbox.accounts()
    }

    /// Up to `limit` changes of an account whose actions are still to be done, the oldest first,
    /// from behind the number `after` on.
    pub fn owed(&self, account: &str, after: u64, limit: usize) -> Vec<Owed> {
        let after = numbered_key(account, after);
        OUTBOX.scan(self.shard.kept(), &format!("{account}/"), Some(&after), limit)
    }

    /// Returns true if an action is still to be done.
    pub fn owes(&self, owed: &Owed, arn: &str) -> bool {
        self.outbox.without(self.shard.kept(), owed, arn).is_some()
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

    /// The history of an account, the oldest item first.
    pub fn history(&self, account: &str) -> Vec<HistoryItem> {
        history_of(self.shard.kept(), account)
    }

    /// All alarms.
    pub fn all(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.values().flat_map(BTreeMap::values)
    }

    /// Keeps an alarm and, if it entered another state, all that comes of that.
    fn keep(
        &mut self,
        alarm: Alarm,
        entered: Option<(Change, HistoryItem)>,
        now: Timestamp,
    ) -> Result<Option<Owed>, AlarmError> {
        let Some((change, item)) = entered else {
            self.change(ALARMS.put(&alarm)?, None, None, Purpose::Store)?;
            self.insert(alarm);
            return Ok(None);
        };
        let owed = Owed::of(self.last_id + 1, change);
        let outgoing = Some(&owed).filter(|owed| !owed.arns.is_empty());
        self.change(ALARMS.put(&alarm)?, Some(item), outgoing, Purpose::Store)?;
        self.insert(alarm);
        self.give_up(now)?;
        Ok(Some(owed))
    }

    /// Gives up the actions that have waited longest, of the account that has most, where too many
    /// do: alarms go on changing however long the journal takes no messages.
    fn give_up(&mut self, now: Timestamp) -> Result<(), AlarmError> {
        while let Some(account) = self.outbox.overfull().map(str::to_owned) {
            let Some(oldest) = self.owed(&account, 0, 1).pop() else { break };
            for arn in &oldest.arns {
                self.acted(&oldest, arn, Some("too many actions wait"), now)?;
            }
        }
        Ok(())
    }

    /// Appends a change, the item of the history that tells of it, and what is owed for it: all or
    /// nothing. The item that has to make way goes with them.
    fn change(
        &mut self,
        change: KeptChange<'_>,
        item: Option<HistoryItem>,
        owed: Option<&Owed>,
        purpose: Purpose,
    ) -> Result<(), AlarmError> {
        let mut changes = vec![change];
        let item = item.map(|item| history::Numbered { id: self.last_id + 1, item });
        let mut displaced = None;
        if let Some(item) = &item {
            changes.push(HISTORY.put(item)?);
            displaced = self.history.displaced();
            changes.extend(displaced.iter().map(|oldest| HISTORY.delete(oldest.key())));
        }
        if let Some(owed) = owed {
            changes.push(OUTBOX.put(owed)?);
        }
        self.append(&changes, purpose)?;
        if let Some(displaced) = &displaced {
            self.history.remove(displaced);
        }
        if let Some(item) = &item {
            self.history.add(item);
            self.last_id = item.id;
        }
        if let Some(owed) = owed {
            self.outbox.added(&owed.alarm().scope.account);
        }
        Ok(())
    }

    fn append(&mut self, changes: &[KeptChange<'_>], purpose: Purpose) -> Result<(), AlarmError> {
        self.latest = Some(self.shard.kept().change(changes, purpose)?);
        Ok(())
    }

    fn insert(&mut self, alarm: Alarm) {
        self.alarms.entry(alarm.scope.clone()).or_default().insert(alarm.name.clone(), alarm);
    }

    /// Whether there may be one more alarm of that scope.
    fn has_room_for(&self, scope: &Scope) -> bool {
        let counts = self.alarms.iter().map(|(other, alarms)| (other, alarms.len()));
        let of_account = counts.clone().filter(|(other, _)| other.account == scope.account);
        let of_account = of_account.map(|(_, count)| count).sum();
        let of_all = counts.map(|(_, count)| count).sum();
        let of_scope = self.alarms.get(scope).map_or(0, BTreeMap::len);
        of_scope < ALARMS_MAX && may_take(of_account, of_all, ALARMS_OF_ACCOUNT_MAX)
    }
}

/// The change that stores an alarm as somebody puts it.
fn sized(alarm: &Alarm) -> Result<KeptChange<'static>, AlarmError> {
    let change = ALARMS.put(alarm)?;
    if change.record_bytes() > ALARM_BYTES_MAX {
        return Err(AlarmError::TooLarge);
    }
    Ok(change)
}

#[cfg(test)]
pub(super) mod tests;
