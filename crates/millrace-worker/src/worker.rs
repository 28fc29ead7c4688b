//! A worker, ready to run.

use std::sync::Arc;

use millrace_client::Peer;

use crate::{
    drain::Drain,
    handler::Handler,
    metrics::{Metrics, Summary},
    options::Options,
    pipeline::Pipeline,
    slots::Share,
};

/// Works off one queue.
#[derive(Debug)]
pub struct Worker<P, H> {
    pub(crate) peer: Arc<P>,
    pub(crate) dead_letters: Option<Arc<P>>,
    pub(crate) handler: Arc<H>,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) share: Option<Share>,
    pub(crate) drain: Drain,
}

impl<P: Peer, H: Handler> Worker<P, H> {
    /// A worker that gives messages of `peer` to `handler`.
    pub fn new(peer: P, handler: H, options: Options) -> Worker<P, H> {
        Worker {
            peer: Arc::new(peer),
            dead_letters: None,
            handler: Arc::new(handler),
            metrics: Metrics::new(options.queue.clone()),
            options,
            share: None,
            drain: Drain::new(),
        }
    }

    /// The same worker with a queue for messages that are rejected or fail too often.
    pub fn with_dead_letter_queue(mut self, queue: P) -> Worker<P, H> {
        self.dead_letters = Some(Arc::new(queue));
        self
    }

    /// The same worker, whose handlers start in slots that it shares with other workers; its own
    /// concurrency holds as well.
    pub fn with_share(mut self, share: Share) -> Worker<P, H> {
        self.share = Some(share);
        self
    }

    /// The same worker, which counts there.
    pub fn with_metrics(mut self, metrics: Metrics) -> Worker<P, H> {
        self.metrics = metrics;
        self
    }

    /// The same worker, ended by `drain`.
    pub fn with_drain(mut self, drain: Drain) -> Worker<P, H> {
        self.drain = drain;
        self
    }

    /// What ends it.
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// What it counts.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Runs until it is drained, or until its options say that it is done.
    ///
    /// Cancel safety: dropped, it aborts its handlers; messages in hand come back after their
    /// visibility timeout.
    ///
    /// # Panics
    ///
    /// If the peer panics. A handler that panics has failed, nothing more.
    pub async fn run(self) -> Summary {
        Pipeline::of(self).run().await
    }
}
