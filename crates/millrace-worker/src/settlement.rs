//! What is to be told to the server about finished messages, gathered into batches, and told again
//! where an entry failed.
//!
//! A batch goes out when it is full, when something in it is urgent, or when its oldest entry has
//! waited for the linger time. Failed entries come back together after a pause, to share their
//! calls again. After a call that failed as a whole the outbox pauses, for longer each time and as
//! long as the server asked for; then one call at a time goes out until one is answered.
//!
//! Calls under way are bounded, those of each outbox apart: a server that is slow to delete must
//! leave connections for the extensions of leases.

use std::{collections::VecDeque, mem, time::Duration};

use tokio::time::Instant;

use crate::{backoff, held::Key};

/// What the server is to be told about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Handled.
    Delete,
    /// To be received again after this time; zero gives it back at once.
    Hide(Duration),
    /// To be copied into the dead-letter queue for this reason, then deleted.
    DeadLetter(String),
    /// The same without the attributes that tell its story, which that queue did not take.
    BareDeadLetter,
}

/// Whether an entry may wait for others to share its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Up to the linger time.
    Linger,
    /// Somebody waits for it: its lane, another worker, or the end of this one.
    Urgent,
}

/// Entries of one kind on their way to the server.
#[derive(Debug)]
pub(crate) struct Outbox {
    linger: Duration,
    ready: VecDeque<Entry>,
    /// Entries that failed.
    failed: Vec<Entry>,
    /// When they return.
    retry_at: Option<Instant>,
    urgent: usize,
    /// Calls under way.
    open: usize,
    /// Calls that failed since one was answered.
    failures: u32,
    /// No call before this: the last one failed.
    not_before: Option<Instant>,
    /// Whether what was told last was not done.
    is_failing: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// The server did what was asked, or some of it, or refused it.
    Answered,
    /// It was about one message, which was not done and may be later: that says nothing of others.
    OneFailed,
    /// None of it was done, and all of it may be done later.
    Failed {
        /// How long the server asked to wait.
        retry_after: Option<Duration>,
    },
}

/// One message to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    /// When it was finished.
    pub(crate) since: Instant,
    /// Attempts that failed.
    pub(crate) failures: u32,
    urgency: Urgency,
}

/// Calls of one outbox under way at a time; what is more waits, and shares its calls. A worker has
/// three outboxes, and a lane of the transport 64 connections: a quarter of them is left.
const CALLS_OPEN: usize = 16;

/// Pauses between attempts grow from this …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … to this, unless the server asks for more …
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// … which it gets up to here.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

impl Outbox {
    /// Entries wait for `linger` at most unless they are urgent.
    pub(crate) fn new(linger: Duration) -> Outbox {
        Outbox {
            linger,
            ready: VecDeque::new(),
            failed: Vec::new(),
            retry_at: None,
            urgent: 0,
            open: 0,
            failures: 0,
            not_before: None,
            is_failing: false,
        }
    }

    /// Entries that wait, while the last call came to nothing; 0 while calls succeed.
    pub(crate) fn stuck(&self) -> usize {
        if self.is_failing { self.ready.len() + self.failed.len() } else { 0 }
    }

    pub(crate) fn push(&mut self, key: Key, urgency: Urgency, now: Instant) {
        self.make_ready(Entry { key, since: now, failures: 0, urgency });
    }

    /// A call with entries that were taken is sent.
    pub(crate) fn call_sent(&mut self) {
        self.open += 1;
    }

    /// A call is over. To be told before its entries are to be tried again.
    pub(crate) fn call_ended(&mut self, end: CallEnd, now: Instant) {
        self.open = self.open.saturating_sub(1);
        self.is_failing = end != CallEnd::Answered;
        match end {
            CallEnd::Answered => self.failures = 0,
            CallEnd::OneFailed => {}
            CallEnd::Failed { retry_after } => self.pause(retry_after, now),
        }
    }

    /// An attempt failed: tries again after a pause.
    pub(crate) fn retry(&mut self, entry: Entry, now: Instant) {
        let failures = entry.failures.saturating_add(1);
        self.failed.push(Entry { failures, urgency: Urgency::Urgent, ..entry });
        let pause = || now + backoff::call_delay(FIRST_PAUSE, failures, LONGEST_PAUSE);
        let pauses_until = self.not_before.filter(|until| *until > now);
        let next = self.retry_at.filter(|at| *at > now).or(pauses_until);
        self.retry_at = Some(next.unwrap_or_else(pause));
    }

    /// Entries that wait for an attempt and were finished at `since` or before.
    pub(crate) fn take_older(&mut self, since: Instant) -> Vec<Entry> {
        let is_older = |entry: &Entry| entry.since <= since;
        let waiting = mem::take(&mut self.ready).into_iter();
        let (older, younger): (Vec<Entry>, _) = waiting.partition(is_older);
        self.ready = younger.into();
        self.urgent -= urgent_of(&older);
        older.into_iter().chain(self.failed.extract_if(.., |entry| is_older(entry))).collect()
    }

    /// The next batch of at most `most` entries that `may_send` allows; empty if none is due, or if
    /// so many calls are under way that it has to wait for the end of one.
    /// Entries that may not be sent yet stay. With `Urgent` nothing lingers.
    pub(crate) fn take(
        &mut self,
        most: usize,
        urgency: Urgency,
        now: Instant,
        may_send: impl Fn(Key) -> bool,
    ) -> Vec<Entry> {
        // One call finds out whether the server is well again.
        let most_open = if self.failures > 0 { 1 } else { CALLS_OPEN };
        if self.is_paused(now) || self.open >= most_open {
            return Vec::new();
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            mem::take(&mut self.failed).into_iter().for_each(|entry| self.make_ready(entry));
        }
        let lingered = |entry: &Entry| now >= entry.since + self.linger;
        let is_due = urgency == Urgency::Urgent
            || self.urgent > 0
            || self.ready.len() >= most
            || self.ready.front().is_some_and(lingered);
        if !is_due {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        while taken.len() < most {
            match self.ready.pop_front() {
                Some(entry) if may_send(entry.key) => taken.push(entry),
                Some(entry) => kept.push_back(entry),
                None => break,
            }
        }
        kept.append(&mut self.ready);
        self.ready = kept;
        self.urgent -= urgent_of(&taken);
        taken
    }

    /// When, after `now`, [`Outbox::take`] may have more to give by itself. What `may_send` holds
    /// back waits for whatever lets it go.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        if self.is_paused(now) {
            return self.not_before;
        }
        let lingering = self.ready.front().map(|entry| entry.since + self.linger);
        lingering.into_iter().chain(self.retry_at).filter(|due| *due > now).min()
    }

    /// The end comes nearer: what waits for an attempt gets one now, whatever the server asked for.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.not_before = None;
        self.retry_at = self.retry_at.map(|_| now);
    }

    fn pause(&mut self, retry_after: Option<Duration>, now: Instant) {
        // Calls that were under way together fail together: that is one failure.
        if !self.is_paused(now) {
            self.failures = self.failures.saturating_add(1);
            let pause = backoff::call_delay(FIRST_PAUSE, self.failures, LONGEST_PAUSE);
            self.not_before = Some(now + pause);
        }
        let asked_for = retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
        self.not_before = self.not_before.max(Some(now + asked_for));
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|at| now < at)
    }

    fn make_ready(&mut self, entry: Entry) {
        self.urgent += usize::from(entry.urgency == Urgency::Urgent);
        self.ready.push_back(entry);
    }
}

fn urgent_of(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| entry.urgency == Urgency::Urgent).count()
}

#[cfg(test)]
mod tests;
