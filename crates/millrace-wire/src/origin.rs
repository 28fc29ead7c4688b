//! Scheme and host by which a client reached the server, also through proxies.
//!
//! A proxy's `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Forwarded-Port` come first. A value
//! that is empty or is none of its kind says nothing: the next one of the list counts, then the
//! request's own. So nothing reaches a URL but a host and a port.

use std::fmt;
use std::net::Ipv6Addr;

use crate::Request;

/// What the URLs that a client can use begin with; displayed without a slash at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin<'a> {
    scheme: Scheme,
    /// With its port, if the client or the proxy wrote one there.
    authority: &'a str,
    /// What is to be added to `authority`.
    port: Option<u16>,
}

/// Plain HTTP or TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl<'a> RequestOrigin<'a> {
    /// Where the client sent that request.
    pub fn of(request: &Request<'a>) -> RequestOrigin<'a> {
        let scheme = Scheme::of(request);
        let forwarded = values(request, "x-forwarded-host").find(|text| is_authority(text));
        let own = || request.header("host").map(str::trim).filter(|text| is_authority(text));
        let authority = forwarded.or_else(own).unwrap_or("localhost");
        let forwarded_port = values(request, "x-forwarded-port").find_map(port);
        // The port behind a forwarded host is the client's. The port behind `Host` may be the one
        // by which the proxy reached this server.
        let (authority, port) = match forwarded_port {
            Some(port) if forwarded.is_none() => (without_port(authority), Some(port)),
            Some(port) if without_port(authority) == authority => (authority, Some(port)),
            _ => (authority, None),
        };
        RequestOrigin { scheme, authority, port: port.filter(|port| *port != scheme.port()) }
    }
}

impl Scheme {
    /// The scheme by which the client sent that request.
    pub fn of(request: &Request<'_>) -> Scheme {
        let own = if request.is_tls { Scheme::Https } else { Scheme::Http };
        values(request, "x-forwarded-proto").find_map(Scheme::named).unwrap_or(own)
    }

    fn named(name: &str) -> Option<Scheme> {
        match name {
            _ if name.eq_ignore_ascii_case("https") => Some(Scheme::Https),
            _ if name.eq_ignore_ascii_case("http") => Some(Scheme::Http),
            _ => None,
        }
    }

    /// The port that URLs of this scheme leave out.
    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl fmt::Display for RequestOrigin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// The values of a header in the order of the proxies: the one next to the client wrote first.
fn values<'a>(request: &Request<'a>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let fields =
        request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    let texts = fields.filter_map(|header| str::from_utf8(header.value).ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

/// Whether a text is a host with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, behind) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, behind)) if address.parse::<Ipv6Addr>().is_ok() => (None, behind),
            _ => return false,
        },
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (host, behind) = text.split_at(end);
            (Some(host), behind)
        }
    };
    let has_good_port = behind.is_empty() || behind.strip_prefix(':').and_then(port).is_some();
    has_good_port && host.is_none_or(is_host_name)
}

/// Whether a text is a name or an IPv4 address. Underscores are in names that containers have.
fn is_host_name(text: &str) -> bool {
    let labels = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.bytes().all(is_allowed)
    };
    text.len() <= 253 && labels.split('.').all(is_label)
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

fn port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    /// Of a request to `a:1` with the headers that `lines` writes.
    fn origin(lines: &str) -> String {
        let fields = lines.lines().filter_map(|line| line.split_once(": "));
        let mut headers: Vec<_> = fields.map(|(name, value)| Header::new(name, value)).collect();
        headers.push(Header::new("Host", "a:1"));
        RequestOrigin::of(&Request::post(&headers, b"")).to_string()
    }

    #[test]
    fn the_first_value_that_is_one_counts() {
        for (headers, expected) in [
            ("", "http://a:1"),
            ("X-Forwarded-Host: b", "http://b"),
            ("X-Forwarded-Host: b:8443, c", "http://b:8443"),
            ("X-Forwarded-Host: ", "http://a:1"),
            ("X-Forwarded-Host:  , ,", "http://a:1"),
            ("X-Forwarded-Host: , b", "http://b"),
            ("X-Forwarded-Host: \nx-forwarded-host: b", "http://b"),
            ("X-Forwarded-Proto: https", "https://a:1"),
            ("X-Forwarded-Proto: HTTPS , http", "https://a:1"),
            ("X-Forwarded-Proto: ,https", "https://a:1"),
            ("X-Forwarded-Proto: http, https", "http://a:1"),
            ("X-Forwarded-Proto: gopher", "http://a:1"),
            ("X-Forwarded-Proto: https://", "http://a:1"),
        ] {
            assert_eq!(origin(headers), expected, "{headers}");
        }
    }

    #[test]
    fn a_forwarded_port_counts_unless_the_forwarded_host_has_one() {
        for (headers, expected) in [
            ("X-Forwarded-Port: 8443", "http://a:8443"),
            ("X-Forwarded-Port: 443\nX-Forwarded-Proto: https", "https://a"),
            ("X-Forwarded-Port: x", "http://a:1"),
            ("X-Forwarded-Host: b:2\nX-Forwarded-Port: 8443", "http://b:2"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 8443", "http://b:8443"),
            ("X-Forwarded-Host: [::1]\nX-Forwarded-Port: 8443", "http://[::1]:8443"),
            ("X-Forwarded-Host: [::1]:2\nX-Forwarded-Port: 8443", "http://[::1]:2"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 80", "http://b"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 443", "http://b:443"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 443\nX-Forwarded-Proto: https", "https://b"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: , 81, 82", "http://b:81"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 0", "http://b"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: +81", "http://b"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 65536", "http://b"),
            ("X-Forwarded-Host: b\nX-Forwarded-Port: 8/x", "http://b"),
        ] {
            assert_eq!(origin(headers), expected, "{headers}");
        }
    }

    #[test]
    fn what_is_no_authority_reaches_no_url() {
        for host in ["b", "B.Example.", "my_service-1:65535", "127.0.0.1:9", "[2001:db8::1]:9"] {
            assert_eq!(origin(&format!("X-Forwarded-Host: {host}")), format!("http://{host}"));
        }
        for none in [
            "b/c",
            "b?c",
            "b#c",
            "user@b",
            "b c",
            "b\tc",
            "\u{7f}",
            "\"b\"",
            "b:",
            "b:0",
            "b:65536",
            "b:x",
            "b:-1",
            "b:1:2",
            ":9",
            "::1",
            "[::1",
            "[::1]9",
            "[b]",
            "[]",
            ".",
            "b..c",
            ".b",
            "http://b",
            "b\\c",
            "b%2fc",
            "<b>",
            "bücher.example",
        ] {
            assert_eq!(origin(&format!("X-Forwarded-Host: {none}")), "http://a:1", "{none}");
        }
    }

    #[test]
    fn a_host_that_is_none_is_this_machine() {
        for host in ["", " ", "b/c", "b:x"] {
            let headers = [Header::new("Host", host)];
            let request = Request { is_tls: true, ..Request::post(&headers, b"") };
            assert_eq!(RequestOrigin::of(&request).to_string(), "https://localhost", "{host}");
        }
    }
}
