//! Contexts as they travel: `traceparent` (W3C) and `X-Amzn-Trace-Id`, alias `AWSTraceHeader`
//! (X-Ray). Whatever cannot be read is as good as absent.
//!
//! ```text
//! traceparent: 00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01
//! X-Amzn-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1
//! ```

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// X-Ray's name of the header.
const AMZN_TRACE_ID: &str = "x-amzn-trace-id";

/// The caller's span: W3C's headers, else X-Ray's.
pub(crate) fn of_headers<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Context {
    let caller = header("traceparent")
        .and_then(|parent| of_traceparent(parent, header("tracestate")))
        .or_else(|| header(AMZN_TRACE_ID).and_then(of_trace_header));
    match caller {
        Some(caller) => Context::new().with_remote_span_context(caller),
        None => Context::new(),
    }
}

/// Who sent a message: what its `AWSTraceHeader` names, else its `traceparent`.
pub(crate) fn of_message(
    trace_header: Option<&str>,
    traceparent: Option<&str>,
    tracestate: Option<&str>,
) -> Option<SpanContext> {
    trace_header
        .and_then(of_trace_header)
        .or_else(|| traceparent.and_then(|parent| of_traceparent(parent, tracestate)))
}

fn of_traceparent(traceparent: &str, tracestate: Option<&str>) -> Option<SpanContext> {
    let headers = Headers { traceparent, tracestate };
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
}

/// What an X-Ray header names; nothing if it lacks the parent.
fn of_trace_header(text: &str) -> Option<SpanContext> {
    let (mut root, mut parent, mut flags) = (None, None, TraceFlags::default());
    for (name, value) in text.split(';').filter_map(|part| part.split_once('=')) {
        match name.trim() {
            "Root" => root = trace_id(value.trim()),
            "Parent" => parent = SpanId::from_hex(value.trim()).ok(),
            "Sampled" if value.trim() == "1" => flags = TraceFlags::SAMPLED,
            _ => {} // Lineage and keys of others.
        }
    }
    let context = SpanContext::new(root?, parent?, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

/// A context as W3C writes it.
pub(crate) fn traceparent(context: &SpanContext) -> String {
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), flags)
}

/// A context as X-Ray writes it.
pub(crate) fn trace_header(context: &SpanContext) -> String {
    let root = context.trace_id().to_string();
    let (epoch, rest) = root.split_at(8);
    let sampled = u8::from(context.is_sampled());
    format!("Root=1-{epoch}-{rest};Parent={};Sampled={sampled}", context.span_id())
}

/// `1-`, 8 digits of time, `-`, 24 digits.
fn trace_id(root: &str) -> Option<TraceId> {
    let (epoch, rest) = root.strip_prefix("1-")?.split_once('-')?;
    if epoch.len() != 8 || rest.len() != 24 {
        return None;
    }
    TraceId::from_hex(&format!("{epoch}{rest}")).ok()
}

/// W3C's headers.
struct Headers<'h> {
    traceparent: &'h str,
    tracestate: Option<&'h str>,
}

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.traceparent),
            "tracestate" => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new() // The propagator asks by name.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE_HEADER: &str =
        "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    const TRACEPARENT: &str = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";

    #[test]
    fn both_forms_name_the_same_span() {
        let aws = of_trace_header(TRACE_HEADER).unwrap();
        let w3c = of_traceparent(TRACEPARENT, None).unwrap();

        assert_eq!((aws.trace_id(), aws.span_id()), (w3c.trace_id(), w3c.span_id()));
        assert!(aws.is_sampled() && w3c.is_sampled());
        assert_eq!(
            (trace_header(&w3c), traceparent(&aws)),
            (TRACE_HEADER.into(), TRACEPARENT.into())
        );
    }

    #[test]
    fn a_message_is_of_its_trace_header_else_of_its_traceparent() {
        let other = "00-11111111111111111111111111111111-2222222222222222-00";

        let both = of_message(Some(TRACE_HEADER), Some(other), None).unwrap();
        let rootless = of_message(Some("Sampled=1"), Some(other), Some("vendor=1")).unwrap();

        assert_eq!(traceparent(&both), TRACEPARENT);
        assert_eq!(traceparent(&rootless), other);
        assert_eq!(rootless.trace_state().header(), "vendor=1");
        assert_eq!(of_message(None, None, Some("vendor=1")), None);
    }

    #[test]
    fn traceparent_comes_before_the_aws_header() {
        let header = |name: &str| match name {
            "traceparent" => Some("00-11111111111111111111111111111111-2222222222222222-00"),
            AMZN_TRACE_ID => Some(TRACE_HEADER),
            _ => None,
        };

        let context = of_headers(header);
        let aws_only = of_headers(|name| header(name).filter(|_| name == AMZN_TRACE_ID));

        assert_eq!(context.span().span_context().span_id().to_string(), "2".repeat(16));
        assert!(!context.span().span_context().is_sampled());
        assert_eq!(aws_only.span().span_context().span_id().to_string(), "53995c3f42cd8ad8");
    }

    #[test]
    fn traceparent_that_cannot_be_read_is_as_good_as_absent() {
        let context = of_headers(|name| match name {
            "traceparent" => Some("00-broken"),
            AMZN_TRACE_ID => Some(TRACE_HEADER),
            _ => None,
        });

        assert_eq!(context.span().span_context().span_id().to_string(), "53995c3f42cd8ad8");
    }

    #[test]
    fn what_cannot_be_read_is_no_context() {
        for text in [
            "",
            "Root",
            "Root=1-5759e988-bd862e3fe1be46a994272793",
            "Parent=53995c3f42cd8ad8;Sampled=1",
            "Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-5759e98-bd862e3fe1be46a9942727933;Parent=53995c3f42cd8ad8",
            "Root=1-é759e98-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-00000000-000000000000000000000000;Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=0000000000000000",
        ] {
            assert!(of_trace_header(text).is_none(), "{text}");
        }
        assert!(of_traceparent("00-abc", None).is_none());
    }
}
