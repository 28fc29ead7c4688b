//! Credentials as the AWS tools find them, through the crate `aws-config`: environment, profiles
//! with roles, processes or single sign-on, web identity, container and instance metadata. They
//! expire; a client fetches new ones a while before that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::BehaviorVersion;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use tokio::time::{Instant, timeout};

use super::Credentials;
use crate::error::{CallError, CallErrorKind};

/// How long before their end credentials are replaced.
const AHEAD: Duration = Duration::from_secs(300);
/// How often others are asked for while those at hand are still good …
const PAUSE: Duration = Duration::from_secs(10);
/// … and how long one call then waits for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long calls wait that have none: a process that signs on may be slow.
const PATIENCE_WITHOUT: Duration = Duration::from_secs(60);

/// A chain of providers, and what it gave last.
#[derive(Debug)]
pub struct CredentialsChain {
    provider: SharedCredentialsProvider,
    /// A lock because all requests share it; held for a look.
    kept: Mutex<Kept>,
    /// Held while new ones are fetched, so that one request fetches for all.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    found: Option<Found>,
    /// When they were last asked for: also by who did not stay for the answer.
    asked: Option<Instant>,
    /// When an answer, or none in time, was last noted.
    answered: Option<Instant>,
    /// If there was no good answer.
    failure: Option<CallError>,
}

#[derive(Debug)]
struct Found {
    credentials: Arc<Credentials>,
    ends_at: Option<SystemTime>,
}

/// How good the credentials at hand are.
enum Standing {
    Good(Arc<Credentials>),
    /// Good still, but others are to be fetched.
    Ending(Arc<Credentials>),
    Missing,
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
        CredentialsChain {
            provider,
            kept: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        }
    }

    /// Credentials that last for some minutes, if the provider's do. While those at hand are good,
    /// one request at a time waits for others, and no request fails for lack of them.
    pub(crate) async fn credentials(&self) -> Result<Arc<Credentials>, CallError> {
        let began = Instant::now();
        match self.standing() {
            Standing::Good(credentials) => Ok(credentials),
            Standing::Ending(old) => match self.fetching.try_lock() {
                Ok(_fetching) => Ok(self.fetch(PATIENCE).await.unwrap_or(old)),
                Err(_) => Ok(old),
            },
            Standing::Missing => {
                let _fetching = self.fetching.lock().await;
                match self.fetched_since(began) {
                    Some(fetched) => fetched,
                    None => self.fetch(PATIENCE_WITHOUT).await,
                }
            }
        }
    }

    fn standing(&self) -> Standing {
        let (kept, now) = (self.kept(), SystemTime::now());
        let Some(found) = &kept.found else { return Standing::Missing };
        let lasts = |time: Duration| found.ends_at.is_none_or(|end| now + time < end);
        let was_asked = kept.asked.is_some_and(|asked| asked.elapsed() < PAUSE);
        let credentials = Arc::clone(&found.credentials);
        match (lasts(AHEAD), lasts(Duration::ZERO)) {
            (true, _) => Standing::Good(credentials),
            (false, true) if was_asked => Standing::Good(credentials),
            (false, true) => Standing::Ending(credentials),
            (false, false) => Standing::Missing,
        }
    }

    /// What another request has fetched for this one, which waited meanwhile.
    fn fetched_since(&self, began: Instant) -> Option<Result<Arc<Credentials>, CallError>> {
        let kept = self.kept();
        kept.answered.filter(|answered| *answered > began)?;
        match (&kept.failure, &kept.found) {
            (Some(failure), _) => Some(Err(failure.clone())),
            (None, found) => found.as_ref().map(|found| Ok(Arc::clone(&found.credentials))),
        }
    }

    async fn fetch(&self, patience: Duration) -> Result<Arc<Credentials>, CallError> {
        self.kept().asked = Some(Instant::now());
        let fetched = match timeout(patience, self.provider.provide_credentials()).await {
            Ok(fetched) => fetched.map_err(none),
            Err(_) => Err(none("the provider does not answer")),
        };
        let mut kept = self.kept();
        (kept.asked, kept.answered) = (Some(Instant::now()), Some(Instant::now()));
        kept.failure = fetched.as_ref().err().cloned();
        let fetched = fetched?;
        let credentials = Arc::new(Credentials {
            access_key: fetched.access_key_id().to_owned(),
            secret: fetched.secret_access_key().to_owned(),
            session_token: fetched.session_token().map(str::to_owned),
        });
        let ends_at = fetched.expiry();
        kept.found = Some(Found { credentials: Arc::clone(&credentials), ends_at });
        Ok(credentials)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic inside cannot leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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
        then: Then,
    }

    #[derive(Debug)]
    enum Then {
        Fail,
        Hang,
    }

    impl ProvideCredentials for Numbered {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            if number > self.most {
                if let Then::Hang = self.then {
                    return future::ProvideCredentials::new(std::future::pending());
                }
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

    fn chain(lasting_s: u64, most: u32, then: Then) -> (Arc<CredentialsChain>, Arc<AtomicU32>) {
        let count = Arc::default();
        let numbered = Numbered { count: Arc::clone(&count), lasting_s, most, then };
        let chain = CredentialsChain::of(SharedCredentialsProvider::new(numbered));
        (Arc::new(chain), count)
    }

    async fn key(chain: &CredentialsChain) -> Result<String, CallErrorKind> {
        let found = chain.credentials().await;
        found.map(|found| found.access_key.clone()).map_err(|error| error.kind)
    }

    /// Three of them, so far apart that they may be asked for each time.
    async fn keys(lasting_s: u64, most: u32) -> Vec<Result<String, CallErrorKind>> {
        let (chain, _) = chain(lasting_s, most, Then::Fail);
        let mut keys = Vec::new();
        for _ in 0..3 {
            keys.push(key(&chain).await);
            tokio::time::advance(PAUSE).await;
        }
        keys
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_kept_until_shortly_before_their_end() {
        let key = |number: u32| Ok(format!("KEY{number}"));
        assert_eq!(keys(3600, 9).await, [key(1), key(1), key(1)]);
        assert_eq!(keys(60, 9).await, [key(1), key(2), key(3)]);
        assert_eq!(keys(60, 1).await, [key(1), key(1), key(1)], "old ones are better than none");
        assert_eq!(keys(3600, 0).await, vec![Err(CallErrorKind::Auth); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_waits_for_new_credentials_while_the_old_ones_are_good() {
        let (chain, asked) = chain(60, 1, Then::Hang);
        key(&chain).await.unwrap();
        tokio::time::advance(PAUSE).await;
        let started = Instant::now();

        let first = tokio::spawn({
            let chain = Arc::clone(&chain);
            async move { key(&chain).await }
        });
        tokio::task::yield_now().await;
        for _ in 0..10 {
            assert_eq!(key(&chain).await.unwrap(), "KEY1");
        }
        assert_eq!(started.elapsed(), Duration::ZERO, "the others do not wait");
        assert_eq!(first.await.unwrap().unwrap(), "KEY1");
        assert_eq!(started.elapsed(), PATIENCE);

        // Nobody asks again for a while.
        key(&chain).await.unwrap();
        assert_eq!((started.elapsed(), asked.load(Ordering::Relaxed)), (PATIENCE, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_cannot_wait_so_long_is_not_kept_waiting_again() {
        let (chain, asked) = chain(60, 1, Then::Hang);
        key(&chain).await.unwrap();
        tokio::time::advance(PAUSE).await;
        timeout(PATIENCE / 2, key(&chain)).await.unwrap_err();
        let dropped = Instant::now();

        assert_eq!(key(&chain).await.unwrap(), "KEY1");

        assert_eq!((dropped.elapsed(), asked.load(Ordering::Relaxed)), (Duration::ZERO, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_waited_for_the_same_failure_do_not_wait_again() {
        let (chain, asked) = chain(60, 0, Then::Hang);
        let started = Instant::now();

        let both = tokio::join!(key(&chain), key(&chain));

        assert_eq!(both, (Err(CallErrorKind::Auth), Err(CallErrorKind::Auth)));
        assert_eq!((started.elapsed(), asked.load(Ordering::Relaxed)), (PATIENCE_WITHOUT, 1));
    }
}
