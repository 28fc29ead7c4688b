//! What a request's span says about messages.

use millrace_broker::Incoming;
use millrace_core::limits;
use millrace_otel::{Operation, RequestSpan};
use millrace_wire::sqs::{Action, Answer};

use super::receive::text;

/// OTel's instrumentations of SDKs put the sender's context into this message attribute.
const TRACEPARENT: &[u8] = b"traceparent";

/// Kind and size of what is asked for. The queue is named once it is looked up.
pub(super) fn asked(span: &RequestSpan, action: &Action<'_>) {
    if !span.is_recording() {
        return;
    }
    let count = |entries: Option<usize>| span.message_count(entries.unwrap_or_default());
    match action {
        Action::SendMessage(_) => span.operation(Operation::Send),
        Action::SendMessageBatch(input) => {
            span.operation(Operation::Send);
            count(input.entries.as_ref().map(Vec::len));
        }
        Action::ReceiveMessage(_) => span.operation(Operation::Receive),
        Action::DeleteMessage(_) | Action::ChangeMessageVisibility(_) => {
            span.operation(Operation::Settle);
        }
        Action::DeleteMessageBatch(input) => {
            span.operation(Operation::Settle);
            count(input.entries.as_ref().map(Vec::len));
        }
        Action::ChangeMessageVisibilityBatch(input) => {
            span.operation(Operation::Settle);
            count(input.entries.as_ref().map(Vec::len));
        }
        Action::CreateQueue(input) => {
            input.queue_name.as_ref().into_iter().for_each(|name| destination(span, name.as_str()));
        }
        _ => {}
    }
}

/// Names the queue, which may not be there. Spans are kept until they are exported.
pub(super) fn destination(span: &RequestSpan, name: &str) {
    if is_short(name) {
        span.destination(name);
    }
}

fn is_short(name: &str) -> bool {
    name.len() <= limits::QUEUE_NAME_CHARS
}

/// What is known only afterwards.
pub(super) fn answered(span: &RequestSpan, answer: &Answer) {
    if let Answer::SendMessage(sent) = answer
        && span.is_recording()
    {
        span.message_id(str::from_utf8(&sent.message_id).unwrap_or_default());
    }
}

/// Links the receive to the spans that sent its messages.
pub(super) fn received(span: &RequestSpan, messages: &[Incoming]) {
    if !span.is_recording() {
        return;
    }
    span.message_count(messages.len());
    for Incoming { content, .. } in messages {
        let traceparent = content.attributes().find(|[name, ..]| *name == TRACEPARENT);
        let traceparent = traceparent.map(|[_, _, value]| text(value));
        span.link(text(content.trace_header()), traceparent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_queue_can_have_are_not_kept() {
        assert!(is_short(&"x".repeat(80)));
        assert!(!is_short(&"x".repeat(81)));
    }
}
