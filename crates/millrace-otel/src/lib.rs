//! OpenTelemetry traces: a span per request or per message worked on, exported by OTLP over HTTP.
//!
//! With the feature `otel` a [`Tracer`] hands finished spans to a thread of its own, which exports
//! them in batches. What waits is bounded (`OTEL_BSP_MAX_QUEUE_SIZE`, 2,048 spans); beyond that,
//! and while the collector cannot be reached, spans are dropped. No request ever waits for one or
//! fails because of one. Without the feature all types are empty and all methods do nothing.

#[cfg(feature = "otel")]
mod context;
#[cfg(feature = "otel")]
mod export;
#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod process;
#[cfg(feature = "otel")]
mod span;
#[cfg(feature = "otel")]
mod tracer;

#[cfg(not(feature = "otel"))]
pub use off::{ProcessSpan, RequestSpan, Tracer};
#[cfg(feature = "otel")]
pub use process::ProcessSpan;
#[cfg(feature = "otel")]
pub use span::RequestSpan;
#[cfg(feature = "otel")]
pub use tracer::Tracer;

use millrace_core::{Url, UrlError};

/// What of tracing is configured. An absent value is taken from OpenTelemetry's own variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Base URL of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added
    /// before its query. Variables: `OTEL_EXPORTER_OTLP_ENDPOINT`,
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    pub endpoint: Option<Url>,
    /// `OTEL_SERVICE_NAME`; the program's own name if that is absent, too.
    pub service_name: Option<String>,
    /// `OTEL_TRACES_SAMPLER`: `always_on`, `always_off`, `traceidratio` or one of these behind
    /// `parentbased_`; `parentbased_always_on` if that is absent, too.
    pub sampler: Option<String>,
    /// `OTEL_TRACES_SAMPLER_ARG`: the ratio of `traceidratio`, 0 to 1; 1 if that is absent, too.
    pub sampler_arg: Option<String>,
}

/// What kind of messaging operation a request is, in OpenTelemetry's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Send,
    Receive,
    /// Deletes and visibility changes.
    Settle,
}

/// What is worked on.
#[derive(Clone, Copy, Debug)]
pub enum Processed<'m> {
    Message { id: &'m str, receive_count: u32, sender: Sender<'m> },
    Batch { senders: &'m [Sender<'m>] },
}

/// Who sent a message, as the message tells: by its `AWSTraceHeader`, else by its attributes
/// `traceparent` and `tracestate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender<'m> {
    pub trace_header: Option<&'m str>,
    pub traceparent: Option<&'m str>,
    pub tracestate: Option<&'m str>,
}

/// What names a span, in the forms that contexts travel in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanTexts {
    pub traceparent: String,
    pub tracestate: Option<String>,
    pub trace_header: String,
}

/// Why no traces are made although they were asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("this binary was built without traces; build it with --features otel")]
    NotBuilt,
    #[error("{name}: {value:?} is not {expected}")]
    Invalid { name: &'static str, value: String, expected: &'static str },
    /// The URL is not quoted: it may hold a password.
    #[error("{name}: {error}")]
    Url { name: &'static str, error: UrlError },
    #[error("exporter of traces: {0}")]
    Exporter(String),
}
