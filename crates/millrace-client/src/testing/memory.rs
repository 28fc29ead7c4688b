//! A queue in memory that behaves like SQS: visibility timeouts, receive counts, group locks, long
//! polls, receipt handles that only fit the last receive. It runs on tokio's clock, paused or not,
//! and fails as told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::fault::{CallRecord, Fault, Operation};
use super::state::State;
use crate::error::{CallError, CallErrorKind, EntryError};
use crate::message::{Delivery, Outgoing, ReceiptHandle, Sent};
use crate::peer::{Capabilities, Peer, ReceiveRequest, Visibility};

/// The queue. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct MemoryPeer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capabilities: Capabilities,
    state: Mutex<State>,
    /// Told whenever a message may have become visible.
    changed: Notify,
}

impl Default for MemoryPeer {
    fn default() -> MemoryPeer {
        MemoryPeer::standard()
    }
}

impl MemoryPeer {
    /// A standard queue with a visibility timeout of 30 s.
    pub fn standard() -> MemoryPeer {
        MemoryPeer::with_capabilities(Capabilities {
            max_batch: 10,
            max_visibility_batch: 10,
            sure_extension: None,
            max_batch_bytes: 1 << 20,
            max_receive: 10,
            long_poll: Some(Duration::from_secs(20)),
            ordered_groups: false,
        })
    }

    /// A FIFO queue with a visibility timeout of 30 s.
    pub fn fifo() -> MemoryPeer {
        let standard = MemoryPeer::standard().shared.capabilities;
        MemoryPeer::with_capabilities(Capabilities { ordered_groups: true, ..standard })
    }

    /// A queue that can do what is given, and claims so.
    pub fn with_capabilities(capabilities: Capabilities) -> MemoryPeer {
        let (state, changed) = (Mutex::new(State::new()), Notify::new());
        let shared = Shared { capabilities, state, changed };
        MemoryPeer { shared: Arc::new(shared) }
    }

    /// The queue's own visibility timeout from now on.
    pub fn set_visibility(&self, timeout: Duration) {
        self.state().visibility = timeout;
    }

    /// The redrive policy: what was received so often moves to a dead-letter queue of its own.
    pub fn set_max_receives(&self, receives: u32) {
        self.state().max_receives = Some(receives);
    }

    /// Bodies of what the redrive policy has moved.
    pub fn moved(&self) -> Vec<ByteString> {
        self.state().moved.clone()
    }

    /// How long every call takes at least.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// How long receives wait at most, whatever the queue claims.
    pub fn set_longest_wait(&self, longest: Duration) {
        self.state().longest_wait = longest;
    }

    /// While partitioned, calls fail as if the server were out of reach.
    pub fn set_partitioned(&self, is_partitioned: bool) {
        self.state().is_partitioned = is_partitioned;
    }

    /// Plans a fault for the next call of that operation that has none yet.
    pub fn plan(&self, operation: Operation, fault: Fault) {
        self.state().faults.push_back((operation, fault));
    }

    /// Whether a planned fault of that operation is still to come.
    pub fn has_plan(&self, operation: Operation) -> bool {
        self.state().faults.iter().any(|(planned, _)| *planned == operation)
    }

    /// Puts messages into the queue without a call.
    pub fn put(&self, bodies: impl IntoIterator<Item = impl Into<ByteString>>) {
        let mut state = self.state();
        for body in bodies {
            state.store(Outgoing::new(body));
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Puts a message into the queue without a call.
    pub fn put_message(&self, message: Outgoing) {
        self.state().store(message);
        self.shared.changed.notify_waiters();
    }

    /// All calls so far, faulty ones included.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.state().calls.clone()
    }

    /// The calls of one operation so far.
    pub fn calls_of(&self, operation: Operation) -> Vec<CallRecord> {
        let mut calls = self.calls();
        calls.retain(|call| call.operation == operation);
        calls
    }

    /// Bodies of the messages not deleted, in the order sent.
    pub fn bodies(&self) -> Vec<ByteString> {
        self.state().messages.iter().map(|stored| stored.message.body.clone()).collect()
    }

    /// The messages not deleted, in the order sent.
    pub fn messages(&self) -> Vec<Outgoing> {
        self.state().messages.iter().map(|stored| stored.message.clone()).collect()
    }

    /// Bodies of the deleted messages, in the order deleted.
    pub fn deleted(&self) -> Vec<ByteString> {
        self.state().deleted.clone()
    }

    /// Messages that were received and are still hidden.
    pub fn in_flight(&self) -> usize {
        let now = Instant::now();
        let state = self.state();
        state.messages.iter().filter(|stored| stored.is_in_flight(now)).count()
    }

    /// Messages that may be received now.
    pub fn available(&self) -> usize {
        let now = Instant::now();
        self.state().messages.iter().filter(|stored| stored.visible_at <= now).count()
    }

    /// A lock so that clones can be used from several tasks; never held across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, carries it out and fails as planned.
    async fn carry_out<T>(
        &self,
        record: CallRecord,
        act: impl Fn(&mut State, usize) -> Result<T, EntryError>,
    ) -> Result<Vec<Result<T, EntryError>>, CallError> {
        let count = record.entries.len();
        let (fault, latency) = self.begin(record)?;
        if let Some(Fault::Refuse(error)) = fault {
            sleep(latency).await;
            return Err(error);
        }

        let outcomes: Vec<_> = {
            let mut state = self.state();
            let entries = 0..count;
            entries
                .map(|index| match &fault {
                    Some(Fault::FailEntries(failing, error)) if failing.contains(&index) => {
                        Err(error.clone())
                    }
                    _ => act(&mut state, index),
                })
                .collect()
        };
        self.shared.changed.notify_waiters();
        self.end(fault, latency).await?;
        Ok(outcomes)
    }

    fn begin(&self, record: CallRecord) -> Result<(Option<Fault>, Duration), CallError> {
        let mut state = self.state();
        let operation = record.operation;
        state.calls.push(record);
        if state.is_partitioned {
            return Err(unreachable());
        }
        let planned = state.faults.iter().position(|(planned, _)| *planned == operation);
        let fault = planned.and_then(|index| state.faults.remove(index)).map(|(_, fault)| fault);
        Ok((fault, state.latency))
    }

    async fn end(&self, fault: Option<Fault>, latency: Duration) -> Result<(), CallError> {
        let more = match &fault {
            Some(Fault::Slow(more)) => *more,
            _ => Duration::ZERO,
        };
        sleep(latency + more).await;
        if self.state().is_partitioned {
            return Err(unreachable().ambiguous());
        }
        match fault {
            Some(Fault::LoseAnswer(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until something changed, a message becomes visible, or `deadline`. `false` at the
    /// deadline.
    async fn wait_for_change(&self, deadline: Instant) -> bool {
        let now = Instant::now();
        let next = {
            let state = self.state();
            state.messages.iter().map(|stored| stored.visible_at).filter(|at| *at > now).min()
        };
        tokio::select! {
            _ = timeout_at(deadline, self.shared.changed.notified()) => {}
            () = sleep_until(next.unwrap_or(deadline).min(deadline)) => {}
        }
        Instant::now() < deadline
    }
}

impl Peer for MemoryPeer {
    async fn send(
        &self,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<Sent, EntryError>>, CallError> {
        let bytes: usize = messages.iter().map(Outgoing::size_bytes).sum();
        let entries = messages.iter().map(|message| message.body.clone()).collect();
        let record = CallRecord::now(Operation::Send, entries);
        if bytes > self.shared.capabilities.max_batch_bytes {
            self.state().calls.push(record);
            let message = format!("{bytes} bytes");
            let kind = CallErrorKind::BatchTooLarge;
            return Err(CallError::new(kind, "BatchRequestTooLong", message));
        }
        self.carry_out(record, |state, index| {
            let id = state.store(messages.get(index).cloned().unwrap_or_default());
            Ok(Sent { message_id: id.to_string().into(), sequence_number: None })
        })
        .await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, CallError> {
        let (fault, latency) = self.begin(CallRecord::now(Operation::Receive, Vec::new()))?;
        if let Some(Fault::Refuse(error)) = fault {
            sleep(latency).await;
            return Err(error);
        }
        let ordered = self.shared.capabilities.ordered_groups;
        let claimed = self.shared.capabilities.long_poll.unwrap_or_default();
        let longest = claimed.min(self.state().longest_wait);
        let deadline = Instant::now() + request.wait.min(longest);
        let deliveries = loop {
            let deliveries = self.state().receive(&request, ordered);
            if !deliveries.is_empty() || !self.wait_for_change(deadline).await {
                break deliveries;
            }
        };
        self.end(fault, latency).await?;
        Ok(deliveries)
    }

    async fn delete(
        &self,
        handles: &[ReceiptHandle],
    ) -> Result<Vec<Result<(), EntryError>>, CallError> {
        let entries = handles.iter().map(|handle| handle.message_id.clone()).collect();
        self.carry_out(CallRecord::now(Operation::Delete, entries), |state, index| {
            let found = handles.get(index).and_then(|handle| state.find(handle));
            let stored = state.messages.remove(found.ok_or_else(stale_handle)?);
            state.deleted.push(stored.message.body);
            Ok(())
        })
        .await
    }

    async fn change_visibility(
        &self,
        changes: &[Visibility],
    ) -> Result<Vec<Result<ReceiptHandle, EntryError>>, CallError> {
        let entries = changes.iter().map(|change| change.handle.message_id.clone()).collect();
        let mut record = CallRecord::now(Operation::ChangeVisibility, entries);
        record.timeouts = changes.iter().map(|change| change.timeout).collect();
        self.carry_out(record, |state, index| {
            let change = changes.get(index).ok_or_else(stale_handle)?;
            let now = Instant::now();
            let found = state.find(&change.handle).ok_or_else(stale_handle)?;
            let stored = state.messages.get_mut(found).ok_or_else(stale_handle)?;
            if !stored.is_in_flight(now) {
                return Err(EntryError::new("MessageNotInflight", "it is not in flight", true));
            }
            stored.visible_at = now + change.timeout;
            Ok(change.handle.clone())
        })
        .await
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }
}

fn unreachable() -> CallError {
    CallError::new(CallErrorKind::Transport, "partitioned", "the server is out of reach")
}

fn stale_handle() -> EntryError {
    EntryError::new("ReceiptHandleIsInvalid", "the handle is not of the last receive", true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(max: u32, wait_s: u64) -> ReceiveRequest {
        ReceiveRequest { max, wait: Duration::from_secs(wait_s), ..ReceiveRequest::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_received_message_is_hidden_until_its_deadline_and_old_handles_stop_working() {
        let peer = MemoryPeer::standard();
        peer.put(["a"]);

        let first = peer.receive(request(10, 0)).await.unwrap().remove(0);
        assert_eq!(peer.receive(request(10, 20)).await.unwrap(), []);
        let started = Instant::now();
        let again = peer.receive(request(10, 20)).await.unwrap().remove(0);

        assert_eq!(started.elapsed(), Duration::from_secs(10));
        assert_eq!(again.receive_count(), Some(2));
        assert!(peer.delete(&[first.handle]).await.unwrap()[0].is_err());
        assert_eq!(peer.delete(&[again.handle]).await.unwrap(), [Ok(())]);
        assert_eq!((peer.bodies().len(), peer.deleted().len()), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_in_flight_is_locked() {
        let peer = MemoryPeer::fifo();
        for (group, body) in [("g", "1"), ("h", "2"), ("g", "3")] {
            let message = Outgoing { group_id: Some(group.into()), ..Outgoing::new(body) };
            peer.send(&[message]).await.unwrap();
        }

        let first = peer.receive(request(1, 0)).await.unwrap().remove(0);
        let second = peer.receive(request(10, 0)).await.unwrap();

        assert_eq!((&*first.body, second.len(), &*second[0].body), ("1", 1, "2"));
    }

    #[tokio::test(start_paused = true)]
    async fn faults_happen_once_and_in_order() {
        let peer = MemoryPeer::standard();
        let lost = CallError::new(CallErrorKind::Transport, "x", "").ambiguous();
        peer.plan(Operation::Send, Fault::LoseAnswer(lost.clone()));
        let error = EntryError::new("InternalError", "", false);
        peer.plan(Operation::Send, Fault::FailEntries(vec![1], error.clone()));
        let batch = [Outgoing::new("a"), Outgoing::new("b")];

        assert_eq!(peer.send(&batch).await, Err(lost));
        let partly = peer.send(&batch).await.unwrap();
        assert_eq!((partly[0].is_ok(), partly[1].clone().unwrap_err()), (true, error));
        assert_eq!(peer.bodies(), ["a", "b", "a"]);
        assert_eq!(peer.calls_of(Operation::Send).len(), 2);
    }
}
