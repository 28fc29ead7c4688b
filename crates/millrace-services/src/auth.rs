//! Whose request it is. Off: anybody may do anything, and the signature, if there is one, only
//! tells the region. On as soon as credentials are configured: every request must be signed.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_core::{is_account, is_plain_name, partition};
use millrace_wire::protocol::{ServiceName, Target};
use millrace_wire::sigv4::Verifier;
use millrace_wire::{ApiError, Request, Tenant};

use crate::access_keys::{AccessKey, AccessKeys};

pub(crate) struct Auth {
    verifier: Option<Verifier<AccessKeys>>,
    region: String,
    account: String,
}

/// Who asks: region, account and sender, from the signature or the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Caller<'a> {
    pub region: Cow<'a, str>,
    /// A signature, or the console, names the region: what a queue's URL says does not count.
    pub is_region_given: bool,
    pub account: Cow<'a, str>,
    /// What messages show as their SenderId.
    pub sender_id: Cow<'a, str>,
    /// Whether a signature vouches for it; otherwise nobody is refused anything.
    pub is_authenticated: bool,
    /// The key that signed, if its signature was checked.
    pub access_key: Option<Cow<'a, str>>,
}

/// IAM: characters of a user's name.
const NAME_CHARS: usize = 64;

/// No region of AWS has a name half as long.
const REGION_BYTES: usize = 64;

/// SenderId where nobody is authenticated: of the form that AWS user ids have.
const ANONYMOUS_SENDER: &str = "AIDAMILLRACEANONYMOUS";

impl Caller<'_> {
    /// The ARN of the caller, wherever one is shown: a key is a user of its account, by the name
    /// that the configuration gives it. Without credentials everybody is the account itself.
    pub(crate) fn arn(&self, keys: &[AccessKey]) -> String {
        let Caller { region, account, .. } = self;
        let resource = match &self.access_key {
            Some(access_key) => {
                let known = keys.iter().find(|key| key.access_key == **access_key);
                let name = known.map(|key| key.name.as_str()).filter(|name| is_user_name(name));
                format!("user/{}", name.unwrap_or(access_key))
            }
            None => "root".to_owned(),
        };
        format!("arn:{}:iam::{account}:{resource}", partition(region))
    }
}

impl Caller<'_> {
    /// The tenant that the caller's account is to the server. Accounts that are not authenticated
    /// are made up by their clients, so all of them are one tenant.
    pub(crate) fn tenant(&self) -> Tenant {
        if self.is_authenticated { tenant_of(&self.account) } else { Tenant::EVERYBODY }
    }
}

fn tenant_of(account: &str) -> Tenant {
    account.parse().map(Tenant).unwrap_or_default()
}

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
    pub(crate) fn check_head(&self, request: &Request<'_>) -> Result<Tenant, ApiError> {
        let Some(verifier) = &self.verifier else { return Ok(Tenant::EVERYBODY) };
        let credential = verifier.check_head(request, now_s())?;
        Ok(tenant_of(&credential.account))
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
                region: region.into(),
                is_region_given: target.access_key.is_some(),
                account: claimed_account(target).unwrap_or(&self.account).into(),
                sender_id: sender_id(None),
                is_authenticated: false,
                access_key: None,
            });
        };
        // What no other service answers is for SQS.
        let scope = match target.service {
            ServiceName::Unknown => ServiceName::Sqs.scope(),
            service => service.scope(),
        };
        let verified = verifier.verify(request, scope, now_s()).map_err(ApiError::from)?;
        // A header that is spelled otherwise than the first look at it expects.
        let is_region_given = verified.region.is_some();
        let region = verified.region.map_or(Cow::Borrowed(region), Cow::Owned);
        check_region(&region)?;
        Ok(Caller {
            region,
            is_region_given,
            account: verified.credential.account.clone().into(),
            sender_id: sender_id(Some(&verified.access_key)),
            is_authenticated: true,
            access_key: Some(verified.access_key.into()),
        })
    }
}

/// Names of the configuration are for people and may be anything.
fn is_user_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
    (1..=NAME_CHARS).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The wall's time, not the server's clock: that may be advanced in test mode.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What messages show as the SenderId of who holds that key.
pub(crate) fn sender_id(access_key: Option<&str>) -> Cow<'static, str> {
    match access_key {
        Some(key) => format!("AIDA{}", key.trim_start_matches("AKIA")).into(),
        None => ANONYMOUS_SENDER.into(),
    }
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
