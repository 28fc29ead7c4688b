//! Where spans go: OTLP over HTTP, protobuf. Runs on the exporter's own thread, which it may block.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use http::{Request, Response};
use millrace_core::Url;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::{Options, StartError};

/// OTLP: where a collector takes traces, below its base URL.
const PATH: &str = "/v1/traces";
/// OTLP: the default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT_MS: u64 = 10_000;
/// A collector's answer is a few bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The URL that spans are posted to: the setting, else the variables in OpenTelemetry's order.
/// `None`: nobody asked for traces, or `OTEL_SDK_DISABLED` forbids them, or `OTEL_TRACES_EXPORTER`
/// where the setting does not choose the exporter.
pub(crate) fn endpoint(
    options: &Options,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Url>, StartError> {
    if variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    if let Some(base) = &options.endpoint {
        return Ok(Some(base.below(PATH)));
    }
    if variable("OTEL_TRACES_EXPORTER").is_some_and(|text| text == "none") {
        return Ok(None);
    }
    let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let Some((name, text)) = first_of(names, variable) else { return Ok(None) };
    let url = Url::parse(&text).map_err(|error| StartError::Url { name, error })?;
    Ok(Some(if name == names[0] { url } else { url.below(PATH) }))
}

/// Posts one batch at a time, and says once when that begins or ceases to fail.
#[derive(Debug)]
pub(crate) struct Sender {
    agent: Agent,
    is_failing: AtomicBool,
}

impl Sender {
    pub(crate) fn new(endpoint: &Url) -> Result<Sender, StartError> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
        let timeout_ms = first_of(names, variable).and_then(|(_, text)| text.parse().ok());
        let timeout = Duration::from_millis(timeout_ms.unwrap_or(TIMEOUT_MS));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirected POST becomes a GET, which exports nothing.
            .max_redirects(0)
            .timeout_global(Some(timeout));
        if endpoint.is_tls() {
            config = config.tls_config(tls(variable)?);
        }
        Ok(Sender { agent: config.build().new_agent(), is_failing: AtomicBool::new(false) })
    }

    fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let answer = self.agent.run(Request::from_parts(head, &*body))?;
        let (head, mut body) = answer.into_parts();
        let body = body.with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.post(request);
        let failure = match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Relaxed);
        match failure {
            Some(error) if !was_failing => tracing::warn!(error, "traces are not exported"),
            None if was_failing => tracing::info!("traces are exported again"),
            _ => {}
        }
        Ok(answer?)
    }
}

/// Trusts `OTEL_EXPORTER_OTLP_CERTIFICATE`, else what the system trusts.
fn tls(variable: impl Fn(&str) -> Option<String>) -> Result<TlsConfig, StartError> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
    let certificates: Vec<Certificate<'static>> = match first_of(names, variable) {
        Some((name, path)) => read_certificates(&path).ok_or(StartError::Invalid {
            name,
            value: path,
            expected: "a file of certificates (PEM)",
        })?,
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            system.iter().map(|found| Certificate::from_der(found).to_owned()).collect()
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build())
}

fn read_certificates(path: &str) -> Option<Vec<Certificate<'static>>> {
    let text = std::fs::read(path).ok()?;
    let items = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Some(items.collect()).filter(|found: &Vec<_>| !found.is_empty())
}

/// The first of these variables that is there, with its name.
fn first_of(
    names: [&'static str; 2],
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    names.into_iter().find_map(|name| Some((name, variable(name)?)))
}

/// OpenTelemetry: an empty variable is as good as absent.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where spans go with that setting, which may be empty, and those variables.
    fn endpoint_of(setting: &str, variables: &[(&str, &str)]) -> Option<String> {
        let endpoint = (!setting.is_empty()).then(|| Url::parse(setting).unwrap());
        let options = Options { endpoint, ..Options::default() };
        let found = super::endpoint(&options, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        found.unwrap().map(|url| url.with_query())
    }

    #[test]
    fn path_goes_before_the_query_and_what_is_no_url_is_not_quoted() {
        let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let of = |text| endpoint_of("", &[(base, text)]).unwrap();

        assert_eq!(of("http://b:4318?key=1"), "http://b:4318/v1/traces?key=1");
        assert_eq!(endpoint_of("http://a/x/?k", &[]).unwrap(), "http://a/x/v1/traces?k");
        let traces = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c?key=1#f")];
        assert_eq!(endpoint_of("", &traces).unwrap(), "http://c/?key=1");
        let refused = super::endpoint(&Options::default(), |name| {
            (name == base).then(|| "http://user:hunter2@b".to_owned())
        });
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with(base) && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn the_setting_wins_over_variables() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/spans"),
        ];

        assert_eq!(endpoint_of("http://a:4318/", &variables).unwrap(), "http://a:4318/v1/traces");
        assert_eq!(endpoint_of("", &variables).unwrap(), "http://c:4318/spans");
        assert_eq!(endpoint_of("", &variables[..1]).unwrap(), "http://b:4318/v1/traces");
        assert_eq!(endpoint_of("", &[]), None);
    }

    #[test]
    fn a_disabled_sdk_makes_no_traces_whoever_asks_for_them() {
        let asked = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:4318");
        let disabled = |text| [("OTEL_SDK_DISABLED", text), asked];

        for text in ["true", "True"] {
            assert_eq!(endpoint_of("http://a:4318", &disabled(text)), None);
            assert_eq!(endpoint_of("", &disabled(text)), None);
        }
        for text in ["false", "1"] {
            assert!(endpoint_of("http://a:4318", &disabled(text)).is_some());
        }
    }

    #[test]
    fn the_setting_chooses_the_exporter() {
        let none =
            [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:4318")];

        assert!(endpoint_of("http://a:4318", &none).is_some());
        assert_eq!(endpoint_of("", &none), None);
    }

    #[test]
    fn file_without_certificates_is_refused_by_the_name_of_its_variable() {
        for asked in ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"] {
            let refused = tls(|name| (name == asked).then(|| "/dev/null".to_owned()));

            let expected = format!("{asked}: \"/dev/null\" is not a file of certificates (PEM)");
            assert_eq!(refused.unwrap_err().to_string(), expected);
        }
    }
}
