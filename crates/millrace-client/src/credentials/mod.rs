//! Who signs, and where the AWS tools' settings say so.

mod profile;
mod settings;

use std::fmt;

pub use settings::AwsSettings;

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

/// Without the secrets.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}
