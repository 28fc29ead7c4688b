//! SNS over the network: its actions as forms, its answers as texts.

mod answer;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

pub use answer::{Answer, Texts, text};

use crate::credentials::Credentials;
use crate::encoding::form;
use crate::error::CallError;
use crate::signed_form::FormSigner;
use crate::sqs::error_of;
use crate::transport::{Call, Endpoint, Lane, Repeat, Transport, TransportOptions};

/// Version of SNS's API.
const VERSION: &str = "2010-03-31";
/// The service in the scope of signatures.
const SCOPE: &str = "sns";

/// Region, keys and connections of a client.
#[derive(Clone, Debug)]
pub struct SnsOptions {
    /// Without, `us-east-1`.
    pub region: Option<String>,
    /// Without, requests are not signed.
    pub credentials: Option<Credentials>,
    pub transport: TransportOptions,
}

/// Speaks with one endpoint.
#[derive(Debug)]
pub struct SnsClient {
    transport: Transport,
    signer: FormSigner,
}

impl SnsClient {
    /// Opens no connection yet.
    ///
    /// # Errors
    ///
    /// If the endpoint is `https` and no certificate authority can be read.
    pub fn new(endpoint: Endpoint, options: SnsOptions) -> Result<SnsClient, CallError> {
        Ok(SnsClient {
            transport: Transport::new(endpoint, &options.transport)?,
            signer: FormSigner::new(SCOPE, options.region, options.credentials),
        })
    }

    /// The region that requests are for.
    #[must_use]
    pub fn region(&self) -> &str {
        self.signer.region()
    }

    /// The key that requests are signed with.
    #[must_use]
    pub fn access_key(&self) -> Option<&str> {
        self.signer.access_key()
    }

    /// Calls an action; parameters as the Query protocol has them, such as `Tags.member.1.Key`.
    ///
    /// Cancel safety: the server may still do what was asked.
    ///
    /// # Errors
    ///
    /// The server's error, or what broke on the way.
    pub async fn call(&self, action: &str, mut parameters: Texts) -> Result<Answer, CallError> {
        // All others do nothing the second time.
        let is_repeatable = !action.starts_with("Publish");
        parameters.push(("Action".to_owned(), action.to_owned()));
        parameters.push(("Version".to_owned(), VERSION.to_owned()));
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let body = form(&parameters);
        let head = self.signer.head(&self.transport.endpoint().authority, &body, now_s)?;
        let repeat = if is_repeatable { Repeat::Safe } else { Repeat::IfStale };
        let (lane, wait, body) = (Lane::Quick, Duration::ZERO, Bytes::from(body));
        let answer = self.transport.call(Call { lane, head, body, wait, repeat }).await?;
        if answer.status == 200 { answer::read(&answer.body) } else { Err(error_of(&answer)) }
    }
}
