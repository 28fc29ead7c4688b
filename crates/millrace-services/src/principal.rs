//! Principals and callers: the account that asks, its user, and the region.

use std::borrow::Cow;

use millrace_core::partition;
use millrace_wire::Tenant;

/// An account, and the user of it whose key signed.
#[derive(Clone, Debug)]
pub struct Principal<'a> {
    /// Twelve digits.
    pub(crate) account: Cow<'a, str>,
    pub(crate) kind: PrincipalKind<'a>,
    /// The SenderId of messages, in the form of AWS user ids.
    pub(crate) id: Cow<'a, str>,
}

/// The kinds of principals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrincipalKind<'a> {
    /// Everybody, where no credentials are configured: may do anything in any account.
    Anybody,
    /// The account itself, for which the server acts.
    Account,
    /// Nobody has signed, where credentials are configured.
    Unsigned,
    /// The user of that name, whose key signed.
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
    /// Everybody, where no credentials are configured.
    pub(crate) fn anybody(account: impl Into<Cow<'a, str>>) -> Principal<'a> {
        let kind = PrincipalKind::Anybody;
        Principal { account: account.into(), kind, id: ANONYMOUS_ID.into() }
    }

    /// The sender of a request without a signature, where credentials are configured. Foreign to
    /// every account.
    pub(crate) fn unsigned() -> Principal<'a> {
        Principal { account: "".into(), kind: PrincipalKind::Unsigned, id: ANONYMOUS_ID.into() }
    }

    /// The account itself.
    pub(crate) fn account(account: impl Into<Cow<'a, str>>) -> Principal<'a> {
        let account = account.into();
        Principal { id: account.clone(), account, kind: PrincipalKind::Account }
    }

    /// The user of an account, by one of its keys.
    pub(crate) fn user(account: String, user: String, access_key: &str) -> Principal<'a> {
        let id = format!("AIDA{}", access_key.trim_start_matches("AKIA"));
        Principal { account: account.into(), kind: PrincipalKind::User(user.into()), id: id.into() }
    }

    /// Returns true if rules apply: without credentials nothing is refused.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.kind != PrincipalKind::Anybody
    }

    /// Returns true if a signature was needed, and there was none.
    pub(crate) fn is_unsigned(&self) -> bool {
        self.kind == PrincipalKind::Unsigned
    }

    /// Returns true if `account` is another one, which must let the principal in.
    pub(crate) fn is_foreign_to(&self, account: &str) -> bool {
        self.is_authenticated() && self.account != account
    }

    /// The principal's ARN in the partition of that region.
    pub(crate) fn arn(&self, region: &str) -> String {
        let (partition, account) = (partition(region), &self.account);
        match &self.kind {
            PrincipalKind::User(user) => format!("arn:{partition}:iam::{account}:user/{user}"),
            PrincipalKind::Anybody | PrincipalKind::Account | PrincipalKind::Unsigned => {
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
    fn the_arn_of_a_user_has_its_name_and_all_others_are_root() {
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
