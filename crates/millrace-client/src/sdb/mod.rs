//! SimpleDB over the network: its actions as forms, its answers as items.

mod answer;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use millrace_wire::sigv2;
use millrace_wire::sigv4::{SignRequest, Signer, SigningKeys};
use millrace_wire::simpledb;

pub use answer::{Item, Page};

use crate::credentials::Credentials;
use crate::encoding::form;
use crate::error::CallError;
use crate::sqs::error_of;
use crate::transport::{
    Call, Endpoint, Head, Lane, Repeat, Transport, TransportError, TransportOptions,
};

const FORM: &str = "application/x-www-form-urlencoded";

/// Parameters of a call: names and values.
pub type Parameters = Vec<(String, String)>;

/// The signature that a service takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureVersion {
    /// The only one that Amazon's takes. It names no region.
    Two,
    Four,
}

/// How to reach the service.
#[derive(Clone, Debug)]
pub struct SdbOptions {
    /// Without, `us-east-1`.
    pub region: Option<String>,
    /// Without, requests are not signed.
    pub credentials: Option<Credentials>,
    pub signature: SignatureVersion,
    pub transport: TransportOptions,
}

/// Speaks with one endpoint.
#[derive(Debug)]
pub struct SdbClient {
    transport: Transport,
    region: String,
    credentials: Option<Credentials>,
    signature: SignatureVersion,
    keys: Arc<SigningKeys>,
}

impl SdbClient {
    /// Opens no connection yet.
    ///
    /// # Errors
    ///
    /// If the endpoint is `https` and no certificate authority can be read.
    pub fn new(endpoint: Endpoint, options: SdbOptions) -> Result<SdbClient, CallError> {
        Ok(SdbClient {
            transport: Transport::new(endpoint, &options.transport)?,
            region: options.region.unwrap_or_else(|| "us-east-1".to_owned()),
            credentials: options.credentials,
            signature: options.signature,
            keys: Arc::default(),
        })
    }

    /// Calls an action that answers nothing, or [`Page`]s of items.
    ///
    /// Cancel safety: the server may still do what was asked.
    ///
    /// # Errors
    ///
    /// The server's error, or what broke on the way.
    pub async fn call(&self, action: &str, parameters: Parameters) -> Result<Page, CallError> {
        let version = simpledb::SERVICE.versions.first().copied().unwrap_or_default();
        let mut parameters = parameters;
        parameters.push(("Action".to_owned(), action.to_owned()));
        parameters.push(("Version".to_owned(), version.to_owned()));
        let authority = &self.transport.endpoint().authority;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if let (Some(keys), SignatureVersion::Two) = (&self.credentials, self.signature) {
            let signer = sigv2::Signer {
                access_key: &keys.access_key,
                secret: &keys.secret,
                session_token: keys.session_token.as_deref(),
            };
            signer.sign(authority, now_s, &mut parameters);
        }
        let body = form(&parameters);
        let head = self.head(&body, now_s)?;
        // All actions may be repeated: they do nothing the second time.
        let (lane, wait, repeat) = (Lane::Quick, Duration::ZERO, Repeat::Safe);
        let body = Bytes::from(body);
        let answer = self.transport.call(Call { lane, head, body, wait, repeat }).await?;
        if answer.status == 200 { answer::read(&answer.body) } else { Err(error_of(&answer)) }
    }

    /// The head of a request with that form, which may be signed in the form already.
    fn head(&self, body: &str, now_s: u64) -> Result<Head, TransportError> {
        let authority = &self.transport.endpoint().authority;
        let mut head = Head::new("POST", "/", authority)?;
        head.header("content-type", FORM)?;
        if let (Some(keys), SignatureVersion::Four) = (&self.credentials, self.signature) {
            let signer = Signer {
                access_key: &keys.access_key,
                secret: &keys.secret,
                session_token: keys.session_token.as_deref(),
                region: &self.region,
                service: simpledb::SERVICE.scope,
            };
            let headers = &[("content-type", FORM), ("host", authority)];
            let (method, path, query, body) = ("POST", "/", "", body.as_bytes());
            let request = SignRequest { method, path, query, headers, body };
            for (name, value) in signer.sign_keeping(&request, now_s, &self.keys) {
                head.header(name, &value)?;
            }
        }
        Ok(head)
    }

    /// The connections.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }
}
