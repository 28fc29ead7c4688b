//! Whom we trust over TLS.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use clap::Args;
use millrace_client::transport::{ServerIdentity, TlsOptions};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Flags of everything that connects.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Trust {
    /// Certificate authorities to trust over TLS beside the system's (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_tls")]
    ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    insecure_tls: bool,
}

impl Trust {
    /// Trusts any certificate, as servers for one test have them.
    pub(crate) fn anyone() -> Trust {
        Trust { ca: None, insecure_tls: true }
    }

    pub(crate) fn is_anyone(&self) -> bool {
        self.insecure_tls
    }

    /// An authority beside the system's.
    pub(crate) fn authority(&self) -> Option<&Path> {
        self.ca.as_deref()
    }

    /// The same as arguments, for another process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match &self.ca {
            _ if self.insecure_tls => vec!["--insecure-tls".to_owned()],
            Some(path) => vec![format!("--ca={}", path.display())],
            None => Vec::new(),
        }
    }

    /// What the client library wants to know.
    pub(crate) fn options(&self) -> Result<TlsOptions> {
        if self.insecure_tls {
            return Ok(TlsOptions { identity: ServerIdentity::Unchecked, ..TlsOptions::default() });
        }
        let extra_authorities = self.ca.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(TlsOptions { extra_authorities, ..TlsOptions::default() })
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>> {
        self.options()?.client_config().context("TLS")
    }
}

/// A file of certificates. One that holds none was not meant: to trust nobody more is no wish.
fn read(path: &Path) -> Result<Vec<u8>> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut certificates = CertificateDer::pem_slice_iter(&text);
    let first =
        certificates.next().with_context(|| format!("no certificate in {}", path.display()));
    first?.with_context(|| format!("reading {}", path.display()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hold_no_authority_are_refused() {
        let of = |path: &str| Trust { ca: Some(path.into()), insecure_tls: false };

        assert!(of("/does/not/exist").config().is_err());
        assert!(of("/dev/null").config().unwrap_err().to_string().contains("no certificate"));
        assert!(Trust::anyone().config().is_ok());
        assert_eq!(Trust::anyone().arguments(), ["--insecure-tls"]);
        assert_eq!(of("/ca.pem").arguments(), ["--ca=/ca.pem"]);
    }
}
