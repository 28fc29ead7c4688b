//! The three models.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use millrace_client::{Peer, ReceiveRequest, SystemAttributes};
use millrace_worker::{Concurrency, Outcome, Worker, each};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::Plan;

/// The pool looks so often whether it needs another thread (.NET: the gate thread's 500 ms), and
/// needs one if for so long nothing that waited was begun.
const GATE: Duration = Duration::from_millis(500);
/// A timer has to have a period.
const TICK_LEAST: Duration = Duration::from_millis(1);

/// What the consumers of a run share.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) done: AtomicU64,
    pub(super) handled_us: AtomicU64,
    pub(super) polls: AtomicU64,
    pub(super) empty_polls: AtomicU64,
    pub(super) deletes: AtomicU64,
    running: AtomicU64,
    /// The most handlers that ran at a time.
    pub(super) peak: AtomicU64,
    /// Deliveries of messages that were delivered before.
    pub(super) duplicates: AtomicU64,
    seen: Mutex<HashSet<String>>,
}

/// What a consumer does: one poll, and all that it brought handled one by one.
#[derive(Clone)]
pub(super) struct Consumer<P> {
    pub(super) peer: P,
    pub(super) handler: Duration,
    pub(super) batch: u32,
    /// Of all consumers together.
    pub(super) messages: u64,
    pub(super) counters: Arc<Counters>,
}

/// Callbacks that wait for a thread, and when the last of them got one.
struct Pool {
    waiting: Semaphore,
    begun: Mutex<Instant>,
}

impl Counters {
    /// What every handler does: it takes its time.
    async fn handle(&self, taken: Duration) {
        let start = Instant::now();
        let running = self.running.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(running, Relaxed);
        sleep(taken).await;
        self.running.fetch_sub(1, Relaxed);
        self.handled_us.fetch_add(start.elapsed().as_micros() as u64, Relaxed);
    }
}

impl Counters {
    /// Counts a message as done, once.
    fn note_done(&self, message: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = if seen.insert(message.to_owned()) { &self.done } else { &self.duplicates };
        counter.fetch_add(1, Relaxed);
    }
}

impl<P: Peer> Consumer<P> {
    async fn poll(&self) -> Result<()> {
        let max = self.batch.min(self.peer.capabilities().max_receive);
        let request = ReceiveRequest {
            max,
            wait: Duration::ZERO,
            visibility: None,
            attributes: SystemAttributes::None,
        };
        let received = self.peer.receive(request).await.context("receiving")?;
        self.counters.polls.fetch_add(1, Relaxed);
        if received.is_empty() {
            self.counters.empty_polls.fetch_add(1, Relaxed);
        }
        for delivery in received {
            self.counters.handle(self.handler).await;
            let message = delivery.handle.message_id.to_string();
            let answers = self.peer.delete(&[delivery.handle]).await.context("deleting")?;
            self.counters.deletes.fetch_add(1, Relaxed);
            answers.into_iter().next().context("no answer to the entry")?.context("deleting")?;
            self.counters.note_done(&message);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.counters.done.load(Relaxed) >= self.messages
    }
}

pub(super) async fn serial<P: Peer + Clone>(consumer: &Consumer<P>, plan: &Plan) -> Result<()> {
    let mut consumers = JoinSet::new();
    for _ in 0..plan.consumers {
        let (consumer, pause) = (consumer.clone(), plan.interval);
        consumers.spawn(async move {
            while !consumer.is_done() {
                consumer.poll().await?;
                sleep(pause).await;
            }
            anyhow::Ok(())
        });
    }
    all_of(consumers).await
}

/// Every consumer has a callback waiting at each tick, at most one: without a bound they pile up.
/// The pool gets another thread when callbacks wait and none was begun for half a second: handlers
/// that end every now and then look like progress to it.
pub(super) async fn timer<P: Peer + Clone>(consumer: &Consumer<P>, plan: &Plan) -> Result<()> {
    let pool = Arc::new(Pool { waiting: Semaphore::new(0), begun: Mutex::new(Instant::now()) });
    let mut threads = JoinSet::new();
    let thread = || Arc::clone(&pool).thread(consumer.clone());
    for _ in 0..plan.threads {
        threads.spawn(thread());
    }
    let mut ticks = interval(plan.interval.max(TICK_LEAST));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut gate = interval(GATE);
    while !consumer.is_done() {
        tokio::select! {
            _ = ticks.tick() => pool.fill(plan.consumers as usize),
            _ = gate.tick() => if pool.is_starved() { threads.spawn(thread()); },
            Some(joined) = threads.join_next() => joined.context("a thread panicked")??,
        }
    }
    Ok(())
}

impl Pool {
    fn fill(&self, most: usize) {
        self.waiting.add_permits(most.saturating_sub(self.waiting.available_permits()));
    }

    fn is_starved(&self) -> bool {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.available_permits() > 0 && begun.elapsed() >= GATE
    }

    /// Takes one callback after the other until all is done.
    async fn thread<P: Peer>(self: Arc<Pool>, consumer: Consumer<P>) -> Result<()> {
        while !consumer.is_done() {
            self.waiting.acquire().await.context("the pool is closed")?.forget();
            *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            consumer.poll().await?;
        }
        Ok(())
    }
}

pub(super) async fn worker<P: Peer + Clone>(consumer: &Consumer<P>, plan: &Plan) -> Result<()> {
    let (handler, counters) = (consumer.handler, Arc::clone(&consumer.counters));
    let handler = each(move |_| {
        let counters = Arc::clone(&counters);
        async move {
            counters.handle(handler).await;
            counters.done.fetch_add(1, Relaxed);
            Ok(Outcome::Ack)
        }
    });
    let options = millrace_worker::Options {
        concurrency: Concurrency::Auto { max: plan.concurrency },
        max_messages: Some(consumer.messages),
        ..millrace_worker::Options::default()
    };
    Worker::new(consumer.peer.clone(), handler, options).run().await;
    Ok(())
}

async fn all_of(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(joined) = tasks.join_next().await {
        joined.context("a consumer panicked")??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::MemoryPeer;

    use super::*;
    use crate::scenarios::setting::defaults;

    /// How long a model takes by the virtual clock, with the plan's defaults and answers that take
    /// so long.
    async fn taken<M>(batch: u32, answer_ms: u64, model: M) -> f64
    where
        M: AsyncFnOnce(&Consumer<MemoryPeer>, &Plan) -> Result<()>,
    {
        let plan: Plan = defaults().unwrap();
        let peer = MemoryPeer::standard();
        peer.put((0..plan.messages).map(|number| number.to_string()));
        peer.set_visibility(Duration::from_secs(3600));
        peer.set_latency(Duration::from_millis(answer_ms));
        let counters = Arc::new(Counters::default());
        let (handler, messages) = (plan.handler, plan.messages);
        let consumer = Consumer { peer, handler, batch, messages, counters };
        let start = Instant::now();
        model(&consumer, &plan).await.unwrap();
        assert_eq!(consumer.counters.done.load(Relaxed), messages);
        start.elapsed().as_secs_f64()
    }

    /// The experiment: 140 s with batches of 1, 75 s with batches of 30, of which SQS gives 10. It
    /// depends on how polls fall between the looks of the pool's gate, so within bounds.
    #[tokio::test(start_paused = true)]
    async fn the_timer_model_takes_as_long_as_in_the_experiment() {
        for answer_ms in [67, 71, 73] {
            let single = taken(1, answer_ms, timer).await;
            let batch = taken(30, answer_ms, timer).await;

            assert!((110.0..170.0).contains(&single), "{single} s at {answer_ms} ms");
            assert!((65.0..85.0).contains(&batch), "{batch} s at {answer_ms} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn serial_is_bound_by_consumers_and_the_worker_by_nothing() {
        let single = taken(1, 50, serial).await;
        let worker = taken(1, 50, worker).await;

        // Eight consumers; a poll, a second, a delete and a pause for each message.
        assert!((300.0..320.0).contains(&single), "{single} s");
        assert!(worker < 30.0, "{worker} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_is_starved_when_nothing_that_waits_is_begun() {
        let pool = Pool { waiting: Semaphore::new(0), begun: Mutex::new(Instant::now()) };
        tokio::time::advance(GATE).await;
        assert!(!pool.is_starved(), "nothing waits");

        pool.fill(8);
        assert!(pool.is_starved());

        *pool.begun.lock().unwrap() = Instant::now();
        assert!(!pool.is_starved(), "something was begun just now");
    }

    #[tokio::test]
    async fn callbacks_do_not_pile_up() {
        let pool = Pool { waiting: Semaphore::new(0), begun: Mutex::new(Instant::now()) };

        (0..100).for_each(|_| pool.fill(8));

        assert_eq!(pool.waiting.available_permits(), 8);
    }
}
