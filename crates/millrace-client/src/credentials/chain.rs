//! Credentials as the AWS tools find them, through the crate `aws-config`: environment, profiles
//! with roles, processes or single sign-on, web identity, container and instance metadata. They
//! expire; a client fetches new ones a while before that.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::BehaviorVersion;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use tokio::sync::Mutex;

use super::Credentials;
use crate::error::{CallError, CallErrorKind};

/// How long before their end credentials are replaced.
const AHEAD: Duration = Duration::from_secs(300);

/// A chain of providers, and what it gave last.
#[derive(Debug)]
pub struct CredentialsChain {
    provider: SharedCredentialsProvider,
    /// A lock held while new ones are fetched, so that one request fetches for all.
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    credentials: Arc<Credentials>,
    ends_at: Option<SystemTime>,
}

impl CredentialsChain {
    /// The default chain of the AWS tools, for `AWS_PROFILE` or the profile given. Nothing is
    /// fetched yet.
    ///
    /// # Errors
    ///
    /// If the settings say that there are to be no credentials.
    pub async fn load(profile: Option<&str>) -> Result<CredentialsChain, CallError> {
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        let provider = loader.load().await.credentials_provider();
        provider.map(CredentialsChain::of).ok_or_else(|| none("the settings want none"))
    }

    /// Any provider of the AWS SDK.
    pub fn of(provider: SharedCredentialsProvider) -> CredentialsChain {
        CredentialsChain { provider, kept: Mutex::new(None) }
    }

    /// Credentials that last for some minutes, if the provider's do.
    pub(crate) async fn credentials(&self) -> Result<Arc<Credentials>, CallError> {
        let mut kept = self.kept.lock().await;
        let now = SystemTime::now();
        if let Some(kept) = &*kept
            && kept.ends_at.is_none_or(|end| now + AHEAD < end)
        {
            return Ok(Arc::clone(&kept.credentials));
        }
        match self.provider.provide_credentials().await {
            Ok(found) => {
                let credentials = Arc::new(Credentials {
                    access_key: found.access_key_id().to_owned(),
                    secret: found.secret_access_key().to_owned(),
                    session_token: found.session_token().map(str::to_owned),
                });
                let ends_at = found.expiry();
                *kept = Some(Kept { credentials: Arc::clone(&credentials), ends_at });
                Ok(credentials)
            }
            // The old ones are good until their end.
            Err(error) => match &*kept {
                Some(kept) if kept.ends_at.is_none_or(|end| now < end) => {
                    Ok(Arc::clone(&kept.credentials))
                }
                _ => Err(none(error)),
            },
        }
    }
}

fn none(problem: impl std::fmt::Display) -> CallError {
    CallError::new(CallErrorKind::Auth, "no-credentials", format!("no credentials: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use aws_credential_types::provider::{error::CredentialsError, future};

    use super::*;

    /// Numbered credentials that last for so many seconds, up to a number.
    #[derive(Debug)]
    struct Numbered {
        count: Arc<AtomicU32>,
        lasting_s: u64,
        most: u32,
    }

    impl ProvideCredentials for Numbered {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            if number > self.most {
                let error = CredentialsError::not_loaded("none left");
                return future::ProvideCredentials::ready(Err(error));
            }
            let end = SystemTime::now() + Duration::from_secs(self.lasting_s);
            let found = aws_credential_types::Credentials::new(
                format!("KEY{number}"),
                "secret",
                Some("token".to_owned()),
                Some(end),
                "test",
            );
            future::ProvideCredentials::ready(Ok(found))
        }
    }

    async fn keys(lasting_s: u64, most: u32) -> Vec<Result<String, CallErrorKind>> {
        let numbered = Numbered { count: Arc::default(), lasting_s, most };
        let chain = CredentialsChain::of(SharedCredentialsProvider::new(numbered));
        let mut keys = Vec::new();
        for _ in 0..3 {
            let found = chain.credentials().await;
            keys.push(found.map(|found| found.access_key.clone()).map_err(|error| error.kind));
        }
        keys
    }

    #[tokio::test]
    async fn credentials_are_kept_until_shortly_before_their_end() {
        let key = |number: u32| Ok(format!("KEY{number}"));
        assert_eq!(keys(3600, 9).await, [key(1), key(1), key(1)]);
        assert_eq!(keys(60, 9).await, [key(1), key(2), key(3)]);
        assert_eq!(keys(60, 1).await, [key(1), key(1), key(1)], "old ones are better than none");
        assert_eq!(keys(3600, 0).await, vec![Err(CallErrorKind::Auth); 3]);
    }
}
