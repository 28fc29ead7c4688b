//! Batches: when they are full, and that each of their messages has an outcome of its own.

use std::{
    future::pending,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use millrace_client::{
    EntryError,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{
    Backoff, Concurrency, Drain, Handler, HandlerError, Message, Options, Outcome, Until, Worker,
    each,
};
use tokio::time::{Instant, sleep};

use crate::support::{MS, S, bodies, end_after};

/// Remembers sizes of batches and when they came.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<(usize, Instant)>>>);

impl Handler for Batches {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        self.0.lock().unwrap().push((messages.len(), Instant::now()));
        Ok(vec![Outcome::Ack; messages.len()])
    }
}

impl Batches {
    fn sizes(&self) -> Vec<usize> {
        self.0.lock().unwrap().iter().map(|(size, _)| *size).collect()
    }
}

fn options(batch_size: usize) -> Options {
    Options {
        batch_size,
        batch_window: 5 * S,
        concurrency: Concurrency::Fixed(1),
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn full_batch_does_not_wait_and_the_rest_waits_for_the_window() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(125));
    let handler = Batches::default();
    let worker = Worker::new(peer.clone(), handler.clone(), options(50));
    let started = Instant::now();

    end_after(30 * S, Drain::release_now, worker).await;

    assert_eq!(handler.sizes(), [50, 50, 25]);
    let at: Vec<_> = handler.0.lock().unwrap().iter().map(|(_, at)| *at - started).collect();
    assert!(at[1] < S, "{at:?}");
    assert!(at[2] >= 5 * S && at[2] < 6 * S, "{at:?}");
    assert_eq!(peer.deleted().len(), 125);
}

#[tokio::test(start_paused = true)]
async fn batch_grows_by_what_comes_within_its_window() {
    let peer = MemoryPeer::standard();
    let handler = Batches::default();
    let worker = Worker::new(peer.clone(), handler.clone(), options(1000));
    let drain = worker.drain();
    let send = async {
        for number in 0..8 {
            peer.put([format!("m{number}")]);
            sleep(S).await;
        }
        sleep(10 * S).await;
        drain.release_now();
    };

    tokio::join!(worker.run(), send);

    let sizes = handler.sizes();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, 8), "{sizes:?}");
    assert!(sizes[0] == 5 || sizes[0] == 6, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn batch_that_cannot_grow_does_not_wait() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(7));
    let handler = Batches::default();
    let options = Options { until: Until::Once, batch_window: 60 * S, ..options(1000) };
    let started = Instant::now();

    Worker::new(peer, handler.clone(), options).run().await;

    assert_eq!(handler.sizes(), [7]);
    assert!(started.elapsed() < S, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn window_begins_anew_once_nothing_waits_any_more() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    // So the lease of the message is lost while it waits for others. It comes again after 4 s.
    let refusal = EntryError::new("ReceiptHandleIsInvalid", "", true);
    peer.plan(Operation::ChangeVisibility, Fault::FailEntries(vec![0], refusal));
    let handler = Batches::default();
    let options = Options { visibility_timeout: 4 * S, batch_window: 10 * S, ..options(2) };
    let worker = Worker::new(peer.clone(), handler.clone(), options);
    let started = Instant::now();

    let summary = end_after(20 * S, Drain::release_now, worker).await;

    assert_eq!((summary.leases_lost, summary.succeeded), (1, 1));
    let at: Vec<_> = handler.0.lock().unwrap().iter().map(|(_, at)| *at - started).collect();
    assert!(at.len() == 1 && at[0] >= 14 * S, "{at:?}");
}

/// Bodies of messages whose handlers panic.
const POISON: [&str; 2] = ["poison", "poison when called"];

#[tokio::test(start_paused = true)]
async fn panic_is_the_failure_of_one_message_of_a_batch() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["a", "poison", "poison when called", "b"]);
    let handled: Arc<Mutex<Vec<String>>> = Arc::default();
    let memory = Arc::clone(&handled);
    let handler = each(move |message: Message| {
        memory.lock().unwrap().push(message.body().to_string());
        assert!(message.body() != "poison when called", "before the first await");
        async move {
            assert!(message.body() != "poison", "at work");
            Ok(Outcome::Ack)
        }
    });
    let handler = handler.on_error(|_, _| panic!("on the error"));
    let options = Options {
        backoff: Backoff::List(vec![S]),
        max_receives: Some(2),
        max_messages: Some(6),
        batch_window: MS,
        ..options(10)
    };

    let worker = Worker::new(peer.clone(), handler, options).with_dead_letter_queue(dead.clone());
    let summary = worker.run().await;

    assert_eq!(*handled.lock().unwrap(), ["a", POISON[0], POISON[1], "b", POISON[0], POISON[1]]);
    assert_eq!((summary.succeeded, summary.retried, summary.dead_lettered), (2, 2, 2));
    assert_eq!(dead.bodies(), POISON);
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_layer_or_behind_it_leaves_what_the_layer_decided() {
    for panics_in_layer in [true, false] {
        let peer = MemoryPeer::standard();
        peer.put(["decided", "poison", "decided too"]);
        let layer = move |message: Message| async move {
            assert!(message.body() != "poison" || !panics_in_layer, "in the layer");
            Ok(match &**message.body() {
                "poison" => ControlFlow::Continue(message),
                _ => ControlFlow::Break(Outcome::Ack),
            })
        };
        let options = Options { until: Until::Once, batch_window: MS, ..options(10) };

        let worker = Worker::new(peer.clone(), Panicking.behind(layer), options);
        let summary = worker.run().await;

        assert_eq!((summary.succeeded, summary.retried), (2, 1), "{panics_in_layer}");
        assert_eq!(peer.bodies(), ["poison"]);
    }
}

struct Panicking;

impl Handler for Panicking {
    async fn handle(&self, _: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        panic!("at work")
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_batch_are_not_begun_once_they_are_cancelled() {
    for peer in [MemoryPeer::standard(), MemoryPeer::fifo()] {
        peer.put(["a", "b", "c"]);
        let handled: Arc<Mutex<Vec<String>>> = Arc::default();
        let memory = Arc::clone(&handled);
        let handler = each(move |message: Message| {
            memory.lock().unwrap().push(message.body().to_string());
            async move {
                message.cancelled().await;
                Ok(Outcome::Release)
            }
        });
        let worker =
            Worker::new(peer.clone(), handler, Options { batch_window: MS, ..options(10) });

        let summary = end_after(5 * S, Drain::drain, worker).await;

        assert_eq!(*handled.lock().unwrap(), ["a"]);
        assert_eq!((summary.released, summary.cut_off), (3, 1), "one was in mid-work");
        assert_eq!(peer.available(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_batch_meet_no_layer_once_they_are_cancelled() {
    let peer = MemoryPeer::standard();
    peer.put(["a", "b", "c"]);
    let prepared: Arc<Mutex<Vec<String>>> = Arc::default();
    let memory = Arc::clone(&prepared);
    let layer = move |message: Message| {
        memory.lock().unwrap().push(message.body().to_string());
        async move {
            message.cancelled().await;
            Ok(ControlFlow::Continue(message))
        }
    };
    let handler = each(|_: Message| async { Ok(Outcome::Ack) }).behind(layer);
    let worker = Worker::new(peer.clone(), handler, Options { batch_window: MS, ..options(10) });

    let summary = end_after(5 * S, Drain::drain, worker).await;

    assert_eq!(*prepared.lock().unwrap(), ["a"]);
    assert_eq!((summary.released, summary.succeeded), (3, 0));
    assert_eq!(peer.available(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_the_message_in_mid_work_is_cut_off_with_its_batch() {
    let pass = |message: Message| async move { Ok(ControlFlow::Continue(message)) };
    let slow_layer = |_: Message| async move { pending().await };
    for (has_work, begun) in [(true, 2), (false, 1)] {
        let peer = MemoryPeer::standard();
        peer.put(["a", "b", "c"]);
        let handler = each(|message: Message| async move {
            match &**message.body() {
                "a" => Ok(Outcome::Ack),
                _ => pending().await,
            }
        });
        let options = Options { batch_window: MS, ..options(10) };

        let summary = if has_work {
            let worker = Worker::new(peer.clone(), handler.behind(pass), options);
            end_after(5 * S, Drain::release_now, worker).await
        } else {
            let worker = Worker::new(peer.clone(), handler.behind(slow_layer), options);
            end_after(5 * S, Drain::release_now, worker).await
        };

        // The outcome of the first is lost with the batch.
        assert_eq!((summary.succeeded, summary.cut_off), (0, begun));
        assert_eq!(peer.available(), 3);
    }
}
