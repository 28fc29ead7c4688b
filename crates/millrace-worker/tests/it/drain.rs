//! The end is orderly and bounded.

use std::time::Duration;

use millrace_client::testing::{MemoryPeer, Operation};
use millrace_worker::{Concurrency, Drain, DrainTimeouts, Message, Options, Outcome, Worker, each};
use tokio::time::{Instant, sleep};

use crate::support::{MS, Recorder, S, bodies, end_after};

fn options(handlers: usize) -> Options {
    Options { concurrency: Concurrency::Fixed(handlers), ..Options::default() }
}

struct Drained {
    summary: millrace_worker::Summary,
    /// From the request to end until the end.
    took: Duration,
}

/// Asks for the end after `after`, and once more `second` later if given.
async fn drain(
    peer: &MemoryPeer,
    handler: &Recorder,
    options: Options,
    after: Duration,
    second: Option<Duration>,
) -> Drained {
    let worker = Worker::new(peer.clone(), handler.clone(), options);
    let drain = worker.drain();
    let ask = async {
        sleep(after).await;
        drain.drain();
        if let Some(second) = second {
            sleep(second).await;
            drain.release_now();
        }
    };
    let started = Instant::now();
    let (summary, ()) = tokio::join!(
        async {
            let summary = worker.run().await;
            (summary, Instant::now())
        },
        ask
    );
    Drained { summary: summary.0, took: summary.1 - (started + after) }
}

#[tokio::test(start_paused = true)]
async fn running_handlers_finish_and_the_rest_is_released() {
    let peer = MemoryPeer::standard();
    peer.set_latency(200 * MS);
    peer.put(bodies(300));
    // Fast enough to have a prefetch, then slow.
    let handler = Recorder::new(|message| {
        let latency = if message.body().as_bytes() < b"m0100".as_slice() { 10 * MS } else { 8 * S };
        (latency, Ok(Outcome::Ack))
    });

    let drained = drain(&peer, &handler, options(2), 6 * S, None).await;

    assert!(drained.took < 9 * S, "{:?}", drained.took);
    assert_eq!(drained.summary.cut_off, 0);
    assert!(drained.summary.released > 0, "something had waited");
    assert_eq!(drained.summary.abandoned, 0);
    assert_eq!(peer.in_flight(), 0, "nothing stays hidden");
    assert_eq!(peer.deleted().len(), handler.succeeded().len());
}

#[tokio::test(start_paused = true)]
async fn receive_under_way_is_let_finish_and_what_it_brings_is_released() {
    let peer = MemoryPeer::standard();
    let handler = Recorder::succeeding(MS);
    let late = async {
        sleep(8 * S).await;
        peer.put(["late"]);
    };

    let (drained, ()) = tokio::join!(drain(&peer, &handler, options(2), 5 * S, None), late);

    assert_eq!(drained.took.as_secs(), 3);
    assert_eq!(handler.runs().len(), 0);
    assert_eq!((drained.summary.received, drained.summary.released), (1, 1));
    assert_eq!((peer.available(), peer.in_flight()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_drain_gives_back_loses_no_receive_to_a_receive_under_way() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.set_max_receives(2);
    peer.put(["stopped", "failed"]);
    let drain = Drain::new();
    let ask = drain.clone();
    let handler = each(move |message: Message| {
        let ask = ask.clone();
        async move {
            if message.body() == "failed" {
                ask.asked().await;
                return Ok(Outcome::Retry { after: Some(3 * S) });
            }
            message.cancelled().await;
            Ok(Outcome::Release)
        }
    });
    // A slot is free: a receive waits up to 20 s.
    let timeouts = DrainTimeouts { drain: 5 * S, cancel_grace: 60 * S, flush: S };
    let options = Options { visibility_timeout: 60 * S, drain: timeouts, ..options(3) };
    let worker = Worker::new(peer.clone(), handler, options).with_drain(drain);

    let started = Instant::now();
    let summary = end_after(S, Drain::drain, worker).await;

    assert_eq!(started.elapsed().as_secs(), 20);
    assert_eq!((summary.received, summary.released, summary.retried), (2, 1, 1));
    assert_eq!((summary.abandoned, summary.leases_lost), (0, 0));
    sleep(4 * S).await;
    assert_eq!((peer.available(), peer.moved().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn lease_is_kept_of_what_waits_for_a_receive_under_way() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let timeouts = DrainTimeouts { drain: S, cancel_grace: 60 * S, flush: S };
    let options = Options { visibility_timeout: 30 * S, drain: timeouts, ..options(2) };
    let handler = each(|message: Message| async move {
        message.cancelled().await;
        Ok(Outcome::Release)
    });
    let worker = Worker::new(peer.clone(), handler, options);

    let summary = end_after(S, Drain::drain, worker).await;

    assert_eq!((summary.received, summary.released, summary.leases_lost), (1, 1, 0));
    // At half of the visibility timeout; the release comes after the 20 s of the receive.
    let timeouts: Vec<Vec<Duration>> =
        peer.calls_of(Operation::ChangeVisibility).into_iter().map(|call| call.timeouts).collect();
    assert_eq!(timeouts, [[30 * S], [Duration::ZERO]]);
}

#[tokio::test(start_paused = true)]
async fn worker_that_was_asked_to_end_before_its_start_receives_nothing() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::succeeding(MS);
    let worker = Worker::new(peer.clone(), handler, options(2));
    worker.drain().drain();
    let started = Instant::now();

    let summary = worker.run().await;

    assert_eq!((summary.received, started.elapsed()), (0, Duration::ZERO));
    assert_eq!(peer.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_do_not_end_are_cut_off_and_released() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(4));
    let handler = Recorder::succeeding(3600 * S);
    let timeouts = DrainTimeouts::default();

    let drained = drain(&peer, &handler, options(4), S, None).await;

    assert!(drained.took >= timeouts.drain + timeouts.cancel_grace);
    assert!(drained.took <= timeouts.drain + timeouts.cancel_grace + timeouts.flush);
    assert_eq!((drained.summary.cut_off, drained.summary.released), (4, 4));
    assert_eq!((peer.available(), peer.deleted().len()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_and_cannot_be_released_counts_once() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(4));
    let worker = Worker::new(peer.clone(), Recorder::succeeding(3600 * S), options(4));
    let drain = worker.drain();
    let ask = async {
        sleep(S).await;
        peer.set_partitioned(true);
        drain.drain();
    };

    let (summary, ()) = tokio::join!(worker.run(), ask);

    assert_eq!((summary.cut_off, summary.unsettled, summary.abandoned), (0, 4, 4));
}

#[tokio::test(start_paused = true)]
async fn handlers_that_heed_the_stop_are_cut_off_as_well() {
    let peer = MemoryPeer::standard();
    peer.put(["stopped", "released", "done"]);
    let handler = each(|message: Message| async move {
        match &**message.body() {
            "done" => return Ok(Outcome::Ack),
            // Of its own accord.
            "released" if message.receive_count() == 1 => return Ok(Outcome::Release),
            _ => {}
        }
        message.cancelled().await;
        Ok(Outcome::Release)
    });
    let worker = Worker::new(peer.clone(), handler, options(3));

    let summary = end_after(S, Drain::drain, worker).await;

    assert_eq!((summary.succeeded, summary.released, summary.cut_off), (1, 3, 2));
    assert_eq!((peer.available(), peer.in_flight()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn second_request_releases_at_once() {
    let peer = MemoryPeer::standard();
    peer.set_latency(50 * MS);
    peer.put(bodies(4));
    let handler = Recorder::succeeding(3600 * S);

    let drained = drain(&peer, &handler, options(4), S, Some(2 * S)).await;

    assert!(drained.took < 2 * S + 200 * MS, "{:?}", drained.took);
    assert_eq!(drained.summary.cut_off, 4);
    assert_eq!(peer.available(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_released_at_once_does_not_vanish_in_a_receive_under_way() {
    let peer = MemoryPeer::standard();
    peer.set_latency(50 * MS);
    peer.put(bodies(4));
    let handler = Recorder::succeeding(3600 * S);

    // More handlers than messages: a receive waits for the fifth.
    let drained = drain(&peer, &handler, options(8), S, Some(2 * S)).await;

    assert!(drained.took < 2 * S + 500 * MS, "{:?}", drained.took);
    assert_eq!((peer.available(), peer.in_flight()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn end_is_bounded_when_the_server_does_not_answer() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(4));
    let handler = Recorder::succeeding(3600 * S);
    let partition = async {
        sleep(2 * S).await;
        peer.set_latency(3600 * S);
    };
    let timeouts = DrainTimeouts::default();
    let bound = timeouts.drain + timeouts.cancel_grace + timeouts.flush;

    let (drained, ()) = tokio::join!(drain(&peer, &handler, options(4), 5 * S, None), partition);

    assert!(drained.took <= bound + MS, "{:?}", drained.took);
    assert_eq!(peer.deleted().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn leases_are_kept_while_handlers_finish() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::succeeding(60 * S);
    let options = Options {
        drain: DrainTimeouts { drain: 100 * S, ..DrainTimeouts::default() },
        ..options(1)
    };

    let drained = drain(&peer, &handler, options, S, None).await;

    assert_eq!((drained.summary.succeeded, drained.summary.leases_lost), (1, 0));
    assert!(peer.calls_of(Operation::ChangeVisibility).len() >= 3);
}
