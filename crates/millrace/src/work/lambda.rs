//! Batches of messages as events of a Lambda function that is served over HTTP, as the runtime
//! interface emulator does.
//!
//! The function's answer says which messages failed (`batchItemFailures`); what it does not name
//! has succeeded. An answer that cannot be understood is a failure of all: nothing is deleted on a
//! guess.

use std::collections::HashSet;
use std::time::Duration;

use millrace_client::transport::{Answer, Call, Lane, Repeat};
use millrace_worker::{Handler, HandlerError, Message, Outcome, Trace};
use serde::Deserialize;

use super::{
    WorkFlags,
    queues::Found,
    sqs_event::EventSource,
    target::{Target, optional},
    trace,
};

/// The one function of the emulator.
const INVOCATIONS: &str = "/2015-03-31/functions/function/invocations";
/// Lambda: 6 MB for the payload of a synchronous invocation.
const PAYLOAD_BYTES: usize = 6 << 20;

/// Invokes a function.
#[derive(Debug)]
pub(super) struct Lambda {
    target: Target,
    source: EventSource,
}

impl Lambda {
    pub(super) fn new(url: &str, queue: &Found, flags: &WorkFlags) -> anyhow::Result<Lambda> {
        let target = Target::parse("--lambda", url, INVOCATIONS, flags)?;
        Ok(Lambda { target, source: EventSource::of_arn(&queue.arn) })
    }

    /// Outcomes of messages that fit into one invocation.
    async fn invoke(
        &self,
        messages: &[Message],
        event: String,
    ) -> Result<Vec<Outcome>, HandlerError> {
        let mut head = self.target.head("POST")?;
        head.header("Content-Type", "application/json")?;
        for (name, value) in trace::headers(&common_trace(messages)) {
            optional(&mut head, name, value);
        }
        let call = Call {
            lane: Lane::Quick,
            head,
            body: event.into(),
            wait: Duration::ZERO,
            // Whoever takes messages from a queue must bear to see one twice.
            repeat: Repeat::IfStale,
        };
        tokio::select! {
            answer = self.target.transport.call(call) => outcomes(&answer?, messages),
            // A lease that one message has lost does not stop the work on the others.
            () = all_cancelled(messages) => Ok(vec![Outcome::Release; messages.len()]),
        }
    }
}

impl Handler for Lambda {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut stopped = HashSet::new();
        let mut rest = messages.as_slice();
        while !rest.is_empty() {
            let (event, count) = self.source.event(rest, PAYLOAD_BYTES);
            let (part, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            // What is behind a failed message is not tried before it, and at the end nothing is
            // begun.
            let is_behind =
                |message: &Message| message.lane().is_some_and(|lane| stopped.contains(lane));
            if part.iter().any(is_behind) || part.iter().all(Message::is_cancelled) {
                outcomes.extend(part.iter().map(|_| Outcome::Release));
                continue;
            }
            let of_part = match self.invoke(part, event).await {
                Ok(of_part) => of_part,
                Err(error) => {
                    tracing::warn!(%error, message_ids = ids(part), "the invocation failed");
                    vec![Outcome::RETRY; part.len()]
                }
            };
            let failed = part.iter().zip(&of_part).filter(|(_, outcome)| **outcome != Outcome::Ack);
            stopped.extend(failed.filter_map(|(message, _)| message.lane().cloned()));
            outcomes.extend(of_part);
        }
        Ok(outcomes)
    }
}

/// The trace that all of them belong to; none if they differ.
fn common_trace(messages: &[Message]) -> Trace {
    let mut traces = messages.iter().map(Message::trace);
    let first = traces.next().unwrap_or_default();
    if traces.all(|trace| trace == first) { first } else { Trace::default() }
}

/// For the log.
fn ids(messages: &[Message]) -> String {
    messages.iter().map(|message| &**message.id()).collect::<Vec<_>>().join(" ")
}

async fn all_cancelled(messages: &[Message]) {
    for message in messages {
        message.cancelled().await;
    }
}

/// What a function may answer: its own value, its failures, or its error.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    #[serde(default)]
    batch_item_failures: Option<Vec<ItemFailure>>,
    #[serde(default)]
    error_type: Option<serde_json::Value>,
    #[serde(default)]
    error_message: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemFailure {
    item_identifier: String,
}

fn outcomes(answer: &Answer, messages: &[Message]) -> Result<Vec<Outcome>, HandlerError> {
    if !(200..300).contains(&answer.status) {
        let status = answer.status;
        tracing::warn!(status, message_ids = ids(messages), "the function was not invoked");
        let after = answer.retry_after.filter(|after| !after.is_zero());
        return Ok(vec![Outcome::Retry { after }; messages.len()]);
    }
    if let Some(kind) = answer.header("X-Amz-Function-Error") {
        return Err(format!("the function failed: {kind}").into());
    }
    let failed = failed_ids(&answer.body)?;
    let ids: HashSet<&str> = messages.iter().map(|message| &**message.id()).collect();
    if let Some(unknown) = failed.iter().find(|id| !ids.contains(id.as_str())) {
        return Err(format!("the function names {unknown:?}, which is not in its batch").into());
    }
    let outcome = |message: &Message| match failed.contains(&**message.id()) {
        true => Outcome::RETRY,
        false => Outcome::Ack,
    };
    Ok(messages.iter().map(outcome).collect())
}

/// Message ids that the function names as failed.
fn failed_ids(body: &[u8]) -> Result<HashSet<String>, HandlerError> {
    if body.trim_ascii().is_empty() {
        // The emulator's answer when the function's process has ended.
        return Err("the function did not answer".into());
    }
    let value: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))?;
    if !value.is_object() {
        return Ok(HashSet::new());
    }
    let reply: Reply = serde_json::from_value(value)
        .map_err(|error| format!("batchItemFailures cannot be read: {error}"))?;
    // The emulator does not set the header of a function's error.
    if let (Some(kind), Some(message)) = (&reply.error_type, &reply.error_message) {
        return Err(format!("the function failed: {kind}: {message}").into());
    }
    let failures = reply.batch_item_failures.unwrap_or_default();
    Ok(failures.into_iter().map(|failure| failure.item_identifier).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(body: &str) -> Option<Vec<String>> {
        let ids = failed_ids(body.as_bytes()).ok()?;
        let mut ids: Vec<String> = ids.into_iter().collect();
        ids.sort();
        Some(ids)
    }

    #[test]
    fn what_is_not_named_has_succeeded() {
        // Developer guide, "Success and failure conditions".
        for success in [
            "null",
            "{}",
            r#"{"batchItemFailures":[]}"#,
            r#"{"batchItemFailures":null}"#,
            r#""done""#,
            r#"{"statusCode":200}"#,
        ] {
            assert_eq!(failed(success), Some(Vec::new()), "{success}");
        }
        let two = r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"a"}]}"#;
        assert_eq!(failed(two), Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn what_cannot_be_understood_is_a_failure_of_all() {
        for failure in [
            "",
            "Task timed out after 3.00 seconds",
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"id":"a"}]}"#,
            r#"{"batchItemFailures":"a"}"#,
            r#"{"errorType":"Error","errorMessage":"no"}"#,
        ] {
            assert_eq!(failed(failure), None, "{failure}");
        }
    }
}
