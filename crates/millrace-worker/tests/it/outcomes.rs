//! What a handler says decides what becomes of a message, and nothing else does.

use std::{sync::Arc, time::Duration};

use millrace_client::{
    CallError, CallErrorKind, EntryError,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{
    Backoff, Drain, Handler, HandlerError, Message, Options, Outcome, Until, Worker, each,
};
use tokio::time::sleep;

use crate::support::{MS, Recorder, S, bodies, end_after, run, until_empty};

#[tokio::test(start_paused = true)]
async fn every_message_is_handled_once_and_deleted() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(100));
    let handler = Recorder::succeeding(20 * MS);

    let summary = run(&peer, &handler, until_empty(8)).await;

    assert_eq!((summary.received, summary.succeeded, summary.abandoned), (100, 100, 0));
    let mut deleted = peer.deleted();
    deleted.sort();
    assert_eq!(deleted, bodies(100));
    assert_eq!(handler.runs().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn never_more_handlers_than_allowed() {
    for handlers in [1, 3, 17] {
        let peer = MemoryPeer::standard();
        peer.put(bodies(200));
        let handler = Recorder::succeeding(100 * MS);

        run(&peer, &handler, until_empty(handlers)).await;

        assert_eq!(handler.most_running(), handlers);
    }
}

#[tokio::test(start_paused = true)]
async fn what_decides_on_failures_may_panic_as_well() {
    let peer = MemoryPeer::standard();
    peer.put(["decides", "panics", "good"]);
    let handler = each(|message: Message| async move {
        match &**message.body() {
            "good" => Ok(Outcome::Ack),
            "panics" => panic!("at work"),
            _ => Err("not yet".into()),
        }
    });
    let handler = handler.on_error(|_, _| panic!("on the error"));
    let backoff = Backoff::Function(Arc::new(|_| panic!("on the back-off")));
    let options = Options { backoff, until: Until::Once, ..until_empty(3) };

    let summary = Worker::new(peer.clone(), handler, options).run().await;

    assert_eq!((summary.succeeded, summary.retried), (1, 2));
    // Hidden for the default back-off, 1 to 2 s.
    assert_eq!((peer.available(), peer.in_flight()), (0, 2));
    sleep(2 * S).await;
    assert_eq!(peer.available(), 2);
}

#[tokio::test(start_paused = true)]
async fn failure_hides_the_message_for_the_back_off_and_never_deletes_it() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::new(|message| {
        let is_third = message.receive_count() == 3;
        (10 * MS, if is_third { Ok(Outcome::Ack) } else { Err("not yet".into()) })
    });
    let backoff = Backoff::List(vec![2 * S, 5 * S]);
    let options = Options { backoff, max_messages: Some(3), ..Options::default() };

    let summary = run(&peer, &handler, options).await;

    let runs = handler.runs();
    let pauses: Vec<u64> =
        runs.windows(2).map(|two| (two[1].started - two[0].started).as_secs()).collect();
    assert_eq!(pauses, [2, 5]);
    assert_eq!((summary.succeeded, summary.retried), (1, 2));
    assert_eq!(peer.deleted(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn handler_names_the_delay_and_release_has_none() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::new(|message| {
        let outcome = match message.receive_count() {
            1 => Outcome::Retry { after: Some(7 * S) },
            2 => Outcome::Release,
            _ => Outcome::Ack,
        };
        (MS, Ok(outcome))
    });

    let summary =
        run(&peer, &handler, Options { max_messages: Some(3), ..Options::default() }).await;

    let runs = handler.runs();
    assert_eq!((runs[1].started - runs[0].started).as_secs(), 7);
    assert!(runs[2].started - runs[1].started < 200 * MS);
    assert_eq!((summary.retried, summary.released, summary.succeeded), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn handler_that_panics_has_failed() {
    let peer = MemoryPeer::standard();
    peer.put(["a", "b"]);
    let handler = Recorder::new(|message| {
        assert!(message.body() != "a" || message.receive_count() > 1, "cannot read that");
        (MS, Ok(Outcome::Ack))
    });
    let options =
        Options { backoff: Backoff::List(vec![S]), max_messages: Some(3), ..Options::default() };

    let summary = run(&peer, &handler, options).await;

    assert_eq!((summary.succeeded, summary.retried), (2, 1));
    assert_eq!(peer.bodies().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn error_handler_has_the_last_word() {
    let peer = MemoryPeer::standard();
    peer.put(["ignore me"]);
    let handler = each(|_| async { Err("known and harmless".into()) }).on_error(|_, error| {
        let is_harmless = error.to_string().contains("harmless");
        if is_harmless { Outcome::Ack } else { Outcome::RETRY }
    });

    let summary = Worker::new(peer.clone(), handler, until_empty(1)).run().await;

    assert_eq!(summary.succeeded, 1);
    assert_eq!(peer.deleted(), ["ignore me"]);
}

/// Acknowledges what ends in an even digit; says nothing about the last message of a batch.
struct Half;

impl Handler for Half {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut outcomes: Vec<Outcome> = messages
            .iter()
            .map(|message| match message.body().as_bytes().last() {
                Some(digit) if digit % 2 == 0 => Outcome::Ack,
                _ => Outcome::RETRY,
            })
            .collect();
        outcomes.pop();
        Ok(outcomes)
    }
}

#[tokio::test(start_paused = true)]
async fn part_of_a_batch_may_fail() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(9));
    let options = Options { batch_size: 9, ..until_empty(1) };

    let summary = Worker::new(peer.clone(), Half, options).run().await;

    // m0008 is even, but the handler did not say so.
    assert_eq!(peer.deleted(), ["m0000", "m0002", "m0004", "m0006"]);
    assert_eq!((summary.succeeded, summary.retried), (4, 5));
}

#[tokio::test(start_paused = true)]
async fn deletes_share_calls() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(200));
    let handler = Recorder::succeeding(10 * MS);

    run(&peer, &handler, until_empty(50)).await;

    let calls = peer.calls_of(Operation::Delete).len();
    assert!(calls <= 30, "{calls} calls for 200 deletes");
}

#[tokio::test(start_paused = true)]
async fn deletes_of_a_slow_server_leave_connections_for_extensions() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(600));
    for _ in 0..600 {
        peer.plan(Operation::Delete, Fault::Slow(6 * S));
    }
    let handler = Recorder::succeeding(MS);

    let summary = run(&peer, &handler, until_empty(50)).await;

    let calls = peer.calls_of(Operation::Delete);
    let open_at = |at| calls.iter().filter(|call| call.at <= at && at < call.at + 6 * S).count();
    let most_open = calls.iter().map(|call| open_at(call.at)).max();
    assert_eq!((summary.succeeded, most_open), (600, Some(16)));
}

#[tokio::test(start_paused = true)]
async fn only_failed_entries_are_deleted_again() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(10));
    let error = EntryError::new("InternalError", "try again", false);
    peer.plan(Operation::Delete, Fault::FailEntries(vec![2, 5], error.clone()));
    peer.plan(Operation::Delete, Fault::FailEntries(vec![0], error));
    let handler = Recorder::succeeding(MS);

    let summary = run(&peer, &handler, until_empty(10)).await;

    let calls = peer.calls_of(Operation::Delete);
    assert_eq!(calls[0].entries.len(), 10);
    let again: usize = calls[1..].iter().map(|call| call.entries.len()).sum();
    assert_eq!(again, 3);
    assert_eq!((summary.succeeded, peer.bodies().len()), (10, 0));
    assert_eq!(handler.runs().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn deletes_that_fail_stay_in_batches_and_wait_for_as_long_as_the_server_asks() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(100));
    let mut overloaded = CallError::new(CallErrorKind::Server, "ServiceUnavailable", "slow down");
    overloaded.retry_after = Some(20 * S);
    for _ in 0..3 {
        peer.plan(Operation::Delete, Fault::Refuse(overloaded.clone()));
    }
    let handler = Recorder::succeeding(MS);

    let summary = run(&peer, &handler, until_empty(100)).await;

    let calls = peer.calls_of(Operation::Delete);
    assert!(calls.len() <= 3 + 100 / 10, "{} calls", calls.len());
    let waited = calls[calls.len() - 1].at - calls[0].at;
    assert!((20 * S..61 * S).contains(&waited), "{waited:?}");
    assert_eq!((summary.succeeded, handler.runs().len()), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn refused_delete_counts_at_the_end_of_a_run_but_not_of_a_worker_that_went_on() {
    for (until, unsettled) in [(Until::Once, 1), (Until::Drained, 0)] {
        let peer = MemoryPeer::standard();
        peer.put(["a"]);
        let stale = EntryError::new("ReceiptHandleIsInvalid", "somebody else has it", true);
        peer.plan(Operation::Delete, Fault::FailEntries(vec![0], stale));
        let options = Options { until, ..until_empty(1) };
        let worker = Worker::new(peer, Recorder::succeeding(MS), options);

        let summary = end_after(5 * S, Drain::drain, worker).await;

        assert_eq!((summary.abandoned, summary.unsettled), (1, unsettled), "{until:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn drain_tries_once_more_however_long_the_server_asked_to_wait() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(10));
    let mut overloaded = CallError::new(CallErrorKind::Server, "ServiceUnavailable", "slow down");
    overloaded.retry_after = Some(60 * S);
    peer.plan(Operation::Delete, Fault::Refuse(overloaded));
    let options = Options { until: Until::Drained, ..until_empty(10) };
    let worker = Worker::new(peer.clone(), Recorder::succeeding(MS), options);

    let summary = end_after(3 * S, Drain::drain, worker).await;

    assert_eq!((summary.succeeded, summary.unsettled), (10, 0));
    let attempts = peer.calls_of(Operation::Delete);
    assert_eq!(attempts.len(), 2);
    assert!(attempts[1].at < attempts[0].at + 5 * S);
}

#[tokio::test(start_paused = true)]
async fn message_given_back_by_the_end_of_its_lease_does_not_count() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::new(|_| (S, Ok(Outcome::RETRY)));
    let options = Options { until: Until::Once, ..until_empty(1) };
    let partition = async {
        sleep(S / 2).await;
        peer.set_partitioned(true);
    };

    let (summary, ()) = tokio::join!(run(&peer, &handler, options), partition);

    assert_eq!((summary.leases_lost, summary.abandoned, summary.unsettled), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn delete_without_an_answer_is_made_again() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let broken = CallError::new(CallErrorKind::Transport, "reset", "connection reset");
    peer.plan(Operation::Delete, Fault::Refuse(broken.clone()));
    peer.plan(Operation::Delete, Fault::Slow(Duration::from_secs(3600)));
    let handler = Recorder::succeeding(MS);

    run(&peer, &handler, until_empty(1)).await;

    assert_eq!(peer.deleted(), ["a"]);
    assert!(peer.calls_of(Operation::Delete).len() >= 3);
    assert_eq!(handler.runs().len(), 1);
}
