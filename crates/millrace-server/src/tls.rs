//! TLS from certificate files: ring, session tickets, ALPN for HTTP/2 and HTTP/1.1.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};
use tokio_rustls::TlsAcceptor;

use crate::TlsFiles;

/// What ALPN calls HTTP/2.
pub(crate) const H2: &[u8] = b"h2";

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate file cannot be read or is not PEM.
    #[error("certificate file {0} cannot be read")]
    Certificate(PathBuf, #[source] pem::Error),
    /// The certificate file holds no certificate.
    #[error("certificate file {0} holds no certificate")]
    NoCertificate(PathBuf),
    /// The key file cannot be read or holds no private key.
    #[error("key file {0} cannot be read")]
    Key(PathBuf, #[source] pem::Error),
    /// Key and certificate do not fit.
    #[error("certificate and key cannot be used")]
    Unusable(#[from] rustls::Error),
}

pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| TlsError::Certificate(files.certificate.clone(), error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| TlsError::Key(files.key.clone(), error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.ticketer = ring::Ticketer::new()?;
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
