//! Traits by which a service describes its endpoints and their messages.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{Incoming, SharedQueue};
use millrace_core::{QueueKey, Url};
use millrace_http::Answer;

/// SNS: an endpoint must answer within 15 seconds.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A service with hidden queues that are to be drained.
pub trait Deliveries: Send + Sync {
    /// The endpoint of a hidden queue, as it is now: asked before each batch of messages, so that
    /// a change counts from the next one on. `None` ends the draining of the queue; what is in it
    /// stays there.
    fn endpoint(&self, queue: &QueueKey) -> Option<Arc<dyn Endpoint>>;

    /// A queue that was drained is deleted: what belongs to it can go, too.
    fn deleted<'a>(&'a self, _queue: &'a SharedQueue) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// The endpoint of a hidden queue. Its methods are called on the thread of all deliveries, and must
/// not block it.
pub trait Endpoint: Send + Sync {
    /// The name of the endpoint in the log, such as the ARN of a subscription.
    fn name(&self) -> &str;

    /// The request that delivers a message; its body is that of the message. Called for each
    /// attempt, so that the next may go elsewhere.
    ///
    /// # Errors
    ///
    /// With a text for people, if the message cannot be delivered at all: it has failed then.
    fn request(&self, message: &Incoming) -> Result<Request, String>;

    /// True if a message does not leave the server: [`Endpoint::deliver`] is called instead of
    /// sending a request. Such deliveries are not counted.
    fn is_local(&self, _message: &Incoming) -> bool {
        false
    }

    /// Delivers a message within the server.
    ///
    /// # Errors
    ///
    /// With a text for people, if there is to be another attempt.
    fn deliver<'a>(&'a self, _message: &'a Incoming) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("messages of this endpoint go out".to_owned()) })
    }

    /// How long to wait before attempt number `attempt` (2 is the first retry); `None` if the
    /// delivery has failed. Whole seconds count, 11 hours at most.
    fn delay_before(&self, attempt: u32) -> Option<Duration>;

    /// Attempts a second; `None` sets no limit.
    fn max_per_second(&self) -> Option<u32> {
        None
    }

    /// From the beginning of an attempt to the end of its answer.
    fn timeout(&self) -> Duration {
        ANSWER_TIMEOUT
    }

    /// Decides what an answer means.
    fn judge(&self, answer: &Answer) -> Verdict {
        Verdict::of_status(answer.status)
    }

    /// False: calls that the network policy refuses, or that can never succeed, are repeated like
    /// those that fail. The next attempt may go elsewhere.
    fn is_refusal_final(&self) -> bool {
        true
    }

    /// An attempt has ended; what follows from it comes next.
    fn attempted(&self, _message: &Incoming, _attempt: &Attempted<'_>) {}

    /// The message was delivered; it is deleted from the hidden queue next.
    fn delivered(&self, _message: &Incoming) {}

    /// The message was not delivered, and there is no further attempt: it may be kept elsewhere,
    /// such as in a dead-letter queue. After a crash the same message may be tried and fail again.
    fn failed<'a>(
        &'a self,
        message: &'a Incoming,
        failure: &'a Failure,
    ) -> BoxFuture<'a, AfterFailure>;
}

/// A request besides its body.
#[derive(Clone, Debug)]
pub struct Request {
    pub url: Url,
    /// In the order in which they are sent. `Host` and `Content-Length` are added.
    pub headers: Vec<(&'static str, String)>,
    /// Headers whose names are the message's own.
    pub other_headers: Vec<(String, String)>,
}

/// Outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted<'a> {
    pub verdict: Verdict,
    /// If there was an answer.
    pub status: Option<u16>,
    /// For people, one line; empty if nothing failed.
    pub text: &'a str,
}

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    /// Another attempt, if the endpoint allows one.
    Retry,
    /// No other attempt would have a better answer.
    Refused,
    /// The endpoint took the message but is not done with it: unless somebody deletes the message
    /// from the hidden queue meanwhile, there is another attempt after that long.
    Held(Duration),
}

impl Verdict {
    /// SNS developer guide, "Message delivery retries": 429 and 5xx are repeated, everything else
    /// is a client's error. Redirects are not followed, and no retry would change where they point.
    pub fn of_status(status: u16) -> Verdict {
        match status {
            200..=299 => Verdict::Delivered,
            429 | 500..=u16::MAX => Verdict::Retry,
            _ => Verdict::Refused,
        }
    }
}

/// A delivery that has failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Including the last. Attempts that a crash cut off count.
    pub attempts: u32,
    /// Of the last attempt, if there was an answer.
    pub status: Option<u16>,
    /// For people, one line.
    pub text: String,
    pub cause: Cause,
}

/// Reason for a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The last of all attempts failed.
    Exhausted,
    /// The endpoint refused the message, or may not be called.
    Refused,
}

/// Fate of a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is durable elsewhere.
    Redriven,
    /// There is no place for it.
    Dropped,
    /// Its place takes nothing now: it stays in the hidden queue, is tried once more after a while,
    /// and fails again if that fails.
    Later,
}
