//! The caller, as IAM names users and accounts.

use millrace_wire::sts::CallerIdentity;

use crate::principal::{Caller, PrincipalKind};

/// The answer to GetCallerIdentity.
pub(super) fn identity(caller: &Caller<'_>) -> CallerIdentity {
    let Caller { principal, region, .. } = caller;
    let user_id = match &principal.kind {
        PrincipalKind::User(_) => &principal.id,
        // Without credentials everybody is the account itself.
        PrincipalKind::Anybody | PrincipalKind::Account | PrincipalKind::Unsigned => {
            &principal.account
        }
    };
    CallerIdentity {
        arn: principal.arn(region),
        user_id: user_id.to_string(),
        account: principal.account.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::Principal;

    const ACCOUNT: &str = "111122223333";

    #[test]
    fn a_user_has_an_id_of_its_own() {
        let principal = Principal::user(ACCOUNT.into(), "alice".into(), "AKIAONE");
        let caller = Caller { principal, region: "us-east-1".into(), is_region_given: true };

        let arn = format!("arn:aws:iam::{ACCOUNT}:user/alice");
        let (user_id, account) = ("AIDAONE".to_owned(), ACCOUNT.to_owned());
        assert_eq!(identity(&caller), CallerIdentity { arn, user_id, account });
    }

    #[test]
    fn nobody_in_particular_is_the_account_in_the_partition_of_the_region() {
        let principal = Principal::anybody(ACCOUNT);
        let caller = Caller { principal, region: "cn-north-1".into(), is_region_given: true };

        let arn = format!("arn:aws-cn:iam::{ACCOUNT}:root");
        let account = ACCOUNT.to_owned();
        assert_eq!(identity(&caller), CallerIdentity { arn, user_id: account.clone(), account });
    }
}
