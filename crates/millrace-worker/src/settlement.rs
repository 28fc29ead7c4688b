//! What is to be told to the server about finished messages, gathered into batches, and told again
//! where an entry failed.
//!
//! A batch goes out when it is full, when something in it is urgent, or when its oldest entry has
//! waited for the linger time. Failed entries come back together after a pause, to share their calls
//! again. After a call that failed as a whole the outbox pauses, for longer each time and as long as
//! the server asked for; then one call at a time goes out until one is answered.
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
mod tests {
    use super::*;

    const NOTHING: [u64; 0] = [];
    const LINGER: Duration = Duration::from_millis(100);

    fn take(outbox: &mut Outbox, now: Instant) -> Vec<u64> {
        let taken = outbox.take(10, Urgency::Linger, now, |_| true);
        taken.iter().map(|entry| entry.key.0).collect()
    }

    #[test]
    fn one_that_always_fails_alone_is_tried_ever_less_beside_others() {
        let start = Instant::now();
        let mut outbox = Outbox::new(Duration::ZERO);
        outbox.push(Key(0), Urgency::Urgent, start);
        let mut attempts = 0;
        for round in 0..3_000 {
            let now = start + round * Duration::from_millis(20);
            outbox.push(Key(1), Urgency::Urgent, now);
            while let Some(entry) = outbox.take(1, Urgency::Urgent, now, |_| true).first().copied()
            {
                outbox.call_sent();
                if entry.key == Key(0) {
                    attempts += 1;
                    outbox.call_ended(CallEnd::OneFailed, now);
                    outbox.retry(entry, now);
                } else {
                    outbox.call_ended(CallEnd::Answered, now);
                }
            }
            assert!(outbox.ready.is_empty(), "others wait for it");
        }
        assert!((10..60).contains(&attempts), "{attempts} in a minute");
    }

    #[test]
    fn full_batch_goes_at_once_and_the_rest_lingers() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        for key in 0..9 {
            outbox.push(Key(key), Urgency::Linger, now);
        }
        assert_eq!(take(&mut outbox, now), NOTHING);

        outbox.push(Key(9), Urgency::Linger, now);
        outbox.push(Key(10), Urgency::Linger, now);

        assert_eq!(take(&mut outbox, now), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(take(&mut outbox, now), NOTHING);
        assert_eq!(outbox.next_due(now), Some(now + LINGER));
        assert_eq!(take(&mut outbox, now + LINGER), [10]);
    }

    #[test]
    fn urgent_entry_takes_the_others_along() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        outbox.push(Key(1), Urgency::Linger, now);
        outbox.push(Key(2), Urgency::Urgent, now);

        assert_eq!(take(&mut outbox, now), [1, 2]);

        outbox.push(Key(3), Urgency::Linger, now);
        assert_eq!(take(&mut outbox, now), NOTHING);
    }

    fn fail(outbox: &mut Outbox, entries: Vec<Entry>, retry_after: Option<Duration>, now: Instant) {
        outbox.call_ended(CallEnd::Failed { retry_after }, now);
        entries.into_iter().for_each(|entry| outbox.retry(entry, now));
    }

    fn send(outbox: &mut Outbox, now: Instant) -> Vec<Entry> {
        let entries = outbox.take(10, Urgency::Linger, now, |_| true);
        outbox.call_sent();
        entries
    }

    #[test]
    fn entries_that_failed_alone_return_together_after_a_pause() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        for key in 0..20 {
            outbox.push(Key(key), Urgency::Urgent, now);
        }
        for _ in 0..2 {
            let sent = send(&mut outbox, now);
            outbox.call_ended(CallEnd::Answered, now);
            sent[..2].iter().for_each(|entry| outbox.retry(*entry, now));
        }

        outbox.push(Key(20), Urgency::Urgent, now);
        assert_eq!(take(&mut outbox, now), [20], "others go on");
        let next = outbox.next_due(now).unwrap();
        assert!(next > now && next <= now + FIRST_PAUSE, "{:?}", next - now);
        let again = outbox.take(10, Urgency::Linger, next, |_| true);
        assert_eq!(again.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [0, 1, 10, 11]);
        assert!(again.iter().all(|entry| (entry.failures, entry.since) == (1, now)));
    }

    #[test]
    fn failed_call_stops_the_outbox_until_one_call_is_answered() {
        let now = Instant::now();
        let mut outbox = Outbox::new(Duration::ZERO);
        for key in 0..100 {
            outbox.push(Key(key), Urgency::Urgent, now);
        }
        let (first, second) = (send(&mut outbox, now), send(&mut outbox, now));

        fail(&mut outbox, first, None, now);
        fail(&mut outbox, second, None, now);

        let next = outbox.next_due(now).unwrap();
        assert!(next > now && next <= now + FIRST_PAUSE, "one failure: {:?}", next - now);
        assert_eq!(take(&mut outbox, now), NOTHING);
        assert_eq!(send(&mut outbox, next).len(), 10);
        assert_eq!(take(&mut outbox, next), NOTHING, "one call at a time");
        outbox.call_ended(CallEnd::Answered, next);
        let calls = (0..8).map(|_| send(&mut outbox, next).len()).collect::<Vec<_>>();
        assert_eq!(calls, [10; 8]);
    }

    #[test]
    fn server_gets_the_pause_that_it_asks_for_up_to_a_bound() {
        let now = Instant::now();
        let after = |asked: Duration| {
            let mut outbox = Outbox::new(Duration::ZERO);
            outbox.push(Key(1), Urgency::Urgent, now);
            let sent = send(&mut outbox, now);
            fail(&mut outbox, sent, Some(asked), now);
            let next = outbox.next_due(now).unwrap();
            assert_eq!(take(&mut outbox, next), [1]);
            next - now
        };

        assert_eq!(after(Duration::from_secs(30)), Duration::from_secs(30));
        assert_eq!(after(Duration::MAX), LONGEST_RETRY_AFTER);
        assert!(after(Duration::ZERO) <= FIRST_PAUSE);
    }

    #[test]
    fn older_entries_are_taken_out_wherever_they_wait() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        outbox.push(Key(1), Urgency::Urgent, now);
        let failed = outbox.take(10, Urgency::Linger, now, |_| true)[0];
        outbox.push(Key(2), Urgency::Urgent, now);
        outbox.push(Key(3), Urgency::Linger, now + LINGER);
        outbox.retry(failed, now);

        let older = outbox.take_older(now);

        assert_eq!(older.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(take(&mut outbox, now + LINGER), NOTHING, "nothing urgent is left");
        assert_eq!(take(&mut outbox, now + 2 * LINGER), [3]);
    }

    #[test]
    fn entry_that_is_held_back_hides_no_later_attempt_of_another() {
        let now = Instant::now();
        let mut outbox = Outbox::new(LINGER);
        outbox.push(Key(1), Urgency::Urgent, now);
        let failed = outbox.take(10, Urgency::Urgent, now, |_| true)[0];
        outbox.push(Key(2), Urgency::Urgent, now - LINGER);
        outbox.retry(failed, now);

        assert_eq!(outbox.take(10, Urgency::Urgent, now, |key| key != Key(2)), []);

        let next = outbox.next_due(now).unwrap();
        assert!(next > now && next <= now + FIRST_PAUSE, "{:?}", next - now);
    }

    #[test]
    fn entries_wait_while_many_calls_are_under_way() {
        let now = Instant::now();
        let mut outbox = Outbox::new(Duration::ZERO);
        for key in 0..100 {
            outbox.push(Key(key), Urgency::Urgent, now);
        }
        for key in 0..CALLS_OPEN as u64 {
            assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true)[0].key, Key(key));
            outbox.call_sent();
        }
        assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true), []);

        outbox.call_ended(CallEnd::Answered, now);

        assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true).len(), 1);
    }

    #[test]
    fn entry_that_may_not_be_sent_keeps_its_place() {
        let now = Instant::now();
        let mut outbox = Outbox::new(Duration::ZERO);
        for key in 1..4 {
            outbox.push(Key(key), Urgency::Linger, now);
        }

        let taken = outbox.take(10, Urgency::Linger, now, |key| key != Key(1));

        assert_eq!(taken.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(take(&mut outbox, now), [1]);
    }
}
