//! How messages are printed: parts such as the body, or a JSON line in the form of ReceiveMessage.

use clap::ValueEnum;
use serde_json::Value;

use super::connection::text;

/// How a message is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// These parts, separated by tabs.
    Parts(Vec<Part>),
    Json,
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Message id
    Id,
    /// Receipt handle
    Handle,
    /// Body
    Body,
    /// Message group
    Group,
    /// How often the message was received
    Receives,
}

impl Form {
    pub(super) fn new(json: bool) -> Form {
        if json { Form::Json } else { Form::Parts(vec![Part::Body]) }
    }

    pub(super) fn of(&self, message: &Value) -> String {
        match self {
            Form::Parts(parts) => {
                let of = |part: &Part| part.of(message);
                match parts.as_slice() {
                    [part] => of(part).to_owned(),
                    parts => {
                        parts.iter().map(|part| escaped(of(part))).collect::<Vec<_>>().join("\t")
                    }
                }
            }
            Form::Json => message.to_string(),
        }
    }
}

/// A part beside others: what separates parts and rows is escaped, so that a body forges none.
fn escaped(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for character in part.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            character => escaped.push(character),
        }
    }
    escaped
}

impl Part {
    fn of(self, message: &Value) -> &str {
        match self {
            Part::Id => text(message, "MessageId"),
            Part::Handle => text(message, "ReceiptHandle"),
            Part::Body => text(message, "Body"),
            Part::Group => attribute(message, "MessageGroupId"),
            Part::Receives => attribute(message, "ApproximateReceiveCount"),
        }
    }
}

/// A system attribute, empty if the message has none of that name.
pub(super) fn attribute<'a>(message: &'a Value, name: &str) -> &'a str {
    message.get("Attributes").map_or("", |attributes| text(attributes, name))
}
