//! Signing keys, derived once per access key, date, region and service.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ring::hmac;

use super::hex;

/// Keys per generation; twice as many are kept.
const GENERATION_KEYS_MAX: usize = 512;

/// Longer credentials are not kept, so that the cache is bounded in bytes too.
const CREDENTIAL_BYTES_MAX: usize = 256;

/// A prepared signing key.
#[derive(Clone)]
pub(super) struct SigningKey(hmac::Key);

/// Keys by credential text. Only keys of good signatures get in, hence nobody without a secret can
/// push out those of others.
#[derive(Default)]
pub(super) struct KeyCache {
    /// A lock because all threads share the keys; it is held for a look-up.
    generations: Mutex<Generations>,
}

/// When the young generation is full, it becomes the old one, and the old one is dropped. Keys in
/// use come back from the old to the young.
#[derive(Default)]
struct Generations {
    young: HashMap<Box<str>, Entry>,
    old: HashMap<Box<str>, Entry>,
}

#[derive(Clone)]
struct Entry {
    /// The access key may have got another secret since.
    secret: Box<str>,
    key: SigningKey,
}

impl SigningKey {
    /// Derives the key of a scope.
    pub(super) fn derive(secret: &str, date: &str, region: &str, service: &str) -> SigningKey {
        let mut seed = Vec::with_capacity(4 + secret.len());
        seed.extend_from_slice(b"AWS4");
        seed.extend_from_slice(secret.as_bytes());
        [date, region, service, "aws4_request"].iter().fold(SigningKey::new(&seed), |key, part| {
            SigningKey::new(key.mac(part.as_bytes()).as_ref())
        })
    }

    /// The signature of `text` as lower-case hexadecimal digits.
    pub(super) fn sign_hex(&self, text: &[u8]) -> [u8; 64] {
        hex(self.mac(text).as_ref())
    }

    fn new(key: &[u8]) -> SigningKey {
        SigningKey(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    fn mac(&self, text: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, text)
    }
}

impl KeyCache {
    /// The key of a credential, if it is kept.
    pub(super) fn find(&self, credential: &str, secret: &str) -> Option<SigningKey> {
        self.locked(|generations| generations.find(credential, secret))
    }

    /// Keeps a key whose signature was good.
    pub(super) fn remember(&self, credential: &str, secret: &str, key: SigningKey) {
        if credential.len() <= CREDENTIAL_BYTES_MAX {
            self.locked(|generations| generations.keep(credential, secret, key));
        }
    }

    fn locked<T>(&self, act: impl FnOnce(&mut Generations) -> T) -> T {
        // A thread that panicked here left a usable map behind.
        act(&mut self.generations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Generations {
    fn find(&mut self, credential: &str, secret: &str) -> Option<SigningKey> {
        let is_same = |entry: &&Entry| *entry.secret == *secret;
        if let Some(entry) = self.young.get(credential).filter(is_same) {
            return Some(entry.key.clone());
        }
        let key = self.old.get(credential).filter(is_same)?.key.clone();
        self.keep(credential, secret, key.clone());
        Some(key)
    }

    fn keep(&mut self, credential: &str, secret: &str, key: SigningKey) {
        if self.young.len() >= GENERATION_KEYS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(credential.into(), Entry { secret: secret.into(), key });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let cache = KeyCache::default();
        let key = || SigningKey::new(b"k");
        let has = |name: &str| cache.locked(|all| all.find(name, "s").is_some());

        cache.remember("used", "s", key());
        for number in 0..5 * GENERATION_KEYS_MAX {
            assert!(has("used"));
            cache.remember(&format!("key-{number}"), "s", key());
        }
        cache.remember(&"x".repeat(CREDENTIAL_BYTES_MAX + 1), "s", key());

        let count = cache.locked(|all| all.young.len() + all.old.len());
        assert!(count <= 2 * GENERATION_KEYS_MAX, "{count}");
        assert!(has("used"));
        assert!(!has("key-0"));
        assert!(!has(&"x".repeat(CREDENTIAL_BYTES_MAX + 1)));
    }

    #[test]
    fn a_generation_of_keys_is_kept() {
        let cache = KeyCache::default();
        let names = || (0..GENERATION_KEYS_MAX).map(|number| format!("key-{number}"));
        names().for_each(|name| cache.remember(&name, "s", SigningKey::new(b"k")));

        assert!(names().all(|name| cache.find(&name, "s").is_some()));
    }

    #[test]
    fn a_new_secret_makes_a_new_key() {
        let cache = KeyCache::default();
        cache.remember("c", "old", SigningKey::new(b"k"));

        assert!(cache.locked(|all| all.find("c", "new")).is_none());
        cache.remember("c", "new", SigningKey::new(b"n"));
        assert!(cache.locked(|all| all.find("c", "new")).is_some());

        // In the old generation, too.
        for number in 0..GENERATION_KEYS_MAX {
            cache.remember(&format!("key-{number}"), "s", SigningKey::new(b"k"));
        }
        assert!(cache.find("c", "old").is_none());
        assert!(cache.find("c", "new").is_some());
    }
}
