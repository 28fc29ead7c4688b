//! Who asks: an account, and the user of it whose key signed.

use std::borrow::Cow;

use millrace_core::partition;
use millrace_wire::Tenant;

/// Whom a request is from.
#[derive(Clone, Debug)]
pub struct Principal<'a> {
    /// Twelve digits.
    pub(crate) account: Cow<'a, str>,
    pub(crate) kind: PrincipalKind<'a>,
    /// What messages show as their SenderId: of the form that AWS user ids have.
    pub(crate) id: Cow<'a, str>,
}

/// What vouches for a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrincipalKind<'a> {
    /// Nothing: no credentials are configured, and everybody may do anything in any account.
    Anybody,
    /// The server itself, which acts for the account.
    Account,
    /// The key of this user.
    User(Cow<'a, str>),
}

/// A principal and the region that it asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller<'a> {
    pub principal: Principal<'a>,
    pub region: Cow<'a, str>,
    /// A signature, or the console, names the region: what a queue's URL says does not count.
    pub is_region_given: bool,
}

/// SenderId where nobody is authenticated.
const ANONYMOUS_ID: &str = "AIDAMILLRACEANONYMOUS";

impl<'a> Principal<'a> {
    /// Who asks where no credentials are configured.
    pub(crate) fn anybody(account: impl Into<Cow<'a, str>>) -> Principal<'a> {
        let kind = PrincipalKind::Anybody;
        Principal { account: account.into(), kind, id: ANONYMOUS_ID.into() }
    }

    /// The account itself.
    pub(crate) fn account(account: impl Into<Cow<'a, str>>) -> Principal<'a> {
        let account = account.into();
        Principal { id: account.clone(), account, kind: PrincipalKind::Account }
    }

    /// The user of an account who has that key.
    pub(crate) fn user(account: String, user: String, access_key: &str) -> Principal<'a> {
        let id = format!("AIDA{}", access_key.trim_start_matches("AKIA"));
        Principal { account: account.into(), kind: PrincipalKind::User(user.into()), id: id.into() }
    }

    /// Whether rules apply: without credentials nobody is refused anything.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.kind != PrincipalKind::Anybody
    }

    /// Whether `account` is another than the principal's, so that it needs to be let in.
    pub(crate) fn is_foreign_to(&self, account: &str) -> bool {
        self.is_authenticated() && self.account != account
    }

    /// The principal's ARN in the partition of that region.
    pub(crate) fn arn(&self, region: &str) -> String {
        let (partition, account) = (partition(region), &self.account);
        match &self.kind {
            PrincipalKind::User(user) => format!("arn:{partition}:iam::{account}:user/{user}"),
            PrincipalKind::Anybody | PrincipalKind::Account => {
                format!("arn:{partition}:iam::{account}:root")
            }
        }
    }

    /// The tenant that the principal's account is to the server. Accounts that are not
    /// authenticated are made up by their clients, so all of them are one tenant.
    pub(crate) fn tenant(&self) -> Tenant {
        if self.is_authenticated() { tenant_of(&self.account) } else { Tenant::EVERYBODY }
    }
}

pub(crate) fn tenant_of(account: &str) -> Tenant {
    account.parse().map(Tenant).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_called_by_name_and_everybody_else_root() {
        let user = Principal::user("111122223333".into(), "alice".into(), "AKIAONE");
        assert_eq!(user.arn("us-east-1"), "arn:aws:iam::111122223333:user/alice");
        assert_eq!(user.id, "AIDAONE");
        for root in [Principal::anybody("111122223333"), Principal::account("111122223333")] {
            assert_eq!(root.arn("cn-north-1"), "arn:aws-cn:iam::111122223333:root");
        }
    }

    #[test]
    fn another_account_is_foreign_to_those_who_are_authenticated() {
        assert!(!Principal::anybody("1").is_foreign_to("2"));
        assert!(Principal::account("1").is_foreign_to("2"));
        assert!(!Principal::account("1").is_foreign_to("1"));
    }
}
