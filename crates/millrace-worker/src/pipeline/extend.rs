//! Extending leases, and what happens when one is lost.

use std::sync::Arc;

use millrace_client::{Delivery, EntryError, Peer, ReceiptHandle, Visibility};
use tokio::time::Instant;

use super::{Event, Pipeline, VisibilityResult, within};
use crate::{
    handler::Handler,
    held::{Key, State},
    lease::Extension,
    metrics::Ended,
    settlement::Settlement,
};

impl<P: Peer, H: Handler> Pipeline<P, H> {
    pub(super) fn start_extensions(&mut self, now: Instant) {
        loop {
            let most = self.capabilities.max_visibility_batch.max(1);
            let extensions = self.leases.take_due(now, most);
            if extensions.is_empty() {
                break;
            }
            self.start_extension(extensions, now);
        }
    }

    fn start_extension(&mut self, extensions: Vec<Extension>, now: Instant) {
        let mut changes = Vec::with_capacity(extensions.len());
        let mut asked = Vec::with_capacity(extensions.len());
        let longest = extensions.iter().map(|extension| extension.answer).max().unwrap_or_default();
        for extension in extensions {
            if let Some(held) = self.held.get_mut(extension.key) {
                held.is_in_request = true;
                let handle = held.delivery.handle.clone();
                asked.push((extension, handle.clone()));
                changes.push(Visibility { handle, timeout: extension.timeout });
            }
        }
        let peer = Arc::clone(&self.peer);
        self.tasks.spawn(async move {
            let result = within(longest, peer.change_visibility(&changes)).await;
            Event::Extended { extensions: asked, sent: now, result }
        });
    }

    pub(super) fn on_extended(
        &mut self,
        extensions: Vec<(Extension, ReceiptHandle)>,
        sent: Instant,
        result: VisibilityResult,
        now: Instant,
    ) {
        let is_late = now.saturating_duration_since(sent) >= self.leases.answer();
        let mut results = match result {
            Ok(results) => results.into_iter(),
            Err(error) => {
                tracing::debug!(%error, messages = extensions.len(), "extension failed");
                Vec::new().into_iter()
            }
        };
        for (extension, used) in extensions {
            let result = results.next();
            let Some(held) = self.held.get_mut(extension.key) else { continue };
            held.is_in_request = false;
            if held.delivery.handle != used {
                // Received again meanwhile: the answer is about a lease that is over.
                self.leases.end_request(extension.key);
                continue;
            }
            match result {
                Some(Ok(handle)) => {
                    held.delivery.handle = handle;
                    self.leases.extended(extension, sent);
                    self.metrics.leases_extended.inc();
                }
                Some(Err(error)) if ends_lease(&error) => {
                    let message_id = held.delivery.message_id();
                    tracing::warn!(%message_id, %error, "extension refused");
                    self.leases.refused(extension.key, now);
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "extension failed");
                    self.leases.extension_failed(extension.key, now);
                }
                None if is_late => self.leases.extension_timed_out(extension.key, now),
                None => self.leases.extension_failed(extension.key, now),
            }
        }
    }

    /// Draws the consequences of leases that have ended.
    pub(super) fn end_leases(&mut self, now: Instant) {
        for key in self.leases.take_ended(now) {
            self.on_lease_lost(key, now);
        }
    }

    fn on_lease_lost(&mut self, key: Key, now: Instant) {
        let Some(held) = self.held.get_mut(key) else { return };
        held.is_lost = true;
        held.cancel.cancel();
        self.metrics.leases_lost.inc();
        let message_id = held.delivery.message_id();
        tracing::warn!(%message_id, state = ?held.state, "lease lost");
        let group = held.group.clone();
        match &held.state {
            State::Waiting => {
                self.lanes.remove(key);
                self.stop_lane_of_lost(key, group.as_ref(), now);
                self.finish(key, Ended::Abandoned, now);
            }
            State::Running => self.stop_lane_of_lost(key, group.as_ref(), now),
            // The work is done: only the delete can still prevent that it is done again.
            State::Settling { settlement: Settlement::Delete, .. } => {}
            // Decided when the answer comes.
            State::Settling { .. } if held.is_in_request => {}
            State::Settling { .. } => self.finish_untold(key, now),
        }
    }

    /// What waits behind a lost message must not overtake it.
    fn stop_lane_of_lost(
        &mut self,
        key: Key,
        group: Option<&bytestring::ByteString>,
        now: Instant,
    ) {
        let Some(group) = group else { return };
        self.receiver.on_lane_stopped(now);
        let mut stopped = self.lanes.stop(group);
        stopped.retain(|waiting| *waiting != key);
        self.release(stopped, now);
    }

    /// If a message that was received again was being given back, then that has happened, though
    /// its answer was lost, and it is a new message now.
    pub(super) fn end_if_given_back(&mut self, key: Key, now: Instant) {
        let Some(held) = self.held.get(key) else { return };
        if let State::Settling { settlement: Settlement::Hide(_), ended } = held.state {
            self.finish(key, ended, now);
        }
    }

    /// A message was received again while it is held: the newest receipt handle counts, and there
    /// is no second handler. The lease begins anew.
    pub(super) fn adopt(&mut self, key: Key, delivery: Delivery, sent: Instant) {
        let Some(held) = self.held.get_mut(key) else { return };
        tracing::warn!(message_id = %delivery.message_id(), "received again while in hand");
        held.receive_count = delivery.receive_count().unwrap_or(held.receive_count);
        held.delivery.handle = delivery.handle;
        held.received = sent;
        held.is_lost = false;
        self.leases.hold(key, sent);
        if held.is_in_request {
            self.leases.begin_request(key);
        }
        self.metrics.ended(Ended::Abandoned);
    }
}

/// Whether the server says that there is nothing left to extend. Any other refusal may be about
/// something that passes, and the lease may still be kept.
fn ends_lease(error: &EntryError) -> bool {
    let is_about_message = match error.code.as_str() {
        "ReceiptHandleIsInvalid" | "MessageNotInflight" => true,
        // SQS: also for a handle of an earlier receive, and for more than 12 hours in all.
        "InvalidParameterValue" => true,
        // IronMQ has no codes but these, with a reason that a proxy's page does not have.
        code => code.starts_with("HTTP 4"),
    };
    is_about_message && !error.is_retryable()
}
