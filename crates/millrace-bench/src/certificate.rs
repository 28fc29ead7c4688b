//! A certificate for one run, so that a server of our own can speak TLS.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::leftovers::Directory;

/// Certificate and key in files that vanish when this is dropped.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    _directory: Directory,
}

impl Certificate {
    /// For the names of this machine; no authority vouches for it.
    pub(crate) fn new() -> Result<Certificate> {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).context("making a certificate")?;
        let directory = Directory::new().context("making a directory")?;
        let (certificate, key) =
            (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
        fs::write(&certificate, made.cert.pem()).context("writing the certificate")?;
        fs::write(&key, made.signing_key.serialize_pem()).context("writing the key")?;
        Ok(Certificate { certificate, key, _directory: directory })
    }
}
