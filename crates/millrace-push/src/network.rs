//! Which addresses outbound calls may reach. Pure.
//!
//! A subscriber names a URL, and this server calls it: without a rule, anybody who may subscribe
//! could make the server call what only the server can reach. The rule is applied to the address
//! that is dialled, after names are looked up.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Which addresses may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    private: Private,
    /// Private networks that may be called even if others may not.
    allowed: Vec<Network>,
}

/// Rule for loopback and private addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Private {
    Allowed,
    Refused,
}

impl NetworkPolicy {
    /// `allowed` is what may be called beside public addresses if `private` is refused.
    pub fn new(private: Private, allowed: Vec<Network>) -> NetworkPolicy {
        NetworkPolicy { private, allowed }
    }

    /// Returns true if the address may be called.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = embedded(address);
        match Reach::of(address) {
            Reach::Public => true,
            Reach::Private => {
                self.private == Private::Allowed
                    || self.allowed.iter().any(|network| network.contains(address))
            }
            Reach::Never => false,
        }
    }
}

/// Reach of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Public,
    /// This machine or networks that are not part of the internet.
    Private,
    /// Link-local networks, where clouds serve the credentials of machines; and what is no address
    /// of one machine.
    Never,
}

/// Addresses outside the link-local networks at which clouds serve metadata and credentials.
const METADATA: [IpAddr; 5] = [
    // Alibaba Cloud.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    // Azure's platform channel.
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    // Oracle Cloud, older images.
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    // Amazon EC2.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    // Google Cloud.
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// IANA's registries of special-purpose addresses; those of documentation lead nowhere.
const NEVER: [Network; 9] = [
    // "This network"; on Linux, another name of this machine.
    v4([0, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    // Multicast, reserved, broadcast.
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
    // Discard-only.
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    // Teredo: an IPv4 address behind somebody's relay.
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32),
];

const PRIVATE: [Network; 11] = [
    v4([127, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    // Shared between a provider and its customers.
    v4([100, 64, 0, 0], 10),
    // Protocol assignments and benchmarks.
    v4([192, 0, 0, 0], 24),
    v4([198, 18, 0, 0], 15),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    // Site-local, deprecated but still used.
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    // NAT64 with a local prefix.
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
];

impl Reach {
    fn of(address: IpAddr) -> Reach {
        let is_in = |networks: &[Network]| networks.iter().any(|it| it.contains(address));
        if METADATA.contains(&address) || is_in(&NEVER) {
            Reach::Never
        } else if is_in(&PRIVATE) {
            Reach::Private
        } else {
            Reach::Public
        }
    }
}

/// The IPv4 address that an IPv6 address stands for, if it does: mapped (RFC 4291), compatible (the
/// same, deprecated), NAT64 (RFC 6052) or 6to4 (RFC 3056). Any other address as it is.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    let v4 = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match six.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

/// Addresses with a common beginning: `10.1.0.0/16`, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// 0 to 32 or 128.
    prefix_bits: u8,
}

const fn v4([a, b, c, d]: [u8; 4], prefix_bits: u8) -> Network {
    Network { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix_bits }
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix_bits: u8) -> Network {
    Network { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix_bits }
}

impl Network {
    /// Returns true if the address is one of the network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        // Shifted to the top, so that bits count from the first.
        let bits = |address| match address {
            IpAddr::V4(four) => u128::from(u32::from(four)) << 96,
            IpAddr::V6(six) => u128::from(six),
        };
        let differ = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4()
            && differ.leading_zeros() >= u32::from(self.prefix_bits)
    }
}

/// Says why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network such as 10.1.0.0/16, or an address")]
pub struct NetworkError;

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Ok(most), str::parse).map_err(|_| NetworkError)?;
        if prefix_bits > most {
            return Err(NetworkError);
        }
        Ok(Network { address, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(policy: &NetworkPolicy, address: &str) -> bool {
        policy.allows(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_may_always_be_called() {
        let policy = NetworkPolicy::new(Private::Refused, Vec::new());
        for address in [
            "1.1.1.1",
            "172.15.255.255",
            "172.32.0.0",
            "100.63.0.1",
            "100.128.0.0",
            "169.253.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(allows(&policy, address), "{address}");
        }
    }

    #[test]
    fn private_addresses_may_be_called_only_where_that_is_allowed() {
        let refused = NetworkPolicy::new(Private::Refused, Vec::new());
        let allowed = NetworkPolicy::new(Private::Allowed, Vec::new());
        for address in [
            "127.0.0.1",
            "127.255.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "198.19.0.1",
            "::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
        ] {
            assert!(!allows(&refused, address), "{address}");
            assert!(allows(&allowed, address), "{address}");
        }
    }

    #[test]
    fn link_local_and_metadata_addresses_may_never_be_called() {
        let everything = ["0.0.0.0/0", "::/0"].map(|text| text.parse().unwrap());
        let policy = NetworkPolicy::new(Private::Allowed, everything.to_vec());
        for address in [
            "169.254.169.254",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::",
            "2001:0:a9fe:a9fe::1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "ff02::1",
        ] {
            assert!(!allows(&policy, address), "{address}");
        }
    }

    #[test]
    fn some_private_networks_may_be_allowed() {
        let networks = ["10.1.0.0/16", "::1", "192.168.7.9"].map(|text| text.parse().unwrap());
        let policy = NetworkPolicy::new(Private::Refused, networks.to_vec());

        for address in ["10.1.255.1", "::ffff:10.1.0.1", "::1", "192.168.7.9"] {
            assert!(allows(&policy, address), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.1", "192.168.7.8", "fd00::1"] {
            assert!(!allows(&policy, address), "{address}");
        }
    }

    #[test]
    fn networks_are_read_and_written() {
        for (text, written) in
            [("10.0.0.0/8", "10.0.0.0/8"), ("::1", "::1/128"), ("1.2.3.4/0", "1.2.3.4/0")]
        {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), written);
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "host"] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError), "{text}");
        }
    }
}
