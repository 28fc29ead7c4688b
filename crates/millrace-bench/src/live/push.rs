//! The series to a gateway, by POST: a Pushgateway, or whatever imports Prometheus' text format.
//!
//! A gateway that fails or is slow changes nothing for the run: one line says so, and the next
//! push is tried all the same.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use ureq::{
    Agent,
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{
    Live,
    exposition::{CONTENT_TYPE, text},
};
use crate::{access::given_url, tls::Trust};

/// Longer than any gateway takes, and no longer than a run may be kept from its end.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Where a Pushgateway keeps what has no place of its own.
const PATH: &str = "/metrics/job/millrace_bench";

pub(super) struct Gateway {
    agent: Agent,
    /// Not for people: its query may be a secret.
    url: String,
    has_failed: bool,
}

impl Gateway {
    /// # Errors
    ///
    /// If the URL is none, or the certificates cannot be read.
    pub(super) fn new(url: &str, trust: &Trust) -> Result<Gateway> {
        let url = given_url("--push", url)?.with_default_path(PATH);
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            // A redirected POST becomes a GET, which pushes nothing.
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT));
        if url.is_tls() {
            config = config.tls_config(tls(trust)?);
        }
        let url = url.with_query();
        Ok(Gateway { agent: config.build().new_agent(), url, has_failed: false })
    }

    /// Pushes what there is; what is wrong, the first time that something is.
    pub(super) fn push(&mut self, live: &Live) -> Option<String> {
        let request = self.agent.post(&self.url).header("Content-Type", CONTENT_TYPE);
        let failure = match request.send(text(live)) {
            Ok(answer) if answer.status().is_success() => return None,
            Ok(answer) => format!("it answers {}", answer.status()),
            Err(error) => error.to_string(),
        };
        let is_first = !std::mem::replace(&mut self.has_failed, true);
        is_first.then(|| format!("warning: --push fails, and the run goes on without: {failure}"))
    }
}

fn tls(trust: &Trust) -> Result<TlsConfig> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    if trust.is_anyone() {
        return Ok(config.disable_verification(true).build());
    }
    let system = rustls_native_certs::load_native_certs().certs;
    let mut trusted: Vec<Certificate<'static>> =
        system.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
    if let Some(path) = trust.authority() {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        for item in parse_pem(&text) {
            if let PemItem::Certificate(certificate) = item.context("reading --ca")? {
                trusted.push(certificate);
            }
        }
    }
    Ok(config.root_certs(RootCerts::Specific(std::sync::Arc::new(trusted))).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_gateway_gets_a_path_and_any_other_keeps_its_own() {
        let url = |url| Gateway::new(url, &Trust::default()).map(|gateway| gateway.url);

        for bare in ["http://g:9091", "http://g:9091/"] {
            assert_eq!(url(bare).unwrap(), "http://g:9091/metrics/job/millrace_bench");
        }
        let keyed = "http://g:9091?key=/1#f";
        assert_eq!(url(keyed).unwrap(), "http://g:9091/metrics/job/millrace_bench?key=/1");
        let import = "http://v:8428/api/v1/import/prometheus";
        assert_eq!(url(import).unwrap(), import);
        assert!(url("g:9091").is_err() && url("ftp://g").is_err());
    }

    #[test]
    fn a_gateway_that_is_not_there_is_told_of_once() {
        let mut gateway = Gateway::new("http://127.0.0.1:1", &Trust::default()).unwrap();
        let live = Live::default();

        assert!(gateway.push(&live).unwrap().contains("--push fails"));
        assert_eq!(gateway.push(&live), None);
    }
}
