//! OpenTelemetry traces: a span per request, exported by OTLP over HTTP.
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
mod span;
#[cfg(feature = "otel")]
mod tracer;

#[cfg(not(feature = "otel"))]
pub use off::{RequestSpan, Tracer};
#[cfg(feature = "otel")]
pub use span::RequestSpan;
#[cfg(feature = "otel")]
pub use tracer::Tracer;

/// What of tracing is configured. An absent value is taken from OpenTelemetry's own variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Base URL of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added.
    /// Variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    pub endpoint: Option<String>,
    /// `OTEL_SERVICE_NAME`; `millrace` if that is absent, too.
    pub service_name: Option<String>,
    /// `OTEL_TRACES_SAMPLER`: `always_on`, `always_off`, `traceidratio` or one of these behind
    /// `parentbased_`; `parentbased_always_on` if that is absent, too.
    pub sampler: Option<String>,
    /// `OTEL_TRACES_SAMPLER_ARG`: the ratio, 0 to 1.
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

/// Why no traces are made although they were asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("this binary was built without traces; build it with --features otel")]
    NotBuilt,
    #[error("{name}: {value:?} is not {expected}")]
    Invalid { name: &'static str, value: String, expected: &'static str },
    #[error("exporter of traces: {0}")]
    Exporter(String),
}
