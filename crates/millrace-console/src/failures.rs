//! Failed logins, so that guessing is slow: counted by address and access key, and by address
//! alone.
//!
//! An address may be a proxy's, with many people behind it: who guesses keeps those from a login
//! only who have the same key, until it is much guessing. Counts begin anew after [`WINDOW`].

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Failures of one address with one access key in [`WINDOW`]; then they wait.
pub(crate) const MAX_OF_KEY: u32 = 10;
/// Failures of one address in [`WINDOW`], whatever the access key; then it waits.
const MAX_OF_ADDRESS: u32 = 100;
/// Counts of each kind; beyond, they begin anew.
const MAX_COUNTS: usize = 10_000;

#[derive(Default)]
pub(crate) struct Failures {
    counts: Mutex<Counts>,
    hasher: RandomState,
}

#[derive(Default)]
struct Counts {
    of_addresses: HashMap<IpAddr, Count>,
    /// Access keys are hashed: clients may make them as long as a request.
    of_keys: HashMap<(IpAddr, u64), Count>,
}

struct Count {
    failures: u32,
    since: Instant,
}

impl Failures {
    /// Whether that address may try that access key now.
    pub(crate) fn may_try(&self, peer: IpAddr, access_key: &str, now: Instant) -> bool {
        let (address, key) = self.names(peer, access_key);
        let counts = self.counts();
        failures(&counts.of_addresses, &address, now) < MAX_OF_ADDRESS
            && failures(&counts.of_keys, &key, now) < MAX_OF_KEY
    }

    pub(crate) fn count(&self, peer: IpAddr, access_key: &str, now: Instant) {
        let (address, key) = self.names(peer, access_key);
        let mut counts = self.counts();
        add(&mut counts.of_addresses, address, now);
        add(&mut counts.of_keys, key, now);
    }

    fn names(&self, peer: IpAddr, access_key: &str) -> (IpAddr, (IpAddr, u64)) {
        let address = network(peer);
        (address, (address, self.hasher.hash_one(access_key)))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failures<K: Hash + Eq>(counts: &HashMap<K, Count>, key: &K, now: Instant) -> u32 {
    let count = counts.get(key).filter(|count| !count.is_over(now));
    count.map_or(0, |count| count.failures)
}

fn add<K: Hash + Eq>(counts: &mut HashMap<K, Count>, key: K, now: Instant) {
    if counts.len() >= MAX_COUNTS {
        counts.clear();
    }
    let count = counts.entry(key).or_insert(Count { failures: 0, since: now });
    if count.is_over(now) {
        *count = Count { failures: 0, since: now };
    }
    count.failures = count.failures.saturating_add(1);
}

impl Count {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) > WINDOW
    }
}

/// What one person has: an IPv4 address, or the 64 bits in front that make an IPv6 network.
fn network(address: IpAddr) -> IpAddr {
    // A listener for both kinds shows IPv4 addresses inside one and the same IPv6 network.
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(failures: &Failures, peer: &str, access_key: &str, times: u32, now: Instant) {
        (0..times).for_each(|_| failures.count(peer.parse().unwrap(), access_key, now));
    }

    fn may_try(failures: &Failures, peer: &str, access_key: &str, now: Instant) -> bool {
        failures.may_try(peer.parse().unwrap(), access_key, now)
    }

    #[test]
    fn guessing_one_key_keeps_nobody_from_another() {
        let (failures, now) = (Failures::default(), Instant::now());

        fail(&failures, "10.0.0.1", "ALICE", MAX_OF_KEY - 1, now);
        assert!(may_try(&failures, "10.0.0.1", "ALICE", now));
        fail(&failures, "10.0.0.1", "ALICE", 1, now);

        assert!(!may_try(&failures, "10.0.0.1", "ALICE", now));
        assert!(may_try(&failures, "10.0.0.1", "BOB", now));
        assert!(may_try(&failures, "10.0.0.2", "ALICE", now));
        let later = now + WINDOW + Duration::from_secs(1);
        assert!(may_try(&failures, "10.0.0.1", "ALICE", later));
        fail(&failures, "10.0.0.1", "ALICE", 1, later);
        assert!(may_try(&failures, "10.0.0.1", "ALICE", later));
    }

    #[test]
    fn much_guessing_keeps_the_address_from_every_key() {
        let (failures, now) = (Failures::default(), Instant::now());

        for guess in 0..MAX_OF_ADDRESS {
            assert!(may_try(&failures, "10.0.0.1", "BOB", now));
            fail(&failures, "10.0.0.1", &guess.to_string(), 1, now);
        }

        assert!(!may_try(&failures, "10.0.0.1", "BOB", now));
        assert!(may_try(&failures, "10.0.0.2", "BOB", now));
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_ipv4_within_ipv6_is_many() {
        let (failures, now) = (Failures::default(), Instant::now());

        fail(&failures, "2001:db8:1:2::1", "BOB", MAX_OF_KEY, now);
        fail(&failures, "::ffff:10.0.0.1", "BOB", MAX_OF_KEY, now);

        assert!(!may_try(&failures, "2001:db8:1:2:ffff::9", "BOB", now));
        assert!(may_try(&failures, "2001:db8:1:3::1", "BOB", now));
        assert!(!may_try(&failures, "10.0.0.1", "BOB", now));
        assert!(may_try(&failures, "::ffff:10.0.0.2", "BOB", now));
        assert!(may_try(&failures, "::1", "BOB", now));
    }

    #[test]
    fn counts_are_bounded() {
        let (failures, now) = (Failures::default(), Instant::now());

        for guess in 0..=MAX_COUNTS {
            fail(&failures, "10.0.0.1", &guess.to_string(), 1, now);
        }

        assert_eq!(failures.counts().of_keys.len(), 1);
    }
}
