//! Whose request it is. Off: anybody may do anything, and the signature, if there is one, only
//! tells the region. On as soon as credentials are configured: every request must be signed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_wire::protocol::{ServiceName, Target};
use millrace_wire::sigv4::{Credential, Credentials, Verifier};
use millrace_wire::{ApiError, Request};

/// Configured credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    pub access_key: String,
    pub secret_key: String,
    /// Twelve digits.
    pub account: String,
    /// User name, for ARNs and logs.
    pub name: String,
}

struct Known(HashMap<String, Arc<Credential>>);

impl Credentials for Known {
    fn find(&self, access_key: &str) -> Option<Arc<Credential>> {
        self.0.get(access_key).cloned()
    }
}

pub(crate) struct Auth {
    verifier: Option<Verifier<Known>>,
    region: String,
    account: String,
}

/// An authenticated caller.
pub(crate) struct Identity {
    pub region: String,
    pub account: String,
    pub sender_id: String,
}

/// SenderId where nobody is authenticated: of the form that AWS user ids have.
const ANONYMOUS_SENDER: &str = "AIDAMILLRACEANONYMOUS";

impl Auth {
    pub(crate) fn new(keys: &[AccessKey], hosts: Vec<String>, region: &str, account: &str) -> Auth {
        let known = keys.iter().map(|key| {
            let credential = Credential {
                secret: key.secret_key.clone(),
                account: key.account.clone(),
                principal: format!("arn:aws:iam::{}:user/{}", key.account, key.name),
                session_token: None,
                expires_at: None,
            };
            (key.access_key.clone(), Arc::new(credential))
        });
        let known: HashMap<_, _> = known.collect();
        let verifier =
            (!known.is_empty()).then(|| Verifier::new(Known(known)).with_alternative_hosts(hosts));
        Auth { verifier, region: region.to_owned(), account: account.to_owned() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.verifier.is_some()
    }

    /// The caller of a request, if it may call at all.
    pub(crate) fn identify(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
    ) -> Result<Identity, ApiError> {
        let region = target.region.as_deref().unwrap_or(&self.region).to_owned();
        let Some(verifier) = &self.verifier else {
            let sender_id = ANONYMOUS_SENDER.to_owned();
            return Ok(Identity { region, account: self.account.clone(), sender_id });
        };
        // The wall's time, not the server's clock: that may be advanced in test mode.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let scope = match target.service {
            ServiceName::Unknown => None,
            service => service.scope(),
        };
        let verified = verifier.verify(request, scope, now).map_err(ApiError::from)?;
        Ok(Identity {
            region: verified.region,
            account: verified.credential.account.clone(),
            sender_id: format!("AIDA{}", verified.access_key.trim_start_matches("AKIA")),
        })
    }
}
