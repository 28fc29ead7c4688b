//! Opening connections: name look-up, TCP to whichever address answers first, TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, version::TLS12,
    version::TLS13,
};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::connection::{Connection, Stream};
use super::ledger::Ledger;
use super::look_up::LookUps;
use super::race::first_of;
use super::{AddressCheck, AnswerLimit, Endpoint, TransportError, TransportOptions};

/// Whom to believe.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Certificates (PEM) of authorities to believe beside those of the system.
    pub extra_authorities: Vec<u8>,
    pub identity: ServerIdentity,
}

/// Whether the server must prove who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerIdentity {
    #[default]
    Verified,
    /// Any certificate will do: for tests only.
    Unchecked,
}

impl TlsOptions {
    /// The client's side of TLS 1.2 and 1.3: HTTP/1.1 only. The configuration keeps sessions, so
    /// that later handshakes are resumed.
    ///
    /// # Errors
    ///
    /// [`TransportError::Tls`] if no authority can be read.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TransportError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TransportError::Tls(error.to_string()))?;
        let mut config = match self.identity {
            ServerIdentity::Verified => {
                let roots = authorities(&self.extra_authorities)?;
                builder.with_root_certificates(roots).with_no_client_auth()
            }
            ServerIdentity::Unchecked => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
                .with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Opens connections to one endpoint.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) endpoint: Endpoint,
    connect_to: Option<SocketAddr>,
    tls: Option<Tls>,
    timeout: Duration,
    look_ups: LookUps,
    address_check: Option<AddressCheck>,
    answer_limit: AnswerLimit,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Dialer {
    pub(super) fn new(
        endpoint: Endpoint,
        options: &TransportOptions,
    ) -> Result<Dialer, TransportError> {
        let tls = if endpoint.is_tls { Some(Tls::new(&endpoint, options)?) } else { None };
        let TransportOptions { connect_to, connect_timeout: timeout, answer_limit, .. } = *options;
        let look_ups = LookUps::new(options.look_ups);
        let address_check = options.address_check.clone();
        Ok(Dialer { endpoint, connect_to, tls, timeout, look_ups, address_check, answer_limit })
    }

    /// A new connection, counted in the ledger.
    pub(super) async fn open(&self, ledger: &Ledger) -> Result<Connection, TransportError> {
        let started = Instant::now();
        let limit = self.timeout;
        let opened = match tokio::time::timeout(limit, self.connect()).await {
            Ok(opened) => opened,
            Err(_) => Err(TransportError::ConnectTimeout { limit }),
        };
        match &opened {
            Ok(_) => ledger.opened(started.elapsed()),
            Err(_) => Ledger::count(&ledger.connect_failed),
        }
        opened
    }

    /// The name is looked up each time, so that a server that moved is found.
    async fn connect(&self) -> Result<Connection, TransportError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let addresses = match self.connect_to {
            Some(address) => Ok(vec![address]),
            None => self.look_ups.addresses(host, *port).await,
        };
        let addresses = self.allowed(addresses.map_err(TransportError::Connect)?)?;
        let attempts = addresses.into_iter().map(TcpStream::connect);
        let stream = first_of(attempts).await.map_err(TransportError::Connect)?;
        stream.set_nodelay(true).map_err(TransportError::Connect)?;
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let handshake = tls.connector.connect(tls.name.clone(), stream).await;
                Stream::Tls(Box::new(handshake.map_err(TransportError::Connect)?))
            }
        };
        Ok(Connection::over(stream, self.answer_limit))
    }

    /// The addresses that may be dialled; an error if there are others only.
    fn allowed(&self, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, TransportError> {
        let Some(check) = self.address_check.as_ref().filter(|_| self.connect_to.is_none()) else {
            return Ok(addresses);
        };
        let first = addresses.first().copied();
        addresses.retain(|address| check.allows(address.ip()));
        match first {
            Some(first) if addresses.is_empty() => {
                Err(TransportError::AddressRefused { address: first.ip() })
            }
            _ => Ok(addresses),
        }
    }
}

impl Tls {
    fn new(endpoint: &Endpoint, options: &TransportOptions) -> Result<Tls, TransportError> {
        let config = match &options.shared_tls {
            Some(shared) => Arc::clone(shared),
            None => options.tls.client_config()?,
        };
        let name = ServerName::try_from(endpoint.host.clone())
            .map_err(|error| TransportError::Tls(error.to_string()))?;
        Ok(Tls { connector: TlsConnector::from(config), name })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The system's authorities, as far as they can be read, and those given, all of which must.
fn authorities(extra: &[u8]) -> Result<RootCertStore, TransportError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(extra) {
        let certificate = certificate.map_err(|error| TransportError::Tls(error.to_string()))?;
        roots.add(certificate).map_err(|error| TransportError::Tls(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TransportError::Tls("no certificate authority is known".to_owned()));
    }
    Ok(roots)
}

/// Believes every certificate, but still checks that the server holds its key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
