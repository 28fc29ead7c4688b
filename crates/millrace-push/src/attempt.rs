//! One attempt to deliver one message, and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{Handle, Incoming, SharedQueue};
use millrace_http::{Call, Head, Lane as HttpLane, Repeat, Transport, TransportError};
use tokio::time::Instant;

use crate::endpoint::{AfterFailure, Attempted, Cause, Endpoint, Failure, Request, Verdict};
use crate::figures::{EndpointCounters, LatestError};
use crate::lanes::{Lane, Place};
use crate::outage::Recovery;
use crate::push::Shared;

/// A received message is hidden for the endpoint's time-out and this long, in which the outcome is
/// written. After a crash it comes back by then.
const HOLD_BEYOND_TIMEOUT_S: u32 = 5;
/// An attempt that has waited for its place for longer hides its message again before it begins.
const HOLD_IS_FRESH: Duration = Duration::from_secs(1);
/// Of a failed message whose new place takes nothing now.
const LATER: Duration = Duration::from_secs(30);
/// Below the 12 hours after its receive for which a message may be hidden.
const DELAY_S_MAX: u64 = 11 * 3600;

/// The delivery of a received message. Dropped before its end because the server stops, the message
/// goes back as if it had not been received.
pub(crate) struct Attempt {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<SharedQueue>,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) counters: Arc<EndpointCounters>,
    pub(crate) message: Incoming,
    /// What follows from the attempt is in the queue, or is on its way there.
    pub(crate) is_settled: bool,
    /// The message did not leave the server.
    pub(crate) is_local: bool,
}

/// Outcome of an attempt, as it counts for its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered {
        after: Duration,
    },
    Failed,
    /// There was no attempt.
    NotTried,
}

/// The way in which a message is delivered.
pub(crate) enum Prepared {
    Request(Request, Arc<Transport>),
    /// Within the server.
    Local,
    /// Not at all, for that reason.
    Impossible(String),
}

/// Outcome of a request.
struct Outcome {
    verdict: Verdict,
    status: Option<u16>,
    /// Empty if the message was delivered.
    text: String,
}

/// Seconds for which a receive hides a message.
pub(crate) fn hold_s(timeout: Duration) -> u32 {
    let seconds = timeout.as_secs().saturating_add(1);
    u32::try_from(seconds).unwrap_or(u32::MAX / 2).saturating_add(HOLD_BEYOND_TIMEOUT_S)
}

impl Attempt {
    /// Sends the request once there is a place for it, and settles the message.
    pub(crate) async fn run(mut self, lane: Lane, prepared: Prepared) -> Ended {
        let (request, transport) = match prepared {
            Prepared::Request(request, transport) => (request, transport),
            Prepared::Local => return self.run_locally().await,
            Prepared::Impossible(text) => {
                let outcome = Outcome { verdict: Verdict::Refused, status: None, text };
                self.settle(outcome).await;
                return Ended::NotTried;
            }
        };
        let place = self.place(lane).await;
        let began = Instant::now();
        let outcome = {
            let _under_way = self.counters.attempt();
            self.exchange(request, &transport).await
        };
        let after = began.elapsed();
        drop(place);

        let ended = match (outcome.status, outcome.verdict) {
            (None, _) | (_, Verdict::Retry) => Ended::Failed,
            (Some(_), _) => Ended::Answered { after },
        };
        self.settle(outcome).await;
        ended
    }

    async fn run_locally(mut self) -> Ended {
        let began = Instant::now();
        let delivered = self.endpoint.deliver(&self.message).await;
        let after = began.elapsed();
        let text = delivered.err();
        let verdict = if text.is_none() { Verdict::Delivered } else { Verdict::Retry };
        self.is_local = true;
        self.settle(Outcome { verdict, status: None, text: text.unwrap_or_default() }).await;
        match verdict {
            Verdict::Delivered => Ended::Answered { after },
            _ => Ended::Failed,
        }
    }

    /// Waits for a place, and keeps the message hidden meanwhile. Then what is left of the hold is
    /// more than the time-out.
    async fn place(&self, lane: Lane) -> Option<Place> {
        let mut place = std::pin::pin!(self.shared.lanes.place(lane));
        let hold = Duration::from_secs(u64::from(hold_s(self.endpoint.timeout())));
        let mut held = Instant::now();
        loop {
            let granted = tokio::time::timeout(hold / 2, place.as_mut()).await;
            if granted.is_err() || held.elapsed() > HOLD_IS_FRESH {
                held = Instant::now();
                self.hide(hold).await;
            }
            if let Ok(place) = granted {
                return place;
            }
        }
    }

    async fn exchange(&self, request: Request, transport: &Transport) -> Outcome {
        let limit = self.endpoint.timeout();
        let called = async {
            let head = head(&request)?;
            let body = self.message.content.clone().into_body();
            // The message may come twice, after a crash say, but not for as little as this.
            let repeat = Repeat::IfStale;
            let call = Call { lane: HttpLane::Quick, head, body, wait: Duration::ZERO, repeat };
            transport.call(call).await
        };
        let failed = |verdict, text| Outcome { verdict, status: None, text };
        match tokio::time::timeout(limit, called).await {
            Err(_) => failed(Verdict::Retry, format!("no answer within {limit:?}")),
            Ok(Err(error)) => {
                let verdict = match error {
                    TransportError::AddressRefused { .. }
                    | TransportError::Head(_)
                    | TransportError::Tls(_)
                        if self.endpoint.is_refusal_final() =>
                    {
                        Verdict::Refused
                    }
                    _ => Verdict::Retry,
                };
                failed(verdict, error.to_string())
            }
            Ok(Ok(answer)) => {
                let verdict = self.endpoint.judge(&answer);
                let text = match verdict {
                    Verdict::Delivered | Verdict::Held(_) => String::new(),
                    Verdict::Retry | Verdict::Refused => {
                        format!("status {}: {}", answer.status, answer.excerpt())
                    }
                };
                Outcome { verdict, status: Some(answer.status), text }
            }
        }
    }

    async fn settle(&mut self, outcome: Outcome) {
        let Outcome { verdict, status, text } = outcome;
        self.endpoint.attempted(&self.message, &Attempted { verdict, status, text: &text });
        let attempts = self.message.delivery.receive_count;
        let error = |text| LatestError { at: self.shared.shards.now(), status, text };
        let retry_after = match verdict {
            Verdict::Retry => self.endpoint.delay_before(attempts.saturating_add(1)),
            _ => None,
        };
        match (verdict, retry_after) {
            (Verdict::Delivered, _) => {
                if !self.is_local
                    && let Some(Recovery { given_up }) = self.counters.delivered()
                {
                    let endpoint = self.endpoint.name();
                    tracing::info!(endpoint, given_up, "an endpoint takes deliveries again");
                }
                self.endpoint.delivered(&self.message);
                self.is_settled = true;
                self.delete().await;
            }
            (Verdict::Held(delay), _) => {
                self.is_settled = true;
                self.hide(delay).await;
            }
            (Verdict::Retry, Some(delay)) => {
                tracing::debug!(queue = %self.queue.key(), attempts, error = text, "retry");
                if !self.is_local && self.counters.retried(error(text.clone())) {
                    let endpoint = self.endpoint.name();
                    tracing::warn!(endpoint, error = text, "deliveries to an endpoint fail");
                }
                self.is_settled = true;
                self.hide(delay).await;
            }
            (Verdict::Retry, None) => {
                self.counters.failed(error(text.clone()));
                self.give_up(Failure { attempts, status, text, cause: Cause::Exhausted }).await;
            }
            (Verdict::Refused, _) => {
                self.counters.failed(error(text.clone()));
                self.give_up(Failure { attempts, status, text, cause: Cause::Refused }).await;
            }
        }
    }

    async fn give_up(&mut self, failure: Failure) {
        let after = self.endpoint.failed(&self.message, &failure).await;
        self.is_settled = true;
        let Failure { attempts, text, .. } = failure;
        tracing::debug!(queue = %self.queue.key(), attempts, error = text, ?after, "failed");
        let now = self.shared.shards.now();
        let is_mentioned = match after {
            AfterFailure::Later => self.counters.put_off(now),
            AfterFailure::Redriven | AfterFailure::Dropped => {
                self.counters.given_up(after == AfterFailure::Redriven, now)
            }
        };
        if is_mentioned {
            let endpoint = self.endpoint.name();
            tracing::warn!(endpoint, attempts, error = text, ?after, "a delivery is given up");
        }
        match after {
            AfterFailure::Later => self.hide(LATER).await,
            AfterFailure::Redriven | AfterFailure::Dropped => self.delete().await,
        }
    }

    /// Deletes the message. If the journal takes no change now, it comes back when its hold ends.
    async fn delete(&self) {
        if let Err(error) = self.queue.delete(&[self.handle()]).await {
            tracing::debug!(queue = %self.queue.key(), %error, "delivered, but not deleted");
        }
    }

    /// Hides the message from now on. If the journal takes no change now, it comes back when its
    /// hold ends.
    async fn hide(&self, delay: Duration) {
        let delay_s = delay.as_secs().min(DELAY_S_MAX) as u32;
        if let Err(error) = self.queue.change_visibility(&[(self.handle(), delay_s)]).await {
            tracing::debug!(queue = %self.queue.key(), %error, "not put off");
        }
    }

    fn handle(&self) -> Handle {
        handle(&self.queue, &self.message)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // Otherwise something panicked: at once again, it would do so without end.
        if !self.is_settled && self.shared.is_stopping() {
            self.shared.shards.give_back_received(&[self.handle()]);
        }
    }
}

/// The handle of a received message.
pub(crate) fn handle(queue: &SharedQueue, message: &Incoming) -> Handle {
    let delivery = &message.delivery;
    Handle {
        queue: queue.id(),
        seq: delivery.at.seq,
        slot: delivery.at.slot,
        receive_count: delivery.receive_count,
    }
}

fn head(request: &Request) -> Result<Head, TransportError> {
    let url = &request.url;
    let mut head = Head::new("POST", &url.target(), &url.authority())?;
    for (name, value) in &request.headers {
        head.header(name, value)?;
    }
    for (name, value) in &request.other_headers {
        head.header(name, value)?;
    }
    Ok(head)
}
