//! URLs of servers that somebody gave, on a command line, in the environment or in a file.
//!
//! One parser for all of them. What it accepts can be sent as it is: scheme and authority are
//! checked, a path that is empty is `/`, the fragment is gone. Texts about a URL never show its
//! query, and those about a refused one show nothing of it: either may hold a secret.

use std::fmt;
use std::net::Ipv6Addr;

use http::Uri;

/// An absolute `http` or `https` URL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url {
    is_tls: bool,
    host: String,
    port: u16,
    path: String,
    /// With its question mark, or empty.
    query: String,
}

/// Says why a text is not a URL of a server, without quoting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    Scheme,
    UserInfo,
    Host,
    Port,
    Character,
    Query,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// If the text is not an absolute `http` or `https` URL, or holds a user name, white space, a
    /// control character or one that is not ASCII.
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let is_tls = match scheme {
            scheme if scheme.eq_ignore_ascii_case("http") => false,
            scheme if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(UrlError::Scheme),
        };
        // The fragment never leaves the client, so it says nothing about where to connect.
        let rest = rest.split('#').next().unwrap_or_default();
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Character);
        }
        let (host, port) = host_and_port(authority)?;
        let default_port = if is_tls { 443 } else { 80 };
        let behind = rest.get(authority.len()..).unwrap_or_default();
        // `Uri` knows which characters a path and a query may hold.
        let behind = if behind.starts_with('/') { behind.to_owned() } else { format!("/{behind}") };
        let behind: Uri = behind.parse().map_err(|_| UrlError::Character)?;
        Ok(Url {
            is_tls,
            host: host.to_ascii_lowercase(),
            port: port.unwrap_or(default_port),
            path: behind.path().to_owned(),
            query: behind.query().map(|query| format!("?{query}")).unwrap_or_default(),
        })
    }

    /// The same URL with `path`, which begins with a slash, added to its own, before the query.
    #[must_use]
    pub fn below(&self, path: &str) -> Url {
        Url { path: format!("{}{path}", self.path.trim_end_matches('/')), ..self.clone() }
    }

    /// The same URL with `path` if it has none of its own.
    #[must_use]
    pub fn with_default_path(self, path: &str) -> Url {
        if self.path == "/" { Url { path: path.to_owned(), ..self } } else { self }
    }

    /// The same URL.
    ///
    /// # Errors
    ///
    /// If it has a query.
    pub fn without_query(self) -> Result<Url, UrlError> {
        if self.query.is_empty() { Ok(self) } else { Err(UrlError::Query) }
    }

    /// Whether connections are TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The name or address, in lower case; an IPv6 address is without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What goes into the `Host` header: the port only if it is not the scheme's own.
    pub fn authority(&self) -> String {
        let is_ipv6 = self.host.contains(':');
        let host = if is_ipv6 { format!("[{}]", self.host) } else { self.host.clone() };
        let default_port = if self.is_tls { 443 } else { 80 };
        if self.port == default_port { host } else { format!("{host}:{}", self.port) }
    }

    /// Scheme and authority.
    pub fn origin(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Begins with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Without its question mark; it may be a secret.
    pub fn query(&self) -> Option<&str> {
        self.query.strip_prefix('?')
    }

    /// Path and query, as a request line has them.
    pub fn target(&self) -> String {
        format!("{}{}", self.path, self.query)
    }

    /// The whole URL, for what sends requests; its query may be a secret.
    pub fn with_query(&self) -> String {
        format!("{}{}", self.origin(), self.target())
    }
}

/// For people: without the query, and without a path that is only `/`.
impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path == "/" { "" } else { &self.path };
        write!(formatter, "{}{path}", self.origin())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            UrlError::Scheme => "the URL must begin with http:// or https://",
            UrlError::UserInfo => "the URL must not hold a user name or a password",
            UrlError::Host => "the URL does not name a valid host",
            UrlError::Port => "the URL does not have a valid port (1 to 65535)",
            UrlError::Character => "the URL holds a character that no URL may hold",
            UrlError::Query => "the URL must not have a query",
        })
    }
}

impl std::error::Error for UrlError {}

/// The host without brackets, and the port if one is written.
fn host_and_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(UrlError::Host)?;
            address.parse::<Ipv6Addr>().map_err(|_| UrlError::Host)?;
            (address, port)
        }
        None => {
            let host = authority.split(':').next().unwrap_or_default();
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if host.is_empty() || !host.bytes().all(is_allowed) {
                return Err(UrlError::Host);
            }
            (host, authority.get(host.len()..).unwrap_or_default())
        }
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.strip_prefix(':').ok_or(UrlError::Host)?;
    match digits.parse() {
        Ok(port) if port > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((host, Some(port)))
        }
        _ => Err(UrlError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn authority_ends_at_a_slash_a_question_mark_or_a_hash() {
        for end in ["", "/", "/a@b:c", "?a@b:c/d", "#a@b:c/d?e"] {
            let url = parsed(&format!("http://h:81{end}"));
            assert_eq!((url.host(), url.port(), url.authority()), ("h", 81, "h:81".to_owned()));
        }
    }

    #[test]
    fn an_empty_path_is_sent_as_a_slash_and_fragments_never() {
        let target = |text| parsed(text).target();

        assert_eq!(target("http://h"), "/");
        assert_eq!(target("http://h?key=1"), "/?key=1");
        assert_eq!(target("http://h#f?x"), "/");
        assert_eq!(target("http://h/a?b=/c?d#e"), "/a?b=/c?d");
        assert_eq!(target("http://h/?"), "/?");
        assert_eq!(target("http://h//a"), "//a");
    }

    #[test]
    fn what_is_added_goes_before_the_query() {
        let below = |text| parsed(text).below("/v1/traces").with_query();

        assert_eq!(below("http://h"), "http://h/v1/traces");
        assert_eq!(below("http://h:4318/?key=1"), "http://h:4318/v1/traces?key=1");
        assert_eq!(below("http://h/otlp/?key=/#f"), "http://h/otlp/v1/traces?key=/");
        let default = |text| parsed(text).with_default_path("/d").target();
        assert_eq!(default("http://h?key=1"), "/d?key=1");
        assert_eq!(default("http://h/own?key=1"), "/own?key=1");
    }

    #[test]
    fn host_and_port_are_those_of_the_scheme() {
        let amazon = parsed("HTTPS://SQS.us-east-1.amazonaws.com:443");
        assert_eq!((amazon.is_tls(), amazon.port()), (true, 443));
        assert_eq!(amazon.to_string(), "https://sqs.us-east-1.amazonaws.com");
        assert_eq!(parsed("http://h:443").authority(), "h:443");
        let six = parsed("http://[::1]:9324/q");
        assert_eq!((six.host(), six.port()), ("::1", 9324));
        assert_eq!(six.authority(), "[::1]:9324");
        assert_eq!(parsed("https://[FE80::1]").authority(), "[fe80::1]");
    }

    #[test]
    fn what_is_shown_holds_no_query() {
        let url = parsed("https://h/hook?key=hunter2");

        assert_eq!(url.to_string(), "https://h/hook");
        assert!(!format!("{url:?}").contains("hunter2"));
        assert_eq!(url.without_query(), Err(UrlError::Query));
    }

    #[test]
    fn what_is_not_a_url_is_refused_without_being_quoted() {
        let cases = [
            ("", UrlError::Scheme),
            ("hunter2:9324", UrlError::Scheme),
            ("ftp://hunter2", UrlError::Scheme),
            ("http:/hunter2", UrlError::Scheme),
            (" http://hunter2", UrlError::Scheme),
            ("http://user:hunter2@h", UrlError::UserInfo),
            ("http://hunter2@h", UrlError::UserInfo),
            ("http://@h", UrlError::UserInfo),
            ("http://us er:hunter2@h", UrlError::UserInfo),
            ("http://", UrlError::Host),
            ("http:///hunter2", UrlError::Host),
            ("http://?hunter2", UrlError::Host),
            ("http://:80", UrlError::Host),
            ("http://h\\hunter2", UrlError::Host),
            ("http://hunter2%2e", UrlError::Host),
            ("http://[::1", UrlError::Host),
            ("http://[::1]hunter2", UrlError::Host),
            ("http://[hunter2]", UrlError::Host),
            ("http://[fe80::1%25eth0]", UrlError::Host),
            ("http://h]:80", UrlError::Host),
            ("http://h:", UrlError::Port),
            ("http://h:0", UrlError::Port),
            ("http://h:+1", UrlError::Port),
            ("http://h:65536", UrlError::Port),
            ("http://h:80:80", UrlError::Port),
            ("http://::1", UrlError::Host),
            ("http://user:hunter2", UrlError::Port),
            ("http://h/hunter2 b", UrlError::Character),
            ("http://h/hunter2\r\nx: y", UrlError::Character),
            ("http://h/\u{e9}", UrlError::Character),
            ("http://h/#\n", UrlError::Character),
            ("http://h/<hunter2>", UrlError::Character),
        ];
        for (text, error) in cases {
            assert_eq!(Url::parse(text), Err(error), "{text:?}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
