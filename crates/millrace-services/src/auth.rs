//! Whose request it is. Off: anybody may do anything, and the signature, if there is one, only
//! tells the region. On as soon as credentials are configured: every request must be signed.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_core::{is_account, is_plain_name};
use millrace_wire::protocol::Target;
use millrace_wire::sigv4::{AuthError, Credential, Verifier};
use millrace_wire::{ApiError, Request, Tenant};

use crate::access_keys::AccessKeys;
use crate::principal::{Caller, Principal, tenant_of};

pub(crate) struct Auth {
    verifier: Option<Verifier<AccessKeys>>,
    region: String,
    account: String,
}

/// No region of AWS has a name half as long.
const REGION_BYTES: usize = 64;

impl Auth {
    pub(crate) fn new(keys: AccessKeys, hosts: Vec<String>, region: &str, account: &str) -> Auth {
        let verifier = keys.is_on().then(|| Verifier::new(keys).with_alternative_hosts(hosts));
        Auth { verifier, region: region.to_owned(), account: account.to_owned() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.verifier.is_some()
    }

    /// The account of who has signed the request, for whatever service; if nobody need, the one
    /// that is configured.
    pub(crate) fn signing_account(&self, request: &Request<'_>) -> Result<String, ApiError> {
        match &self.verifier {
            Some(verifier) => {
                let verified = verifier.verify(request, None, now_s())?;
                Ok(verified.credential.account.clone())
            }
            None => Ok(self.account.clone()),
        }
    }

    /// Whether the head of a request may be that of somebody known; on only.
    pub(crate) fn check_head(&self, request: &Request<'_>) -> Result<Tenant, AuthError> {
        let Some(verifier) = &self.verifier else { return Ok(Tenant::EVERYBODY) };
        let credential = verifier.check_head(request, now_s())?;
        Ok(tenant_of(&credential.account))
    }

    /// The sender of a request without a signature.
    pub(crate) fn unsigned<'a>(&'a self, target: &'a Target<'_>) -> Result<Caller<'a>, ApiError> {
        let region = target.region.as_deref().unwrap_or(&self.region);
        check_region(region)?;
        let principal = Principal::unsigned();
        Ok(Caller { principal, region: region.into(), is_region_given: false })
    }

    /// The caller of a request, if it may call at all.
    pub(crate) fn identify<'a>(
        &'a self,
        request: &Request<'_>,
        target: &'a Target<'_>,
    ) -> Result<Caller<'a>, ApiError> {
        let region = target.region.as_deref().unwrap_or(&self.region);
        check_region(region)?;
        let Some(verifier) = &self.verifier else {
            return Ok(Caller {
                principal: Principal::anybody(claimed_account(target).unwrap_or(&self.account)),
                region: region.into(),
                is_region_given: target.is_region_signed,
            });
        };
        let scope = Some(target.service.scope);
        let verified =
            verifier.verify(request, scope, now_s()).map_err(target.service.auth_refusal)?;
        // A header that is spelled otherwise than the first look at it expects.
        let is_region_given = verified.region.is_some();
        let region = verified.region.map_or(Cow::Borrowed(region), Cow::Owned);
        check_region(&region)?;
        let Credential { account, user, .. } = &*verified.credential;
        let principal = Principal::user(account.clone(), user.clone(), &verified.access_key);
        Ok(Caller { principal, region, is_region_given })
    }
}

/// The wall's time, not the server's clock: that may be advanced in test mode.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Where nobody is authenticated, an access key of twelve digits names the account: what clients of
/// other self-hosted servers do to have several.
fn claimed_account<'a>(target: &'a Target<'_>) -> Option<&'a str> {
    target.access_key.as_deref().filter(|key| is_account(key))
}

/// A region becomes part of names and records: AWS refuses those that it does not have.
pub(crate) fn check_region(text: &str) -> Result<(), ApiError> {
    if is_region(text) {
        return Ok(());
    }
    Err(ApiError::signature_does_not_match("Credential should be scoped to a valid region."))
}

/// Whether a text may name a region: a short one of letters, digits, dashes and underscores.
pub fn is_region(text: &str) -> bool {
    (1..=REGION_BYTES).contains(&text.len()) && is_plain_name(text) && !text.starts_with('-')
}
