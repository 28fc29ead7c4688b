//! Who signs, and where the AWS tools' settings say so.

#[cfg(feature = "aws-config")]
mod chain;
mod profile;
mod settings;

use std::fmt;
use std::sync::Arc;

use crate::error::CallError;

#[cfg(feature = "aws-config")]
pub use chain::CredentialsChain;
pub use settings::{AwsSettings, AwsSettingsError, IndirectKeys};

/// An access key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub access_key: String,
    pub secret: String,
    /// Of temporary credentials.
    pub session_token: Option<String>,
}

impl Credentials {
    /// Credentials without a session token.
    pub fn new(access_key: impl Into<String>, secret: impl Into<String>) -> Credentials {
        Credentials { access_key: access_key.into(), secret: secret.into(), session_token: None }
    }
}

/// Whom requests are signed for.
#[derive(Clone, Debug)]
pub(crate) enum Signatory {
    /// Nobody: requests are not signed.
    None,
    Fixed(Arc<Credentials>),
    #[cfg(feature = "aws-config")]
    Chain(Arc<CredentialsChain>),
}

impl Signatory {
    pub(crate) async fn credentials(&self) -> Result<Option<Arc<Credentials>>, CallError> {
        match self {
            Signatory::None => Ok(None),
            Signatory::Fixed(credentials) => Ok(Some(Arc::clone(credentials))),
            #[cfg(feature = "aws-config")]
            Signatory::Chain(chain) => chain.credentials().await.map(Some),
        }
    }
}

/// Without the secrets; a token is the second part of a key `project:token`.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("access_key", &self.access_key.split(':').next().unwrap_or_default())
            .finish_non_exhaustive()
    }
}
