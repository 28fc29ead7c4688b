//! A peer whose calls are timed and counted, for histograms and for whoever watches the run.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use millrace_client::{
    CallError, Capabilities, Delivery, EntryError, Outgoing, Peer, QueuePeer, ReceiptHandle,
    ReceiveRequest, Sent, Visibility,
    transport::{LedgerCounts, Transport},
};

use super::connections::Connections;
use crate::{
    latency::{Latencies, Verb},
    live::{Event, Live},
};

/// What the calls of some peers took together.
pub(super) type Timed = Arc<Mutex<Latencies>>;

/// The peer, with eyes on it. Clones are watched together.
#[derive(Clone)]
pub(super) struct Watched {
    peer: QueuePeer,
    timed: Timed,
    live: Option<Arc<Live>>,
    /// The connections that `live` knows of already.
    shown: Arc<Mutex<LedgerCounts>>,
}

impl Watched {
    pub(super) fn new(peer: QueuePeer, timed: &Timed, live: Option<Arc<Live>>) -> Watched {
        Watched { peer, timed: Arc::clone(timed), live, shown: Arc::default() }
    }

    pub(super) fn transport(&self) -> &Transport {
        self.peer.transport()
    }

    async fn call<T>(
        &self,
        verb: Option<Verb>,
        call: impl Future<Output = Result<T, CallError>>,
        messages: impl FnOnce(&T) -> Option<(Event, usize)>,
    ) -> Result<T, CallError> {
        let under_way = self.live.as_deref().map(Live::under_way);
        let start = Instant::now();
        let outcome = call.await;
        let taken = start.elapsed();
        drop(under_way);
        if let (Some(verb), Ok(_)) = (verb, &outcome) {
            self.timed.lock().unwrap_or_else(PoisonError::into_inner).record(verb, taken);
        }
        if let Some(live) = &self.live {
            self.show(live, verb, taken, outcome.as_ref().ok().map(messages));
        }
        outcome
    }

    /// `messages` of a success.
    fn show(
        &self,
        live: &Live,
        verb: Option<Verb>,
        taken: Duration,
        messages: Option<Option<(Event, usize)>>,
    ) {
        live.add(Event::Requests, 1);
        match messages {
            None => live.add(Event::Failed, 1),
            Some(messages) => {
                if let Some(verb) = verb {
                    live.record(verb, taken);
                }
                if let Some((event, count)) = messages {
                    live.add(event, count as u64);
                }
            }
        }
        if !live.is_watched_closely() {
            return;
        }
        let ledger = self.transport().ledger();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two calls that end at once, the one that looked first may come second.
        if ledger.requests < shown.requests {
            return;
        }
        let new = Connections::between(&shown, &ledger);
        live.add(Event::Opened, new.opened);
        live.add(Event::Closed, new.closed_by_server());
        live.add(Event::Reused, ledger.reused - shown.reused);
        *shown = ledger;
    }
}

fn succeeded<T, E>(answers: &[Result<T, E>]) -> usize {
    answers.iter().filter(|answer| answer.is_ok()).count()
}

impl Peer for Watched {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        let sent = |answers: &Vec<_>| Some((Event::Sent, succeeded(answers)));
        self.call(Some(Verb::Send), self.peer.send(messages), sent).await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        let received = |all: &Vec<Delivery>| Some((Event::Received, all.len()));
        self.call(Some(Verb::Receive), self.peer.receive(request), received).await
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        let deleted = |answers: &Vec<_>| Some((Event::Deleted, succeeded(answers)));
        self.call(Some(Verb::Delete), self.peer.delete(handles), deleted).await
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        self.call(None, self.peer.change_visibility(changes), |_| None).await
    }

    async fn release(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        self.call(None, self.peer.release(changes), |_| None).await
    }

    fn capabilities(&self) -> Capabilities {
        self.peer.capabilities()
    }
}
