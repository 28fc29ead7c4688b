//! The rules of batching, over a queue in memory and a paused clock.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytestring::ByteString;
use tokio::task::{JoinSet, coop};
use tokio::time::{Instant, sleep};

use super::batcher::{BatchCall, Batcher};
use super::*;
use crate::error::{CallError, CallErrorKind, EntryError};
use crate::message::Outgoing;
use crate::peer::{Capabilities, Peer, ReceiveRequest, Visibility};
use crate::retry::{RetryOptions, Retrying};
use crate::testing::{Fault, MemoryPeer, Operation};

const LATENCY: Duration = Duration::from_millis(20);

fn slow_peer() -> MemoryPeer {
    let peer = MemoryPeer::standard();
    peer.set_latency(LATENCY);
    peer
}

/// Sends all messages at once, each from a task of its own, polled in order.
async fn send_all<P: Peer>(
    sender: &Sender<P>,
    messages: impl IntoIterator<Item = Outgoing>,
) -> Vec<Result<(), BatchError>> {
    let mut tasks = JoinSet::new();
    for (index, message) in messages.into_iter().enumerate() {
        let sender = sender.clone();
        tasks.spawn(async move { (index, sender.send(message).await.map(|_| ())) });
    }
    let mut outcomes: Vec<_> = tasks.join_all().await;
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Polls once; whether it is done then.
async fn poll_once(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

fn numbered(count: usize) -> impl Iterator<Item = Outgoing> {
    (0..count).map(|number| Outgoing::new(number.to_string()))
}

fn batch_sizes(peer: &MemoryPeer) -> Vec<usize> {
    peer.calls_of(Operation::Send).iter().map(|call| call.entries.len()).collect()
}

/// A call that panics the first time.
struct PanicsOnce(AtomicUsize);

impl BatchCall for PanicsOnce {
    type Entry = Outgoing;
    type Done = usize;

    async fn call(
        &self,
        entries: &[Outgoing],
    ) -> Result<Vec<Result<usize, EntryError>>, CallError> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "a bug of the peer's");
        Ok(entries.iter().map(|_| Ok(entries.len())).collect())
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn max_batch(&self) -> usize {
        10
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_fails_its_entries_and_holds_up_no_later_ones_of_their_group() {
    let batcher = Batcher::new(PanicsOnce(AtomicUsize::new(0)), BatchOptions::default());
    let message = || Outgoing { group_id: Some("g".into()), ..Outgoing::new("a") };

    assert_eq!(batcher.submit(message()).await, Err(BatchError::Closed));
    let second = tokio::time::timeout(Duration::from_secs(60), batcher.submit(message())).await;

    assert_eq!(second, Ok(Ok(1)));
    batcher.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_lone_message_waits_for_nothing() {
    let peer = slow_peer();
    let sender = Sender::new(peer.clone(), BatchOptions::default());
    let started = Instant::now();

    sender.send(Outgoing::new("a")).await.unwrap();

    assert_eq!(started.elapsed(), LATENCY);
}

#[tokio::test(start_paused = true)]
async fn batches_fill_while_calls_are_under_way() {
    let peer = slow_peer();
    let options = BatchOptions { max_calls: 4, ..BatchOptions::default() };
    let sender = Sender::new(peer.clone(), options);

    let outcomes = send_all(&sender, numbered(1000)).await;

    assert!(outcomes.iter().all(Result::is_ok));
    let sizes = batch_sizes(&peer);
    assert!(sizes.len() <= 102, "{} calls", sizes.len());
    assert!(sizes.iter().all(|size| *size <= 10));
    assert_eq!(peer.bodies().len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn few_messages_share_the_eager_calls_and_many_get_more() {
    let peer = slow_peer();
    let sender = Sender::new(peer.clone(), BatchOptions::default());
    let mut tasks = JoinSet::new();
    for message in numbered(9) {
        let sender = sender.clone();
        tasks.spawn(async move { sender.send(message).await });
        tokio::task::yield_now().await;
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(peer.calls_of(Operation::Send).len(), 2, "two eager calls, the rest gathers");
    tasks.join_all().await;
    assert_eq!(batch_sizes(&peer), [1, 1, 7]);

    let started = Instant::now();
    send_all(&sender, numbered(300)).await;
    assert!(started.elapsed() < 3 * LATENCY, "full batches do not wait for one another");
}

#[tokio::test(start_paused = true)]
async fn lingering_saves_calls_but_never_holds_a_full_batch() {
    let peer = slow_peer();
    let options = BatchOptions { linger: Duration::from_millis(100), ..BatchOptions::default() };
    let sender = Sender::new(peer.clone(), options);

    let started = Instant::now();
    send_all(&sender, numbered(3)).await;
    assert_eq!(started.elapsed(), Duration::from_millis(100) + LATENCY);
    assert_eq!(batch_sizes(&peer), [3]);

    let started = Instant::now();
    send_all(&sender, numbered(10)).await;
    assert_eq!(started.elapsed(), LATENCY);
}

#[tokio::test(start_paused = true)]
async fn bytes_bound_a_batch() {
    let small = Capabilities { max_batch_bytes: 25, ..MemoryPeer::standard().capabilities() };
    let peer = MemoryPeer::with_capabilities(small);
    let sender = Sender::new(peer.clone(), BatchOptions::default());

    let outcomes = send_all(&sender, (0..10).map(|_| Outgoing::new("0123456789"))).await;

    assert!(outcomes.iter().all(Result::is_ok));
    assert!(batch_sizes(&peer).iter().all(|size| *size <= 2));
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_senders_wait_for_room() {
    let peer = slow_peer();
    let options = BatchOptions { max_bytes: 10, ..BatchOptions::default() };
    let sender = Sender::new(peer.clone(), options);

    let outcomes = send_all(&sender, (0..8).map(|_| Outgoing::new("12345"))).await;

    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(batch_sizes(&peer).into_iter().max(), Some(2));
    sender.send(Outgoing::new("larger than all the room")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_group_has_one_call_under_way_and_keeps_its_order() {
    let peer = MemoryPeer::fifo();
    peer.set_latency(LATENCY);
    let sender = Sender::new(peer.clone(), BatchOptions::default());
    let messages = (0..100).map(|number| Outgoing {
        group_id: Some(format!("g{}", number % 3).into()),
        ..Outgoing::new(number.to_string())
    });

    let outcomes = send_all(&sender, messages).await;

    assert!(outcomes.iter().all(Result::is_ok));
    let mut last: HashMap<ByteString, u32> = HashMap::new();
    for message in peer.messages() {
        let number: u32 = message.body.parse().unwrap();
        let before = last.insert(message.group_id.unwrap(), number);
        assert!(before.is_none_or(|before| before < number));
    }
    let calls = peer.calls_of(Operation::Send);
    let mut last_call: HashMap<u32, Instant> = HashMap::new();
    for call in &calls {
        let groups: HashSet<u32> =
            call.entries.iter().map(|body| body.parse::<u32>().unwrap() % 3).collect();
        for group in groups {
            let before = last_call.insert(group, call.at);
            assert!(before.is_none_or(|before| before + LATENCY <= call.at), "one at a time");
        }
    }
    assert!(calls.len() < 30, "{} calls: groups share batches", calls.len());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_is_not_overtaken_in_its_group() {
    let peer = MemoryPeer::fifo();
    peer.set_latency(LATENCY);
    let options = BatchOptions { max_bytes: 10, ..BatchOptions::default() };
    let sender = Sender::new(peer.clone(), options);
    let message = |body: &'static str| Outgoing {
        group_id: Some("g".into()),
        deduplication_id: Some(body.into()),
        ..Outgoing::new(body)
    };
    let filling = tokio::spawn({
        let (sender, filler) = (sender.clone(), message("all of it."));
        async move { sender.send(filler).await }
    });
    sleep(LATENCY / 2).await;
    let mut first = pin!(sender.send(message("first")));
    let mut second = pin!(sender.send(message("next.")));
    assert!(!poll_once(first.as_mut()).await);

    // Now there is room for both, and the first has not been polled since.
    filling.await.unwrap().unwrap();
    assert!(!poll_once(second.as_mut()).await);
    let (second, first) = tokio::join!(second, first);

    assert!(first.is_ok() && second.is_ok());
    assert_eq!(peer.bodies(), ["all of it.", "first", "next."]);
}

#[tokio::test(start_paused = true)]
async fn groups_of_a_standard_queue_bind_nothing() {
    let peer = slow_peer();
    let sender = Sender::new(peer.clone(), BatchOptions::default());
    let messages = numbered(100).map(|message| Outgoing { group_id: Some("g".into()), ..message });
    let started = Instant::now();

    send_all(&sender, messages).await;

    assert!(started.elapsed() <= 2 * LATENCY, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn each_message_has_its_own_outcome() {
    let peer = slow_peer();
    let refused = EntryError::new("InvalidMessageContents", "", true);
    peer.plan(Operation::Send, Fault::FailEntries(vec![1], refused.clone()));
    let lost = CallError::new(CallErrorKind::Auth, "AccessDenied", "");
    let options = BatchOptions { linger: Duration::from_millis(1), ..BatchOptions::default() };
    let sender = Sender::new(peer.clone(), options);

    let outcomes = send_all(&sender, numbered(3)).await;
    peer.plan(Operation::Send, Fault::Refuse(lost.clone()));
    let all_failed = send_all(&sender, numbered(2)).await;

    assert_eq!(outcomes, [Ok(()), Err(BatchError::Entry(refused)), Ok(())]);
    assert_eq!(all_failed, [Err(BatchError::Call(lost.clone())), Err(BatchError::Call(lost))]);
}

#[tokio::test(start_paused = true)]
async fn every_entry_is_sent_exactly_once_on_close() {
    let peer = slow_peer();
    let internal = EntryError::new("InternalError", "", false);
    peer.plan(Operation::Send, Fault::FailEntries(vec![0, 3], internal.clone()));
    peer.plan(Operation::Send, Fault::FailEntries(vec![1], internal));
    let retrying = Retrying::new(peer.clone(), RetryOptions::default());
    let options = BatchOptions { linger: Duration::from_secs(3600), ..BatchOptions::default() };
    let sender = Sender::new(retrying, options);

    let sends = {
        let sender = sender.clone();
        tokio::spawn(async move { send_all(&sender, numbered(57)).await })
    };
    sleep(Duration::from_millis(5)).await;
    let started = Instant::now();
    sender.close().await;

    assert!(started.elapsed() < Duration::from_secs(60), "lingering ends with close");
    assert!(sends.await.unwrap().iter().all(Result::is_ok));
    let mut bodies: Vec<u32> = peer.bodies().iter().map(|body| body.parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..57).collect::<Vec<_>>());
    assert_eq!(sender.send(Outgoing::new("late")).await, Err(BatchError::Closed));
    sender.close().await;
}

/// Calls for a batcher that always gets another entry before it looks for one.
struct Flooded {
    batcher: Arc<OnceLock<Batcher<Flooded>>>,
    handed_in: Arc<AtomicUsize>,
}

impl Flooded {
    const ENOUGH: usize = 10_000;
}

impl BatchCall for Flooded {
    type Entry = Outgoing;
    type Done = ();

    async fn call(&self, entries: &[Outgoing]) -> Result<Vec<Result<(), EntryError>>, CallError> {
        Ok(entries.iter().map(|_| Ok(())).collect())
    }

    fn max_batch(&self) -> usize {
        if let Some(batcher) = self.batcher.get()
            && self.handed_in.load(Ordering::Relaxed) < Self::ENOUGH
        {
            let entry = pin!(coop::unconstrained(batcher.submit(Outgoing::new("x"))));
            let is_taken = entry.poll(&mut Context::from_waker(Waker::noop())).is_pending();
            self.handed_in.fetch_add(usize::from(is_taken), Ordering::Relaxed);
        }
        1
    }
}

#[tokio::test(start_paused = true)]
async fn close_is_heard_while_entries_keep_coming() {
    let (batcher, handed_in) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
    let flooded = Flooded { batcher: Arc::clone(&batcher), handed_in: Arc::clone(&handed_in) };
    let options = BatchOptions { max_waiting: 1, ..BatchOptions::default() };
    let batcher = batcher.get_or_init(|| Batcher::new(flooded, options));

    batcher.close().await;

    let handed_in = handed_in.load(Ordering::Relaxed);
    assert!((1..10).contains(&handed_in), "{handed_in}");
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_flushes_too() {
    let peer = slow_peer();
    let options = BatchOptions { linger: Duration::from_secs(3600), ..BatchOptions::default() };
    let sender = Sender::new(peer.clone(), options);
    assert!(!poll_once(pin!(sender.send(Outgoing::new("a")))).await);

    drop(sender);
    sleep(LATENCY).await;

    assert_eq!(peer.bodies(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_given_up_is_sent_all_the_same() {
    let peer = slow_peer();
    let sender = Sender::new(peer.clone(), BatchOptions::default());

    let given_up = tokio::time::timeout(LATENCY / 2, sender.send(Outgoing::new("a"))).await;
    assert!(given_up.is_err());
    sender.close().await;

    assert_eq!(peer.bodies(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn deletes_and_visibility_changes_go_out_in_tens_and_failed_ones_alone_again() {
    let peer = MemoryPeer::standard();
    peer.put((0..20).map(|number| number.to_string()));
    let mut received = peer.receive(ReceiveRequest::default()).await.unwrap();
    received.extend(peer.receive(ReceiveRequest::default()).await.unwrap());
    let internal = EntryError::new("InternalError", "", false);
    peer.plan(Operation::Delete, Fault::FailEntries(vec![2, 7], internal));
    let retrying = Retrying::new(peer.clone(), RetryOptions::default());
    let options = BatchOptions { linger: Duration::from_millis(10), ..BatchOptions::default() };
    let settler = Settler::new(retrying, options);

    let mut tasks = JoinSet::new();
    for (index, delivery) in received.into_iter().enumerate() {
        let settler = settler.clone();
        tasks.spawn(async move {
            if index < 10 {
                settler.delete(delivery.handle).await
            } else {
                let timeout = Duration::ZERO;
                let change = Visibility { handle: delivery.handle, timeout };
                settler.change_visibility(change).await.map(|_| ())
            }
        });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    settler.close().await;

    let sizes = |operation| {
        peer.calls_of(operation).iter().map(|call| call.entries.len()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(Operation::Delete), [10, 2]);
    assert_eq!(sizes(Operation::ChangeVisibility), [10]);
    assert_eq!((peer.deleted().len(), peer.available()), (10, 10));
}
