//! Which requests are answered at all: those addressed to a name that is ours, from pages that are
//! ours.
//!
//! - A page of another site that points its own name at our address (DNS rebinding) is refused by
//!   the Host check: only IP addresses, `localhost` and configured names are ours.
//! - A page of another site that sends a form or a script's request is refused by Origin and
//!   Sec-Fetch-Site, and has no token: every change must carry one that only our pages can read.

use std::net::IpAddr;

use millrace_wire::{Request, Response};

/// Headers of every answer. Scripts and styles come from our files only, nothing is framed.
pub(crate) const SECURITY_HEADERS: [(&str, &str); 6] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// Names under which the console may be addressed, besides IP addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    pub(crate) fn new(names: &[String]) -> Hosts {
        Hosts(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Whether the Host header names us, with whatever port.
    fn are_ours(&self, host: &str) -> bool {
        let Some(name) = host_name(host) else { return false };
        let name = name.to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || name.parse::<IpAddr>().is_ok()
            || self.0.contains(&name)
    }
}

/// Refuses requests that come from where no request should.
pub(crate) fn refuse(request: &Request<'_>, hosts: &Hosts) -> Option<Response> {
    let host = request.header("host").unwrap_or_default();
    if !hosts.are_ours(host) {
        tracing::debug!(peer = %request.peer, "request for a host name that is not the console's");
        let text = "This host name is not the console's. Use its IP address or localhost, or name \
                    it in `console_hosts`.\n";
        return Some(Response::new(421, "text/plain; charset=utf-8", text));
    }
    let is_read = matches!(request.method, "GET" | "HEAD");
    // Following a link to one of our pages is fine; embedding or fetching is not.
    let is_visit = is_read && request.header("sec-fetch-mode") == Some("navigate");
    let is_foreign = match request.header("sec-fetch-site") {
        Some("same-origin" | "none") | None => false,
        Some(_) => !is_visit,
    };
    let has_foreign_origin = request
        .header("origin")
        .is_some_and(|origin| origin_host(origin).is_none_or(|of| !of.eq_ignore_ascii_case(host)));
    if is_foreign || has_foreign_origin {
        tracing::debug!(peer = %request.peer, "request by a page of another origin");
        return Some(Response::new(403, "text/plain; charset=utf-8", "Wrong origin.\n"));
    }
    None
}

/// A Host header without its port; brackets of IPv6 addresses removed.
fn host_name(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map(|(address, _)| address);
    }
    match host.split_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(name),
        Some(_) => None,
        None => Some(host),
    }
}

/// The port of a Host header; none where it is the scheme's own.
pub(crate) fn port(host: &str) -> Option<&str> {
    let after_address = host.rsplit(']').next()?;
    let (_, port) = after_address.rsplit_once(':')?;
    (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(port)
}

/// Host and port of an Origin header.
fn origin_host(origin: &str) -> Option<&str> {
    origin.split_once("://").map(|(_, host)| host)
}

#[cfg(test)]
mod tests {
    use millrace_wire::Header;

    use super::*;

    fn status(method: &str, headers: &[(&'static str, &'static str)]) -> Option<u16> {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| Header::new(name, value)).collect();
        let request = Request { method, ..Request::post(&headers, b"") };
        refuse(&request, &Hosts::new(&["console.example.com".to_owned()]))
            .map(|response| response.status)
    }

    #[test]
    fn only_names_that_are_ours_are_answered() {
        for ours in [
            "127.0.0.1:4567",
            "localhost:4567",
            "LOCALHOST",
            "[::1]:4567",
            "10.1.2.3",
            "Console.Example.com",
        ] {
            assert_eq!(status("GET", &[("Host", ours)]), None, "{ours}");
        }
        for foreign in ["evil.example", "evil.example:4567", "localhost.evil.example", "", "a:b:c"]
        {
            assert_eq!(status("GET", &[("Host", foreign)]), Some(421), "{foreign}");
        }
        assert_eq!(status("GET", &[]), Some(421));
    }

    #[test]
    fn a_port_is_a_number_behind_the_name() {
        for (host, expected) in [
            ("127.0.0.1:4567", Some("4567")),
            ("[::1]:4567", Some("4567")),
            ("localhost", None),
            ("[::1]", None),
            ("localhost:", None),
            ("[::1]:4567=; Path=/", None),
        ] {
            assert_eq!(port(host), expected, "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let host = ("Host", "127.0.0.1:4567");
        let from = |method, origin| status(method, &[host, ("Origin", origin)]);

        assert_eq!(from("POST", "http://127.0.0.1:4567"), None);
        assert_eq!(from("POST", "http://127.0.0.1:4566"), Some(403));
        assert_eq!(from("POST", "http://evil.example"), Some(403));
        assert_eq!(from("GET", "http://evil.example"), Some(403));
        assert_eq!(from("POST", "null"), Some(403));
    }

    #[test]
    fn links_from_elsewhere_work_and_scripts_do_not() {
        let host = ("Host", "localhost");
        let site = ("Sec-Fetch-Site", "cross-site");
        let with = |method, mode| status(method, &[host, site, ("Sec-Fetch-Mode", mode)]);

        assert_eq!(with("GET", "navigate"), None);
        assert_eq!(with("GET", "no-cors"), Some(403));
        assert_eq!(with("POST", "navigate"), Some(403));
        assert_eq!(status("GET", &[host, ("Sec-Fetch-Site", "same-site")]), Some(403));
        assert_eq!(status("POST", &[host, ("Sec-Fetch-Site", "same-origin")]), None);
    }
}
