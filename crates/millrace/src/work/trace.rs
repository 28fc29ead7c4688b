//! The trace that a message belongs to, handed on to whoever handles it.
//!
//! Senders write it as W3C's `traceparent` and `tracestate` in message attributes, or as X-Ray's
//! header in the system attribute `AWSTraceHeader`.

use millrace_client::{AttributeValue, attribute};
use millrace_worker::Message;

/// The parts of a trace context that came with a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace<'a> {
    pub(super) parent: Option<&'a str>,
    pub(super) state: Option<&'a str>,
    pub(super) xray: Option<&'a str>,
}

impl<'a> Trace<'a> {
    pub(super) fn of(message: &'a Message) -> Trace<'a> {
        let delivery = message.delivery();
        let text = |name: &str| {
            let named = |attribute: &&millrace_client::MessageAttribute| {
                attribute.name.eq_ignore_ascii_case(name)
            };
            match delivery.attributes.iter().find(named).map(|found| &found.value) {
                Some(AttributeValue::Text(text)) => Some(&**text),
                Some(AttributeValue::Binary(_)) | None => None,
            }
        };
        Trace {
            parent: text("traceparent"),
            state: text("tracestate"),
            xray: delivery.system_attribute(attribute::TRACE_HEADER).map(|value| &**value),
        }
    }

    /// As HTTP headers.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let headers = [
            ("traceparent", self.parent),
            ("tracestate", self.state),
            ("X-Amzn-Trace-Id", self.xray),
        ];
        headers.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// As the environment variables that tracing libraries read.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let variables = [
            ("TRACEPARENT", self.parent),
            ("TRACESTATE", self.state),
            ("_X_AMZN_TRACE_ID", self.xray),
        ];
        variables.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}
