//! When to receive, and how much: never without a free slot, or a place in the prefetch.
//!
//! At rest there is exactly one receive under way. While receives come back full, one more each
//! time may be under way, up to the maximum.
//!
//! Of an ordered queue, messages that wait behind others of their group take no slot: else one long
//! group would keep all others out. And once a message has failed, receives ask for one message
//! only for a while: what comes with a failing message goes back with it, and would lose as many
//! receives.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use millrace_client::{CallError, CallErrorKind, Delivery, Peer, ReceiveRequest, SystemAttributes};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Event, Pipeline, SETTLING, max_receive, within};
use crate::{
    backoff,
    drain::Stage,
    handler::Handler,
    held::{Held, State},
    metrics::Received,
    options::{Options, Until},
    patience::Patience,
    poll_interval::PollInterval,
};

/// The wait of a receive that finds out whether the queue is empty: SQS asks all its servers only
/// if a receive waits.
const EMPTY_WAIT: Duration = Duration::from_secs(1);
/// How long receives under way may still bring back, at a forced end, what was just released.
const ECHO: Duration = Duration::from_millis(250);
/// Round trips of the average within which a receive brings what was there when it was sent …
const EXPECTED_TRIPS: u32 = 3;
/// … but so long at least: round trips of a busy server differ by more than that.
const EXPECTED_AT_LEAST: Duration = Duration::from_millis(50);
/// The pause after a receive that failed for reasons that do not go away by themselves.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// So many such failures in a row, and a worker that is to end by itself ends: the queue is gone,
/// or not for these credentials, and it would never find it empty.
const REFUSALS: u32 = 3;
/// From so many failures in a row on, answers that are none of a queue count as such as well: there
/// is no queue at that address.
const STRANGE_ANSWERS: u32 = 10;
/// Messages that may wait behind others of their group, for each handler: what one receive brings.
const BEHIND_LANES: usize = 10;
/// How long receives of an ordered queue ask for one message, after one that failed is back.
const ONE_BY_ONE: Duration = Duration::from_secs(60);
/// What a server may ask for at most with `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);
/// The pause after other failures grows from this …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … or, when throttled, from this …
const FIRST_THROTTLED_PAUSE: Duration = Duration::from_secs(1);
/// … to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What one receive asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    messages: usize,
    wait: Duration,
    sent: Instant,
}

/// The receives under way and when there may be more.
#[derive(Debug)]
pub(super) struct Receiver {
    open: usize,
    /// Messages that the open receives may bring.
    asked: usize,
    /// When the open receives are given up.
    gives_up: Instant,
    patience: Patience,
    /// Messages that the last receive brought.
    brought: usize,
    /// How long after it is sent a receive may bring messages that were there already.
    expects_until: Option<Instant>,
    /// Receives that may be open.
    allowed: usize,
    not_before: Instant,
    failures: u32,
    /// Those of them that do not go away by themselves; receives that were under way together count
    /// once.
    refusals: u32,
    /// When the last of these was counted.
    refused: Option<Instant>,
    interval: PollInterval,
    /// Messages that may still be received.
    left: Option<u64>,
    is_closed: bool,
    /// When the worker last gave a message back.
    gave_back: Option<Instant>,
    /// When the worker last let go of a message of a group, which others of it had to wait for.
    freed_group: Option<Instant>,
    /// Until when a receive asks for one message only.
    one_by_one_until: Option<Instant>,
    /// Whether a slot waits for the pause to end.
    is_wanted: bool,
}

impl Receiver {
    pub(super) fn new(options: &Options, now: Instant) -> Receiver {
        Receiver {
            open: 0,
            asked: 0,
            gives_up: now,
            patience: Patience::new(options.visibility_timeout),
            brought: 0,
            expects_until: None,
            allowed: 1,
            not_before: now,
            failures: 0,
            refusals: 0,
            refused: None,
            interval: PollInterval::new(options.poll_interval, options.max_idle_latency),
            left: options.max_messages,
            is_closed: options.max_messages == Some(0),
            gave_back: None,
            freed_group: None,
            one_by_one_until: None,
            is_wanted: false,
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether receives were refused too often for a worker that is to end by itself.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals >= REFUSALS
    }

    /// Whether a receive under way may bring what can be received at `at`.
    pub(super) fn may_bring(&self, at: Instant) -> bool {
        self.open > 0 && at <= self.gives_up
    }

    /// Messages that the receives under way are likely to bring at once.
    pub(super) fn expected(&self, now: Instant) -> usize {
        let is_soon = self.expects_until.is_some_and(|until| now < until);
        if is_soon { self.asked.min(self.brought) } else { 0 }
    }

    /// When [`Receiver::expected`] becomes 0 by itself.
    pub(super) fn expects_until(&self) -> Option<Instant> {
        self.expects_until.filter(|_| self.asked > 0)
    }

    pub(super) fn on_gave_back(&mut self, now: Instant) {
        self.gave_back = Some(now);
    }

    pub(super) fn on_freed_group(&mut self, now: Instant) {
        self.freed_group = Some(now);
    }

    /// A lane was stopped by a message that is back at that time.
    pub(super) fn on_lane_stopped(&mut self, back: Instant) {
        self.one_by_one_until = self.one_by_one_until.max(Some(back + ONE_BY_ONE));
    }

    /// When receives under way can be given up: what was released last would have come back through
    /// one of them by then, and would be hidden for a visibility timeout if nobody waited for it.
    pub(super) fn may_be_dropped_at(&self) -> Option<Instant> {
        self.gave_back.filter(|_| self.open > 0).map(|at| at + ECHO)
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let waits = !self.is_closed && self.is_wanted && self.not_before > now;
        waits.then_some(self.not_before)
    }
}

impl<P: Peer, H: Handler> Pipeline<P, H> {
    pub(super) fn start_receives(&mut self, now: Instant) {
        if self.receiver.is_closed {
            return;
        }
        self.receiver.is_wanted = self.messages_wanted(now) > 0;
        while self.receiver.open < self.receiver.allowed && self.receiver.not_before <= now {
            let wanted = self.messages_wanted(now);
            if wanted == 0 {
                break;
            }
            self.start_receive(wanted, now);
        }
    }

    /// How many messages the next receive is to ask for.
    fn messages_wanted(&self, now: Instant) -> usize {
        let is_one_by_one = self.receiver.one_by_one_until.is_some_and(|until| now < until);
        let most = if is_one_by_one { 1 } else { max_receive(&self.capabilities) };
        let (waiting, startable) = (self.lanes.waiting(), self.lanes.startable());
        let asked = self.receiver.asked;
        let batch_size = self.options.batch_size;
        let slots = self.limit.get().saturating_mul(batch_size);
        let free_handlers = self.limit.get().saturating_sub(self.units.len());
        let free_slots = free_handlers.min(self.share.free()).saturating_mul(batch_size);
        let free = (free_slots + self.prefetch.messages(slots)).saturating_sub(startable + asked);
        let behind = waiting - startable;
        let settling = self.held.len().saturating_sub(self.running + waiting);
        if settling >= SETTLING
            || behind >= self.limit.get().saturating_mul(BEHIND_LANES)
            || self.held.bytes() > self.options.max_held_bytes
        {
            return 0;
        }
        // Handlers have something to do: better one full receive than several small ones.
        if startable > 0 && free < most && !self.is_gathering() {
            return 0;
        }
        let left = self
            .receiver
            .left
            .map_or(u64::MAX, |left| left.saturating_sub(u64::try_from(asked).unwrap_or(u64::MAX)));
        free.min(most).min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    fn start_receive(&mut self, asked: usize, now: Instant) {
        self.receiver.open += 1;
        self.receiver.asked += asked;
        let soon = (self.prefetch.round_trip() * EXPECTED_TRIPS).max(EXPECTED_AT_LEAST);
        self.receiver.expects_until = Some(now + soon);
        let wait = self.wait();
        let longest = wait + self.receiver.patience.answer();
        self.receiver.gives_up = self.receiver.gives_up.max(now + longest);
        let request = ReceiveRequest {
            max: u32::try_from(asked).unwrap_or(1),
            wait,
            visibility: Some(self.options.visibility_timeout),
            attributes: SystemAttributes::All,
        };
        let asked = Asked { messages: asked, wait, sent: now };
        let peer = Arc::clone(&self.peer);
        self.tasks.spawn(async move {
            let result = within(longest, peer.receive(request)).await;
            Event::Received { asked, result }
        });
    }

    /// How long a receive may wait.
    fn wait(&self) -> Duration {
        let wait = match self.options.until {
            Until::Empty => self.options.wait.min(EMPTY_WAIT),
            Until::Drained | Until::Once => self.options.wait,
        };
        let longest = self.receiver.patience.longest_wait();
        wait.min(longest).min(self.capabilities.long_poll.unwrap_or_default())
    }

    pub(super) fn on_received(
        &mut self,
        asked: Asked,
        result: Result<Vec<Delivery>, CallError>,
        now: Instant,
    ) {
        let Asked { messages, wait, sent } = asked;
        self.receiver.open -= 1;
        self.receiver.asked -= messages;
        let late = now.saturating_duration_since(sent).saturating_sub(wait);
        let deliveries = match result {
            Ok(deliveries) => deliveries,
            Err(error) => {
                self.receiver.patience.on_failure(sent, late, now);
                return self.on_receive_failed(&error, sent, now);
            }
        };
        self.receiver.patience.on_answer(late);
        let received = deliveries.len();
        self.receiver.failures = 0;
        self.receiver.refusals = 0;
        self.receiver.brought = received;
        self.metrics.received.inc_by(received as u64);
        let result = if received == 0 { Received::Nothing } else { Received::Messages };
        self.metrics.receive_answered(result);
        self.metrics.last_receive.set(unix_time_s());
        self.pace(received, asked, now);
        if let Some(left) = &mut self.receiver.left {
            *left = left.saturating_sub(received as u64);
            self.receiver.is_closed |= *left == 0;
        }
        self.receiver.is_closed |= match self.options.until {
            Until::Drained => false,
            Until::Once => true,
            Until::Empty => received == 0 && self.is_empty_since(sent),
        };
        // First what these are the return of: where that ends, the lane stops that they enter then.
        for delivery in &deliveries {
            if let Some(key) = self.held.find(delivery.message_id()) {
                self.end_if_given_back(key, now);
            }
        }
        for delivery in deliveries {
            self.hold(delivery, sent, now);
        }
    }

    pub(super) fn receives_may_be_dropped(&self, now: Instant) -> bool {
        self.receiver.may_be_dropped_at().is_none_or(|at| at <= now)
    }

    /// Whether the queue is as empty as a receive found it that was sent then.
    fn is_empty_since(&self, sent: Instant) -> bool {
        let Receiver { open, gave_back, freed_group, .. } = &self.receiver;
        let is_changed = [gave_back, freed_group].into_iter().flatten().any(|at| *at >= sent);
        *open == 0 && self.held.is_empty() && !is_changed
    }

    fn pace(&mut self, received: usize, asked: Asked, now: Instant) {
        let Asked { messages, wait, sent } = asked;
        if received >= messages {
            self.prefetch.on_full_receive(now.saturating_duration_since(sent));
            self.receiver.allowed = (self.receiver.allowed + 1).min(self.options.max_receives_open);
        } else {
            self.receiver.allowed = 1;
        }
        let pause = self.receiver.interval.after_receive(received, messages, now);
        // Some servers know no wait, others answer sooner than asked.
        let came_early = received == 0 && now.saturating_duration_since(sent) < wait / 2;
        if wait.is_zero() || came_early {
            self.receiver.not_before = self.receiver.not_before.max(now + pause);
        }
    }

    fn on_receive_failed(&mut self, error: &CallError, sent: Instant, now: Instant) {
        self.metrics.receive_answered(Received::Failed);
        self.receiver.failures = self.receiver.failures.saturating_add(1);
        self.receiver.brought = 0;
        self.receiver.allowed = 1;
        let failures = self.receiver.failures;
        let pause = match error.kind {
            CallErrorKind::Throttled => {
                backoff::call_delay(FIRST_THROTTLED_PAUSE, failures, LONGEST_PAUSE)
            }
            _ if error.is_retryable() => backoff::call_delay(FIRST_PAUSE, failures, LONGEST_PAUSE),
            _ => REFUSED_PAUSE,
        };
        let asked_for = error.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
        let pause = pause.max(asked_for);
        self.receiver.not_before = self.receiver.not_before.max(now + pause);
        tracing::warn!(%error, failures, pause_ms = pause.as_millis() as u64, "receive failed");
        // What is no answer of a queue may go away, as when a proxy is set up anew, or never will.
        let is_strange = error.kind == CallErrorKind::Malformed && failures >= STRANGE_ANSWERS;
        let is_refused = is_strange || !error.is_retryable();
        if is_refused && self.options.until != Until::Drained {
            self.on_receive_refused(error, sent, now);
        }
    }

    fn on_receive_refused(&mut self, error: &CallError, sent: Instant, now: Instant) {
        if self.receiver.refused.is_some_and(|at| sent < at) {
            return;
        }
        self.receiver.refused = Some(now);
        self.receiver.refusals += 1;
        if self.receiver.is_refused() && !self.receiver.is_closed {
            tracing::error!(%error, "receives are refused: ending");
            self.receiver.close();
        }
    }

    fn hold(&mut self, delivery: Delivery, sent: Instant, now: Instant) {
        if let Some(key) = self.held.find(delivery.message_id()) {
            // Its lease was lost, and it came back here while its handler was still at work. The
            // newest receipt handle is the one that counts; a second handler is not needed.
            self.adopt(key, delivery, sent);
            return;
        }
        let group = delivery.group_id().filter(|_| self.capabilities.ordered_groups).cloned();
        let key = self.held.insert(Held {
            receive_count: delivery.receive_count().unwrap_or(1),
            delivery,
            group: group.clone(),
            received: sent,
            state: State::Waiting,
            is_taken: false,
            is_lost: false,
            is_in_request: false,
            is_cut_off: false,
            cancel: CancellationToken::new(),
            is_begun: Arc::default(),
        });
        self.leases.hold(key, sent);
        if self.progress.stage() == Stage::Running {
            self.lanes.push(key, group);
        } else {
            self.release(vec![key], now);
        }
    }
}

fn unix_time_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
