//! What makes spans, and what decides which.

use std::borrow::Cow;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, Tracer as _, TracerProvider as _};
use opentelemetry::{Key, KeyValue, Value};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider};

use crate::export::{self, Sender};
use crate::process::ProcessSpan;
use crate::span::RequestSpan;
use crate::{Options, Processed, StartError, context};

/// How long the end of the process may wait for the last spans to be exported.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes spans; clones make them for the same collector. The default makes none.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Box<Started>>);

#[derive(Clone, Debug)]
struct Started {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Tracer {
    /// Starts the exporting thread if a collector is configured, by `options` or by variables.
    /// Spans are those of `service` unless these name another.
    ///
    /// # Errors
    ///
    /// A value that cannot be understood. That the collector cannot be reached is no error.
    pub fn start(options: &Options, service: &'static str) -> Result<Tracer, StartError> {
        let Some(endpoint) = export::endpoint(options, export::variable)? else {
            return Ok(Tracer::default());
        };
        let sender = Sender::new(&endpoint)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_endpoint(endpoint.with_query())
            // The only one that is built in, whatever a variable for all programs says.
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| StartError::Exporter(error.to_string()))?;
        let mut builder = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter).build())
            .with_resource(resource(options, service));
        if let Some(sampler) = sampler(options, export::variable)? {
            builder = builder.with_sampler(sampler);
        }
        let provider = builder.build();
        let tracer = provider.tracer("millrace");
        tracing::info!(%endpoint, "exporting traces");
        Ok(Tracer(Some(Box::new(Started { provider, tracer }))))
    }

    /// Whether any request can have a span.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The span of a request that begins now. `name` is the action's; `header` finds a header of
    /// the request by its name in lower case, among them the caller's context.
    pub fn request<'h>(
        &self,
        name: &'static str,
        header: impl Fn(&str) -> Option<&'h str>,
    ) -> RequestSpan {
        let Some(started) = &self.0 else { return RequestSpan::default() };
        let builder = started.tracer.span_builder(Cow::Borrowed(name)).with_kind(SpanKind::Server);
        let span = started.tracer.build_with_context(builder, &context::of_headers(header));
        RequestSpan::new(name, span)
    }

    /// The span of work on messages of `queue` that begins now.
    pub fn process(&self, queue: &str, processed: Processed<'_>) -> ProcessSpan {
        match &self.0 {
            Some(started) => ProcessSpan::begin(&started.tracer, queue, processed),
            None => ProcessSpan::default(),
        }
    }

    /// Exports what waits, for a few seconds at most, and makes no spans any more.
    pub fn close(&self) {
        let Some(started) = &self.0 else { return };
        if let Err(error) = started.provider.shutdown_with_timeout(CLOSE_TIMEOUT) {
            tracing::warn!(%error, "the last traces were not exported");
        }
    }
}

/// Who we are: variables first, then ourselves.
fn resource(options: &Options, service: &'static str) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder();
    let found = Resource::builder().build();
    let name = match (&options.service_name, found.get(&Key::new("service.name"))) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(Value::String(name))) if !name.as_str().starts_with("unknown_service") => None,
        _ => Some(service.to_owned()),
    };
    match name {
        Some(name) => builder.with_service_name(name).with_attribute(version).build(),
        None => builder.with_attribute(version).build(),
    }
}

/// The configured sampler; what is not configured of it is taken from the variables. `None` leaves
/// all of it to OpenTelemetry, which reads them, too.
fn sampler(
    options: &Options,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Sampler>, StartError> {
    let name = match (&options.sampler, &options.sampler_arg) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(_)) => variable("OTEL_TRACES_SAMPLER"),
        (None, None) => None,
    };
    let Some(name) = name else { return Ok(None) };
    let (is_parent_based, root) = match name.strip_prefix("parentbased_") {
        Some(root) => (true, root),
        None => (false, name.as_str()),
    };
    let root = match root {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => Sampler::TraceIdRatioBased(ratio(options, variable)?),
        // A variable may stand for other programs' samplers.
        _ if options.sampler.is_none() => return Ok(None),
        _ => {
            return Err(StartError::Invalid {
                name: "traces.sampler",
                value: name,
                expected: "always_on, always_off or traceidratio, alone or behind parentbased_",
            });
        }
    };
    Ok(Some(if is_parent_based { Sampler::ParentBased(Box::new(root)) } else { root }))
}

fn ratio(options: &Options, variable: impl Fn(&str) -> Option<String>) -> Result<f64, StartError> {
    if let Some(text) = &options.sampler_arg {
        return parse_ratio(text).ok_or_else(|| StartError::Invalid {
            name: "traces.sampler_arg",
            value: text.clone(),
            expected: "a ratio from 0 to 1",
        });
    }
    let name = "OTEL_TRACES_SAMPLER_ARG";
    let Some(text) = variable(name) else { return Ok(1.0) };
    // OpenTelemetry: a variable that is not understood is reported, and as good as absent.
    Ok(parse_ratio(&text).unwrap_or_else(|| {
        tracing::warn!(value = text, "{name} is not a ratio from 0 to 1, so it is passed over");
        1.0
    }))
}

fn parse_ratio(text: &str) -> Option<f64> {
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and argument, as texts that may be empty, as settings and as variables.
    fn sampler_of(
        settings: [&str; 2],
        variables: [&str; 2],
    ) -> Result<Option<Sampler>, StartError> {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let [sampler, sampler_arg] = settings.map(given);
        let options = Options { sampler, sampler_arg, ..Options::default() };
        super::sampler(&options, |name| match name {
            "OTEL_TRACES_SAMPLER" => given(variables[0]),
            "OTEL_TRACES_SAMPLER_ARG" => given(variables[1]),
            _ => None,
        })
    }

    #[test]
    fn samplers_are_named_as_opentelemetry_names_them() {
        let named = |settings| format!("{:?}", sampler_of(settings, ["", ""]).unwrap());

        assert_eq!(named(["always_off", ""]), "Some(AlwaysOff)");
        assert_eq!(named(["traceidratio", "0.25"]), "Some(TraceIdRatioBased(0.25))");
        assert_eq!(named(["traceidratio", ""]), "Some(TraceIdRatioBased(1.0))");
        assert_eq!(named(["parentbased_always_on", ""]), "Some(ParentBased(AlwaysOn))");
    }

    #[test]
    fn what_is_not_configured_of_a_sampler_is_taken_from_the_variables() {
        let environment = ["traceidratio", "0.25"];
        let of = |settings, variables| format!("{:?}", sampler_of(settings, variables).unwrap());

        assert_eq!(of(["", ""], environment), "None");
        assert_eq!(of(["", "0.5"], environment), "Some(TraceIdRatioBased(0.5))");
        assert_eq!(
            of(["parentbased_traceidratio", ""], environment),
            "Some(ParentBased(TraceIdRatioBased(0.25)))"
        );
        assert_eq!(of(["always_off", ""], environment), "Some(AlwaysOff)");
        assert_eq!(of(["", "0.5"], ["", "0.25"]), "None");
        assert_eq!(of(["", "0.5"], ["xray", ""]), "None");
    }

    #[test]
    fn a_sampler_that_is_none_is_refused() {
        let none = ["", ""];

        assert!(sampler_of(["sometimes", ""], none).is_err());
        assert!(sampler_of(["traceidratio", "1.5"], none).is_err());
        assert!(sampler_of(["parentbased_traceidratio", "NaN"], none).is_err());
        assert!(sampler_of(["", "1.5"], ["traceidratio", "0.5"]).is_err());
    }

    #[test]
    fn a_variable_that_is_no_ratio_is_as_good_as_absent() {
        let found = sampler_of(["traceidratio", ""], ["", "endpoint=http://127.0.0.1"]).unwrap();

        assert_eq!(format!("{found:?}"), "Some(TraceIdRatioBased(1.0))");
    }

    #[test]
    fn without_a_tracer_nothing_is_recorded() {
        let span = Tracer::default().request("SendMessage", |_| None);

        span.destination("orders");

        assert!(!span.is_recording());
        assert_eq!(span.trace_header(), None);
    }
}
