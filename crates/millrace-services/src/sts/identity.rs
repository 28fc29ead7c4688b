//! The caller, as IAM names users and accounts.

use crate::principal::{Caller, PrincipalKind};

/// What GetCallerIdentity answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    user_id: String,
    account: String,
    arn: String,
}

impl Identity {
    pub(super) fn of(caller: &Caller<'_>) -> Identity {
        let Caller { principal, region, .. } = caller;
        let user_id = match &principal.kind {
            PrincipalKind::User(_) => &principal.id,
            // Without credentials everybody is the account itself.
            PrincipalKind::Anybody | PrincipalKind::Account => &principal.account,
        };
        Identity {
            user_id: user_id.to_string(),
            account: principal.account.to_string(),
            arn: principal.arn(region),
        }
    }

    /// In the order in which Amazon answers them.
    pub(super) fn members(&self) -> [(&'static str, &str); 3] {
        [("Arn", &self.arn), ("UserId", &self.user_id), ("Account", &self.account)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::Principal;

    #[test]
    fn a_user_has_an_id_of_its_own() {
        let principal = Principal::user("111122223333".into(), "alice".into(), "AKIAONE");
        let caller = Caller { principal, region: "us-east-1".into(), is_region_given: true };

        let arn = ("Arn", "arn:aws:iam::111122223333:user/alice");
        let id = ("UserId", "AIDAONE");
        assert_eq!(Identity::of(&caller).members(), [arn, id, ("Account", "111122223333")]);
    }

    #[test]
    fn nobody_in_particular_is_the_account_in_the_partition_of_the_region() {
        let principal = Principal::anybody("111122223333");
        let caller = Caller { principal, region: "cn-north-1".into(), is_region_given: true };

        let arn = ("Arn", "arn:aws-cn:iam::111122223333:root");
        let id = ("UserId", "111122223333");
        assert_eq!(Identity::of(&caller).members(), [arn, id, ("Account", "111122223333")]);
    }
}
