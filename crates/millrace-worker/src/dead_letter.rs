//! The copy of a message that goes to the dead-letter queue.

use bytestring::ByteString;
use millrace_client::{Capabilities, Delivery, MessageAttribute, Outgoing, attribute};
use millrace_core::limits::MESSAGE_ATTRIBUTES;

/// Longest text of a reason, bytes.
const REASON_BYTES: usize = 1_024;

/// The dead letter of `delivery`: same body, group and attributes.
pub(crate) fn bare(delivery: &Delivery, capabilities: &Capabilities) -> Outgoing {
    let group_id = delivery.group_id().cloned();
    let is_ordered = capabilities.ordered_groups;
    Outgoing {
        body: delivery.body.clone(),
        delay: None,
        // A FIFO queue wants a group; its own id keeps the message apart from all others.
        group_id: group_id.or_else(|| is_ordered.then(|| delivery.message_id().clone())),
        // A copy that is sent again after a lost answer is the same copy.
        deduplication_id: is_ordered.then(|| delivery.message_id().clone()),
        attributes: delivery.attributes.clone(),
        // Whoever handles the copy belongs to the same trace.
        trace_header: delivery.system_attribute(attribute::TRACE_HEADER).cloned(),
    }
}

/// The same with as many of the attributes that tell its story as SQS has room for.
pub(crate) fn of(
    delivery: &Delivery,
    reason: &str,
    queue: &str,
    capabilities: &Capabilities,
) -> Outgoing {
    let mut letter = bare(delivery, capabilities);
    let count = delivery.receive_count().unwrap_or(1);
    let story = [
        ("MillraceReason", sendable(reason)),
        ("MillraceSourceQueue", sendable(queue)),
        ("MillraceSourceMessageId", delivery.message_id().clone()),
        ("MillraceReceiveCount", count.to_string().into()),
    ];
    for (name, value) in story {
        let is_known = letter.attributes.iter().any(|known| known.name == name);
        // SQS takes no empty values.
        if is_known || value.is_empty() || letter.attributes.len() >= MESSAGE_ATTRIBUTES {
            continue;
        }
        letter.attributes.push(MessageAttribute::string(name, value));
        // A body of the greatest size has no room for any.
        if letter.size_bytes() > capabilities.max_batch_bytes {
            letter.attributes.pop();
        }
    }
    letter
}

/// `text` as SQS takes it: no control characters, and not too long.
fn sendable(text: &str) -> ByteString {
    let mut sendable = String::with_capacity(text.len().min(REASON_BYTES));
    for character in text.chars() {
        let is_control = character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}');
        let character = if is_control { ' ' } else { character };
        if sendable.len() + character.len_utf8() > REASON_BYTES {
            break;
        }
        sendable.push(character);
    }
    sendable.into()
}

#[cfg(test)]
mod tests {
    use millrace_client::{Peer, ReceiptHandle, testing::MemoryPeer};

    use super::*;

    fn delivery(body: &str, attributes: usize) -> Delivery {
        let token = ByteString::from_static("t");
        let string = |n: usize| MessageAttribute::string(format!("a{n}"), "value");
        Delivery {
            handle: ReceiptHandle { message_id: "m1".into(), token },
            body: body.into(),
            system_attributes: vec![
                (attribute::RECEIVE_COUNT.into(), "3".into()),
                (attribute::TRACE_HEADER.into(), "Root=1".into()),
            ],
            attributes: (0..attributes).map(string).collect(),
        }
    }

    fn values(letter: &Outgoing) -> Vec<(String, String)> {
        let text = |attribute: &MessageAttribute| match &attribute.value {
            millrace_client::AttributeValue::Text(text) => text.to_string(),
            millrace_client::AttributeValue::Binary(_) => String::new(),
        };
        letter.attributes.iter().map(|known| (known.name.to_string(), text(known))).collect()
    }

    #[test]
    fn dead_letter_tells_its_story() {
        let capabilities = MemoryPeer::standard().capabilities();

        let letter = of(&delivery("b", 1), "exit\n65", "orders", &capabilities);

        assert_eq!(letter.body, "b");
        assert_eq!((&letter.group_id, &letter.deduplication_id), (&None, &None));
        assert_eq!(letter.trace_header.as_deref(), Some("Root=1"));
        let expected = [
            ("a0", "value"),
            ("MillraceReason", "exit 65"),
            ("MillraceSourceQueue", "orders"),
            ("MillraceSourceMessageId", "m1"),
            ("MillraceReceiveCount", "3"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(values(&letter), expected);
    }

    #[test]
    fn story_is_cut_where_there_is_no_room() {
        let capabilities = MemoryPeer::standard().capabilities();

        let full = of(&delivery("b", 9), "r", "q", &capabilities);
        let large = of(&delivery(&"x".repeat(1 << 20), 0), "r", "q", &capabilities);

        assert_eq!(full.attributes.len(), 10);
        assert_eq!(large.attributes, []);
        assert_eq!(sendable(&"é".repeat(600)).len(), 1024);
    }

    #[test]
    fn fifo_dead_letter_is_the_same_however_often_it_is_sent() {
        let capabilities = MemoryPeer::fifo().capabilities();

        let letter = of(&delivery("b", 0), "r", "q", &capabilities);

        assert_eq!(letter.deduplication_id.as_deref(), Some("m1"));
        assert_eq!(letter.group_id.as_deref(), Some("m1"));
    }
}
