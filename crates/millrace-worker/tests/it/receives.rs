//! When and how much is received.

use std::time::Duration;

use millrace_client::{
    CallError, CallErrorKind, Capabilities, MessageAttribute, Outgoing, Peer,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{Concurrency, Drain, Options, Until, Worker};
use tokio::time::{Instant, sleep};

use crate::support::{MS, Recorder, S, bodies, end_after, run, until_empty};

async fn run_for(peer: &MemoryPeer, handler: &Recorder, options: Options, seconds: u32) {
    let worker = Worker::new(peer.clone(), handler.clone(), options);
    end_after(S * seconds, Drain::release_now, worker).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_received_without_a_free_slot() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(50));
    let handler = Recorder::succeeding(10 * S);
    let options = Options { concurrency: Concurrency::Fixed(3), ..Options::default() };

    run_for(&peer, &handler, options, 15).await;

    // Three at the start, three after ten seconds, and none in hand besides.
    let received: usize =
        peer.calls_of(Operation::Receive).iter().map(|call| call.entries.len()).sum();
    assert_eq!((received, handler.runs().len()), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn worker_is_busy_while_handlers_run_and_receives_do_not_fail() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::succeeding(1000 * S);
    let options = Options { concurrency: Concurrency::Fixed(1), ..Options::default() };
    let worker = Worker::new(peer.clone(), handler.clone(), options.clone());
    let (drain, metrics) = (worker.drain(), worker.metrics());
    let (peer_cut, drain_cut) = (MemoryPeer::standard(), Drain::new());
    peer_cut.put(["a"]);
    let two = Options { concurrency: Concurrency::Fixed(2), ..options };
    let cut = Worker::new(peer_cut.clone(), handler, two).with_drain(drain_cut.clone());
    let metrics_cut = cut.metrics();
    let look = async {
        assert!(!metrics.is_busy(), "nothing was received yet");
        sleep(S).await;
        peer_cut.set_partitioned(true);
        sleep(600 * S).await;
        assert!(metrics.is_busy(), "no receive is sent");
        assert!(!metrics_cut.is_busy(), "its receives fail");
        drain.release_now();
        drain_cut.release_now();
    };

    tokio::join!(worker.run(), cut.run(), look);

    assert!(!metrics.is_busy(), "no handler runs");
}

#[tokio::test(start_paused = true)]
async fn slot_is_refilled_while_a_slow_message_of_the_same_receive_goes_on() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(100));
    let handler = Recorder::new(|message| {
        let latency = if message.body() == "m0000" { 20 * S } else { 100 * MS };
        (latency, Ok(millrace_worker::Outcome::Ack))
    });
    let started = Instant::now();

    run(&peer, &handler, until_empty(10)).await;

    assert!(started.elapsed() < 22 * S);
    let before_the_slow_one_ended = handler.runs()[0].started + 20 * S;
    let ended =
        handler.runs().iter().filter(|run| run.ended < Some(before_the_slow_one_ended)).count();
    assert_eq!(ended, 99);
}

#[tokio::test(start_paused = true)]
async fn idle_worker_has_one_long_poll() {
    let peer = MemoryPeer::standard();
    let handler = Recorder::succeeding(MS);

    run_for(&peer, &handler, Options::default(), 3600).await;

    let receives = peer.calls_of(Operation::Receive).len();
    assert!((180..=181).contains(&receives), "{receives} receives in an hour");
}

#[tokio::test(start_paused = true)]
async fn more_receives_are_under_way_while_they_come_back_full() {
    let peer = MemoryPeer::standard();
    peer.set_latency(100 * MS);
    peer.put(bodies(2000));
    let handler = Recorder::succeeding(200 * MS);
    let started = Instant::now();

    run(&peer, &handler, until_empty(200)).await;

    // One receive at a time would take 20 s.
    assert!(started.elapsed() < 6 * S, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn fast_handlers_do_not_wait_for_round_trips() {
    let peer = MemoryPeer::standard();
    peer.set_latency(50 * MS);
    peer.put(bodies(1000));
    let handler = Recorder::succeeding(10 * MS);
    let started = Instant::now();

    run(&peer, &handler, until_empty(4)).await;

    // Handlers alone take 2.5 s; a round trip for each ten would make it 5 s more.
    assert!(started.elapsed() < 5 * S, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn slow_handlers_hoard_nothing_after_long_polls_that_waited() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    let handler = Recorder::succeeding(3 * S);
    let options = Options { concurrency: Concurrency::Fixed(1), ..Options::default() };
    let messages = async {
        // Each is all that its receive asked for, and comes after a wait.
        for second in [12, 24, 36] {
            sleep(12 * S).await;
            peer.put([format!("at {second} s")]);
        }
        sleep(12 * S).await;
        peer.put(bodies(20));
    };

    tokio::join!(run_for(&peer, &handler, options, 55), messages);

    let received: usize =
        peer.calls_of(Operation::Receive).iter().map(|call| call.entries.len()).sum();
    assert_eq!(received, handler.runs().len());
}

#[tokio::test(start_paused = true)]
async fn peer_without_long_poll_is_asked_by_the_rate_of_arrivals() {
    let capabilities = Capabilities { long_poll: None, ..MemoryPeer::standard().capabilities() };
    let peer = MemoryPeer::with_capabilities(capabilities);
    let handler = Recorder::succeeding(MS);

    run_for(&peer, &handler, Options::default(), 600).await;

    // The longest pause is two seconds.
    let receives = peer.calls_of(Operation::Receive).len();
    assert!((290..=310).contains(&receives), "{receives} receives in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn receives_that_do_not_wait_are_no_busy_loop() {
    // By the user's wish.
    let patient = MemoryPeer::standard();
    patient.set_latency(MS);
    // The server claims to wait, and answers at once.
    let hasty = MemoryPeer::standard();
    hasty.set_latency(MS);
    hasty.set_longest_wait(Duration::ZERO);
    let handler = Recorder::succeeding(MS);

    run_for(&patient, &handler, Options { wait: Duration::ZERO, ..Options::default() }, 600).await;
    run_for(&hasty, &handler, Options::default(), 600).await;

    for peer in [patient, hasty] {
        let receives = peer.calls_of(Operation::Receive).len();
        assert!((290..=310).contains(&receives), "{receives} receives in ten minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_receives_are_repeated_ever_more_slowly() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    for _ in 0..10 {
        let broken = CallError::new(CallErrorKind::Server, "InternalError", "try again");
        peer.plan(Operation::Receive, Fault::Refuse(broken));
    }
    let handler = Recorder::succeeding(MS);

    run(&peer, &handler, until_empty(1)).await;

    let receives = peer.calls_of(Operation::Receive);
    for two in receives.windows(2).take(9) {
        assert!(two[1].at - two[0].at >= 10 * MS);
    }
    assert!(receives[10].at - receives[0].at <= 80 * S);
    assert_eq!(peer.deleted(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn server_that_is_always_slow_loses_no_receive_but_the_first() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(20));
    for _ in 0..100 {
        peer.plan(Operation::Receive, Fault::Slow(12 * S));
    }
    let handler = Recorder::succeeding(MS);

    run_for(&peer, &handler, Options::default(), 300).await;

    assert_eq!(peer.deleted().len(), 20);
    let receives = peer.calls_of(Operation::Receive);
    let given_up = receives.windows(2).filter(|two| two[1].at - two[0].at > 29 * S).count();
    assert!(given_up <= 2, "{given_up}");
}

#[tokio::test(start_paused = true)]
async fn server_says_how_long_to_pause_up_to_five_minutes() {
    let peer = MemoryPeer::standard();
    for seconds in [7, u64::MAX] {
        let mut throttled = CallError::new(CallErrorKind::Throttled, "RequestThrottled", "slow");
        throttled.retry_after = Some(Duration::from_secs(seconds));
        peer.plan(Operation::Receive, Fault::Refuse(throttled));
    }
    let handler = Recorder::succeeding(MS);

    run(&peer, &handler, until_empty(1)).await;

    let receives = peer.calls_of(Operation::Receive);
    let pauses: Vec<u64> =
        receives.windows(2).map(|two| (two[1].at - two[0].at).as_secs()).collect();
    assert_eq!(pauses[..2], [7, 300]);
}

#[tokio::test(start_paused = true)]
async fn durations_without_end_do_no_harm() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::succeeding(MS);
    let ever = Duration::MAX;
    let options = Options {
        visibility_timeout: ever,
        max_lease: ever,
        wait: ever,
        poll_interval: ever,
        max_idle_latency: ever,
        linger: ever,
        drain: millrace_worker::DrainTimeouts { drain: ever, cancel_grace: ever, flush: ever },
        ..until_empty(1)
    };

    assert_eq!(run(&peer, &handler, options).await.succeeded, 1);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_tried_again_after_ten_seconds() {
    let peer = MemoryPeer::standard();
    let refused = CallError::new(CallErrorKind::Auth, "AccessDenied", "no");
    peer.plan(Operation::Receive, Fault::Refuse(refused));
    let handler = Recorder::succeeding(MS);

    run(&peer, &handler, until_empty(1)).await;

    let receives = peer.calls_of(Operation::Receive);
    assert_eq!((receives[1].at - receives[0].at).as_secs(), 10);
}

fn plan_refusals(peer: &MemoryPeer, refusals: usize) {
    for _ in 0..refusals {
        let gone = CallError::new(CallErrorKind::NoSuchQueue, "QueueDoesNotExist", "it is gone");
        peer.plan(Operation::Receive, Fault::Refuse(gone));
    }
}

#[tokio::test(start_paused = true)]
async fn worker_that_is_to_end_by_itself_ends_after_three_refusals_in_a_row() {
    for until in [Until::Empty, Until::Once] {
        let peer = MemoryPeer::standard();
        plan_refusals(&peer, 3);
        let handler = Recorder::succeeding(MS);

        let summary = run(&peer, &handler, Options { until, ..until_empty(1) }).await;

        assert_eq!((summary.refused, summary.received), (1, 0), "{until:?}");
        assert_eq!(peer.calls_of(Operation::Receive).len(), 3, "{until:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn worker_that_is_to_end_by_itself_ends_where_there_is_no_queue() {
    let peer = MemoryPeer::standard();
    for _ in 0..30 {
        let page = CallError::new(CallErrorKind::Malformed, "HTTP 404", "<html>not here</html>");
        peer.plan(Operation::Receive, Fault::Refuse(page));
    }
    let began = Instant::now();

    let summary = run(&peer, &Recorder::succeeding(MS), until_empty(1)).await;

    assert_eq!((summary.refused, summary.received), (1, 0));
    assert_eq!(peer.calls_of(Operation::Receive).len(), 12);
    assert!(began.elapsed() > 5 * S, "a proxy may be set up anew");
}

#[tokio::test(start_paused = true)]
async fn refusals_that_end_are_forgotten_and_service_goes_on_whatever_is_refused() {
    let (recovered, service) = (MemoryPeer::standard(), MemoryPeer::standard());
    recovered.put(["a"]);
    service.put(["a"]);
    plan_refusals(&recovered, 2);
    plan_refusals(&service, 30);
    let handler = Recorder::succeeding(MS);

    let summary = run(&recovered, &handler, until_empty(1)).await;
    run_for(&service, &handler, Options::default(), 600).await;

    assert_eq!((summary.refused, summary.succeeded), (0, 1));
    assert_eq!(service.deleted(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn receives_that_are_refused_together_count_once() {
    let peer = MemoryPeer::standard();
    peer.set_latency(100 * MS);
    peer.put(bodies(2000));
    let handler = Recorder::succeeding(200 * MS);
    let refusals = async {
        // By now several receives are under way.
        sleep(S).await;
        plan_refusals(&peer, 6);
    };

    let (summary, ()) = tokio::join!(run(&peer, &handler, until_empty(200)), refusals);

    assert!(!peer.has_plan(Operation::Receive));
    assert_eq!((summary.refused, summary.succeeded), (0, 2000));
}

#[tokio::test(start_paused = true)]
async fn worker_ends_after_as_many_messages_as_asked_for() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(50));
    let handler = Recorder::succeeding(MS);
    let options = Options { max_messages: Some(17), ..Options::default() };

    let summary = run(&peer, &handler, options).await;

    assert_eq!((summary.received, summary.succeeded), (17, 17));
    assert_eq!(peer.available(), 33);
}

#[tokio::test(start_paused = true)]
async fn once_means_one_receive() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(50));
    let handler = Recorder::succeeding(MS);

    let summary = run(&peer, &handler, Options { until: Until::Once, ..Options::default() }).await;

    assert_eq!(peer.calls_of(Operation::Receive).len(), 1);
    assert_eq!(summary.succeeded, 10);
}

/// Messages in hand at once, of a hundred slots.
async fn most_held(peer: &MemoryPeer, max_held_bytes: usize) -> usize {
    let handler = Recorder::succeeding(10 * S);
    let concurrency = Concurrency::Fixed(100);
    let options = Options { concurrency, max_held_bytes, ..Options::default() };
    run_for(peer, &handler, options, 5).await;
    handler.most_running()
}

#[tokio::test(start_paused = true)]
async fn bodies_in_hand_are_bounded() {
    let peer = MemoryPeer::standard();
    peer.put((0..100).map(|_| "x".repeat(100_000)));

    let most = most_held(&peer, 1_500_000).await;

    // Ten, then one more receive beyond the bound, of which the second begins below it.
    assert!(most <= 30, "{most}");
}

#[tokio::test(start_paused = true)]
async fn attributes_in_hand_are_bounded_with_the_bodies() {
    let peer = MemoryPeer::standard();
    for _ in 0..100 {
        let attributes = vec![MessageAttribute::string("a", "x".repeat(100_000))];
        peer.put_message(Outgoing { attributes, ..Outgoing::new("b") });
    }

    let most = most_held(&peer, 1_500_000).await;

    assert!(most <= 30, "{most}");
}

#[tokio::test(start_paused = true)]
async fn auto_finds_out_how_many_handlers_pay() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(2000));
    let handler = Recorder::succeeding(S);
    let options = Options { concurrency: Concurrency::Auto { max: 512 }, ..until_empty(1) };
    let started = Instant::now();

    run(&peer, &handler, options).await;

    // Eight handlers would take 250 s.
    assert!(started.elapsed() < 16 * S, "{:?}", started.elapsed());
    assert!(handler.most_running() <= 512);
}
