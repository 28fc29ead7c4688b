//! The head of a form that is signed by Signature Version 4, as services of the Query protocol take
//! it.

use std::sync::Arc;

use millrace_wire::sigv4::{SignRequest, Signer, SigningKeys};

use crate::credentials::Credentials;
use crate::transport::{Head, TransportError};

pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// Signer of requests for one service in one region.
#[derive(Debug)]
pub(crate) struct FormSigner {
    /// The name of the service in the scope of its signatures.
    scope: &'static str,
    region: String,
    /// Without, requests are not signed.
    credentials: Option<Credentials>,
    keys: Arc<SigningKeys>,
}

impl FormSigner {
    pub(crate) fn new(
        scope: &'static str,
        region: Option<String>,
        credentials: Option<Credentials>,
    ) -> FormSigner {
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        FormSigner { scope, region, credentials, keys: Arc::default() }
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    pub(crate) fn access_key(&self) -> Option<&str> {
        self.credentials.as_ref().map(|keys| keys.access_key.as_str())
    }

    pub(crate) fn head(
        &self,
        authority: &str,
        body: &str,
        now_s: u64,
    ) -> Result<Head, TransportError> {
        let mut head = Head::new("POST", "/", authority)?;
        head.header("content-type", FORM)?;
        if let Some(keys) = &self.credentials {
            let signer = Signer {
                access_key: &keys.access_key,
                secret: &keys.secret,
                session_token: keys.session_token.as_deref(),
                region: &self.region,
                service: self.scope,
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
}
