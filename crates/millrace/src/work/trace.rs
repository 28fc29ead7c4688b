//! How the trace of a message is told to whoever handles it.

use millrace_worker::Trace;

/// As HTTP headers.
pub(super) fn headers(trace: &Trace) -> impl Iterator<Item = (&'static str, &str)> {
    named(trace, ["traceparent", "tracestate", "X-Amzn-Trace-Id"])
}

/// As the environment variables that tracing libraries read.
pub(super) fn variables(trace: &Trace) -> impl Iterator<Item = (&'static str, &str)> {
    named(trace, ["TRACEPARENT", "TRACESTATE", "_X_AMZN_TRACE_ID"])
}

fn named<'t>(
    trace: &'t Trace,
    names: [&'static str; 3],
) -> impl Iterator<Item = (&'static str, &'t str)> {
    let values = [&trace.parent, &trace.state, &trace.xray];
    names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value.as_deref()?)))
}
