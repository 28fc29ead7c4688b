//! A span for each run of a handler, whose context goes with the messages to whoever handles them.

use std::sync::Arc;

use millrace_otel::{ProcessSpan, Processed, Sender, SpanTexts, Tracer};
use millrace_worker::{Handler, HandlerError, Message, Outcome, Trace};

use super::job::Job;

/// A job in spans; without a tracer, just the job.
#[derive(Debug)]
pub(super) struct Traced {
    job: Arc<Job>,
    tracer: Tracer,
    queue: String,
}

impl Traced {
    /// The job for messages of `queue`, its name.
    pub(super) fn new(job: Arc<Job>, tracer: Tracer, queue: &str) -> Traced {
        Traced { job, tracer, queue: queue.to_owned() }
    }

    fn begin(&self, messages: &[Message]) -> ProcessSpan {
        let traces: Vec<Trace> = messages.iter().map(Message::trace).collect();
        let senders: Vec<Sender<'_>> = traces.iter().map(sender).collect();
        let processed = match (messages, &*senders) {
            ([message], [sender]) if !self.job.takes_batches() => Processed::Message {
                id: message.id(),
                receive_count: message.receive_count(),
                sender: *sender,
            },
            (_, senders) => Processed::Batch { senders },
        };
        self.tracer.process(&self.queue, processed)
    }
}

impl Handler for Traced {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        if !self.tracer.is_on() {
            return self.job.handle(messages).await;
        }
        let span = self.begin(&messages);
        let messages = match span.texts().map(trace) {
            Some(trace) => {
                messages.into_iter().map(|message| message.with_trace(trace.clone())).collect()
            }
            None => messages,
        };
        let result = self.job.handle(messages).await;
        match failure(&result) {
            Some((error_type, reason)) => span.fail(error_type, reason),
            None => span.end(),
        }
        result
    }

    fn on_error(&self, message: &Message, error: &HandlerError) -> Outcome {
        self.job.on_error(message, error)
    }
}

fn sender(trace: &Trace) -> Sender<'_> {
    Sender {
        trace_header: trace.xray.as_deref(),
        traceparent: trace.parent.as_deref(),
        tracestate: trace.state.as_deref(),
    }
}

fn trace(texts: SpanTexts) -> Trace {
    Trace {
        parent: Some(texts.traceparent.into()),
        state: texts.tracestate.map(Into::into),
        xray: Some(texts.trace_header.into()),
    }
}

/// The kind of failure and what is known of it: that of the first message that did not succeed.
/// What is given back has not failed.
fn failure(result: &Result<Vec<Outcome>, HandlerError>) -> Option<(&'static str, String)> {
    let outcomes = match result {
        Ok(outcomes) => outcomes,
        Err(error) => return Some(("error", error.to_string())),
    };
    outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Ack | Outcome::Release => None,
        Outcome::Retry { .. } => Some(("retry", String::new())),
        Outcome::Reject { reason } => Some(("reject", reason.clone())),
    })
}
