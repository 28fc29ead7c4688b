//! Lanes: order inside a group, side by side across groups, and a stop at failure.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use millrace_client::{
    Outgoing,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{
    Backoff, Concurrency, Drain, Handler, HandlerError, Message, Options, Outcome, Worker, each,
};
use tokio::time::{Instant, sleep};

use crate::support::{MS, Recorder, S, bodies, end_after, run, until_empty};

fn put(peer: &MemoryPeer, group: &str, bodies: &[&str]) {
    for body in bodies {
        let body = format!("{group}{body}");
        peer.put_message(Outgoing { group_id: Some(group.into()), ..Outgoing::new(body) });
    }
}

#[tokio::test(start_paused = true)]
async fn groups_run_side_by_side_and_each_in_order() {
    let peer = MemoryPeer::fifo();
    peer.set_latency(3 * MS);
    for number in 0..20 {
        for group in ["a", "b", "c"] {
            put(&peer, group, &[&format!("{number:02}")]);
        }
    }
    let handler = Recorder::succeeding(50 * MS);

    run(&peer, &handler, until_empty(10)).await;

    assert_eq!(handler.most_running(), 3);
    for group in ["a", "b", "c"] {
        let runs: Vec<_> =
            handler.runs().into_iter().filter(|run| run.body.starts_with(group)).collect();
        assert_eq!(runs.len(), 20);
        for two in runs.windows(2) {
            assert!(two[0].body < two[1].body, "{two:?}");
            assert!(two[0].ended.unwrap() <= two[1].started, "{two:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn next_of_a_group_starts_after_the_delete_of_the_one_before() {
    let peer = MemoryPeer::fifo();
    peer.set_latency(100 * MS);
    put(&peer, "a", &["1", "2"]);
    let handler = Recorder::succeeding(10 * MS);

    run(&peer, &handler, until_empty(10)).await;

    let runs = handler.runs();
    assert!(runs[1].started >= runs[0].ended.unwrap() + 100 * MS);
    assert!(runs[1].started <= runs[0].ended.unwrap() + 101 * MS, "nothing lingers");
}

#[tokio::test(start_paused = true)]
async fn failure_stops_the_group_until_the_message_returns() {
    let peer = MemoryPeer::fifo();
    put(&peer, "a", &["1", "2", "3"]);
    put(&peer, "b", &["1", "2"]);
    let handler = Recorder::new(|message| {
        let fails = message.body() == "a1" && message.receive_count() == 1;
        (10 * MS, Ok(if fails { Outcome::RETRY } else { Outcome::Ack }))
    });
    let options = Options { backoff: Backoff::List(vec![5 * S]), ..until_empty(10) };

    // Ends while a1 is hidden, so that it can be run once more afterwards.
    run(&peer, &handler, options.clone()).await;
    let before = handler.bodies();
    sleep(5 * S).await;
    run(&peer, &handler, options).await;

    let of = |bodies: &[String], group| {
        bodies.iter().filter(|body| body.starts_with(group)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of(&before, "a"), ["a1"]);
    assert_eq!(of(&before, "b"), ["b1", "b2"]);
    assert_eq!(of(&handler.bodies(), "a"), ["a1", "a1", "a2", "a3"]);
    assert_eq!(peer.bodies().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn batch_is_left_where_a_message_of_the_group_failed() {
    let peer = MemoryPeer::fifo();
    put(&peer, "a", &["1", "2", "3"]);
    put(&peer, "b", &["1"]);
    let handled = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let handled = Arc::clone(&handled);
        each(move |message: Message| {
            handled.lock().unwrap().push(message.body().to_string());
            async move { if message.body() == "a2" { Err("no".into()) } else { Ok(Outcome::Ack) } }
        })
    };
    let options = Options { batch_size: 10, ..until_empty(1) };

    Worker::new(peer.clone(), handler, options).run().await;

    assert_eq!(*handled.lock().unwrap(), ["a1", "a2", "b1"]);
    assert_eq!(peer.deleted(), ["a1", "b1"]);
}

/// Notes what it handles.
/// The first receive of a1 fails, and what stands behind it is released.
struct FailingOnce(Arc<Mutex<Vec<String>>>);

impl Handler for FailingOnce {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut handled = self.0.lock().unwrap();
        handled.extend(messages.iter().map(|message| message.body().to_string()));
        let fails = messages.iter().any(|m| m.body() == "a1" && m.receive_count() == 1);
        let outcome = |message: &Message| match &**message.body() {
            _ if !fails => Outcome::Ack,
            "a1" => Outcome::Retry { after: Some(S) },
            _ => Outcome::Release,
        };
        Ok(messages.iter().map(outcome).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn batch_that_is_back_before_it_is_known_to_be_given_back_is_in_order() {
    let peer = MemoryPeer::fifo();
    put(&peer, "a", &["1", "2", "3"]);
    // Visible again after 1 s, answered after 3 s.
    peer.plan(Operation::ChangeVisibility, Fault::Slow(3 * S));
    let handled = Arc::default();
    let options = Options { batch_size: 10, batch_window: MS, ..Options::default() };
    let worker = Worker::new(peer.clone(), FailingOnce(Arc::clone(&handled)), options);

    end_after(20 * S, Drain::drain, worker).await;

    assert_eq!(*handled.lock().unwrap(), ["a1", "a2", "a3", "a1", "a2", "a3"]);
    assert_eq!(peer.deleted(), ["a1", "a2", "a3"]);
}

fn rejecting_a1(handled: &Arc<Mutex<Vec<String>>>) -> impl Handler + use<> {
    let handled = Arc::clone(handled);
    each(move |message: Message| {
        handled.lock().unwrap().push(message.body().to_string());
        async move {
            let is_bad = message.body() == "a1";
            Ok(if is_bad { Outcome::reject("unreadable") } else { Outcome::Ack })
        }
    })
}

#[tokio::test(start_paused = true)]
async fn batch_is_left_where_a_message_of_the_group_was_rejected() {
    let handled = Arc::default();
    let handler = rejecting_a1(&handled);
    let peer = MemoryPeer::fifo();
    put(&peer, "a", &["1", "2"]);
    let options = Options { batch_size: 10, ..until_empty(1) };

    // Without a dead-letter queue it is retried.
    Worker::new(peer.clone(), handler, options).run().await;

    assert_eq!(*handled.lock().unwrap(), ["a1"]);
    assert_eq!(peer.bodies(), ["a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn what_stands_behind_a_dead_letter_goes_on() {
    let handled = Arc::default();
    let handler = rejecting_a1(&handled);
    let (peer, dead) = (MemoryPeer::fifo(), MemoryPeer::fifo());
    put(&peer, "a", &["1", "2"]);
    let options = Options { batch_size: 10, ..until_empty(1) };

    let worker = Worker::new(peer.clone(), handler, options);
    worker.with_dead_letter_queue(dead.clone()).run().await;

    assert_eq!(*handled.lock().unwrap(), ["a1", "a2"]);
    assert_eq!(dead.bodies(), ["a1"]);
    assert!(peer.calls_of(Operation::ChangeVisibility).is_empty(), "nothing was given back");
}

#[tokio::test(start_paused = true)]
async fn groups_of_standard_queues_have_no_order() {
    let peer = MemoryPeer::standard();
    put(&peer, "a", &["1", "2", "3"]);
    let handler = Recorder::succeeding(S);

    run(&peer, &handler, until_empty(10)).await;

    assert_eq!(handler.most_running(), 3);
}

#[tokio::test(start_paused = true)]
async fn long_groups_that_were_sent_one_after_the_other_run_side_by_side() {
    let peer = MemoryPeer::fifo();
    peer.set_latency(3 * MS);
    let bodies: Vec<String> = (0..40).map(|number| format!("{number:02}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    for group in ["a", "b", "c"] {
        put(&peer, group, &bodies);
    }
    let handler = Recorder::succeeding(S);
    let started = Instant::now();

    run(&peer, &handler, until_empty(10)).await;

    assert_eq!((handler.runs().len(), handler.most_running()), (120, 3));
    // One group alone takes 40 s; one after the other they take 120 s.
    assert!(started.elapsed() < 50 * S, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_other_messages_of_its_group_is_bounded() {
    let peer = MemoryPeer::fifo();
    let bodies: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    for number in 0..100 {
        put(&peer, &format!("g{number:02}-"), &bodies);
    }
    let handler = Recorder::succeeding(3600 * S);
    let options = Options { concurrency: Concurrency::Fixed(20), ..Options::default() };
    let worker = Worker::new(peer.clone(), handler.clone(), options);
    let drain = worker.drain();

    let look = async {
        sleep(10 * S).await;
        let in_flight = peer.in_flight();
        drain.release_now();
        in_flight
    };
    let (_, in_flight) = tokio::join!(worker.run(), look);

    // Ten for each slot, and what the last receive brought.
    assert!(in_flight <= 20 + 200 + 10, "{in_flight}");
    assert_eq!(handler.most_running(), 20);
}

#[tokio::test(start_paused = true)]
async fn poison_message_does_not_take_its_neighbours_to_the_dead_letter_queue() {
    let (is_poison, bodies) = (|body: &str| body == "a0", ["0", "1", "2", "3", "4", "5", "6", "7"]);
    // By the queue's own redrive policy, and by the worker's.
    for is_own in [false, true] {
        // The longest pause is far longer than receives ask for single messages after a failure.
        for backoff in [vec![S], vec![S, 900 * S]] {
            let (peer, dead) = (MemoryPeer::fifo(), MemoryPeer::fifo());
            put(&peer, "a", &bodies);
            let handler = Recorder::new(move |message| {
                let outcome = if is_poison(message.body()) { Outcome::RETRY } else { Outcome::Ack };
                (10 * MS, Ok(outcome))
            });
            let options = Options { backoff: Backoff::List(backoff), ..Options::default() };
            let options = if is_own {
                Options { max_receives: Some(3), ..options }
            } else {
                peer.set_max_receives(3);
                options
            };
            let worker = Worker::new(peer.clone(), handler.clone(), options)
                .with_dead_letter_queue(dead.clone());

            end_after(3600 * S, Drain::drain, worker).await;

            let dead_letters = if is_own { dead.bodies() } else { peer.moved() };
            assert_eq!(dead_letters, ["a0"], "own policy: {is_own}");
            let count = handler.bodies().iter().filter(|body| is_poison(body)).count();
            assert_eq!(count, 3);
            assert_eq!(
                handler.succeeded(),
                bodies[1..].iter().map(|b| format!("a{b}")).collect::<Vec<_>>()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn receives_bring_single_messages_until_a_minute_after_a_failed_one_is_back() {
    let peer = MemoryPeer::fifo();
    put(&peer, "a", &["1"]);
    let handler = Recorder::new(|message| {
        let fails = message.body() == "a1" && message.receive_count() == 1;
        (10 * MS, Ok(if fails { Outcome::RETRY } else { Outcome::Ack }))
    });
    let options = Options { backoff: Backoff::List(vec![5 * S]), ..Options::default() };
    let worker = Worker::new(peer.clone(), handler.clone(), options);
    let drain = worker.drain();
    let most_at_a_time = || {
        let receives = peer.calls_of(Operation::Receive).into_iter();
        receives.map(|call| call.entries.len()).max()
    };
    let put_groups = || ["b", "c", "d", "e"].iter().for_each(|group| put(&peer, group, &["1"]));

    let look = async {
        // Back after 5 s, and what was under way then is over.
        sleep(60 * S).await;
        put_groups();
        sleep(2 * S).await;
        let during = most_at_a_time();
        sleep(60 * S).await;
        put_groups();
        sleep(2 * S).await;
        drain.drain();
        (during, most_at_a_time())
    };
    let (_, most) = tokio::join!(worker.run(), look);

    assert_eq!(most, (Some(1), Some(4)));
    assert_eq!(peer.bodies().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn receive_that_others_of_the_group_were_hidden_from_does_not_find_the_queue_empty() {
    let peer = MemoryPeer::fifo();
    for body in bodies(11) {
        put(&peer, "a", &[&body]);
    }
    // The second looks while ten are in hand, and is answered when they are deleted.
    for delay in [Duration::ZERO, S] {
        peer.plan(Operation::Receive, Fault::Slow(delay));
    }
    let options = Options { wait: Duration::ZERO, ..until_empty(2) };

    let summary = run(&peer, &Recorder::succeeding(MS), options).await;

    assert_eq!(summary.succeeded, 11);
}
