//! Who may sign, and log in to the console.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use millrace_wire::sigv4::{Credential, Credentials};

/// IAM: characters of a user's name.
const NAME_CHARS: usize = 64;

/// A pair of keys, and whose they are.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    pub access_key: String,
    pub secret_key: String,
    /// Twelve digits.
    pub account: String,
    /// User name, for people.
    pub name: String,
}

/// All access keys. Those who share them see at once that they were replaced.
#[derive(Clone)]
pub struct AccessKeys(Arc<ArcSwap<Known>>);

struct Known {
    keys: Arc<[AccessKey]>,
    by_name: HashMap<String, Arc<Credential>>,
}

/// Whether requests are authenticated is settled when a process starts: much else depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authentication is turned on and off by a restart only")]
pub struct TurnsAuthentication;

impl AccessKeys {
    /// Without any, nobody is authenticated.
    pub fn new(keys: Vec<AccessKey>) -> AccessKeys {
        AccessKeys(Arc::new(ArcSwap::from_pointee(Known::new(keys))))
    }

    /// Whether requests are authenticated.
    pub fn is_on(&self) -> bool {
        !self.0.load().keys.is_empty()
    }

    /// The keys that are valid now.
    pub fn all(&self) -> Arc<[AccessKey]> {
        self.0.load().keys.clone()
    }

    /// Makes these the only valid keys.
    pub fn replace(&self, keys: Vec<AccessKey>) -> Result<(), TurnsAuthentication> {
        if keys.is_empty() == self.is_on() {
            return Err(TurnsAuthentication);
        }
        self.0.store(Arc::new(Known::new(keys)));
        Ok(())
    }
}

impl Default for AccessKeys {
    /// None.
    fn default() -> AccessKeys {
        AccessKeys::new(Vec::new())
    }
}

impl fmt::Debug for AccessKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.load().keys.iter()).finish()
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AccessKey")
            .field("access_key", &self.access_key)
            .field("account", &self.account)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Known {
    fn new(keys: Vec<AccessKey>) -> Known {
        let by_name = keys.iter().map(|key| {
            // Names of the configuration are for people and may be anything.
            let name = Some(&key.name).filter(|name| is_user_name(name));
            let credential = Credential {
                secret: key.secret_key.clone(),
                account: key.account.clone(),
                user: name.unwrap_or(&key.access_key).clone(),
            };
            (key.access_key.clone(), Arc::new(credential))
        });
        Known { by_name: by_name.collect(), keys: keys.into() }
    }
}

impl Credentials for AccessKeys {
    fn find(&self, access_key: &str) -> Option<Arc<Credential>> {
        self.0.load().by_name.get(access_key).cloned()
    }
}

fn is_user_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
    (1..=NAME_CHARS).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(access_key: &str, secret_key: &str) -> AccessKey {
        AccessKey {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
            account: "000000000000".into(),
            name: String::new(),
        }
    }

    #[test]
    fn all_who_share_them_see_other_keys() {
        let keys = AccessKeys::new(vec![key("a", "1"), key("b", "2")]);
        let shared = keys.clone();

        keys.replace(vec![key("b", "3"), key("c", "4")]).unwrap();

        let secret = |name| shared.find(name).map(|credential| credential.secret.clone());
        assert_eq!(["a", "b", "c"].map(secret), [None, Some("3".into()), Some("4".into())]);
        assert!(*shared.all() == [key("b", "3"), key("c", "4")]);
    }

    #[test]
    fn a_key_is_a_user_by_its_name_or_else_by_the_key() {
        for (name, user) in [("alice", "alice"), ("", "AKIAONE"), ("Bob & <Eve>", "AKIAONE")] {
            let keys = vec![AccessKey { name: name.into(), ..key("AKIAONE", "1") }];
            assert_eq!(AccessKeys::new(keys).find("AKIAONE").unwrap().user, user);
        }
    }

    #[test]
    fn authentication_is_neither_turned_on_nor_off() {
        for (before, after) in [(vec![], vec![key("a", "1")]), (vec![key("a", "1")], vec![])] {
            let keys = AccessKeys::new(before.clone());
            assert_eq!(keys.replace(after), Err(TurnsAuthentication));
            assert!(*keys.all() == *before);
        }
    }
}
