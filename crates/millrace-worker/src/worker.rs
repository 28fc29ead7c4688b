//! A worker, ready to run.

use std::sync::Arc;

use millrace_client::Peer;

use crate::{
    drain::Drain,
    handler::Handler,
    metrics::{Metrics, Summary},
    options::Options,
    pipeline::Pipeline,
};

/// Works off one queue.
#[derive(Debug)]
pub struct Worker<P, H> {
    peer: Arc<P>,
    dead_letters: Option<Arc<P>>,
    handler: Arc<H>,
    options: Options,
    metrics: Metrics,
    drain: Drain,
}

impl<P: Peer, H: Handler> Worker<P, H> {
    /// A worker that gives messages of `peer` to `handler`.
    pub fn new(peer: P, handler: H, options: Options) -> Worker<P, H> {
        Worker {
            peer: Arc::new(peer),
            dead_letters: None,
            handler: Arc::new(handler),
            options,
            metrics: Metrics::new(),
            drain: Drain::new(),
        }
    }

    /// The same worker with a queue for messages that are rejected or fail too often.
    pub fn with_dead_letter_queue(mut self, queue: P) -> Worker<P, H> {
        self.dead_letters = Some(Arc::new(queue));
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
        let peers = (self.peer, self.dead_letters);
        Pipeline::new(peers, self.handler, self.options, self.metrics, &self.drain).run().await
    }
}
