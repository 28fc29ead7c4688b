//! Messages that a page shows, by their places or receipt handles: what has become of them, and
//! handles by which they can be deleted.
//!
//! Nothing is received: a handle is that of the message's latest receive. A standard queue deletes
//! by any handle of a message. A FIFO queue wants that of the receive that hides it, so a message
//! that is not in flight has none.

use millrace_broker::{BrokerError, Kind, MessageState, MessageView, Shards, SharedQueue, SlotSeq};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::browse::state_name;

/// Messages of one request: more than a page shows.
pub(crate) const MAX_CHOSEN: usize = 1_000;

/// Messages, as a page names them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    pub messages: Vec<Name>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Name {
    /// As `/api/browse` has it.
    Place { slot: u32, seq: String },
    /// As a receive has it.
    Handle { handle: String },
}

/// For each message what has become of it: `{"state", "deadline", "receive_count"}`, or null if it
/// has left.
pub(crate) fn states(
    shards: &Shards,
    queue: &SharedQueue,
    chosen: &Chosen,
) -> Result<Value, BrokerError> {
    let found = find(shards, queue, chosen)?;
    let shown = found.iter().map(|view| match view {
        None => Value::Null,
        Some(MessageView { delivery, state, deadline }) => json!({
            "state": state_name(*state),
            "deadline": is_timed(*state).then_some(deadline.0),
            "receive_count": delivery.receive_count,
        }),
    });
    Ok(json!({ "messages": shown.collect::<Vec<_>>() }))
}

/// For each message a receipt handle that deletes it, or null.
pub(crate) fn handles(
    shards: &Shards,
    queue: &SharedQueue,
    chosen: &Chosen,
) -> Result<Value, BrokerError> {
    let found = find(shards, queue, chosen)?;
    let is_deletable = |view: &&MessageView| {
        queue.kind() == Kind::Standard || view.state == MessageState::InFlight
    };
    let handles = found.iter().map(|view| {
        let view = view.as_ref().filter(is_deletable)?;
        Some(queue.receipt_handle(&view.delivery))
    });
    Ok(json!({ "handles": handles.collect::<Vec<_>>() }))
}

/// The messages that are still there, each in its place.
fn find(
    shards: &Shards,
    queue: &SharedQueue,
    chosen: &Chosen,
) -> Result<Vec<Option<MessageView>>, BrokerError> {
    // No message has that place.
    let nowhere = SlotSeq { slot: u32::MAX, seq: u64::MAX };
    let place = |name: &Name| match name {
        Name::Place { slot, seq } => Some(SlotSeq { slot: *slot, seq: seq.parse().ok()? }),
        Name::Handle { handle } => {
            let opened = shards.open_receipt_handle(handle);
            let handle = opened.filter(|handle| handle.queue == queue.id())?;
            Some(SlotSeq { slot: handle.slot, seq: handle.seq })
        }
    };
    let places: Vec<SlotSeq> =
        chosen.messages.iter().map(|name| place(name).unwrap_or(nowhere)).collect();
    queue.browser().states(&places)
}

/// Returns true if a message in this state comes back by itself.
fn is_timed(state: MessageState) -> bool {
    matches!(state, MessageState::InFlight | MessageState::Delayed)
}
