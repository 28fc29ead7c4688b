//! No lease ends while a handler runs and the peer answers; lost ones are told to the handler.

use std::time::Duration;

use millrace_client::{
    CallError, CallErrorKind, Capabilities, EntryError, Peer, ReceiptHandle, Visibility,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{Options, Outcome, Worker};
use tokio::time::{Instant, sleep};

use crate::support::{MS, Recorder, S, bodies, run, until_empty};

#[tokio::test(start_paused = true)]
async fn long_handlers_keep_their_messages() {
    let peer = MemoryPeer::standard();
    peer.set_latency(50 * MS);
    peer.put(bodies(25));
    let handler = Recorder::succeeding(200 * S);

    let summary = run(&peer, &handler, until_empty(25)).await;

    assert_eq!(handler.runs().len(), 25, "nothing was handled twice");
    assert_eq!((summary.succeeded, summary.leases_lost), (25, 0));
    // One extension each 15 s, ten messages a call: three calls.
    let calls = peer.calls_of(Operation::ChangeVisibility).len();
    assert!((30..=60).contains(&calls), "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn message_that_comes_at_the_end_of_a_long_wait_is_kept() {
    for (visibility, comes_after) in [(30, 19_990), (20, 19_990), (9, 5_990), (2, 990)] {
        let peer = MemoryPeer::standard();
        peer.set_latency(10 * MS);
        let handler = Recorder::succeeding(60 * S);
        let options = Options {
            visibility_timeout: visibility * S,
            max_messages: Some(1),
            ..Options::default()
        };
        let late = async {
            sleep(comes_after * MS).await;
            peer.put(["late"]);
        };

        let (summary, ()) = tokio::join!(run(&peer, &handler, options), late);

        assert_eq!((summary.succeeded, summary.leases_lost), (1, 0), "{visibility}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_messages_are_held_as_well() {
    let peer = MemoryPeer::standard();
    peer.set_latency(500 * MS);
    peer.put(bodies(300));
    // Fast until the prefetch is large, then one that blocks the only slot.
    let handler = Recorder::new(|message| {
        let latency = if message.body() == "m0100" { 120 * S } else { 10 * MS };
        (latency, Ok(Outcome::Ack))
    });

    let summary = run(&peer, &handler, until_empty(1)).await;

    assert_eq!(handler.overlapping(), [""; 0]);
    assert_eq!(handler.runs().len(), 300);
    assert_eq!(summary.leases_lost, 0);
}

#[tokio::test(start_paused = true)]
async fn extension_is_tried_again_when_it_fails() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let broken = CallError::new(CallErrorKind::Transport, "reset", "connection reset");
    let failed = EntryError::new("InternalError", "try again", false);
    // No code about the message or its receipt handle.
    let refused = EntryError::new("InvalidAction", "not here", true);
    peer.plan(Operation::ChangeVisibility, Fault::FailEntries(vec![0], refused));
    peer.plan(Operation::ChangeVisibility, Fault::Refuse(broken));
    peer.plan(Operation::ChangeVisibility, Fault::FailEntries(vec![0], failed));
    peer.plan(Operation::ChangeVisibility, Fault::Slow(60 * S));
    let handler = Recorder::succeeding(100 * S);

    let summary = run(&peer, &handler, until_empty(2)).await;

    assert_eq!(handler.runs().len(), 1);
    assert_eq!((summary.succeeded, summary.leases_lost), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn leases_are_kept_at_a_server_that_is_slow() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * S);
    peer.put(["a"]);
    let handler = Recorder::succeeding(200 * S);

    let summary = run(&peer, &handler, until_empty(2)).await;

    assert_eq!(handler.runs().len(), 1, "nothing was handled twice");
    assert_eq!((summary.succeeded, summary.leases_lost), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn extension_without_an_answer_holds_up_no_other_where_each_is_a_call() {
    let one = Capabilities { max_visibility_batch: 1, ..MemoryPeer::standard().capabilities() };
    let peer = MemoryPeer::with_capabilities(one);
    peer.put(bodies(5));
    peer.plan(Operation::ChangeVisibility, Fault::Slow(60 * S));
    let handler = Recorder::succeeding(29 * S);

    let summary = run(&peer, &handler, until_empty(5)).await;

    let calls = peer.calls_of(Operation::ChangeVisibility);
    assert!(calls.iter().all(|call| call.entries.len() == 1));
    assert_eq!(calls.len(), 5 + 1, "one is asked for again");
    assert_eq!((summary.succeeded, summary.leases_lost), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn leases_are_kept_where_an_extension_is_shorter_than_a_receive() {
    let short =
        Capabilities { sure_extension: Some(30 * S), ..MemoryPeer::standard().capabilities() };
    let peer = MemoryPeer::with_capabilities(short);
    peer.put(["a"]);
    let handler = Recorder::succeeding(400 * S);

    let options = Options { visibility_timeout: 300 * S, ..until_empty(1) };
    let summary = run(&peer, &handler, options).await;

    let extensions = peer.calls_of(Operation::ChangeVisibility).len();
    assert_eq!(extensions, 8, "at 285 s, and every 15 s");
    assert_eq!((summary.succeeded, summary.leases_lost), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn handler_is_told_when_its_lease_is_lost() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let stale = EntryError::new("ReceiptHandleIsInvalid", "somebody else has it", true);
    peer.plan(Operation::ChangeVisibility, Fault::FailEntries(vec![0], stale));
    let handler = millrace_worker::each(|message: millrace_worker::Message| async move {
        tokio::select! {
            () = message.cancelled() => Ok(Outcome::RETRY),
            () = sleep(3600 * S) => Ok(Outcome::Ack),
        }
    });
    let started = Instant::now();

    let options = Options { max_messages: Some(1), ..Options::default() };
    let summary = Worker::new(peer.clone(), handler, options).run().await;

    assert_eq!(started.elapsed().as_secs(), 15);
    assert_eq!((summary.leases_lost, summary.abandoned, summary.unsettled), (1, 1, 1));
    assert_eq!(peer.deleted(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn message_of_a_partitioned_worker_comes_back_and_is_not_handled_twice_at_a_time() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::succeeding(100 * S);
    let worker = Worker::new(peer.clone(), handler.clone(), until_empty(2));
    let partition = {
        let peer = peer.clone();
        async move {
            sleep(10 * S).await;
            peer.set_partitioned(true);
            sleep(40 * S).await;
            peer.set_partitioned(false);
        }
    };

    let (summary, ()) = tokio::join!(worker.run(), partition);

    // Received again by the same worker while its handler went on: adopted, with the new handle.
    assert_eq!(handler.runs().len(), 1);
    assert!(handler.runs()[0].was_cancelled);
    assert_eq!((summary.received, summary.leases_lost), (2, 1));
    assert_eq!(peer.deleted(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn no_message_is_held_past_the_longest_lease() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    let handler = Recorder::new(|_| (100 * S, Ok(Outcome::RETRY)));
    let options = Options { max_lease: 60 * S, max_messages: Some(1), ..Options::default() };

    let summary = run(&peer, &handler, options).await;

    let last = peer.calls_of(Operation::ChangeVisibility).into_iter().last().unwrap();
    let visible = last.at + last.timeouts[0];
    assert!(visible <= handler.runs()[0].started + 60 * S);
    assert!(handler.runs()[0].was_cancelled);
    assert_eq!(summary.leases_lost, 1);
}

#[tokio::test(start_paused = true)]
async fn no_message_is_hidden_past_half_a_day_after_its_receive() {
    let peer = MemoryPeer::standard();
    peer.set_latency(10 * MS);
    peer.put(["a"]);
    let broken = CallError::new(CallErrorKind::Transport, "reset", "connection reset");
    peer.plan(Operation::ChangeVisibility, Fault::Refuse(broken));
    let half_day = 12 * 3600 * S;
    let handler = Recorder::new(move |_| (400 * MS, Ok(Outcome::Retry { after: Some(half_day) })));

    let summary = run(&peer, &handler, until_empty(1)).await;

    let received = peer.calls_of(Operation::Receive)[0].at;
    let hidden = peer.calls_of(Operation::ChangeVisibility);
    assert_eq!((hidden.len(), summary.retried), (2, 1));
    for call in hidden {
        // Whole seconds on the wire, rounded up; the receive is counted from when it arrives.
        let on_the_wire = call.timeouts[0].as_secs_f64().ceil();
        let arrives = (call.at + 10 * MS - received).as_secs_f64();
        assert!(arrives + on_the_wire < half_day.as_secs_f64(), "{arrives} {on_the_wire}");
        assert!(arrives + on_the_wire > half_day.as_secs_f64() - 5.0);
    }
}

#[tokio::test(start_paused = true)]
async fn late_answer_about_an_old_lease_does_not_touch_the_new_one() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    // The extension is sent at 15 s and answered at 18 s. In between the message returns all the
    // same, and is received again by the same worker.
    peer.plan(Operation::ChangeVisibility, Fault::Slow(3 * S));
    let handler = Recorder::succeeding(40 * S);
    let first = ReceiptHandle { message_id: "1".into(), token: "1-1".into() };
    let someone = async {
        sleep(16 * S).await;
        let visible = Visibility { handle: first, timeout: Duration::ZERO };
        assert!(peer.change_visibility(&[visible]).await.unwrap()[0].is_ok());
    };

    let (summary, ()) = tokio::join!(run(&peer, &handler, until_empty(2)), someone);

    assert_eq!(summary.received, 2);
    assert_eq!((handler.runs().len(), summary.succeeded, summary.leases_lost), (1, 1, 0));
    assert_eq!(peer.deleted(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn settlement_waits_for_the_extension_under_way() {
    let peer = MemoryPeer::standard();
    peer.put(["a"]);
    // The extension is sent at 15 s and answered at 18 s; the handler ends in between.
    peer.plan(Operation::ChangeVisibility, Fault::Slow(3 * S));
    let handler = Recorder::succeeding(16 * S);

    run(&peer, &handler, until_empty(1)).await;

    let extended = peer.calls_of(Operation::ChangeVisibility);
    let deleted = peer.calls_of(Operation::Delete);
    assert_eq!((extended.len(), deleted.len()), (1, 1));
    assert!(deleted[0].at >= extended[0].at + 3 * S);
}
