//! Where a server is: `http://127.0.0.1:9324`, `https://sqs.us-east-1.amazonaws.com`.

use std::fmt;

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

/// A text that is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {text:?}: {problem}")]
pub struct EndpointError {
    text: String,
    problem: &'static str,
}

impl Endpoint {
    /// Parses a URL; whatever follows the authority is left out of the endpoint.
    ///
    /// # Errors
    ///
    /// If it is no `http://` or `https://` URL with a host.
    pub fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        let fail = |problem| EndpointError { text: text.to_owned(), problem };
        let (is_tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            _ => return Err(fail("must begin with http:// or https://")),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(fail("must not hold a user name"));
        }
        if !authority.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail("holds a character that no host name has"));
        }
        let default_port = if is_tls { 443 } else { 80 };
        let (host, port) = split_port(authority).map_err(fail)?;
        let port = port.unwrap_or(default_port);
        let authority =
            if port == default_port { host.to_owned() } else { format!("{host}:{port}") };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(fail("names no host"));
        }
        Ok(Endpoint { is_tls, host, port, authority })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

/// Host and port, if one is written. The colons of an IPv6 address stand within brackets.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let host_end = authority.rfind(']').map_or(0, |end| end + 1);
    let after_brackets = authority.get(host_end..).unwrap_or_default();
    let Some(colon) = after_brackets.find(':') else { return Ok((authority, None)) };
    let (host, port) = authority.split_at(host_end + colon);
    let digits = port.get(1..).unwrap_or_default();
    match digits.parse() {
        Ok(port) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok((host, Some(port))),
        _ => Err("has no valid port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_scheme_host_and_port() {
        let parsed = |text| Endpoint::parse(text).unwrap();

        let local = parsed("http://127.0.0.1:9324/000000000000/q");
        assert_eq!((local.is_tls, local.host.as_str(), local.port), (false, "127.0.0.1", 9324));
        assert_eq!(local.authority, "127.0.0.1:9324");
        let amazon = parsed("https://sqs.us-east-1.amazonaws.com:443");
        assert_eq!((amazon.is_tls, amazon.port), (true, 443));
        assert_eq!(amazon.authority, "sqs.us-east-1.amazonaws.com");
        assert_eq!(amazon.to_string(), "https://sqs.us-east-1.amazonaws.com");
        let six = parsed("http://[::1]:9324");
        assert_eq!((six.host.as_str(), six.authority.as_str()), ("::1", "[::1]:9324"));
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        let texts = [
            "",
            "/q",
            "localhost:9324",
            "ftp://h",
            "http://",
            "http://h:99999",
            "http://u@h",
            "http://h:",
            "http://h:+1",
            "http://h::80",
        ];
        for text in texts {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}
