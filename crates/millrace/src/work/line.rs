//! A message as the line that a command which stays reads, and the line that answers it.

use std::time::Duration;

use millrace_worker::{HandlerError, Message, Outcome};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{environment::attribute_text, trace};

/// What a command reads of a message, in the order of the documents: a shell may cut the number off
/// its front.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    number: u64,
    message_id: &'a str,
    receive_count: u32,
    sent_at_ms: Option<u64>,
    group_id: Option<String>,
    attributes: Map<String, Value>,
    trace: Map<String, Value>,
    body: &'a str,
}

pub(super) fn line_of(message: &Message, number: u64) -> Line<'_> {
    let delivery = message.delivery();
    let attributes = delivery.attributes.iter();
    let attributes: Map<String, Value> = attributes
        .map(|given| (given.name.to_string(), attribute_text(&given.value).into()))
        .collect();
    let trace = message.trace();
    let trace: Map<String, Value> =
        trace::headers(&trace).map(|(name, value)| (name.to_owned(), value.into())).collect();
    Line {
        number,
        message_id: message.id(),
        receive_count: message.receive_count(),
        sent_at_ms: delivery.sent_at().map(|at| at.0),
        group_id: delivery.group_id().map(|group| group.to_string()),
        attributes,
        trace,
        body: message.body(),
    }
}

/// What the answer to the message of that number says.
pub(super) fn parse(answer: &str, number: u64) -> Result<Outcome, HandlerError> {
    let wrong = || format!("{answer:?} is no answer to message {number}").into();
    let (first, rest) = answer.trim().split_once(' ').ok_or_else(wrong)?;
    if first.parse() != Ok(number) {
        return Err(wrong());
    }
    let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    match (word, rest) {
        ("ack", "") => Ok(Outcome::Ack),
        ("release", "") => Ok(Outcome::Release),
        ("retry", "") => Ok(Outcome::RETRY),
        ("retry", seconds) => {
            let seconds = seconds.parse().map_err(|_| wrong())?;
            Ok(Outcome::Retry { after: Some(Duration::from_secs(seconds)) })
        }
        ("reject", "") => Ok(Outcome::reject("the command rejected it")),
        ("reject", reason) => Ok(Outcome::reject(reason)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_a_number_and_a_word() {
        let after = |seconds| Outcome::Retry { after: Some(Duration::from_secs(seconds)) };

        assert_eq!(parse("7 ack\n", 7).ok(), Some(Outcome::Ack));
        assert_eq!(parse("7 retry 90\r\n", 7).ok(), Some(after(90)));
        assert_eq!(parse("7 retry\n", 7).ok(), Some(Outcome::RETRY));
        assert_eq!(parse("7 release\n", 7).ok(), Some(Outcome::Release));
        assert_eq!(parse("7 reject no such user\n", 7).ok(), Some(Outcome::reject("no such user")));
    }

    #[test]
    fn other_lines_are_no_answers() {
        for line in
            ["", "\n", "ack\n", "6 ack\n", "7\n", "7 ok\n", "7 ack 1\n", "7 retry x\n", "-7 ack\n"]
        {
            assert!(parse(line, 7).is_err(), "{line:?}");
        }
    }
}
