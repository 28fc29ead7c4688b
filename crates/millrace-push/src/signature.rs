//! Signatures of notifications: an RSA key of 2048 bits with a certificate that it signed itself,
//! made once and then kept, by [`KeptSigner`] in the journal.
//!
//! A signature takes some 2.5 ms of CPU in version 1 and 0.7 ms in version 2: callers sign once for
//! all subscriptions of a topic. The key never appears in texts or logs.

mod kept;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use getrandom::SysRng;
use millrace_core::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::RSA_PKCS1_SHA256;
use rsa::pkcs1v15::SigningKey;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding};
use rsa::signature::{Keypair, SignatureEncoding, Signer as _};
use rsa::{PrivateKey, pkcs1v15};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use x509_cert::builder::{self, Builder, CertificateBuilder, profile::BuilderProfile};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::{DateTime, DecodePem, Encode, EncodePem};
use x509_cert::ext::pkix::{KeyUsage, KeyUsages};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfo, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};
use x509_cert::{Certificate, der};

pub use kept::{KeptSigner, KeptSignerError};

const KEY_BITS: usize = 2048;
const SUBJECT: &str = "CN=Millrace notifications";
/// Receivers keep what they were sent, and verify it years later.
const VALID_FOR: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
/// A receiver's clock may be behind ours.
const VALID_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// `SignatureVersion` of a notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureVersion {
    /// RSA PKCS #1 v1.5 with SHA-1.
    #[default]
    V1,
    /// The same with SHA-256.
    V2,
}

/// Something went wrong with the key or the certificate. Says nothing of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signing key: {0}")]
pub struct SignerError(String);

/// Signs notifications.
pub struct Signer {
    v1: SigningKey<Sha1>,
    /// ring signs several times as fast, but not with SHA-1.
    v2: ring::rsa::KeyPair,
    random: SystemRandom,
    key_pem: String,
    certificate_pem: String,
    certificate_id: String,
}

impl Signer {
    /// Makes a key on a thread of its own: that takes some tenths of a second of CPU. Cancel safe.
    ///
    /// # Errors
    ///
    /// If there is no thread, or the system gives no random numbers.
    pub async fn generate_aside(now: Timestamp) -> Result<Signer, SignerError> {
        let (made, signer) = oneshot::channel();
        let thread = std::thread::Builder::new().name("signing-key".to_owned());
        // Nobody may wait any more.
        let spawned = thread.spawn(move || drop(made.send(Signer::generate(now))));
        spawned.map_err(|error| SignerError(error.to_string()))?;
        signer.await.map_err(|_| SignerError("it could not be made".to_owned()))?
    }

    /// Makes a key and its certificate.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn generate(now: Timestamp) -> Result<Signer, SignerError> {
        let key = PrivateKey::new(&mut SysRng, KEY_BITS).map_err(failed)?;
        let certificate = certificate(&SigningKey::new(key.clone()), now).map_err(failed)?;
        Signer::new(key, &certificate)
    }

    /// Reads what [`Signer::to_bytes`] gave.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Signer, SignerError> {
        let text = str::from_utf8(bytes).map_err(failed)?;
        let certificate_at = text
            .find("-----BEGIN CERTIFICATE-----")
            .ok_or_else(|| SignerError("there is no certificate".to_owned()))?;
        let (key, certificate) = text.split_at(certificate_at);
        let key = PrivateKey::from_pkcs8_pem(key).map_err(failed)?;
        Signer::new(key, &Certificate::from_pem(certificate).map_err(failed)?)
    }

    /// Key and certificate as PEM, one after the other. A secret.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.key_pem.as_bytes(), self.certificate_pem.as_bytes()].concat()
    }

    /// The certificate, for those who verify signatures.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// 32 hexadecimal digits that no other certificate has: part of the certificate's URL.
    pub fn certificate_id(&self) -> &str {
        &self.certificate_id
    }

    /// The signature of a text, in base64.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers: they hide from others how long signing takes.
    pub fn sign(&self, version: SignatureVersion, text: &[u8]) -> Result<String, SignerError> {
        match version {
            SignatureVersion::V1 => {
                let signature: pkcs1v15::Signature = self.v1.try_sign(text).map_err(failed)?;
                Ok(BASE64.encode(signature.to_bytes()))
            }
            SignatureVersion::V2 => {
                let mut signature = vec![0; self.v2.public().modulus_len()];
                self.v2
                    .sign(&RSA_PKCS1_SHA256, &self.random, text, &mut signature)
                    .map_err(failed)?;
                Ok(BASE64.encode(signature))
            }
        }
    }

    fn new(key: PrivateKey, certificate: &Certificate) -> Result<Signer, SignerError> {
        let v1 = SigningKey::<Sha1>::new(key.clone());
        let spki = SubjectPublicKeyInfo::from_key(&v1.verifying_key()).map_err(failed)?;
        if *certificate.tbs_certificate().subject_public_key_info() != spki {
            return Err(SignerError("the certificate is another key's".to_owned()));
        }
        let pkcs8 = key.to_pkcs8_der().map_err(failed)?;
        let digest = Sha256::digest(certificate.to_der().map_err(failed)?);
        Ok(Signer {
            v1,
            v2: ring::rsa::KeyPair::from_pkcs8(pkcs8.as_bytes()).map_err(failed)?,
            random: SystemRandom::new(),
            key_pem: key.to_pkcs8_pem(LineEnding::LF).map_err(failed)?.to_string(),
            certificate_pem: certificate.to_pem(LineEnding::LF).map_err(failed)?,
            certificate_id: digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
        })
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.certificate_id;
        formatter.debug_struct("Signer").field("certificate_id", id).finish_non_exhaustive()
    }
}

/// Text that a signature is over.
#[derive(Clone, Copy, Debug)]
pub enum Signed<'a> {
    Notification {
        message: &'a str,
        message_id: &'a str,
        subject: Option<&'a str>,
        timestamp: &'a str,
        topic_arn: &'a str,
    },
    SubscriptionConfirmation(Confirmation<'a>),
    UnsubscribeConfirmation(Confirmation<'a>),
}

/// The signed members of a confirmation.
#[derive(Clone, Copy, Debug)]
pub struct Confirmation<'a> {
    pub message: &'a str,
    pub message_id: &'a str,
    pub subscribe_url: &'a str,
    pub timestamp: &'a str,
    pub token: &'a str,
    pub topic_arn: &'a str,
}

impl Signed<'_> {
    /// `Name\nvalue\n` for each member, in the order of their names.
    pub fn string_to_sign(&self) -> String {
        match *self {
            Signed::Notification { message, message_id, subject, timestamp, topic_arn } => {
                lines(&[
                    ("Message", Some(message)),
                    ("MessageId", Some(message_id)),
                    ("Subject", subject),
                    ("Timestamp", Some(timestamp)),
                    ("TopicArn", Some(topic_arn)),
                    ("Type", Some("Notification")),
                ])
            }
            Signed::SubscriptionConfirmation(members) => {
                members.string_to_sign("SubscriptionConfirmation")
            }
            Signed::UnsubscribeConfirmation(members) => {
                members.string_to_sign("UnsubscribeConfirmation")
            }
        }
    }
}

impl Confirmation<'_> {
    fn string_to_sign(&self, kind: &str) -> String {
        lines(&[
            ("Message", Some(self.message)),
            ("MessageId", Some(self.message_id)),
            ("SubscribeURL", Some(self.subscribe_url)),
            ("Timestamp", Some(self.timestamp)),
            ("Token", Some(self.token)),
            ("TopicArn", Some(self.topic_arn)),
            ("Type", Some(kind)),
        ])
    }
}

fn lines(members: &[(&str, Option<&str>)]) -> String {
    let present = members.iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    present.fold(String::new(), |mut text, (name, value)| {
        for part in [name, "\n", value, "\n"] {
            text.push_str(part);
        }
        text
    })
}

/// A certificate of this key, signed with it.
fn certificate(key: &SigningKey<Sha256>, now: Timestamp) -> Result<Certificate, builder::Error> {
    let now = Duration::from_millis(now.0);
    let time = |since_1970| DateTime::from_unix_duration(since_1970).map(Time::from);
    let validity = Validity::new(time(now.saturating_sub(VALID_BEFORE))?, time(now + VALID_FOR)?);
    let public_key = SubjectPublicKeyInfo::from_key(&key.verifying_key())?;
    let mut serial = [0; 16];
    // Receivers take two certificates with one serial number for the same.
    getrandom::fill(&mut serial).map_err(|_| der::Error::from(der::ErrorKind::Failed))?;
    serial[0] &= 0x7f;
    let serial = SerialNumber::new(&serial)?;
    let profile = Own(Name::from_str(SUBJECT)?);
    CertificateBuilder::new(profile, serial, validity, public_key)?
        .build::<_, pkcs1v15::Signature>(key)
}

/// The certificate of a key that signs notifications and nothing else.
struct Own(Name);

impl BuilderProfile for Own {
    fn get_issuer(&self, subject: &Name) -> Name {
        subject.clone()
    }

    fn get_subject(&self) -> Name {
        self.0.clone()
    }

    fn build_extensions(
        &self,
        _key: SubjectPublicKeyInfoRef<'_>,
        _issuer_key: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> builder::Result<Vec<Extension>> {
        let usage = KeyUsage(KeyUsages::DigitalSignature.into());
        Ok(vec![usage.to_extension(tbs.subject(), &[])?])
    }
}

/// None of the libraries' errors shows a key.
fn failed(error: impl fmt::Display) -> SignerError {
    SignerError(error.to_string())
}

#[cfg(test)]
mod tests;
