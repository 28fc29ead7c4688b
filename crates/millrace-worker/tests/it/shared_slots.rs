//! Several queues whose handlers share slots.

use std::time::Duration;

use millrace_client::testing::{MemoryPeer, Operation};
use millrace_worker::{Concurrency, Drain, Options, Outcome, Priority, Share, Slots, Worker};
use tokio::time::{Instant, sleep};

use crate::support::{MS, Recorder, S, bodies, end_after, until_empty};

fn queue_of(name: &str, count: usize) -> MemoryPeer {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(count).into_iter().map(|body| format!("{name}{body}")));
    peer
}

fn worker(
    peer: &MemoryPeer,
    handler: &Recorder,
    share: Share,
    options: Options,
) -> Worker<MemoryPeer, Recorder> {
    Worker::new(peer.clone(), handler.clone(), options).with_share(share)
}

/// Runs two workers for that long.
async fn run_for(duration: Duration, workers: [Worker<MemoryPeer, Recorder>; 2]) {
    let drains = workers.each_ref().map(Worker::drain);
    let end = async {
        sleep(duration).await;
        drains.iter().for_each(millrace_worker::Drain::release_now);
    };
    let [first, second] = workers;
    tokio::join!(first.run(), second.run(), end);
}

fn started(handler: &Recorder, name: &str) -> usize {
    handler.bodies().iter().filter(|body| body.starts_with(name)).count()
}

const RANKS: [Priority; 2] = [Priority { rank: 0, weight: 1 }, Priority { rank: 1, weight: 1 }];

#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_than_there_are_slots() {
    let (a, b) = (queue_of("a", 200), queue_of("b", 200));
    let handler = Recorder::succeeding(100 * MS);
    let slots = Slots::new(7);
    let share = || slots.share(Priority::default());
    let started = Instant::now();

    tokio::join!(
        worker(&a, &handler, share(), until_empty(10)).run(),
        worker(&b, &handler, share(), until_empty(10)).run(),
    );

    assert_eq!((a.deleted().len(), b.deleted().len()), (200, 200));
    assert_eq!(handler.most_running(), 7);
    // 400 messages of 0.1 s by seven handlers are 5.7 s: no slot stood empty.
    assert!(started.elapsed() < 8 * S, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn lower_weight_is_never_starved() {
    let (a, b) = (queue_of("a", 2000), queue_of("b", 2000));
    let handler = Recorder::succeeding(100 * MS);
    let slots = Slots::new(4);
    let share = |weight| slots.share(Priority { rank: 0, weight });
    let options = || Options { concurrency: Concurrency::Fixed(4), ..Options::default() };

    let heavy = worker(&a, &handler, share(9), options());
    let light = worker(&b, &handler, share(1), options());
    run_for(20 * S, [heavy, light]).await;

    let (heavy, light) = (started(&handler, "a"), started(&handler, "b"));
    assert!(heavy + light > 600, "{heavy} + {light}");
    let ratio = heavy as f64 / light as f64;
    assert!((7.0..11.0).contains(&ratio), "{heavy} to {light}");
}

#[tokio::test(start_paused = true)]
async fn free_slot_goes_to_the_higher_queue() {
    let (high, low) = (queue_of("high", 100), queue_of("low", 100));
    let handler = Recorder::succeeding(100 * MS);
    let slots = Slots::new(2);
    let [first, second] = RANKS.map(|priority| slots.share(priority));

    tokio::join!(
        worker(&low, &handler, second, until_empty(2)).run(),
        worker(&high, &handler, first, until_empty(2)).run(),
    );

    let order = handler.bodies();
    let last_high = order.iter().rposition(|body| body.starts_with("high")).unwrap();
    let low_before = order[..last_high].iter().filter(|body| body.starts_with("low")).count();
    // Two that started before the first receive of the higher queue was answered, and what could
    // start while no message of the higher queue was there to start.
    assert!(low_before <= 6, "{order:?}");
    assert_eq!((high.deleted().len(), low.deleted().len()), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn lower_queue_waits_while_a_message_of_the_higher_can_start() {
    let (high, low) = (queue_of("high", 0), queue_of("low", 50));
    let handler = Recorder::succeeding(S);
    let slots = Slots::new(1);
    let [first, second] = RANKS.map(|priority| slots.share(priority));
    let options = || Options { concurrency: Concurrency::Fixed(1), ..Options::default() };
    let late = high.clone();
    let send = async {
        sleep(3500 * MS).await;
        late.put(["high"]);
    };

    let workers =
        [worker(&high, &handler, first, options()), worker(&low, &handler, second, options())];
    tokio::join!(send, run_for(7 * S, workers));

    // It came while the fourth of the lower queue was handled, and was next.
    assert_eq!(handler.bodies().iter().position(|body| body == "high"), Some(4));
}

#[tokio::test(start_paused = true)]
async fn each_queue_at_rest_has_one_long_poll() {
    let (a, b) = (queue_of("a", 0), queue_of("b", 0));
    let handler = Recorder::succeeding(MS);
    let slots = Slots::new(10);
    let [first, second] = RANKS.map(|priority| slots.share(priority));

    let workers = [
        worker(&a, &handler, first, Options::default()),
        worker(&b, &handler, second, Options::default()),
    ];
    run_for(3600 * S, workers).await;

    for peer in [a, b] {
        let receives = peer.calls_of(Operation::Receive).len();
        assert!((179..=181).contains(&receives), "{receives} receives in an hour");
    }
}

#[tokio::test(start_paused = true)]
async fn message_of_an_idle_queue_does_not_wait_for_the_long_poll_of_another() {
    let (a, b) = (queue_of("a", 0), queue_of("b", 0));
    let handler = Recorder::succeeding(MS);
    let slots = Slots::new(1);
    let [first, second] = RANKS.map(|priority| slots.share(priority));
    let late = b.clone();
    let send = async {
        sleep(7 * S).await;
        late.put(["late"]);
        Instant::now()
    };

    let options = || Options { concurrency: Concurrency::Fixed(1), ..Options::default() };
    let workers = [worker(&a, &handler, first, options()), worker(&b, &handler, second, options())];
    let (sent, ()) = tokio::join!(send, run_for(15 * S, workers));

    assert!(handler.runs()[0].started - sent < 50 * MS);
}

#[tokio::test(start_paused = true)]
async fn what_a_queue_holds_without_a_slot_is_its_share_at_most() {
    let (a, b) = (queue_of("a", 500), queue_of("b", 500));
    let handler = Recorder::succeeding(20 * S);
    let slots = Slots::new(4);
    let share = || slots.share(Priority::default());
    let options = || Options { concurrency: Concurrency::Fixed(4), ..Options::default() };

    run_for(
        15 * S,
        [worker(&a, &handler, share(), options()), worker(&b, &handler, share(), options())],
    )
    .await;

    let received = |peer: &MemoryPeer| -> usize {
        peer.calls_of(Operation::Receive).iter().map(|call| call.entries.len()).sum()
    };
    assert_eq!(handler.runs().len(), 4);
    assert!(received(&a) + received(&b) <= 8, "{} {}", received(&a), received(&b));
}

#[tokio::test(start_paused = true)]
async fn end_of_one_worker_leaves_its_slots_to_the_other() {
    let (a, b) = (queue_of("a", 5), queue_of("b", 100));
    let handler = Recorder::new(|message| {
        let latency = if message.body().starts_with('a') { 60 * S } else { 100 * MS };
        (latency, Ok(Outcome::Ack))
    });
    let slots = Slots::new(5);
    let [first, second] = RANKS.map(|priority| slots.share(priority));
    let a = worker(&a, &handler, first, until_empty(5));
    let started = Instant::now();

    let a = end_after(2 * S, Drain::release_now, a);
    tokio::join!(a, worker(&b, &handler, second, until_empty(5)).run());

    assert_eq!(b.deleted().len(), 100);
    assert!(started.elapsed() < 10 * S, "{:?}", started.elapsed());
}
