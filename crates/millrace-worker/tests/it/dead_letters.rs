//! Poison messages end in the dead-letter queue, never just deleted.

use millrace_client::{
    CallError, CallErrorKind, EntryError, Outgoing,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{Backoff, Drain, Options, Outcome, Summary, Worker};
use tokio::time::Instant;

use crate::support::{MS, Recorder, S, bodies, end_after, run, until_empty};

async fn run_with(
    peer: &MemoryPeer,
    dead: &MemoryPeer,
    handler: &Recorder,
    options: Options,
) -> Summary {
    let worker = Worker::new(peer.clone(), handler.clone(), options);
    worker.with_dead_letter_queue(dead.clone()).run().await
}

fn attribute_names(letter: &Outgoing) -> Vec<&str> {
    letter.attributes.iter().map(|attribute| &*attribute.name).collect()
}

#[tokio::test(start_paused = true)]
async fn rejected_message_goes_to_the_dead_letter_queue_at_once() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["bad", "good"]);
    let handler = Recorder::new(|message| {
        let is_bad = message.body() == "bad";
        (MS, Ok(if is_bad { Outcome::reject("unreadable") } else { Outcome::Ack }))
    });

    let summary = run_with(&peer, &dead, &handler, until_empty(2)).await;

    assert_eq!((summary.succeeded, summary.dead_lettered), (1, 1));
    assert_eq!(peer.bodies().len(), 0);
    let letter = dead.messages().remove(0);
    assert_eq!(letter.body, "bad");
    assert!(attribute_names(&letter).contains(&"MillraceReason"));
}

#[tokio::test(start_paused = true)]
async fn rejected_message_without_dead_letter_queue_is_kept() {
    let peer = MemoryPeer::standard();
    peer.put(["bad"]);
    let handler = Recorder::new(|_| (MS, Ok(Outcome::reject("unreadable"))));

    let summary = run(&peer, &handler, until_empty(1)).await;

    assert_eq!((summary.retried, summary.dead_lettered), (1, 0));
    assert_eq!(peer.bodies(), ["bad"]);
}

#[tokio::test(start_paused = true)]
async fn message_that_fails_too_often_is_a_dead_letter() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["poison"]);
    let handler = Recorder::new(|_| (MS, Err("no".into())));
    let options = Options {
        max_receives: Some(3),
        backoff: Backoff::List(vec![S]),
        max_messages: Some(3),
        ..Options::default()
    };

    let summary = run_with(&peer, &dead, &handler, options).await;

    assert_eq!(handler.runs().len(), 3);
    assert_eq!((summary.retried, summary.dead_lettered), (2, 1));
    assert_eq!((peer.bodies().len(), dead.bodies().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn message_that_kills_workers_never_meets_a_handler_again() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["killer"]);
    // Received three times by workers that died of it.
    for _ in 0..3 {
        use millrace_client::{Peer, ReceiveRequest};
        assert_eq!(peer.receive(ReceiveRequest::default()).await.unwrap().len(), 1);
        tokio::time::sleep(31 * S).await;
    }
    let handler = Recorder::succeeding(MS);
    let options = Options { max_receives: Some(3), ..until_empty(1) };

    let summary = run_with(&peer, &dead, &handler, options).await;

    assert_eq!(handler.runs().len(), 0);
    assert_eq!(summary.dead_lettered, 1);
    assert_eq!(dead.bodies(), ["killer"]);
}

#[tokio::test(start_paused = true)]
async fn message_is_deleted_only_after_its_dead_letter_is_accepted() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["bad"]);
    for _ in 0..4 {
        let broken = CallError::new(CallErrorKind::Transport, "reset", "connection reset");
        dead.plan(Operation::Send, Fault::Refuse(broken));
    }
    let handler = Recorder::new(|_| (MS, Ok(Outcome::reject("unreadable"))));

    run_with(&peer, &dead, &handler, until_empty(1)).await;

    let accepted = dead.calls_of(Operation::Send).into_iter().last().unwrap();
    let deleted = peer.calls_of(Operation::Delete);
    assert_eq!((deleted.len(), dead.bodies().len()), (1, 1));
    assert!(deleted[0].at >= accepted.at);
    assert_eq!(handler.runs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_that_is_refused_with_its_story_goes_without() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["bad"]);
    let too_long = EntryError::new("InvalidParameterValue", "shorter than 1024 bytes", true);
    dead.plan(Operation::Send, Fault::FailEntries(vec![0], too_long));
    let handler = Recorder::new(|_| (MS, Ok(Outcome::reject("unreadable"))));

    let summary = run_with(&peer, &dead, &handler, until_empty(1)).await;

    assert_eq!((summary.retried, summary.dead_lettered), (0, 1));
    assert_eq!(attribute_names(&dead.messages().remove(0)), [""; 0]);
    assert_eq!(peer.deleted(), ["bad"]);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_that_is_refused_even_without_its_story_is_kept() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["bad"]);
    for _ in 0..2 {
        let too_long = EntryError::new("InvalidParameterValue", "shorter than 1 byte", true);
        dead.plan(Operation::Send, Fault::FailEntries(vec![0], too_long));
    }
    let handler = Recorder::new(|_| (MS, Ok(Outcome::reject("unreadable"))));

    let summary = run_with(&peer, &dead, &handler, until_empty(1)).await;

    assert_eq!(dead.calls_of(Operation::Send).len(), 2);
    assert_eq!((summary.retried, summary.dead_lettered), (1, 0));
    assert_eq!(peer.bodies(), ["bad"]);
}

#[tokio::test(start_paused = true)]
async fn message_that_the_dead_letter_queue_refuses_is_kept() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(["bad"]);
    let gone = CallError::new(CallErrorKind::NoSuchQueue, "QueueDoesNotExist", "it is gone");
    dead.plan(Operation::Send, Fault::Refuse(gone));
    let handler = Recorder::new(|_| (MS, Ok(Outcome::reject("unreadable"))));

    let summary = run_with(&peer, &dead, &handler, until_empty(1)).await;

    assert_eq!((summary.retried, summary.dead_lettered), (1, 0));
    assert_eq!(peer.bodies(), ["bad"]);
    assert_eq!(peer.deleted(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_no_dead_letter_queue_takes_are_all_given_back_in_time() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(bodies(200));
    dead.set_partitioned(true);
    let handler = Recorder::new(|_| (MS, Ok(Outcome::reject("unreadable"))));
    let started = Instant::now();

    let summary = run_with(&peer, &dead, &handler, until_empty(200)).await;

    assert_eq!((summary.retried, summary.received), (200, 200));
    assert!(started.elapsed() < 330 * S, "{:?}", started.elapsed());
    let sends = dead.calls_of(Operation::Send).len();
    assert!(sends < 250, "{sends} sends in five minutes");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_that_nobody_takes_leave_others_their_place() {
    let (peer, dead) = (MemoryPeer::standard(), MemoryPeer::standard());
    peer.put(bodies(1_500));
    peer.put(["good"]);
    dead.set_partitioned(true);
    let handler = Recorder::new(|message| {
        let is_good = message.body() == "good";
        (MS, Ok(if is_good { Outcome::Ack } else { Outcome::reject("unreadable") }))
    });
    let worker =
        Worker::new(peer.clone(), handler, Options::default()).with_dead_letter_queue(dead.clone());

    end_after(60 * S, Drain::release_now, worker).await;

    assert_eq!(peer.deleted(), ["good"]);
    let sends = dead.calls_of(Operation::Send).len();
    assert!(sends < 50, "{sends} sends in a minute");
}
