//! Keeps received messages hidden for as long as the worker holds them.
//!
//! A lease is the time in which no other worker receives the message. It counts from the moment the
//! receive was *sent*, so it never ends later here than at the server. At half of it the visibility
//! timeout is extended, several messages in one call; buffered messages are held as well as those
//! that handlers work on.
//!
//! ```text
//!  receive sent        half: extend        ends          longest lease
//!  ├───────────────────┼───────────────────┤             │
//!                      ├───────────────────┼─────────────┤  after an extension
//! ```
//!
//! Where the server extends by less than the visibility timeout, the time of an extension stands in
//! the timeout's place after the receive, and what follows is drawn to its scale.
//!
//! While a request about a message is under way (an extension or a settlement) no other is sent: an
//! extension that overtakes a delete would answer with a false error.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::{backoff::LONGEST_HELD, held::Key};

/// The part of the timeout by which an extension may come early to share a call with others.
const GATHER_PART: u32 = 10;
/// The part of the timeout for which the answer to an extension is waited for: half of the timeout
/// is left then, and a call without an answer must leave time for others …
const ANSWER_PART: u32 = 8;
/// … and as many times longer once that was too short: the server is slow.
const ANSWER_TIMES: u32 = 2;
/// An answer is not waited for longer than this, if the server is not slow.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// The part of the timeout between two attempts to extend.
const RETRY_PART: u32 = 20;
/// SQS counts in whole seconds; less than that cannot be asked for.
const SHORTEST_EXTENSION: Duration = Duration::from_secs(1);

/// The leases of all messages held.
#[derive(Debug)]
pub(crate) struct Leases {
    timeout: Duration,
    /// What an extension asks for; all other times are parts of it.
    extension: Duration,
    longest: Duration,
    leases: HashMap<Key, Lease>,
    /// What happens next to each lease: an extension or its end. Leases with a request under way
    /// stand here with their end.
    schedule: BTreeSet<(Instant, Key)>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    /// The lease holds up to here.
    ends: Instant,
    /// It is never extended past this.
    last: Instant,
    /// Its place in the schedule.
    due: Instant,
    is_in_request: bool,
    /// Whether extending is of no use any more.
    is_final: bool,
    /// Whether an extension had no answer in time.
    is_slow: bool,
}

/// One extension to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) key: Key,
    /// The visibility timeout from now on.
    pub(crate) timeout: Duration,
    /// How long the answer is waited for.
    pub(crate) answer: Duration,
}

impl Leases {
    /// Leases of `timeout` each time, `longest` in all.
    pub(crate) fn new(timeout: Duration, longest: Duration) -> Leases {
        let longest = longest.min(LONGEST_HELD);
        let (leases, schedule) = (HashMap::new(), BTreeSet::new());
        Leases { timeout, extension: timeout, longest, leases, schedule }
    }

    /// Extensions hold for `sure`, if it is given and less than the timeout.
    pub(crate) fn with_sure_extension(self, sure: Option<Duration>) -> Leases {
        let extension = sure.map_or(self.timeout, |sure| self.timeout.min(sure));
        Leases { extension, ..self }
    }

    /// Holds a message that came with a receive sent at `sent`, anew if it was held before.
    pub(crate) fn hold(&mut self, key: Key, sent: Instant) {
        self.forget(key);
        let lease = Lease {
            ends: sent + self.timeout,
            last: sent + self.longest,
            due: sent,
            is_in_request: false,
            is_final: false,
            is_slow: false,
        };
        self.leases.insert(key, lease);
        self.schedule(key);
    }

    /// The message is settled, or lost; its lease does not matter any more.
    pub(crate) fn forget(&mut self, key: Key) {
        if let Some(lease) = self.leases.remove(&key) {
            self.schedule.remove(&(lease.due, key));
        }
    }

    /// A request about the message is sent: none other until [`Leases::end_request`].
    pub(crate) fn begin_request(&mut self, key: Key) {
        if let Some(lease) = self.leases.get_mut(&key) {
            lease.is_in_request = true;
            self.schedule(key);
        }
    }

    /// The request that had begun is answered.
    pub(crate) fn end_request(&mut self, key: Key) {
        if let Some(lease) = self.leases.get_mut(&key) {
            lease.is_in_request = false;
            self.schedule(key);
        }
    }

    /// An extension sent at `sent` was granted.
    pub(crate) fn extended(&mut self, extension: Extension, sent: Instant) {
        if let Some(lease) = self.leases.get_mut(&extension.key) {
            lease.ends = sent + extension.timeout;
            lease.is_in_request = false;
            self.schedule(extension.key);
        }
    }

    /// As [`Leases::extension_failed`], so late that there may have been no time for an answer.
    pub(crate) fn extension_timed_out(&mut self, key: Key, now: Instant) {
        if let Some(lease) = self.leases.get_mut(&key) {
            lease.is_slow = true;
        }
        self.extension_failed(key, now);
    }

    /// How long the answer to an extension is waited for at least.
    pub(crate) fn answer(&self) -> Duration {
        (self.extension / ANSWER_PART).min(LONGEST_ANSWER)
    }

    /// An extension failed, but another attempt may succeed while the lease holds.
    pub(crate) fn extension_failed(&mut self, key: Key, now: Instant) {
        let retry = now + self.extension / RETRY_PART;
        if let Some(lease) = self.leases.get_mut(&key) {
            lease.is_in_request = false;
            self.schedule.remove(&(lease.due, key));
            lease.due = retry.min(lease.ends);
            self.schedule.insert((lease.due, key));
        }
    }

    /// The server no longer knows the lease: it ends now.
    pub(crate) fn refused(&mut self, key: Key, now: Instant) {
        if let Some(lease) = self.leases.get_mut(&key) {
            lease.ends = now;
            lease.is_in_request = false;
            self.schedule(key);
        }
    }

    /// When something is to be done next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.schedule.first().map(|(due, _)| *due)
    }

    /// Messages whose lease has ended; they are forgotten.
    pub(crate) fn take_ended(&mut self, now: Instant) -> Vec<Key> {
        let due = self.schedule.range(..=(now, Key::LAST)).map(|(_, key)| *key);
        let ended: Vec<Key> =
            due.filter(|key| self.leases.get(key).is_some_and(|lease| lease.ends <= now)).collect();
        for key in &ended {
            self.forget(*key);
        }
        ended
    }

    /// Extensions to ask for in one call, `most` at the most; none if none is due. Their request
    /// has begun. To be called after [`Leases::take_ended`].
    pub(crate) fn take_due(&mut self, now: Instant, most: usize) -> Vec<Extension> {
        if self.next_due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        // What is due soon joins what is due now.
        let soon = now + self.extension / GATHER_PART;
        let extensions: Vec<Extension> = self
            .schedule
            .range(..=(soon, Key::LAST))
            .filter_map(|(_, key)| self.extension(*key, now))
            .take(most)
            .collect();
        for extension in &extensions {
            self.begin_request(extension.key);
        }
        extensions
    }

    fn extension(&self, key: Key, now: Instant) -> Option<Extension> {
        let lease = self.leases.get(&key)?;
        if lease.is_in_request || lease.is_final || lease.ends <= now {
            return None;
        }
        // Parts of a second are rounded up on the wire.
        let longest = Duration::from_secs(lease.last.saturating_duration_since(now).as_secs());
        let answer = self.answer() * if lease.is_slow { ANSWER_TIMES } else { 1 };
        Some(Extension { key, timeout: self.extension.min(longest), answer })
    }

    /// Puts a lease where its next step stands in the schedule.
    fn schedule(&mut self, key: Key) {
        let Some(lease) = self.leases.get_mut(&key) else { return };
        self.schedule.remove(&(lease.due, key));
        let half = lease.ends.checked_sub(self.extension / 2).unwrap_or(lease.ends);
        // Nothing is gained by an extension to less than now, or to less than a second.
        lease.is_final = lease.last < lease.ends + SHORTEST_EXTENSION;
        lease.due = if lease.is_in_request || lease.is_final { lease.ends } else { half };
        self.schedule.insert((lease.due, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);
    const HOUR: Duration = Duration::from_secs(3600);

    fn keys(extensions: &[Extension]) -> Vec<u64> {
        extensions.iter().map(|extension| extension.key.0).collect()
    }

    #[test]
    fn lease_counts_from_the_moment_the_receive_was_sent() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);

        leases.hold(Key(1), sent);

        assert_eq!(leases.next_due(), Some(sent + TIMEOUT / 2));
        assert_eq!(leases.take_due(sent + TIMEOUT / 2 - Duration::from_millis(1), 10), []);
        assert_eq!(leases.take_ended(sent + TIMEOUT - Duration::from_millis(1)), []);
        assert_eq!(leases.take_ended(sent + TIMEOUT), [Key(1)]);
        assert_eq!(leases.next_due(), None);
    }

    #[test]
    fn extensions_due_soon_share_a_call() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        for key in 0..15 {
            leases.hold(Key(key), sent + Duration::from_millis(key * 100));
        }
        leases.hold(Key(99), sent + Duration::from_secs(10));

        let now = sent + TIMEOUT / 2;
        assert_eq!(keys(&leases.take_due(now, 10)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        // The other five are not due yet.
        assert_eq!(leases.take_due(now, 10), []);
        let now = now + Duration::from_secs(1);
        assert_eq!(keys(&leases.take_due(now, 10)), [10, 11, 12, 13, 14]);
    }

    #[test]
    fn granted_extension_moves_the_end() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        leases.hold(Key(1), sent);

        for turn in 1..20 {
            let now = sent + TIMEOUT / 2 * turn;
            assert_eq!(leases.take_ended(now), []);
            let extensions = leases.take_due(now, 10);
            let answer = TIMEOUT / 8;
            assert_eq!(extensions, [Extension { key: Key(1), timeout: TIMEOUT, answer }]);
            assert_eq!(leases.take_due(now, 10), [], "one request at a time");
            leases.extended(extensions[0], now);
        }
    }

    #[test]
    fn leases_end_no_later_than_the_server_extends_them() {
        let sent = Instant::now();
        let sure = Some(TIMEOUT);
        let mut leases = Leases::new(10 * TIMEOUT, HOUR).with_sure_extension(sure);
        leases.hold(Key(1), sent);

        for turn in 0..5 {
            let now = sent + 10 * TIMEOUT - TIMEOUT / 2 + TIMEOUT / 2 * turn;
            assert_eq!(leases.next_due(), Some(now));
            let extension = leases.take_due(now, 10)[0];
            assert_eq!((extension.timeout, extension.answer), (TIMEOUT, TIMEOUT / 8));
            leases.extended(extension, now);
        }

        let mut shorter = Leases::new(TIMEOUT / 3, HOUR).with_sure_extension(sure);
        shorter.hold(Key(1), sent);
        assert_eq!(shorter.take_due(sent + TIMEOUT / 6, 10)[0].timeout, TIMEOUT / 3);
    }

    #[test]
    fn failed_extension_is_tried_again_while_the_lease_holds() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        leases.hold(Key(1), sent);
        let mut now = sent;
        let mut attempts = 0;

        loop {
            now = leases.next_due().unwrap().max(now);
            if !leases.take_ended(now).is_empty() {
                break;
            }
            for extension in leases.take_due(now, 10) {
                attempts += 1;
                leases.extension_failed(extension.key, now);
            }
        }

        assert_eq!(now, sent + TIMEOUT);
        assert_eq!(attempts, 10);
    }

    #[test]
    fn refused_lease_ends_at_once() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        leases.hold(Key(1), sent);
        let now = sent + TIMEOUT / 2;
        leases.take_due(now, 10);

        leases.refused(Key(1), now);

        assert_eq!(leases.take_ended(now), [Key(1)]);
    }

    #[test]
    fn no_lease_is_extended_past_the_longest() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, Duration::from_secs(70));
        leases.hold(Key(1), sent);
        let mut timeouts = Vec::new();

        while leases.take_ended(leases.next_due().unwrap()).is_empty() {
            let now = leases.next_due().unwrap();
            for extension in leases.take_due(now, 10) {
                timeouts.push((now - sent + extension.timeout).as_secs());
                leases.extended(extension, now);
            }
        }

        assert_eq!(timeouts, [45, 60, 70]);
    }

    #[test]
    fn extension_rounded_up_to_a_second_stays_within_the_longest() {
        let (sent, half_day) = (Instant::now(), Duration::from_secs(12 * 3600));
        let mut leases = Leases::new(Duration::from_secs(8 * 3600), half_day);
        leases.hold(Key(1), sent);

        let now = sent + Duration::from_millis(4 * 3_600_000 + 400);
        let extension = leases.take_due(now, 10)[0];

        // SQS refuses what ends 12 hours after the receive.
        assert_eq!(extension.timeout, Duration::from_secs(8 * 3600 - 3));
    }

    #[test]
    fn message_with_a_request_under_way_is_not_extended_but_ends() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        leases.hold(Key(1), sent);
        leases.begin_request(Key(1));

        assert_eq!(leases.take_due(sent + TIMEOUT / 2, 10), []);
        leases.end_request(Key(1));
        assert_eq!(keys(&leases.take_due(sent + TIMEOUT / 2, 10)), [1]);
        assert_eq!(leases.take_ended(sent + TIMEOUT), [Key(1)]);
    }

    #[test]
    fn message_held_anew_has_one_lease() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        leases.hold(Key(1), sent);

        leases.hold(Key(1), sent + Duration::from_secs(20));

        assert_eq!(leases.next_due(), Some(sent + Duration::from_secs(35)));
    }

    #[test]
    fn forgotten_message_is_never_extended() {
        let sent = Instant::now();
        let mut leases = Leases::new(TIMEOUT, HOUR);
        leases.hold(Key(1), sent);

        leases.forget(Key(1));

        assert_eq!(leases.take_due(sent + TIMEOUT, 10), []);
        assert_eq!(leases.take_ended(sent + TIMEOUT), []);
    }
}
