//! Draining one hidden queue: a task that waits for messages as a long poll does, so that an idle
//! endpoint costs nothing but its memory.

use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{BrokerError, Incoming, ReceiveRequest, SharedQueue};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::attempt::{Attempt, Ended, Prepared, handle, hold_s};
use crate::endpoint::{Deliveries, Endpoint};
use crate::figures::EndpointCounters;
use crate::lanes::Window;
use crate::push::Shared;
use crate::throttle::Throttle;
use crate::transports::Transports;

/// Messages of one receive.
const RECEIVE_MAX: usize = 10;
/// Until a message comes.
const WAIT_S: u32 = u32::MAX;
/// An endpoint without a message for that long gives its connections up.
const IDLE: Duration = Duration::from_secs(30);
/// After the journal took no change.
const PAUSE: Duration = Duration::from_secs(1);

/// The task of one queue.
pub(crate) struct Drain {
    shared: Arc<Shared>,
    queue: Arc<SharedQueue>,
    deliveries: Arc<dyn Deliveries>,
    counters: Arc<EndpointCounters>,
    stopping: watch::Receiver<bool>,
    window: Window,
    throttle: Throttle,
    transports: Transports,
    attempts: JoinSet<Ended>,
}

/// Reason for a drain to go on or to end.
enum Next {
    Received(Vec<Incoming>),
    /// Look again: an attempt has ended, say.
    Again,
    End,
}

impl Drain {
    pub(crate) fn new(
        shared: Arc<Shared>,
        queue: Arc<SharedQueue>,
        deliveries: Arc<dyn Deliveries>,
        counters: Arc<EndpointCounters>,
    ) -> Drain {
        Drain {
            window: Window::new(shared.options.connections_per_endpoint),
            stopping: shared.stopping(),
            shared,
            queue,
            deliveries,
            counters,
            throttle: Throttle::default(),
            transports: Transports::default(),
            attempts: JoinSet::new(),
        }
    }

    /// Drains the queue until it is deleted, has no endpoint any more, or the server stops. Attempts
    /// under way end first.
    pub(crate) async fn run(mut self) {
        loop {
            let wishes = self.shared.wishes(self.queue.id());
            let Some(endpoint) = self.deliveries.endpoint(self.queue.key()) else {
                if self.shared.has_ended(self.queue.id(), wishes) {
                    break;
                }
                continue;
            };
            match self.next(&*endpoint).await {
                Next::Received(messages) => {
                    // Its settings may have changed while nothing came.
                    match self.deliveries.endpoint(self.queue.key()) {
                        Some(endpoint) => {
                            messages.into_iter().for_each(|it| self.begin(&endpoint, it));
                        }
                        None => self.give_back(&messages),
                    }
                }
                Next::Again => {}
                Next::End => break,
            }
        }
        while self.attempts.join_next().await.is_some() {}
    }

    async fn next(&mut self, endpoint: &dyn Endpoint) -> Next {
        if *self.stopping.borrow() || self.shared.shards.is_draining() {
            return Next::End;
        }
        while let Some(ended) = self.attempts.try_join_next() {
            self.learn(ended);
        }
        let free = self.window.size().saturating_sub(self.attempts.len());
        let mut max = free.min(RECEIVE_MAX);
        let per_second = endpoint.max_per_second();
        let mut begins = None;
        if let Some(per_second) = per_second {
            let now = Instant::now();
            let (at, attempts) = self.throttle.next(now, per_second);
            begins = (at > now).then_some(at);
            max = max.min(attempts);
        }
        if max == 0 || begins.is_some() {
            let pause = async {
                match begins.filter(|_| max > 0) {
                    Some(begins) => tokio::time::sleep_until(begins).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopped(&mut self.stopping) => {}
                Some(ended) = self.attempts.join_next() => self.learn(ended),
                () = pause => {}
            }
            return Next::Again;
        }

        let request = ReceiveRequest {
            max,
            visibility_timeout_s: Some(hold_s(endpoint.timeout())),
            wait_time_s: Some(WAIT_S),
            attempt_id: None,
        };
        let is_warm = self.attempts.is_empty() && !self.transports.is_empty();
        let received = tokio::select! {
            biased;
            () = stopped(&mut self.stopping) => return Next::End,
            received = self.queue.receive(&request) => received,
            Some(ended) = self.attempts.join_next() => {
                self.learn(ended);
                return Next::Again;
            }
            () = tokio::time::sleep(IDLE), if is_warm => {
                self.transports.clear();
                return Next::Again;
            }
        };
        match received {
            Ok(messages) => {
                if let Some(per_second) = per_second {
                    self.throttle.took(Instant::now(), per_second, messages.len());
                }
                Next::Received(messages)
            }
            Err(BrokerError::QueueDoesNotExist) => {
                self.shared.forget(self.queue.id());
                self.deliveries.deleted(&self.queue).await;
                Next::End
            }
            Err(error) => {
                tracing::debug!(queue = %self.queue.key(), %error, "deliveries pause");
                tokio::time::sleep(PAUSE).await;
                Next::Again
            }
        }
    }

    fn give_back(&self, messages: &[Incoming]) {
        let handles: Vec<_> = messages.iter().map(|it| handle(&self.queue, it)).collect();
        self.shared.shards.give_back_received(&handles);
    }

    fn begin(&mut self, endpoint: &Arc<dyn Endpoint>, message: Incoming) {
        let prepared = self.prepared(&**endpoint, &message);
        let attempt = Attempt {
            shared: Arc::clone(&self.shared),
            queue: Arc::clone(&self.queue),
            endpoint: Arc::clone(endpoint),
            counters: Arc::clone(&self.counters),
            message,
            is_settled: false,
            is_local: false,
        };
        self.attempts.spawn(attempt.run(self.window.lane(), prepared));
    }

    fn prepared(&mut self, endpoint: &dyn Endpoint, message: &Incoming) -> Prepared {
        if endpoint.is_local(message) {
            return Prepared::Local;
        }
        let request = match endpoint.request(message) {
            Ok(request) => request,
            Err(text) => return Prepared::Impossible(text),
        };
        match self.transports.to(&request.url, endpoint.timeout(), &self.shared) {
            Ok(transport) => Prepared::Request(request, transport),
            Err(error) => Prepared::Impossible(error.to_string()),
        }
    }

    fn learn(&mut self, ended: Result<Ended, JoinError>) {
        match ended {
            Ok(Ended::Answered { after }) => self.window.answered(after),
            Ok(Ended::NotTried) => {}
            Ok(Ended::Failed) => self.window.failed(),
            Err(error) => {
                tracing::error!(queue = %self.queue.key(), %error, "a delivery panicked");
                self.window.failed();
            }
        }
    }
}

/// Resolves when the server stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Without a sender there is nobody left to stop anything later.
    drop(stopping.wait_for(|is_stopping| *is_stopping).await);
}
