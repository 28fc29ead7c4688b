//! TLS from certificate files, which may be renewed meanwhile: ring, session tickets, ALPN for
//! HTTP/2 and HTTP/1.1.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    thread,
    time::{Duration, SystemTime},
};

use rustls::{
    CipherSuite, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;

use crate::{Counters, FileVersion, TlsFiles, expiry};

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
    #[error("certificate file {0} holds no certificate (PEM)")]
    NoCertificate(PathBuf),
    /// The key file cannot be read or is not PEM.
    #[error("key file {0} cannot be read")]
    Key(PathBuf, #[source] pem::Error),
    /// The key file holds no private key, or an encrypted one.
    #[error("key file {0} holds no private key (PEM, not encrypted)")]
    NoKey(PathBuf),
    /// Key and certificate do not fit.
    #[error("certificate and key cannot be used")]
    Unusable(#[from] rustls::Error),
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If no server could start with them.
    pub fn check(&self) -> Result<(), TlsError> {
        certified_key(self).map(drop)
    }
}

impl TlsError {
    /// Whether a file could not be read, which says nothing about what is in it.
    fn is_unread(&self) -> bool {
        let (TlsError::Certificate(_, error) | TlsError::Key(_, error)) = self else {
            return false;
        };
        matches!(error, pem::Error::Io(_))
    }
}

/// What handshakes are accepted with.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

impl Tls {
    /// Reads the files. `counters` tell when the certificate ends.
    pub(crate) fn new(files: &TlsFiles, counters: &Arc<Counters>) -> Result<Tls, TlsError> {
        let certificates = Arc::new(Certificates::read(files, counters.clone())?);
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificates.clone());
        config.ignore_client_order = true;
        config.ticketer = ring::Ticketer::new()?;
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificates })
    }

    /// Looks at the files again after each `pause`, for as long as this lives. On a thread of its
    /// own, since files may be on a network that is slow.
    pub(crate) fn watch(&self, pause: Duration) -> io::Result<()> {
        let watched = Arc::downgrade(&self.certificates);
        let thread = thread::Builder::new().name("certificates".to_owned());
        thread.spawn(move || {
            while let Some(certificates) = Weak::upgrade(&watched) {
                certificates.refresh();
                drop(certificates);
                thread::sleep(pause);
            }
        })?;
        Ok(())
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

/// The certificate that handshakes get, and the files it is from.
#[derive(Debug)]
struct Certificates {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
    seen: Mutex<Seen>,
    counters: Arc<Counters>,
}

/// What the last look found.
#[derive(Debug)]
struct Seen {
    /// Versions of certificate and key as last read, whether or not they could be used.
    versions: [FileVersion; 2],
    /// They could not be read, for want of descriptors, say: they may be the next time, as they
    /// are.
    is_unread: bool,
}

impl Certificates {
    fn read(files: &TlsFiles, counters: Arc<Counters>) -> Result<Certificates, TlsError> {
        // Before the files: what changes while they are read is seen later.
        let seen = Mutex::new(Seen { versions: versions(files), is_unread: false });
        let current = RwLock::new(Arc::new(certified_key(files)?));
        let certificates = Certificates { files: files.clone(), current, seen, counters };
        certificates.tell_end(&certificates.shown());
        Ok(certificates)
    }

    fn shown(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell_end(&self, shown: &CertifiedKey) {
        let not_after_s = expiry::not_after_s(&shown.cert);
        self.counters.set_certificate_not_after(not_after_s);
        if not_after_s.is_some_and(|end| expiry::is_late(end, SystemTime::now())) {
            let file = self.files.certificate.display();
            tracing::warn!(%file, not_after_s, "certificate has ended or ends within a week");
        }
    }

    /// Takes the files if they changed and fit. Certificate and key may be replaced one after the
    /// other: until they fit, the ones before are used.
    fn refresh(&self) {
        self.refresh_with(certified_key);
    }

    fn refresh_with(&self, read: impl FnOnce(&TlsFiles) -> Result<CertifiedKey, TlsError>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = versions(&self.files);
        let is_changed = seen.versions != now;
        if !is_changed && !seen.is_unread {
            return;
        }
        let read = read(&self.files);
        *seen = Seen { versions: now, is_unread: read.as_ref().is_err_and(TlsError::is_unread) };
        let file = self.files.certificate.display();
        match read {
            Ok(key) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                if current.cert != key.cert {
                    tracing::info!(%file, "certificate renewed");
                    self.tell_end(&key);
                    *current = Arc::new(key);
                }
            }
            // Told once.
            Err(_) if !is_changed => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(%file, error, "changed certificate not taken, the one before stays");
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown())
    }
}

fn versions(files: &TlsFiles) -> [FileVersion; 2] {
    [&files.certificate, &files.key].map(|file| FileVersion::of(file))
}

fn certified_key(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| TlsError::Certificate(files.certificate.clone(), error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(files.key.clone()),
        error => TlsError::Key(files.key.clone(), error),
    })?;
    Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
}

/// AES with keys of 128 bits first, whatever the client likes best: most name 256 first, which takes a
/// third more time (12 KB: 2.6 and 3.5 µs), on both sides.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        !matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    });
    provider
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_do_not_fit_leave_the_certificate_as_it_is() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let files = TlsFiles { certificate: path("cert.pem"), key: path("key.pem") };
        let [old, new] = [(); 2].map(|()| rcgen::generate_simple_self_signed(Vec::new()).unwrap());
        fs::write(&files.certificate, old.cert.pem()).unwrap();
        fs::write(&files.key, old.signing_key.serialize_pem()).unwrap();
        let certificates = Certificates::read(&files, Arc::new(Counters::new(1))).unwrap();
        let shown_after = |change: &dyn Fn()| {
            change();
            certificates.refresh();
            certificates.shown().end_entity_cert().unwrap().clone().into_owned()
        };

        // Each by a file of its own, as renewals do: its inode tells them apart.
        let write = |name: &str, content: String| {
            fs::write(path("new"), content).unwrap();
            fs::rename(path("new"), path(name)).unwrap();
        };
        let without = shown_after(&|| fs::remove_file(&files.certificate).unwrap());
        let broken = shown_after(&|| write("cert.pem", "-----BEGIN CERTIFICATE-----".to_owned()));
        let certificate_only = shown_after(&|| write("cert.pem", new.cert.pem()));
        let both = shown_after(&|| write("key.pem", new.signing_key.serialize_pem()));

        assert_eq!([&without, &broken, &certificate_only], [old.cert.der(); 3]);
        assert_eq!(&both, new.cert.der());
    }

    #[test]
    fn files_that_could_not_be_read_are_read_again_as_they_are() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let files = TlsFiles { certificate: path("cert.pem"), key: path("key.pem") };
        let write = || {
            let made = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
            for (name, content) in
                [("cert.pem", made.cert.pem()), ("key.pem", made.signing_key.serialize_pem())]
            {
                // By a file of its own, as renewals do: its inode tells them apart.
                fs::write(path("new"), content).unwrap();
                fs::rename(path("new"), path(name)).unwrap();
            }
            made.cert.der().clone()
        };
        let old = write();
        let certificates = Certificates::read(&files, Arc::new(Counters::new(1))).unwrap();
        let shown = || certificates.shown().end_entity_cert().unwrap().clone().into_owned();
        let new = write();

        certificates.refresh_with(|files| {
            let error = io::Error::other("too many open files");
            Err(TlsError::Certificate(files.certificate.clone(), pem::Error::Io(error)))
        });
        assert_eq!(shown(), old);
        certificates.refresh();
        assert_eq!(shown(), new);
        certificates.refresh_with(|_| panic!("nothing has changed"));
    }

    #[test]
    fn counters_tell_when_the_certificate_ends_that_is_shown() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let files = TlsFiles { certificate: path("cert.pem"), key: path("key.pem") };
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        let write = |year| {
            let mut params = rcgen::CertificateParams::default();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            // By a file of its own, as renewals do: its inode tells them apart.
            fs::write(path("new"), params.self_signed(&key).unwrap().pem()).unwrap();
            fs::rename(path("new"), &files.certificate).unwrap();
        };
        let counters = Arc::new(Counters::new(1));
        let ends = || counters.totals().certificate_not_after_s;

        write(2000);
        let certificates = Certificates::read(&files, counters.clone()).unwrap();
        assert_eq!(ends(), Some(946_684_800));
        write(2038);
        certificates.refresh();
        assert_eq!(ends(), Some(2_145_916_800));
    }
}
