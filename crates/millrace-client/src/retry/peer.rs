//! A peer that tries again.

use super::{Retry, RetryOptions};
use crate::error::{CallError, EntryError};
use crate::message::{Delivery, Outgoing, ReceiptHandle, Sent};
use crate::peer::{Capabilities, Peer, ReceiveRequest, Visibility};

/// A peer whose calls are repeated while that is allowed and useful. Sends share one budget and
/// pace, receives another, deletes and visibility changes a third, so that a throttled producer
/// slows no consumer.
///
/// A repeated send may arrive twice, unless the queue is FIFO. There, a message that failed while a
/// later one of its group was accepted is not sent again, so that the group stays in order, and
/// none is sent again later than four minutes after an attempt that may have stored it. A
/// repeated receive may leave the messages of a lost answer hidden for their visibility timeout.
/// Entries that a delete or visibility change finds gone the second time fail with the server's own
/// error.
#[derive(Debug)]
pub struct Retrying<P> {
    peer: P,
    sends: Retry,
    receives: Retry,
    settles: Retry,
}

impl<P: Peer> Retrying<P> {
    pub fn new(peer: P, options: RetryOptions) -> Retrying<P> {
        let retry = || Retry::new(options);
        Retrying { peer, sends: retry(), receives: retry(), settles: retry() }
    }

    /// The peer underneath.
    pub fn inner(&self) -> &P {
        &self.peer
    }
}

impl<P: Peer> Peer for Retrying<P> {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        let call = |batch: Vec<Outgoing>| async move { self.peer.send(&batch).await };
        let keeps_order = self.peer.capabilities().ordered_groups;
        let sends = &self.sends;
        sends.entries(messages, |sent| sent.group_id.as_ref().filter(|_| keeps_order), call).await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        self.receives.call(|| self.peer.receive(request)).await
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        let call = |batch: Vec<ReceiptHandle>| async move { self.peer.delete(&batch).await };
        self.settles.entries(handles, |_| None, call).await
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        let call =
            |batch: Vec<Visibility>| async move { self.peer.change_visibility(&batch).await };
        self.settles.entries(changes, |_| None, call).await
    }

    async fn release(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        let call = |batch: Vec<Visibility>| async move { self.peer.release(&batch).await };
        self.settles.entries(changes, |_| None, call).await
    }

    fn capabilities(&self) -> Capabilities {
        self.peer.capabilities()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytestring::ByteString;
    use tokio::time::Instant;

    use super::*;
    use crate::error::CallErrorKind;
    use crate::testing::{Fault, MemoryPeer, Operation};

    fn retrying(peer: &MemoryPeer) -> Retrying<MemoryPeer> {
        Retrying::new(peer.clone(), RetryOptions::default())
    }

    fn messages<const N: usize>(bodies: [&'static str; N]) -> [Outgoing; N] {
        bodies.map(Outgoing::new)
    }

    fn entries(peer: &MemoryPeer, operation: Operation) -> Vec<Vec<ByteString>> {
        peer.calls_of(operation).into_iter().map(|call| call.entries).collect()
    }

    fn internal() -> EntryError {
        EntryError::new("InternalError", "", false)
    }

    #[tokio::test(start_paused = true)]
    async fn only_failed_entries_are_sent_again() {
        let peer = MemoryPeer::standard();
        peer.plan(Operation::Send, Fault::FailEntries(vec![0, 2], internal()));
        peer.plan(Operation::Send, Fault::FailEntries(vec![1], internal()));

        let outcomes = retrying(&peer).send(&messages(["a", "b", "c"])).await.unwrap();

        assert!(outcomes.iter().all(Result::is_ok));
        let sent = entries(&peer, Operation::Send);
        assert_eq!(sent, [vec!["a", "b", "c"], vec!["a", "c"], vec!["c"]]);
        assert_eq!(peer.bodies(), ["b", "a", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn entry_of_a_group_is_not_sent_again_behind_a_later_one() {
        let peer = MemoryPeer::fifo();
        let batch = ["a1", "b1", "a2", "a3", "b2"]
            .map(|body| Outgoing { group_id: Some(body[..1].into()), ..Outgoing::new(body) });
        // Of a the first fails, of b both.
        peer.plan(Operation::Send, Fault::FailEntries(vec![0, 1, 4], internal()));

        let outcomes = retrying(&peer).send(&batch).await.unwrap();

        assert_eq!(peer.bodies(), ["a2", "a3", "b1", "b2"]);
        assert_eq!(outcomes[0], Err(internal()));
        assert!(outcomes[1..].iter().all(Result::is_ok));
    }

    #[tokio::test(start_paused = true)]
    async fn entries_at_fault_are_not_sent_again() {
        let peer = MemoryPeer::standard();
        let refused = EntryError::new("InvalidMessageContents", "", true);
        peer.plan(Operation::Send, Fault::FailEntries(vec![1], refused.clone()));

        let outcomes = retrying(&peer).send(&messages(["a", "b"])).await.unwrap();

        assert_eq!(outcomes[1], Err(refused));
        assert_eq!(peer.calls_of(Operation::Send).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_is_too_large_is_halved_in_order() {
        let small = Capabilities { max_batch_bytes: 2, ..MemoryPeer::fifo().capabilities() };
        let peer = MemoryPeer::with_capabilities(small);

        let outcomes = retrying(&peer).send(&messages(["a", "b", "c", "d", "e"])).await.unwrap();

        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(peer.bodies(), ["a", "b", "c", "d", "e"]);
        let outcome = retrying(&peer).send(&messages(["too large"])).await;
        assert_eq!(outcome.unwrap_err().kind, CallErrorKind::BatchTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn entries_of_each_part_fail_for_its_own_reason() {
        let small = Capabilities { max_batch_bytes: 2, ..MemoryPeer::standard().capabilities() };
        let peer = MemoryPeer::with_capabilities(small);
        let outage = CallError::new(CallErrorKind::Server, "ServiceUnavailable", "");
        peer.plan(Operation::Send, Fault::Slow(Duration::ZERO));
        peer.plan(Operation::Send, Fault::Refuse(outage));
        let once = Retrying::new(peer, RetryOptions { attempts: 1, ..RetryOptions::default() });

        let outcomes = once.send(&messages(["a", "b", "too large"])).await.unwrap();

        assert!(outcomes[0].is_ok());
        let errors = [1, 2].map(|index| outcomes[index].clone().unwrap_err());
        assert_eq!(errors[0].code, "ServiceUnavailable");
        assert_eq!(errors[1].code, "BatchRequestTooLong");
        assert_eq!(errors.map(|error| error.is_retryable()), [true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_that_ends_is_not_noticed_and_one_that_stays_is_an_error() {
        let peer = MemoryPeer::standard();
        let outage = CallError::new(CallErrorKind::Server, "ServiceUnavailable", "");
        for _ in 0..2 {
            peer.plan(Operation::Delete, Fault::Refuse(outage.clone()));
        }
        peer.put(["a"]);
        let retrying = retrying(&peer);
        let handle = retrying.receive(ReceiveRequest::default()).await.unwrap().remove(0).handle;

        assert_eq!(retrying.delete(std::slice::from_ref(&handle)).await.unwrap(), [Ok(())]);
        peer.set_partitioned(true);
        let error = retrying.delete(&[handle]).await.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Transport);
        assert_eq!(peer.calls_of(Operation::Delete).len(), 3 + 6);
    }

    #[tokio::test(start_paused = true)]
    async fn message_of_a_group_is_not_sent_again_after_its_deduplication_window() {
        let message = [Outgoing { group_id: Some("g".into()), ..Outgoing::new("a") }];
        let mut lost = CallError::new(CallErrorKind::Server, "ServiceUnavailable", "").ambiguous();
        lost.retry_after = Some(Duration::from_secs(150));
        let peer = MemoryPeer::fifo();
        for _ in 0..3 {
            peer.plan(Operation::Send, Fault::LoseAnswer(lost.clone()));
        }

        let started = Instant::now();
        let outcome = retrying(&peer).send(&message).await;

        assert_eq!(outcome, Err(lost.clone()));
        assert_eq!(peer.calls_of(Operation::Send).len(), 2, "at 0 and 150 s, not at 300 s");
        assert_eq!(started.elapsed(), Duration::from_secs(150));

        // A standard queue may have a message twice anyway, and what was refused is in no queue.
        let standard = MemoryPeer::standard();
        standard.plan(Operation::Send, Fault::LoseAnswer(lost.clone()));
        standard.plan(Operation::Send, Fault::LoseAnswer(lost.clone()));
        assert!(retrying(&standard).send(&message).await.unwrap()[0].is_ok());
        let refusal = CallError { is_ambiguous: false, ..lost };
        let refusing = MemoryPeer::fifo();
        refusing.plan(Operation::Send, Fault::Refuse(refusal.clone()));
        refusing.plan(Operation::Send, Fault::Refuse(refusal));
        assert!(retrying(&refusing).send(&message).await.unwrap()[0].is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_makes_the_outcome_ambiguous() {
        let peer = MemoryPeer::standard();
        let lost = CallError::new(CallErrorKind::Transport, "no-answer", "").ambiguous();
        let refused = CallError::new(CallErrorKind::Auth, "AccessDenied", "");
        peer.plan(Operation::Send, Fault::LoseAnswer(lost));
        peer.plan(Operation::Send, Fault::Refuse(refused.clone()));

        let outcome = retrying(&peer).send(&messages(["a"])).await;

        assert_eq!(outcome, Err(refused.ambiguous()));
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_sends_slow_down_and_receives_do_not() {
        let peer = MemoryPeer::standard();
        let throttled = CallError::new(CallErrorKind::Throttled, "ThrottlingException", "");
        peer.plan(Operation::Send, Fault::Refuse(throttled));
        peer.put(["x"; 3]);
        let retrying = retrying(&peer);

        for _ in 0..3 {
            retrying.send(&messages(["a"])).await.unwrap();
        }
        let calls = peer.calls_of(Operation::Send);
        assert!(calls[2].at - calls[1].at >= Duration::from_secs(1), "paced");

        let started = Instant::now();
        for _ in 0..3 {
            let request = ReceiveRequest { max: 1, ..ReceiveRequest::default() };
            retrying.receive(request).await.unwrap();
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
