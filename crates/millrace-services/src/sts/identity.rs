//! An access key as a user of IAM.

use millrace_wire::sts::CallerIdentity;

use crate::access_keys::AccessKey;
use crate::auth::Caller;

/// A key is a user of its account, by the name that the configuration gives it. Without
/// credentials everybody is the account itself.
pub(super) fn identity(caller: &Caller<'_>, keys: &[AccessKey]) -> CallerIdentity {
    let user_id = match &caller.access_key {
        Some(_) => &caller.sender_id,
        None => &caller.account,
    };
    CallerIdentity {
        arn: caller.arn(keys),
        user_id: user_id.to_string(),
        account: caller.account.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(access_key: Option<&'static str>, region: &'static str) -> Caller<'static> {
        Caller {
            region: region.into(),
            is_region_given: true,
            account: "111122223333".into(),
            sender_id: crate::auth::sender_id(access_key),
            is_authenticated: access_key.is_some(),
            access_key: access_key.map(Into::into),
        }
    }

    fn key(access_key: &str, name: &str) -> AccessKey {
        AccessKey {
            access_key: access_key.into(),
            secret_key: "secret".into(),
            account: "111122223333".into(),
            name: name.into(),
        }
    }

    #[test]
    fn a_key_is_a_user_by_its_name_or_else_by_the_key() {
        let keys = [key("AKIAONE", "alice"), key("AKIATWO", ""), key("AKIATHREE", "Bob & <Eve>")];
        for (access_key, user) in
            [("AKIAONE", "alice"), ("AKIATWO", "AKIATWO"), ("AKIATHREE", "AKIATHREE")]
        {
            let identity = identity(&caller(Some(access_key), "us-east-1"), &keys);

            let user_id = access_key.replace("AKIA", "AIDA");
            let arn = format!("arn:aws:iam::111122223333:user/{user}");
            assert_eq!(identity, CallerIdentity { arn, user_id, account: "111122223333".into() });
        }
    }

    #[test]
    fn nobody_in_particular_is_the_account_in_the_partition_of_the_region() {
        let identity = identity(&caller(None, "cn-north-1"), &[key("AKIAONE", "alice")]);

        let account = "111122223333".to_owned();
        let arn = format!("arn:aws-cn:iam::{account}:root");
        assert_eq!(identity, CallerIdentity { arn, user_id: account.clone(), account });
    }
}
