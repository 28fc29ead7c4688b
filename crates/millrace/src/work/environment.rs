//! What a command is told about its message, as environment variables.

use base64::{Engine, prelude::BASE64_STANDARD};
use millrace_client::{AttributeValue, attribute};
use millrace_wire::date;
use millrace_worker::Message;

use super::trace;

/// Linux: 128 KiB for one `NAME=value` with its final zero. Longer values are left out.
const MAX_VALUE_BYTES: usize = 120 * 1024;

/// Which names are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// `MILLRACE_*`.
    Millrace,
    /// Those as well as the names that commands written for watchbot know.
    Watchbot,
}

/// System attributes, by the part of the name behind `MILLRACE_`.
const SYSTEM: [(&str, &str); 7] = [
    ("SENT_AT_MS", attribute::SENT),
    ("FIRST_RECEIVED_AT_MS", attribute::FIRST_RECEIVED),
    ("SENDER_ID", attribute::SENDER_ID),
    ("GROUP_ID", attribute::GROUP_ID),
    ("DEDUPLICATION_ID", attribute::DEDUPLICATION_ID),
    ("SEQUENCE_NUMBER", attribute::SEQUENCE_NUMBER),
    ("TRACE_HEADER", attribute::TRACE_HEADER),
];

/// Names and values.
pub(super) fn of(message: &Message, queue_url: &str, names: Names) -> Vec<(String, String)> {
    let delivery = message.delivery();
    let count = message.receive_count().to_string();
    let mut variables = vec![
        ("MILLRACE_QUEUE_URL".to_owned(), queue_url.to_owned()),
        ("MILLRACE_MESSAGE_ID".to_owned(), message.id().to_string()),
        ("MILLRACE_RECEIPT_HANDLE".to_owned(), delivery.handle.token.to_string()),
        ("MILLRACE_RECEIVE_COUNT".to_owned(), count.clone()),
    ];
    for (name, attribute) in SYSTEM {
        if let Some(value) = delivery.system_attribute(attribute) {
            variables.push((format!("MILLRACE_{name}"), value.to_string()));
        }
    }
    for attribute in &delivery.attributes {
        let name = format!("MILLRACE_ATTRIBUTE_{}", variable_name(&attribute.name));
        variables.push((name, attribute_text(&attribute.value)));
    }
    for (name, value) in trace::variables(&message.trace()) {
        variables.push((name.to_owned(), value.to_owned()));
    }
    if names == Names::Watchbot {
        variables.push(("Message".to_owned(), message.body().to_string()));
        variables.push(("MessageId".to_owned(), message.id().to_string()));
        variables.push((attribute::RECEIVE_COUNT.to_owned(), count));
        let times = [
            (attribute::SENT, delivery.sent_at()),
            (attribute::FIRST_RECEIVED, delivery.first_received_at()),
        ];
        for (name, at) in times {
            // As JavaScript writes dates.
            variables.extend(at.map(|at| (name.to_owned(), date::format_iso8601_ms(at.0))));
        }
    }
    variables.retain(|(_, value)| value.len() <= MAX_VALUE_BYTES && !value.contains('\0'));
    variables
}

/// The value of a message attribute as commands are told it.
pub(super) fn attribute_text(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Text(text) => text.to_string(),
        AttributeValue::Binary(bytes) => BASE64_STANDARD.encode(bytes),
    }
}

/// Shells know letters, digits and underscores only.
fn variable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_shells_know() {
        assert_eq!(variable_name("trace.id-2"), "trace_id_2");
        assert_eq!(variable_name("größe"), "gr__e");
    }
}
