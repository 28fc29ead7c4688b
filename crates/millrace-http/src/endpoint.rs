//! Where a server is: `http://127.0.0.1:9324`, `https://sqs.us-east-1.amazonaws.com`.

use std::fmt;

use millrace_core::{Url, UrlError};

/// Scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Whether connections are TLS.
    pub is_tls: bool,
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    /// What goes into the `Host` header: the port only if it is not the scheme's own.
    pub authority: String,
}

impl Endpoint {
    /// Parses a URL; whatever follows the authority is left out of the endpoint.
    ///
    /// # Errors
    ///
    /// If it is not a URL that [`Url::parse`] accepts. The error does not quote it: there may be a
    /// password in it.
    pub fn parse(text: &str) -> Result<Endpoint, UrlError> {
        Url::parse(text).map(|url| Endpoint::from(&url))
    }
}

impl From<&Url> for Endpoint {
    fn from(url: &Url) -> Endpoint {
        Endpoint {
            is_tls: url.is_tls(),
            host: url.host().to_owned(),
            port: url.port(),
            authority: url.authority(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_scheme_host_and_port() {
        let six = Endpoint::parse("http://[::1]:9324/000000000000/q?x=1").unwrap();

        assert_eq!((six.is_tls, six.host.as_str(), six.port), (false, "::1", 9324));
        assert_eq!(
            (six.authority.as_str(), six.to_string().as_str()),
            ("[::1]:9324", "http://[::1]:9324")
        );
        assert_eq!(Endpoint::parse("http://user:hunter2@h"), Err(UrlError::UserInfo));
    }
}
