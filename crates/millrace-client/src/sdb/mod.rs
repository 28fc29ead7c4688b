//! SimpleDB over the network: its actions as forms, its answers as items.

mod answer;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use millrace_wire::sigv2;
use millrace_wire::simpledb;

pub use answer::{Item, Page};

use crate::credentials::Credentials;
use crate::encoding::form;
use crate::error::CallError;
use crate::signed_form::FormSigner;
use crate::sqs::error_of;
use crate::transport::{Call, Endpoint, Lane, Repeat, Transport, TransportOptions};

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
    /// Those that sign in the form, by version 2.
    credentials: Option<Credentials>,
    signer: FormSigner,
}

impl SdbClient {
    /// Opens no connection yet.
    ///
    /// # Errors
    ///
    /// If the endpoint is `https` and no certificate authority can be read.
    pub fn new(endpoint: Endpoint, options: SdbOptions) -> Result<SdbClient, CallError> {
        let (in_form, in_head) = match options.signature {
            SignatureVersion::Two => (options.credentials, None),
            SignatureVersion::Four => (None, options.credentials),
        };
        Ok(SdbClient {
            transport: Transport::new(endpoint, &options.transport)?,
            credentials: in_form,
            signer: FormSigner::new(simpledb::SERVICE.scope, options.region, in_head),
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
        if let Some(keys) = &self.credentials {
            let signer = sigv2::Signer {
                access_key: &keys.access_key,
                secret: &keys.secret,
                session_token: keys.session_token.as_deref(),
            };
            signer.sign(authority, now_s, &mut parameters);
        }
        let body = form(&parameters);
        let head = self.signer.head(authority, &body, now_s)?;
        // All actions may be repeated: they do nothing the second time.
        let (lane, wait, repeat) = (Lane::Quick, Duration::ZERO, Repeat::Safe);
        let body = Bytes::from(body);
        let answer = self.transport.call(Call { lane, head, body, wait, repeat }).await?;
        if answer.status == 200 { answer::read(&answer.body) } else { Err(error_of(&answer)) }
    }

    /// The connections.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }
}
