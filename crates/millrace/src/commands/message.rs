//! How messages are printed: the body, or a JSON line in the form of ReceiveMessage.

use std::io::{self, IsTerminal};

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
            Form::Body if io::stdout().is_terminal() => visible(text(message, "Body")),
            Form::Body => text(message, "Body").to_owned(),
            Form::Json => message.to_string(),
        }
    }
}

/// A system attribute, empty if the message has none of that name.
pub(super) fn attribute<'a>(message: &'a Value, name: &str) -> &'a str {
    message.get("Attributes").map_or("", |attributes| text(attributes, name))
}

/// A body for a terminal: whoever sent it must not be able to steer the terminal.
fn visible(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    for character in body.chars() {
        match character {
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => out.extend(character.escape_default()),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(visible("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(visible("\x1b[2J\r\u{9b}"), "\\u{1b}[2J\\r\\u{9b}");
    }
}
