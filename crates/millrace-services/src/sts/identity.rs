//! An access key as a user of IAM.

use millrace_core::partition;

use crate::access_keys::AccessKey;
use crate::auth::Caller;

/// IAM: characters of a user's name.
const NAME_CHARS: usize = 64;

/// What GetCallerIdentity answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    user_id: String,
    account: String,
    arn: String,
}

impl Identity {
    /// A key is a user of its account, by the name that the configuration gives it. Without
    /// credentials everybody is the account itself.
    pub(super) fn of(caller: &Caller<'_>, keys: &[AccessKey]) -> Identity {
        let Caller { region, account, .. } = caller;
        let (user_id, resource) = match &caller.access_key {
            Some(access_key) => {
                let known = keys.iter().find(|key| key.access_key == **access_key);
                let name = known.map(|key| key.name.as_str()).filter(|name| is_user_name(name));
                let name = name.unwrap_or(access_key);
                (caller.sender_id.to_string(), format!("user/{name}"))
            }
            None => (account.to_string(), "root".to_owned()),
        };
        Identity {
            user_id,
            account: account.to_string(),
            arn: format!("arn:{}:iam::{account}:{resource}", partition(region)),
        }
    }

    /// In the order in which Amazon answers them.
    pub(super) fn members(&self) -> [(&'static str, &str); 3] {
        [("Arn", &self.arn), ("UserId", &self.user_id), ("Account", &self.account)]
    }
}

/// Names of the configuration are for people and may be anything.
fn is_user_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
    (1..=NAME_CHARS).contains(&name.len()) && name.bytes().all(is_allowed)
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
            let identity = Identity::of(&caller(Some(access_key), "us-east-1"), &keys);

            let user_id = access_key.replace("AKIA", "AIDA");
            let expected = [
                ("Arn", &*format!("arn:aws:iam::111122223333:user/{user}")),
                ("UserId", &user_id),
                ("Account", "111122223333"),
            ];
            assert_eq!(identity.members(), expected);
        }
    }

    #[test]
    fn nobody_in_particular_is_the_account_in_the_partition_of_the_region() {
        let identity = Identity::of(&caller(None, "cn-north-1"), &[key("AKIAONE", "alice")]);

        let arn = ("Arn", "arn:aws-cn:iam::111122223333:root");
        let id = ("UserId", "111122223333");
        assert_eq!(identity.members(), [arn, id, ("Account", "111122223333")]);
    }
}
