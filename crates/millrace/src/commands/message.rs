//! How messages are printed: the body, or a JSON line in the form of ReceiveMessage.

use serde_json::Value;

use super::connection::text;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Body,
    Json,
}

impl Form {
    pub(super) fn new(json: bool) -> Form {
        if json { Form::Json } else { Form::Body }
    }

    pub(super) fn of(self, message: &Value) -> String {
        match self {
            Form::Body => text(message, "Body").to_owned(),
            Form::Json => message.to_string(),
        }
    }
}

/// A system attribute, empty if the message has none of that name.
pub(super) fn attribute<'a>(message: &'a Value, name: &str) -> &'a str {
    message.get("Attributes").map_or("", |attributes| text(attributes, name))
}
