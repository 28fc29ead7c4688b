//! Deliveries to real receivers over HTTP, from queues in a real journal.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_http::testing::{FaultServer, Reply, ServerFault};
use millrace_push::signature::KeptSigner;
use millrace_push::{AfterFailure, Cause, Verdict};

use support::{Setup, Target, endless, eventually, ok, status};

#[tokio::test]
async fn a_message_is_posted_with_its_headers_and_deleted() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new(&format!("{}/path?x=1", receiver.url())));

    setup.send(&queue, "hello");
    eventually(|| queue.counts().total() == 0).await;

    let request = &receiver.requests()[0];
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/path?x=1"));
    assert_eq!(&*request.body, b"hello");
    assert_eq!(request.header("x-test"), Some("1"));
    assert_eq!(request.header("content-length"), Some("5"));
    let figures = setup.push.figures();
    assert_eq!((figures.attempts, figures.delivered, figures.failed), (1, 1, 0));
    assert_eq!(setup.target("a").delivered(), 1);
}

#[tokio::test]
async fn what_waited_before_the_start_is_delivered_and_connections_are_kept() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let setup = Setup::new();
    let queue = setup.queue_unwatched("a", Target::new(&receiver.url()));
    for number in 0..50 {
        setup.send(&queue, &number.to_string());
    }

    setup.drain(&queue);
    eventually(|| queue.counts().total() == 0).await;

    let mut bodies: Vec<String> = receiver
        .requests()
        .iter()
        .map(|request| String::from_utf8(request.body.to_vec()).unwrap())
        .collect();
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!(bodies.len(), 50);
    assert!(receiver.connections() <= 16, "{}", receiver.connections());
}

#[tokio::test]
async fn a_server_error_is_retried_by_the_policy_and_then_fails_for_good() {
    let receiver = FaultServer::start(async |_| status(503)).await.unwrap();
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new(&receiver.url()).retries(2, 20));

    setup.send(&queue, "x");
    for attempts in 1..=2 {
        setup.counts_retries(attempts).await;
        assert_eq!(receiver.requests().len() as u64, attempts);
        setup.until_hidden_for(&queue, 20).await;
        assert_eq!(queue.counts().in_flight, 1, "it waits in the queue");
        setup.shards.advance_clock(Duration::from_secs(19));
        assert_eq!(queue.counts().in_flight, 1, "not before its time");
        setup.shards.advance_clock(Duration::from_secs(1));
    }
    eventually(|| queue.counts().total() == 0).await;

    let failures = setup.target("a").failures();
    let [(body, failure)] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!((body.as_str(), failure.attempts, failure.status), ("x", 3, Some(503)));
    assert_eq!(failure.cause, Cause::Exhausted);
    let figures = setup.push.figures();
    assert_eq!((figures.attempts, figures.retried), (3, 2));
    assert_eq!((figures.failed, figures.redriven), (1, 1));
    let latest = setup.push.endpoint_figures(queue.id()).unwrap().latest_error.unwrap();
    assert_eq!((latest.status, latest.text.contains("no way")), (Some(503), true));
}

#[tokio::test]
async fn retries_without_delay_follow_at_once() {
    let receiver = FaultServer::start(ok).await.unwrap();
    receiver.plan(ServerFault::Reply(status(500)));
    receiver.plan(ServerFault::Drop);
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new(&receiver.url()).retries(2, 0));

    setup.send(&queue, "x");
    eventually(|| queue.counts().total() == 0).await;

    assert_eq!(receiver.requests().len(), 3);
    assert_eq!(setup.push.figures().delivered, 1);
    assert_eq!(setup.push.endpoint_figures(queue.id()).unwrap().latest_error, None);
}

#[tokio::test]
async fn client_errors_and_redirects_are_final_and_429_is_not() {
    let elsewhere = FaultServer::start(ok).await.unwrap();
    let location = elsewhere.url();
    let redirect = Reply { headers: vec![("location", location.clone())], ..status(302) };
    for (reply, is_final) in [
        (status(400), true),
        (status(404), true),
        (redirect, true),
        (status(304), true),
        (status(429), false),
    ] {
        let answer = reply.clone();
        let receiver =
            FaultServer::start(move |_| std::future::ready(answer.clone())).await.unwrap();
        let setup = Setup::new();
        let queue = setup.queue("a", Target::new(&receiver.url()).retries(3, 20));

        setup.send(&queue, "x");
        if is_final {
            eventually(|| queue.counts().total() == 0).await;
            let failures = setup.target("a").failures();
            assert_eq!(failures[0].1.cause, Cause::Refused);
            assert_eq!(failures[0].1.status, Some(reply.status));
        } else {
            setup.counts_retries(1).await;
        }
        assert_eq!(receiver.requests().len(), 1);
    }
    assert_eq!(elsewhere.connections(), 0, "redirects are not followed");
}

#[tokio::test]
async fn a_receiver_that_stalls_refuses_or_dies_is_retried() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let closed = {
        let receiver = FaultServer::start(ok).await.unwrap();
        receiver.url()
    };
    for fault in [ServerFault::Hang, ServerFault::DropAnswer, ServerFault::CutAnswer] {
        receiver.plan(fault);
    }
    let setup = Setup::new();
    let patience = Duration::from_millis(200);
    let queue = setup.queue("stalls", Target::new(&receiver.url()).retries(3, 0).timeout(patience));
    let refused = setup.queue("refuses", Target::new(&closed).retries(1, 20).timeout(patience));

    setup.send(&queue, "x");
    setup.send(&refused, "y");
    eventually(|| queue.counts().total() == 0).await;
    setup.counts_retries(4).await;

    assert_eq!(setup.target("stalls").delivered(), 1);
    assert_eq!(receiver.requests().len(), 4);
    let latest = setup.push.endpoint_figures(refused.id()).unwrap().latest_error.unwrap();
    assert_eq!((latest.status, latest.text.contains("cannot connect")), (None, true));
}

#[tokio::test]
async fn huge_and_endless_answers_are_not_read_to_their_end() {
    let huge = FaultServer::start(async |_| Reply::json(200, vec![b'x'; 32 << 20])).await.unwrap();
    let endless = endless().await;
    let setup = Setup::new();
    let target = |url: &str| Target::new(url).retries(0, 0);
    let queues =
        [setup.queue("huge", target(&huge.url())), setup.queue("endless", target(&endless))];

    for queue in &queues {
        setup.send(queue, "x");
    }
    eventually(|| queues.iter().all(|queue| queue.counts().total() == 0)).await;

    assert_eq!(setup.push.figures().delivered, 2, "the status counts");
}

#[tokio::test]
async fn private_addresses_are_not_called_where_they_are_refused() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let setup = Setup::refusing_private();
    let port = receiver.url().rsplit(':').next().unwrap().to_owned();
    let mut queues = Vec::new();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        let url = format!("http://{host}:{port}/");
        let queue = setup.queue(&host.replace([':', '[', ']'], "-"), Target::new(&url));
        setup.send(&queue, "x");
        queues.push(queue);
    }

    eventually(|| queues.iter().all(|queue| queue.counts().total() == 0)).await;

    assert_eq!(receiver.connections(), 0);
    let failures = setup.target("localhost").failures();
    assert_eq!(failures[0].1.cause, Cause::Refused);
    assert!(failures[0].1.text.contains("may not be called"), "{failures:?}");
}

#[tokio::test]
async fn a_held_message_stays_until_it_is_deleted_or_its_time_is_over() {
    let receiver = FaultServer::start(async |_| status(202)).await.unwrap();
    let setup = Setup::new();
    let hold = |code| match code {
        202 => Verdict::Held(Duration::from_secs(30)),
        code => Verdict::of_status(code),
    };
    let queue = setup.queue("a", Target::new(&receiver.url()).judge(hold));

    setup.send(&queue, "x");
    for attempts in 1..=2 {
        eventually(|| receiver.requests().len() == attempts).await;
        eventually(|| setup.push.figures().under_way == 0).await;
        assert_eq!(queue.counts().in_flight, 1);
        setup.until_hidden_for(&queue, 30).await;
        setup.shards.advance_clock(Duration::from_secs(30));
    }
    assert_eq!(setup.push.figures().failed, 0);
}

#[tokio::test]
async fn a_failed_message_waits_if_its_place_takes_nothing() {
    let receiver = FaultServer::start(async |_| status(400)).await.unwrap();
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new(&receiver.url()).after_failure(AfterFailure::Later));

    setup.send(&queue, "x");
    eventually(|| setup.target("a").failures().len() == 1).await;
    setup.until_hidden_for(&queue, 30).await;
    setup.target("a").set_after_failure(AfterFailure::Dropped);
    setup.shards.advance_clock(Duration::from_secs(30));
    eventually(|| queue.counts().total() == 0).await;

    assert_eq!(receiver.requests().len(), 2);
    let figures = setup.push.figures();
    assert_eq!((figures.failed, figures.redriven), (1, 0));
}

#[tokio::test]
async fn retries_go_on_after_a_restart() {
    let receiver = FaultServer::start(async |_| status(500)).await.unwrap();
    let setup = Setup::new();
    let target = || Target::new(&receiver.url()).retries(2, 20);
    let queue = setup.queue("a", target());
    setup.send(&queue, "x");
    setup.counts_retries(1).await;
    setup.until_hidden_for(&queue, 20).await;
    drop(queue);

    let setup = setup.restart();
    let queue = setup.known_queue("a", target());
    assert_eq!(queue.counts().in_flight, 1, "the delay goes on");
    setup.shards.advance_clock(Duration::from_secs(20));
    setup.counts_retries(1).await;
    setup.until_hidden_for(&queue, 20).await;
    setup.shards.advance_clock(Duration::from_secs(20));
    eventually(|| queue.counts().total() == 0).await;

    assert_eq!(setup.target("a").failures()[0].1.attempts, 3);
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn an_attempt_that_the_stop_cuts_off_is_made_again_and_counted_once() {
    let receiver = FaultServer::start(ok).await.unwrap();
    receiver.plan(ServerFault::Hang);
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new(&receiver.url()).retries(0, 0));
    setup.send(&queue, "x");
    eventually(|| receiver.requests().len() == 1).await;
    drop(queue);

    let setup = setup.restart();
    let queue = setup.known_queue("a", Target::new(&receiver.url()).retries(0, 0));
    eventually(|| queue.counts().total() == 0).await;

    assert_eq!(setup.target("a").delivered(), 1);
}

#[tokio::test]
async fn a_queue_without_endpoint_keeps_its_messages_until_it_has_one_again() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new(&receiver.url()));
    setup.send(&queue, "1");
    eventually(|| queue.counts().total() == 0).await;

    // The drain that waits in the queue sees it with the next message.
    setup.forget("a");
    setup.send(&queue, "2");
    eventually(|| setup.push.endpoint_figures(queue.id()).is_none()).await;
    setup.send(&queue, "3");
    assert_eq!(queue.counts().ready, 2);
    let left = queue.browser().peek(1).unwrap();
    assert_eq!(left[0].delivery.receive_count, 0, "as if it had not been received");
    assert_eq!(receiver.requests().len(), 1);

    setup.know("a", Target::new(&receiver.url()));
    setup.drain(&queue);
    setup.drain(&queue);
    eventually(|| queue.counts().total() == 0).await;
    assert_eq!(receiver.requests().len(), 3);

    setup.delete(&queue).await;
    eventually(|| setup.push.endpoint_figures(queue.id()).is_none()).await;
}

#[tokio::test]
async fn a_throttled_endpoint_gets_no_more_than_its_rate() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let setup = Setup::new();
    let queue = setup.queue_unwatched("a", Target::new(&receiver.url()).per_second(20));
    for _ in 0..11 {
        setup.send(&queue, "x");
    }

    let begun = Instant::now();
    setup.drain(&queue);
    eventually(|| queue.counts().total() == 0).await;

    // Ten intervals of 50 ms, less what the first few may be early.
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
}

/// A receiver with 100 others beside it of which each stalls every request, with messages that
/// wait for all of them.
#[tokio::test]
async fn dead_endpoints_do_not_slow_a_good_one() {
    static LATEST: AtomicUsize = AtomicUsize::new(0);
    let good = FaultServer::start(async |request: millrace_http::testing::Request| {
        let number = String::from_utf8_lossy(&request.body).parse().unwrap_or(0);
        LATEST.store(number, Ordering::Relaxed);
        Reply::json(200, "{}")
    })
    .await
    .unwrap();
    let dead = FaultServer::start(async |_| std::future::pending().await).await.unwrap();
    let setup = Setup::new();
    let dead: Vec<_> = (0..100)
        .map(|number| setup.queue_unwatched(&number.to_string(), Target::new(&dead.url())))
        .collect();
    for queue in &dead {
        for _ in 0..20 {
            setup.send(queue, "x");
        }
        setup.drain(queue);
    }
    eventually(|| setup.push.figures().under_way >= 100).await;

    let queue = setup.queue("good", Target::new(&good.url()));
    let mut latencies = Vec::new();
    for number in 1..=100 {
        let begun = Instant::now();
        setup.send(&queue, &number.to_string());
        eventually(|| LATEST.load(Ordering::Relaxed) == number).await;
        latencies.push(begun.elapsed());
    }
    latencies.sort_unstable();

    eventually(|| setup.push.figures().under_way == 100).await;
    assert_eq!(setup.push.figures().attempts, 200, "one each at those that stall");
    // Some milliseconds are needed; the others stall for 15 s.
    assert!(latencies[50] < Duration::from_millis(100), "{:?}", latencies[50]);
    assert!(latencies[98] < Duration::from_secs(1), "{:?}", latencies[98]);
}

#[tokio::test]
async fn more_dead_endpoints_than_places_do_not_slow_a_good_one() {
    let good = FaultServer::start(ok).await.unwrap();
    let dead = FaultServer::start(async |_| std::future::pending().await).await.unwrap();
    let setup = Setup::with_connections(8);
    let stalls = || Target::new(&dead.url()).retries(100, 0).timeout(Duration::from_millis(200));
    let queues = (0..20).map(|number| setup.queue(&number.to_string(), stalls()));
    let queues: Vec<_> = queues.inspect(|queue| setup.send(queue, "x")).collect();
    eventually(|| setup.push.figures().retried >= 20).await;

    let queue = setup.queue("good", Target::new(&good.url()));
    let begun = Instant::now();
    for number in 1..=50 {
        setup.send(&queue, "x");
        eventually(|| setup.target("good").delivered() == number).await;
    }
    let took = begun.elapsed();

    // They wait for each other: two at a time, 20 in line, so some seconds for each attempt.
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(queues.iter().all(|queue| queue.counts().total() == 1));
}

#[tokio::test]
async fn the_signing_key_is_made_when_it_is_first_needed_and_outlives_the_server() {
    let setup = Setup::new();
    let signer = KeptSigner::open(&setup.shards).unwrap();
    assert!(signer.get().is_none());

    let (one, other) = tokio::join!(signer.ready(&setup.shards), signer.ready(&setup.shards));
    let made = one.unwrap().to_bytes();
    assert_eq!(other.unwrap().to_bytes(), made);

    let setup = setup.restart();
    let again = KeptSigner::open(&setup.shards).unwrap();
    assert_eq!(again.get().unwrap().to_bytes(), made);
}

#[tokio::test]
async fn what_stays_in_the_server_is_repeated_and_not_counted() {
    let setup = Setup::new();
    let outcomes = vec![Ok(()), Err("not yet".to_owned())];
    let queue = setup.queue("a", Target::new("http://127.0.0.1:1").retries(1, 1).local(outcomes));

    setup.send(&queue, "x");
    let target = setup.target("a");
    eventually(|| target.attempts().len() == 1).await;
    setup.until_hidden_for(&queue, 1).await;
    setup.shards.advance_clock(Duration::from_secs(1));
    eventually(|| queue.counts().total() == 0).await;

    let expected = [(1, Verdict::Retry, None), (2, Verdict::Delivered, None)];
    assert_eq!(target.attempts(), expected);
    assert_eq!(target.delivered(), 1);
    let figures = setup.push.figures();
    assert_eq!((figures.attempts, figures.delivered, figures.retried), (0, 0, 0));
}

#[tokio::test]
async fn a_service_may_have_refused_calls_repeated_and_hears_of_each() {
    let receiver = FaultServer::start(ok).await.unwrap();
    let setup = Setup::refusing_private();
    let target = Target::new(&receiver.url()).retries(1, 0).repeats_refusals();
    let queue = setup.queue("a", target);

    setup.send(&queue, "x");
    eventually(|| queue.counts().total() == 0).await;

    let target = setup.target("a");
    assert_eq!(target.attempts(), [(1, Verdict::Retry, None), (2, Verdict::Retry, None)]);
    assert_eq!(target.failures()[0].1.cause, Cause::Exhausted);
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn a_service_is_told_of_deleted_queues() {
    let setup = Setup::new();
    let queue = setup.queue("a", Target::new("http://127.0.0.1:1"));

    setup.delete(&queue).await;
    eventually(|| setup.deleted() == ["a"]).await;
}
