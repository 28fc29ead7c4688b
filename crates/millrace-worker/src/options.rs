//! How a worker works.

use std::time::Duration;

use crate::{
    backoff::{Backoff, MAX_VISIBILITY},
    concurrency::Concurrency,
    drain::DrainTimeouts,
};

/// Settings of a worker. The defaults suit handlers of a millisecond as well as of minutes.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many handlers run at a time [default: 10].
    pub concurrency: Concurrency,
    /// Messages given to one handler at a time [default: 1].
    pub batch_size: usize,
    /// How long messages wait for a batch to be full; what has come by then is a batch
    /// [default: none].
    pub batch_window: Duration,
    /// How long a receive or an extension hides a message [default: 30 s; 2 s at least].
    pub visibility_timeout: Duration,
    /// How long a message may be held in all, by extensions [default: 1 h; 12 h at most].
    pub max_lease: Duration,
    /// How long a receive waits for messages, where the peer can [default: 20 s; two thirds of the
    /// visibility timeout at most].
    pub wait: Duration,
    /// The shortest pause between receives where the peer does not wait [default: 20 ms].
    pub poll_interval: Duration,
    /// The longest such pause [default: 2 s].
    pub max_idle_latency: Duration,
    /// Receives under way at a time while there is much to receive; at rest it is one
    /// [default: 10].
    pub max_receives_open: usize,
    /// No receive is begun while bodies and attributes of more bytes than this are held
    /// [default: 64 MiB].
    pub max_held_bytes: usize,
    /// How long a delete waits for others to share its call [default: 100 ms].
    pub linger: Duration,
    /// The delay before a message that failed is received again.
    pub backoff: Backoff,
    /// After so many receives a message goes to the dead-letter queue, if the worker has one
    /// [default: none].
    pub max_receives: Option<u32>,
    /// When to end without being asked [default: never].
    pub until: Until,
    /// End after having handled so many messages [default: none].
    pub max_messages: Option<u64>,
    /// Bounds of the end.
    pub drain: DrainTimeouts,
    /// The queue's name or URL, for dead letters, metrics and the log.
    pub queue: String,
}

/// When a worker ends without being asked. One that is to end ends as well when three receives in a
/// row were refused: the queue is gone, or the credentials are not good for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Never.
    Drained,
    /// After one receive that was answered, and its messages.
    Once,
    /// When a receive brings nothing, with nothing in hand, and nothing given back and no group of a
    /// FIFO queue freed meanwhile. Messages that are hidden, such as those that wait for a retry,
    /// are not waited for.
    Empty,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            concurrency: Concurrency::Fixed(10),
            batch_size: 1,
            batch_window: Duration::ZERO,
            visibility_timeout: Duration::from_secs(30),
            max_lease: Duration::from_secs(3600),
            wait: Duration::from_secs(20),
            poll_interval: Duration::from_millis(20),
            max_idle_latency: Duration::from_secs(2),
            max_receives_open: 10,
            max_held_bytes: 64 << 20,
            linger: Duration::from_millis(100),
            backoff: Backoff::default(),
            max_receives: None,
            until: Until::Drained,
            max_messages: None,
            drain: DrainTimeouts::default(),
            queue: String::new(),
        }
    }
}

impl Options {
    /// The same with every value moved into its bounds.
    pub(crate) fn bounded(mut self) -> Options {
        self.batch_size = self.batch_size.max(1);
        self.max_receives_open = self.max_receives_open.max(1);
        // Half of it is a whole second, the least that SQS can be asked for.
        self.visibility_timeout =
            self.visibility_timeout.clamp(Duration::from_secs(2), MAX_VISIBILITY);
        self.max_lease = self.max_lease.clamp(self.visibility_timeout, MAX_VISIBILITY);
        // A clock plus "for ever" is more than a clock can show.
        for duration in [
            &mut self.batch_window,
            &mut self.poll_interval,
            &mut self.max_idle_latency,
            &mut self.linger,
            &mut self.drain.drain,
            &mut self.drain.cancel_grace,
            &mut self.drain.flush,
        ] {
            *duration = (*duration).min(MAX_VISIBILITY);
        }
        self
    }
}
