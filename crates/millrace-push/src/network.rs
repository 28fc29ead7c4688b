//! Which addresses outbound calls may reach. Pure, but for the question which are this machine's.
//!
//! A subscriber names a URL, and this server calls it: without a rule, anybody who may subscribe
//! could make the server call what only the server can reach. The rule is applied to the address
//! that is dialled, after names are looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Which addresses may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    private: Private,
    /// Private networks that may be called even if others may not.
    allowed: Vec<IpNet>,
}

/// Rule for loopback and private addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Private {
    Allowed,
    Refused,
}

impl NetworkPolicy {
    /// `allowed` is what may be called beside public addresses if `private` is refused.
    pub fn new(private: Private, allowed: Vec<IpNet>) -> NetworkPolicy {
        NetworkPolicy { private, allowed }
    }

    /// Returns true if the address may be called. `is_own` knows the addresses of this machine, which
    /// are private even where others can reach them: what answers there may trust this machine.
    pub fn allows(&self, address: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> bool {
        let address = embedded(address);
        let is_allowed = || {
            self.private == Private::Allowed
                || self.allowed.iter().any(|network| network.contains(&address))
        };
        match Reach::of(address) {
            Reach::Public => is_allowed() || !is_own(address),
            Reach::Private => is_allowed(),
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

/// IANA's registries of special-purpose addresses: those that no endpoint can have.
const NEVER: [IpNet; 9] = [
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

/// The same registries: those that networks of their own may use.
const PRIVATE: [IpNet; 18] = [
    v4([127, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    // Shared between a provider and its customers.
    v4([100, 64, 0, 0], 10),
    // Protocol assignments and benchmarks.
    v4([192, 0, 0, 0], 24),
    v4([198, 18, 0, 0], 15),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48),
    // Documentation: not routed in public, so a private network may well use it.
    v4([192, 0, 2, 0], 24),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    // Segment routing within one domain.
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    // Site-local, deprecated but still used.
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    // NAT64 with a local prefix.
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
];

impl Reach {
    fn of(address: IpAddr) -> Reach {
        let is_in = |networks: &[IpNet]| networks.iter().any(|it| it.contains(&address));
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

const fn v4([a, b, c, d]: [u8; 4], prefix_bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_bits))
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix_bits: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix_bits))
}

/// Says why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network such as 10.1.0.0/16, or an address")]
pub struct NetworkError;

/// Reads `10.1.0.0/16`, or a single address.
///
/// # Errors
///
/// If the text is neither.
pub fn parse_network(text: &str) -> Result<IpNet, NetworkError> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().or_else(|_| address()).map_err(|_| NetworkError)
}

/// Returns true if the address is one of this machine's: the system would send to it from itself.
/// Nothing is sent for that. An address that a router translates to this machine's is not known.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        // Any port will do.
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(policy: &NetworkPolicy, address: &str) -> bool {
        policy.allows(address.parse().unwrap(), |_| false)
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
            "192.0.2.1",
            "198.51.100.255",
            "203.0.113.7",
            "::ffff:203.0.113.7",
            "2001:db8::1",
            "2001:2::1",
            "3fff::1",
            "5f00::1",
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
        let everything = ["0.0.0.0/0", "::/0"].map(|text| parse_network(text).unwrap());
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
        let networks =
            ["10.1.0.0/16", "::1", "192.168.7.9"].map(|text| parse_network(text).unwrap());
        let policy = NetworkPolicy::new(Private::Refused, networks.to_vec());

        for address in ["10.1.255.1", "::ffff:10.1.0.1", "::1", "192.168.7.9"] {
            assert!(allows(&policy, address), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.1", "192.168.7.8", "fd00::1"] {
            assert!(!allows(&policy, address), "{address}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_private_even_if_they_are_public() {
        let own: IpAddr = "1.2.3.4".parse().unwrap();
        let allows = |private, allowed: &[&str], address: &str| {
            let allowed = allowed.iter().map(|text| parse_network(text).unwrap()).collect();
            let policy = NetworkPolicy::new(private, allowed);
            policy.allows(address.parse().unwrap(), |address| address == own)
        };

        for address in ["1.2.3.4", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4", "2002:102:304::"] {
            assert!(!allows(Private::Refused, &[], address), "{address}");
            assert!(allows(Private::Refused, &["1.2.3.0/24"], address), "{address}");
            assert!(allows(Private::Allowed, &[], address), "{address}");
        }
        assert!(allows(Private::Refused, &[], "1.2.3.5"));
    }

    #[test]
    fn the_system_knows_which_addresses_are_its_own() {
        for (address, is_its_own) in [
            ("127.0.0.1", true),
            ("127.7.7.7", false),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_own(address.parse().unwrap()), is_its_own, "{address}");
        }
    }

    #[test]
    fn networks_are_read() {
        for (text, read) in
            [("10.0.0.0/8", "10.0.0.0/8"), ("::1", "::1/128"), ("1.2.3.4/0", "1.2.3.4/0")]
        {
            assert_eq!(parse_network(text).unwrap().to_string(), read);
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "host"] {
            assert_eq!(parse_network(text), Err(NetworkError), "{text}");
        }
    }
}
