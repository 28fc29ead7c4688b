//! The span of the work on a message, or on a batch of messages.

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use crate::{Processed, Sender, SpanTexts, context};

/// The span of the work on messages; ends when it is told the outcome. Dropped without one, it says
/// that the work was cut off.
#[derive(Debug, Default)]
pub struct ProcessSpan(Option<Box<Span>>);

impl ProcessSpan {
    /// Begins now. Who sent a single message is the parent; who sent those of a batch is linked to.
    pub(crate) fn begin(tracer: &SdkTracer, queue: &str, processed: Processed<'_>) -> ProcessSpan {
        let (parent, senders) = match &processed {
            Processed::Message { sender, .. } => (sender_of(sender), std::slice::from_ref(sender)),
            Processed::Batch { senders } => (None, *senders),
        };
        let parent = parent.map(|sender| Context::new().with_remote_span_context(sender));
        let links = senders.iter().filter_map(sender_of).map(Link::with_context).collect();
        let builder = SpanBuilder::from_name(format!("process {queue}"))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attributes(queue, &processed))
            .with_links(links);
        let span = tracer.build_with_context(builder, &parent.unwrap_or_default());
        ProcessSpan(Some(Box::new(span)))
    }

    /// What whoever does the work is to be told, so that their spans hang below this one; nothing
    /// without a tracer.
    pub fn texts(&self) -> Option<SpanTexts> {
        let context = self.0.as_ref()?.span_context();
        let state = context.trace_state().header();
        Some(SpanTexts {
            traceparent: context::traceparent(context),
            tracestate: Some(state).filter(|state| !state.is_empty()),
            trace_header: context::trace_header(context),
        })
    }

    /// The work is done, or given back unfinished without a failure.
    pub fn end(mut self) {
        self.0.take();
    }

    /// The work failed: in which of a few ways, and why.
    pub fn fail(mut self, error_type: &'static str, reason: String) {
        if let Some(mut span) = self.0.take() {
            failed(&mut span, error_type, reason);
        }
    }
}

impl Drop for ProcessSpan {
    fn drop(&mut self) {
        if let Some(span) = &mut self.0 {
            failed(span, "cut_off", String::new());
        }
    }
}

fn failed(span: &mut Span, error_type: &'static str, reason: String) {
    span.set_attribute(KeyValue::new("error.type", error_type));
    span.set_status(Status::error(reason));
}

fn sender_of(sender: &Sender<'_>) -> Option<SpanContext> {
    context::of_message(sender.trace_header, sender.traceparent, sender.tracestate)
}

fn attributes(queue: &str, processed: &Processed<'_>) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("messaging.system", "aws_sqs"),
        KeyValue::new("messaging.operation.name", "process"),
        KeyValue::new("messaging.operation.type", "process"),
        KeyValue::new("messaging.destination.name", queue.to_owned()),
    ];
    match processed {
        Processed::Message { id, receive_count, .. } => {
            let count = i64::from(*receive_count);
            attributes.push(KeyValue::new("messaging.message.id", (*id).to_owned()));
            attributes.push(KeyValue::new("millrace.message.receive_count", count));
        }
        Processed::Batch { senders } => {
            let count = i64::try_from(senders.len()).unwrap_or(i64::MAX);
            attributes.push(KeyValue::new("messaging.batch.message_count", count));
        }
    }
    attributes
}
