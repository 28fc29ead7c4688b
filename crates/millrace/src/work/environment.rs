//! What a command is told about its message, as environment variables.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::{Engine, prelude::BASE64_STANDARD};
use millrace_client::{AttributeValue, MessageAttribute, attribute};
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

/// What producers can cause on every message is logged now and then.
static COLLISIONS: Seldom = Seldom { last: Mutex::new(None) };

/// Something that is logged once a minute at most.
struct Seldom {
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= Duration::from_secs(60));
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

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
    for (name, attributes) in by_variable(&delivery.attributes) {
        if let [.., left_out, _] = attributes.as_slice()
            && COLLISIONS.is_due()
        {
            let (message_id, attribute) = (message.id(), &*left_out.name);
            tracing::warn!(
                %message_id,
                attribute,
                variable = name,
                "attribute left out: another one has the same variable"
            );
        }
        variables.extend(attributes.last().map(|last| (name, attribute_text(&last.value))));
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

/// The attributes of each variable, by name. There may be several, for shells know fewer characters:
/// the last is the one that is spelt like the variable, if any is.
fn by_variable(attributes: &[MessageAttribute]) -> BTreeMap<String, Vec<&MessageAttribute>> {
    let mut variables: BTreeMap<String, Vec<&MessageAttribute>> = BTreeMap::new();
    for attribute in attributes {
        let name = format!("MILLRACE_ATTRIBUTE_{}", variable_name(&attribute.name));
        variables.entry(name).or_default().push(attribute);
    }
    // The underscore comes behind the hyphen and the period, the others that names may hold.
    variables.values_mut().for_each(|all| all.sort_by(|a, b| a.name.cmp(&b.name)));
    variables
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

    #[test]
    fn attribute_that_is_spelt_like_the_variable_wins_over_others_with_the_same() {
        let text = |name: &str| MessageAttribute {
            name: name.into(),
            data_type: "String".into(),
            value: AttributeValue::Text(name.into()),
        };
        let all = ["trace_id", "other", "trace.id", "trace-id"].map(text);

        let variables = by_variable(&all);

        let names = |variable: &str| {
            let attributes = variables[variable].iter();
            attributes.map(|attribute| attribute.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("MILLRACE_ATTRIBUTE_trace_id"), ["trace-id", "trace.id", "trace_id"]);
        assert_eq!(names("MILLRACE_ATTRIBUTE_other"), ["other"]);
    }

    #[test]
    fn collisions_are_logged_now_and_then() {
        let seldom = Seldom { last: Mutex::new(None) };

        assert!(seldom.is_due() && !seldom.is_due());
    }
}
