//! Addresses to listen on, as people write them: `4566`, `:4566`, `localhost:4566`,
//! `127.0.0.1:4566`, `[::1]:4566`.
//!
//! The one parser for flags, environment variables and configuration files.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, ToSocketAddrs},
};

/// Why a text gives no address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It cannot be an address, whatever names the network knows.
    #[error(
        "{0:?} is not an address; write a port (4566), or host and port (localhost:4566, \
         0.0.0.0:4566)"
    )]
    Malformed(String),
    /// The name has no address now.
    #[error("{0:?}: {1}")]
    Unresolved(String, io::Error),
}

/// Returns the address of a text, with IPv4 preferred where a name has several.
///
/// A port without a host is a port of this machine only: what others may reach is written out, as
/// in `0.0.0.0:4566`.
///
/// # Errors
///
/// If the text is not an address, or names a host that has none.
pub fn listen_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.starts_with(|first: char| first.is_ascii_digit())
        && let Ok(port) = port.parse()
    {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let malformed = || AddressError::Malformed(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
    if host.is_empty() || host.contains('/') || port.parse::<u16>().is_err() {
        return Err(malformed());
    }
    let found: Vec<SocketAddr> = match text.to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(malformed()),
        Err(error) => return Err(AddressError::Unresolved(text.to_owned(), error)),
    };
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
    first.ok_or_else(|| {
        AddressError::Unresolved(text.to_owned(), io::Error::other("the name has no address"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_alone_is_a_port_of_this_machine() {
        for text in ["4566", ":4566", "127.0.0.1:4566", "localhost:4566"] {
            assert_eq!(listen_address(text).unwrap().to_string(), "127.0.0.1:4566", "{text}");
        }
        assert_eq!(listen_address("0.0.0.0:4566").unwrap().to_string(), "0.0.0.0:4566");
        assert_eq!(listen_address("[::1]:0").unwrap().to_string(), "[::1]:0");
    }

    #[test]
    fn what_cannot_be_an_address_is_refused_with_examples() {
        for wrong in
            ["", ":", "localhost", "127.0.0.1", "99999", ":99999", "+80", "a:b", "http://x:4566"]
        {
            let error = listen_address(wrong).unwrap_err();
            assert!(matches!(error, AddressError::Malformed(_)), "{wrong}: {error}");
            assert!(error.to_string().contains("localhost:4566"), "{error}");
        }
    }
}
