//! Messages without receiving them, as JSON. Bodies go as text; only previews of long ones.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_broker::{
    BrokerError, Browse, BrowseCursor, BrowseFilter, MessageState, Peeked, SharedQueue, SlotSeq,
};
use millrace_wire::query::Parameters;
use serde_json::{Value, json};

/// Messages of a page.
const PAGE_MESSAGES: usize = 50;
/// Turns of one request; a search goes on with the next.
const MAX_TURNS: usize = 40;
/// Stored bytes that one request reads.
const MAX_BYTES: usize = 16 << 20;
/// Entries visited and messages read before other tasks get their turn.
const VISITS_PER_TURN: usize = 2_000;
const MESSAGES_PER_TURN: usize = 50;
/// Bytes of a body or an attribute that a list shows.
const PREVIEW_BYTES: usize = 4 << 10;

/// How much of each message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    Preview,
    Whole,
}

/// A page of messages: `{"messages": […], "next": cursor or null, "searched": n}`. With `search`
/// only messages that contain it, in any case, in body, attributes, id or group.
pub(crate) async fn page(
    queue: &SharedQueue,
    parameters: &Parameters<'_>,
) -> Result<Value, BrokerError> {
    let get = |name: &str| parameters.get(name).unwrap_or_default();
    let filter = match get("state") {
        "available" => BrowseFilter::Ready,
        "in_flight" => BrowseFilter::InFlight,
        "delayed" => BrowseFilter::Delayed,
        _ => BrowseFilter::All,
    };
    let search = get("search").to_lowercase();
    let mut next = Some(BrowseCursor::decode(get("cursor")).unwrap_or_default());
    let (mut messages, mut searched, mut bytes) = (Vec::new(), 0_usize, 0);
    for _ in 0..MAX_TURNS {
        let Some(from) = next else { break };
        if messages.len() >= PAGE_MESSAGES || bytes >= MAX_BYTES {
            break;
        }
        let browse = Browse {
            filter,
            from,
            limit: MESSAGES_PER_TURN.min(PAGE_MESSAGES - messages.len()),
            max_visits: VISITS_PER_TURN,
            max_bytes: MAX_BYTES - bytes,
        };
        let browsed = queue.browser().page(&browse)?;
        bytes += browsed.messages.iter().map(|m| m.delivery.record_len as usize).sum::<usize>();
        searched += browsed.messages.len();
        let found = browsed.messages.iter().filter(|message| contains(message, &search));
        messages.extend(found.map(|message| shown(message, Detail::Preview)));
        next = browsed.next;
        tokio::task::yield_now().await;
    }
    let next = next.map(|cursor| cursor.encode());
    Ok(json!({ "messages": messages, "next": next, "searched": searched }))
}

/// One message that a page showed, whole: null if it has left since.
pub(crate) fn message(
    queue: &SharedQueue,
    parameters: &Parameters<'_>,
) -> Result<Value, BrokerError> {
    let get = |name: &str| parameters.get(name).unwrap_or_default();
    let (Ok(slot), Ok(seq)) = (get("slot").parse(), get("seq").parse()) else {
        return Ok(Value::Null);
    };
    let found = queue.browser().one(SlotSeq { slot, seq })?;
    let found = found.filter(|message| message.id.to_string() == get("id"));
    Ok(found.map_or(Value::Null, |message| shown(&message, Detail::Whole)))
}

/// As pages call it.
pub(crate) fn state_name(state: MessageState) -> &'static str {
    match state {
        MessageState::Delayed => "delayed",
        MessageState::InFlight => "in_flight",
        MessageState::Ready | MessageState::Free => "available",
    }
}

fn contains(message: &Peeked, search: &str) -> bool {
    let is_in =
        |bytes: &[u8]| str::from_utf8(bytes).is_ok_and(|text| text.to_lowercase().contains(search));
    search.is_empty()
        || is_in(message.content.body())
        || message.id.to_string().contains(search)
        || message.delivery.group.as_ref().is_some_and(|group| is_in(group.as_bytes()))
        || message.content.attributes().any(|[name, _, value]| is_in(name) || is_in(value))
}

fn shown(message: &Peeked, detail: Detail) -> Value {
    let Peeked { id, content, delivery, state, deadline } = message;
    let limit = if detail == Detail::Whole { usize::MAX } else { PREVIEW_BYTES };
    let (body, is_cut) = start_of(content.body(), limit);
    let attributes: Vec<Value> =
        content.attributes().map(|attribute| shown_attribute(attribute, limit)).collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "id": id.to_string(),
        "slot": delivery.at.slot,
        // As text: JavaScript's numbers end at 2^53.
        "seq": delivery.at.seq.to_string(),
        "state": state_name(*state),
        "deadline": (*state != MessageState::Ready).then_some(deadline.0),
        "sent": delivery.sent.0,
        "receive_count": delivery.receive_count,
        "first_received": (delivery.receive_count > 0).then_some(delivery.first_received.0),
        "group": delivery.group.as_deref(),
        "deduplication_id": text(content.deduplication_id()),
        "source": delivery.source.as_deref(),
        "sender": text(content.sender()),
        "trace_header": text(content.trace_header()),
        "size": content.body().len(),
        "body": body,
        "is_cut": is_cut,
        "attributes": attributes,
    })
}

fn shown_attribute([name, data_type, value]: [&[u8]; 3], limit: usize) -> Value {
    let (text, is_cut) = match data_type.starts_with(b"Binary") {
        true => (STANDARD.encode(&value[..value.len().min(limit)]), value.len() > limit),
        false => start_of(value, limit),
    };
    json!({
        "name": String::from_utf8_lossy(name),
        "type": String::from_utf8_lossy(data_type),
        "value": text,
        "is_cut": is_cut,
    })
}

/// At most so many bytes of a text, in whole characters, and whether that is not all.
fn start_of(bytes: &[u8], limit: usize) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= limit {
        return (text.into_owned(), false);
    }
    let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (text.get(..end).unwrap_or_default().to_owned(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_ends_with_a_whole_character() {
        assert_eq!(start_of("héé".as_bytes(), 4), ("hé".to_owned(), true));
        assert_eq!(start_of("hé".as_bytes(), 4), ("hé".to_owned(), false));
    }
}
