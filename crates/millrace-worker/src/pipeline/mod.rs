//! The worker's one loop. It owns all state; whatever takes time is a task that reports back with
//! an event, so that nothing here needs a lock and every task has an owner.
//!
//! ```text
//!            receive.rs          handle.rs            settle.rs
//!  peer ──► receives ──► lanes ──► handlers ──► outboxes ──► deletes, releases, dead letters ──► peer
//!                          └────────── extend.rs: leases ──────────┘
//! ```
//!
//! Bounds: handlers by the limit; waiting messages by free slots and the prefetch, those behind
//! others of their group by a multiple of the slots; messages that wait to be settled by
//! [`SETTLING`]; calls to settle them by their outboxes, other calls by all those.

mod answers;
mod extend;
mod handle;
mod receive;
mod settle;

use std::{collections::HashMap, sync::Arc, time::Duration};

use millrace_client::{
    CallError, CallErrorKind, Capabilities, Delivery, EntryError, Peer, ReceiptHandle, Sent,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    concurrency::Limit,
    drain::{self, Progress, Stage},
    handler::Handler,
    held::HeldMessages,
    lanes::Lanes,
    lease::{Extension, Leases},
    metrics::{Ended, Metrics, Summary},
    options::Options,
    outcome::{HandlerError, Outcome},
    panics,
    prefetch::Prefetch,
    settlement::{Entry, Outbox},
    slots::{Priority, Share, Slots},
    worker::Worker,
};
use handle::Unit;
use receive::{Asked, Receiver};

/// Finished messages that may wait to be settled before the worker stops receiving: what a server
/// that is slow to delete can make it hold.
const SETTLING: usize = 1_000;

/// What a task reports.
enum Event {
    Received {
        asked: Asked,
        result: Result<Vec<Delivery>, CallError>,
    },
    Handled(Result<Vec<Outcome>, HandlerError>),
    Deleted {
        entries: Vec<Entry>,
        /// What they were deleted with.
        handles: Vec<ReceiptHandle>,
        sent: Instant,
        result: Result<Vec<Result<(), EntryError>>, CallError>,
    },
    Hidden {
        entries: Vec<Entry>,
        sent: Instant,
        result: VisibilityResult,
    },
    DeadLettered {
        entry: Entry,
        /// Whether the letter had attributes that the message has not.
        has_added: bool,
        result: Result<Vec<Result<Sent, EntryError>>, CallError>,
    },
    Extended {
        /// With the handles that they were asked for with.
        extensions: Vec<(Extension, ReceiptHandle)>,
        sent: Instant,
        result: VisibilityResult,
    },
}

impl Event {
    /// When a call was sent that never waits, if this is its answer.
    fn call_sent(&self) -> Option<Instant> {
        match self {
            Event::Deleted { sent, result: Ok(_), .. }
            | Event::Hidden { sent, result: Ok(_), .. }
            | Event::Extended { sent, result: Ok(_), .. } => Some(*sent),
            _ => None,
        }
    }
}

type VisibilityResult = Result<Vec<Result<ReceiptHandle, EntryError>>, CallError>;

pub(crate) struct Pipeline<P, H> {
    peer: Arc<P>,
    dead_letters: Option<Arc<P>>,
    handler: Arc<H>,
    options: Options,
    capabilities: Capabilities,
    metrics: Metrics,

    held: HeldMessages,
    lanes: Lanes,
    /// Since when an unfinished batch waits for more messages.
    gathering_since: Option<Instant>,
    leases: Leases,
    limit: Limit,
    prefetch: Prefetch,
    receiver: Receiver,
    /// Handlers under way, by their task.
    units: HashMap<Id, Unit>,
    /// Where handlers may start; below the units, which give their slots back when dropped.
    share: Share,
    /// Messages in the hands of handlers.
    running: usize,
    deletes: Outbox,
    hides: Outbox,
    dead_letter_sends: Outbox,

    asked: watch::Receiver<drain::Asked>,
    progress: Progress,
    cut_off: u64,
    /// Messages no longer held that the server could not be told of.
    unsettled: u64,
    tasks: JoinSet<Event>,
}

impl<P: Peer, H: Handler> Pipeline<P, H> {
    pub(crate) fn of(worker: Worker<P, H>) -> Pipeline<P, H> {
        let Worker { peer, dead_letters, handler, options, metrics, share, drain } = worker;
        let now = Instant::now();
        let options = options.bounded();
        let own = || Slots::new(options.concurrency.max()).share(Priority::default());
        let capabilities = peer.capabilities();
        Pipeline {
            capabilities,
            held: HeldMessages::default(),
            lanes: Lanes::default(),
            gathering_since: None,
            leases: Leases::new(options.visibility_timeout, options.max_lease)
                .with_sure_extension(capabilities.sure_extension),
            limit: Limit::new(options.concurrency, now),
            prefetch: Prefetch::new(max_receive(&capabilities), options.max_receives_open),
            receiver: Receiver::new(&options, now),
            units: HashMap::new(),
            share: share.unwrap_or_else(own),
            running: 0,
            deletes: Outbox::new(options.linger),
            hides: Outbox::new(options.linger),
            dead_letter_sends: Outbox::new(options.linger),
            asked: drain.subscribe(),
            progress: Progress::new(options.drain),
            cut_off: 0,
            unsettled: 0,
            tasks: JoinSet::new(),
            peer,
            dead_letters,
            handler,
            options,
            metrics,
        }
    }

    /// Runs until asked to end, or until the options say so.
    pub(crate) async fn run(mut self) -> Summary {
        // Who was asked to end before the start receives nothing.
        self.on_asked();
        loop {
            let now = Instant::now();
            self.step(now);
            if self.is_done(now) {
                break;
            }
            let wake = self.next_due(now);
            tokio::select! {
                Some(joined) = self.tasks.join_next_with_id() => self.on_joined(joined),
                Ok(()) = self.asked.changed() => self.on_asked(),
                () = self.share.woken() => {}
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => {}
            }
            // What else is ready shares the next step, and so its batches.
            while let Some(joined) = self.tasks.try_join_next_with_id() {
                self.on_joined(joined);
            }
        }
        self.end()
    }

    /// Starts all that may be started now.
    fn step(&mut self, now: Instant) {
        if self.progress.advance(now) {
            self.enter_stage(now);
        }
        self.end_leases(now);
        self.start_handlers(now);
        self.start_settlements(now);
        self.start_extensions(now);
        self.start_receives(now);
        self.claim_slots(now);
        self.metrics.running.set(self.units.len() as i64);
        self.metrics.waiting.set(self.lanes.waiting() as i64);
        self.metrics.concurrency_limit.set(self.limit.get() as i64);
    }

    /// Nothing is held any more, and nothing will come; or there is no time left.
    fn is_done(&self, now: Instant) -> bool {
        match self.progress.stage() {
            Stage::Ended => true,
            Stage::CutOff => {
                self.held.is_empty() && self.units.is_empty() && self.receives_may_be_dropped(now)
            }
            Stage::Running | Stage::Draining | Stage::Cancelling => {
                self.receiver.is_closed()
                    && self.receiver.open() == 0
                    && self.held.is_empty()
                    && self.units.is_empty()
            }
        }
    }

    /// When there is something to do without any event.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let dues = [
            self.leases.next_due(),
            self.batch_due(),
            self.deletes.next_due(now),
            self.hides.next_due(now),
            self.dead_letter_sends.next_due(now),
            self.receiver.next_due(now),
            self.receiver.may_be_dropped_at(),
            self.receiver.expects_until(),
            self.progress.ends(),
        ];
        // What is due and was not done waits for an event.
        dues.into_iter().flatten().filter(|due| *due > now).min()
    }

    fn on_asked(&mut self) {
        let asked = *self.asked.borrow_and_update();
        let now = Instant::now();
        if self.progress.ask(asked, now) {
            self.enter_stage(now);
        }
    }

    fn enter_stage(&mut self, now: Instant) {
        let stage = self.progress.stage();
        if stage == Stage::Running {
            return;
        }
        tracing::info!(?stage, running = self.running, waiting = self.lanes.waiting(), "ending");
        self.receiver.close();
        self.release_waiting(now);
        for outbox in [&mut self.deletes, &mut self.hides, &mut self.dead_letter_sends] {
            outbox.hurry(now);
        }
        if stage >= Stage::Cancelling {
            self.held.values().for_each(|held| held.cancel.cancel());
        }
        if stage >= Stage::CutOff {
            // Their messages are released once the tasks are gone: not before the work has stopped.
            self.units.values().for_each(|unit| unit.abort.abort());
        }
    }

    fn on_joined(&mut self, joined: Result<(Id, Event), JoinError>) {
        let now = Instant::now();
        if let Some(sent) = joined.as_ref().ok().and_then(|(_, event)| event.call_sent()) {
            self.prefetch.on_call(now.saturating_duration_since(sent));
        }
        match joined {
            Ok((_, Event::Received { asked, result })) => self.on_received(asked, result, now),
            Ok((id, Event::Handled(result))) => self.on_handled(id, result, now),
            Ok((_, Event::Deleted { entries, handles, result, .. })) => {
                self.on_deleted(entries, &handles, result, now);
            }
            Ok((_, Event::Hidden { entries, result, .. })) => self.on_hidden(entries, result, now),
            Ok((_, Event::DeadLettered { entry, has_added, result })) => {
                self.on_dead_lettered(entry, has_added, result, now);
            }
            Ok((_, Event::Extended { extensions, sent, result })) => {
                self.on_extended(extensions, sent, result, now);
            }
            Err(error) => self.on_join_error(error, now),
        }
    }

    fn on_join_error(&mut self, error: JoinError, now: Instant) {
        let id = error.id();
        if error.is_cancelled() {
            self.on_cut_off(id, now);
            return;
        }
        let panic = error.into_panic();
        if self.units.contains_key(&id) {
            self.on_handled(id, Err(panics::as_error(panic.as_ref())), now);
        } else {
            // A peer that panics is broken, and what it was doing is unknown.
            std::panic::resume_unwind(panic);
        }
    }

    fn end(self) -> Summary {
        for held in self.held.values() {
            let message_id = held.delivery.message_id();
            tracing::warn!(%message_id, state = ?held.state, "no time left to settle");
            self.metrics.ended(Ended::Abandoned);
        }
        let unsettled = self.unsettled + self.held.len() as u64;
        let unreleased = self.held.values().filter(|held| held.is_cut_off).count() as u64;
        let cut_off = self.cut_off - unreleased;
        let refused = u64::from(self.receiver.is_refused());
        Summary { cut_off, unsettled, refused, ..self.metrics.summary() }
    }
}

/// Messages that one receive may ask for.
fn max_receive(capabilities: &Capabilities) -> usize {
    usize::try_from(capabilities.max_receive).unwrap_or(1).max(1)
}

/// What a call comes to that is given up after `longest`.
async fn within<T>(
    longest: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let no_answer = || CallError::new(CallErrorKind::Transport, "timeout", "no answer in time");
    timeout(longest, call).await.unwrap_or_else(|_| Err(no_answer().ambiguous()))
}
