//! A handler that takes as long as it is told, and remembers everything.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use millrace_client::testing::MemoryPeer;
use millrace_worker::{
    Backoff, Concurrency, Drain, Handler, HandlerError, Message, Options, Outcome, Summary, Until,
    Worker,
};
use tokio::time::{Instant, sleep};

pub(crate) const S: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// What the handler does with a message: how long, and how it ends.
pub(crate) type Behaviour =
    dyn Fn(&Message) -> (Duration, Result<Outcome, HandlerError>) + Send + Sync;

/// Clones remember together.
#[derive(Clone)]
pub(crate) struct Recorder {
    behaviour: Arc<Behaviour>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    runs: Vec<Run>,
    running: usize,
    most_running: usize,
    running_by_body: HashMap<String, usize>,
    overlapping: Vec<String>,
}

/// One message in the hands of the handler.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) body: String,
    pub(crate) started: Instant,
    /// None while it runs, and for ever if it was dropped.
    pub(crate) ended: Option<Instant>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) was_cancelled: bool,
}

impl Recorder {
    pub(crate) fn new(
        behaviour: impl Fn(&Message) -> (Duration, Result<Outcome, HandlerError>)
        + Send
        + Sync
        + 'static,
    ) -> Recorder {
        Recorder { behaviour: Arc::new(behaviour), seen: Arc::default() }
    }

    /// Succeeds after `latency`.
    pub(crate) fn succeeding(latency: Duration) -> Recorder {
        Recorder::new(move |_| (latency, Ok(Outcome::Ack)))
    }

    pub(crate) fn runs(&self) -> Vec<Run> {
        self.seen.lock().unwrap().runs.clone()
    }

    /// Bodies in the order in which their handlers started.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.runs().into_iter().map(|run| run.body).collect()
    }

    pub(crate) fn most_running(&self) -> usize {
        self.seen.lock().unwrap().most_running
    }

    /// Messages that two handlers had at the same time.
    pub(crate) fn overlapping(&self) -> Vec<String> {
        self.seen.lock().unwrap().overlapping.clone()
    }

    /// Bodies that some run has acknowledged.
    pub(crate) fn succeeded(&self) -> Vec<String> {
        let runs = self.runs().into_iter();
        runs.filter(|run| run.outcome == Some(Outcome::Ack)).map(|run| run.body).collect()
    }
}

impl Handler for Recorder {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut outcomes = Vec::new();
        for message in messages {
            let body = message.body().to_string();
            let running = Running::start(&self.seen, body);
            let (latency, result) = (self.behaviour)(&message);
            sleep(latency).await;
            running.end(result.as_ref().ok().cloned(), message.is_cancelled());
            outcomes.push(result?);
        }
        Ok(outcomes)
    }
}

/// Counts a handler out however it ends.
struct Running {
    seen: Arc<Mutex<Seen>>,
    body: String,
    index: usize,
}

impl Running {
    fn start(seen: &Arc<Mutex<Seen>>, body: String) -> Running {
        let seen = Arc::clone(seen);
        let mut state = seen.lock().unwrap();
        state.running += 1;
        state.most_running = state.most_running.max(state.running);
        let same = state.running_by_body.entry(body.clone()).or_default();
        *same += 1;
        if *same > 1 {
            state.overlapping.push(body.clone());
        }
        let started = Instant::now();
        let run =
            Run { body: body.clone(), started, ended: None, outcome: None, was_cancelled: false };
        state.runs.push(run);
        let index = state.runs.len() - 1;
        drop(state);
        Running { seen, body, index }
    }

    fn end(self, outcome: Option<Outcome>, was_cancelled: bool) {
        let mut state = self.seen.lock().unwrap();
        let run = &mut state.runs[self.index];
        run.ended = Some(Instant::now());
        run.outcome = outcome;
        run.was_cancelled = was_cancelled;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.seen.lock().unwrap();
        state.running -= 1;
        *state.running_by_body.get_mut(&self.body).unwrap() -= 1;
    }
}

/// Options that end when the queue is empty.
pub(crate) fn until_empty(handlers: usize) -> Options {
    Options {
        concurrency: Concurrency::Fixed(handlers),
        until: Until::Empty,
        backoff: Backoff::List(vec![3600 * S]),
        queue: "orders".to_owned(),
        ..Options::default()
    }
}

/// Runs the worker, and asks it to end after `after`.
pub(crate) async fn end_after<H: Handler>(
    after: Duration,
    ask: fn(&Drain),
    worker: Worker<MemoryPeer, H>,
) -> Summary {
    let drain = worker.drain();
    let end = async {
        sleep(after).await;
        ask(&drain);
    };
    tokio::join!(worker.run(), end).0
}

pub(crate) async fn run(peer: &MemoryPeer, handler: &Recorder, options: Options) -> Summary {
    Worker::new(peer.clone(), handler.clone(), options).run().await
}

pub(crate) fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number:04}")).collect()
}
