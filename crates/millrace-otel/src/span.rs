//! The span of one request, with the names of OpenTelemetry's conventions for messaging.

use std::sync::Mutex;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, Status};
use opentelemetry_sdk::trace::Span;

use crate::{Operation, context};

/// The span of one request; ends when dropped, also if the client left before the answer.
///
/// The lock is for the compiler only: a request runs on one thread at a time.
#[derive(Debug, Default)]
pub struct RequestSpan(Option<Box<Recorded>>);

#[derive(Debug)]
struct Recorded {
    name: &'static str,
    span: Mutex<Span>,
}

impl RequestSpan {
    /// Keeps a span that the sampler wants.
    pub(crate) fn new(name: &'static str, span: Span) -> RequestSpan {
        let is_wanted = span.is_recording();
        RequestSpan(is_wanted.then(|| Box::new(Recorded { name, span: Mutex::new(span) })))
    }

    /// That of requests that nobody traces.
    pub fn none() -> &'static RequestSpan {
        static NONE: RequestSpan = RequestSpan(None);
        &NONE
    }

    /// Whether anything that is told to this span is kept.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// The AWS service that was called.
    pub fn rpc(&self, service: &'static str) {
        self.with(|name, span| {
            span.set_attribute(KeyValue::new("rpc.system", "aws-api"));
            span.set_attribute(KeyValue::new("rpc.service", service));
            span.set_attribute(KeyValue::new("rpc.method", name));
        });
    }

    /// What is done with messages.
    pub fn operation(&self, operation: Operation) {
        let kind = match operation {
            Operation::Send => "send",
            Operation::Receive => "receive",
            Operation::Settle => "settle",
        };
        self.with(|_, span| {
            span.set_attribute(KeyValue::new("messaging.operation.type", kind));
        });
    }

    /// The queue that the request is about; also becomes part of the span's name.
    pub fn destination(&self, queue: &str) {
        self.with(|name, span| {
            span.update_name(format!("{name} {queue}"));
            span.set_attribute(KeyValue::new("messaging.system", "aws_sqs"));
            span.set_attribute(KeyValue::new("messaging.operation.name", name));
            span.set_attribute(KeyValue::new("messaging.destination.name", queue.to_owned()));
        });
    }

    /// Messages of a batch or a receive.
    pub fn message_count(&self, messages: usize) {
        self.with(|_, span| {
            let count = i64::try_from(messages).unwrap_or(i64::MAX);
            span.set_attribute(KeyValue::new("messaging.batch.message_count", count));
        });
    }

    /// The one message that was sent.
    pub fn message_id(&self, id: &str) {
        self.with(|_, span| {
            span.set_attribute(KeyValue::new("messaging.message.id", id.to_owned()));
        });
    }

    /// Names the span that sent a received message, if the message does: by its `AWSTraceHeader`,
    /// else by an attribute `traceparent`.
    pub fn link(&self, trace_header: &str, traceparent: Option<&str>) {
        self.with(|_, span| {
            if let Some(sender) = context::of_message(Some(trace_header), traceparent, None) {
                span.add_link(sender, Vec::new());
            }
        });
    }

    /// This span as an `AWSTraceHeader`, for messages that name no sender of their own.
    pub fn trace_header(&self) -> Option<String> {
        let recorded = self.0.as_ref()?;
        let span = recorded.span.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Some(context::trace_header(span.span_context()))
    }

    /// The request is answered with that AWS error code.
    pub fn refused(&self, code: &'static str) {
        self.with(|_, span| span.set_attribute(KeyValue::new("error.type", code)));
    }

    /// The answer. As with HTTP servers, only an error of ours makes the span an error.
    pub fn answered(&self, status: u16, request_id: &str) {
        self.with(|_, span| {
            span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
            span.set_attribute(KeyValue::new("aws.request_id", request_id.to_owned()));
            if status >= 500 {
                span.set_status(Status::error(""));
            }
        });
    }

    fn with(&self, tell: impl FnOnce(&'static str, &mut Span)) {
        if let Some(recorded) = &self.0 {
            let mut span = recorded.span.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            tell(recorded.name, &mut span);
        }
    }
}
