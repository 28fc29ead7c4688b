//! What the server answers by itself: health, readiness and CORS preflights.

use std::net::IpAddr;

use millrace_wire::{Request, Response, json_string};

use crate::{Cors, Drain, Hooks};

/// A browser asks again after this time; it does not keep an answer for longer than two hours.
const PREFLIGHT_MAX_AGE_SECONDS: &str = "7200";

const EXPOSED_HEADERS: &str = "x-amzn-requestid,x-amzn-query-error,date";

/// What the server answers by itself.
pub(crate) struct Policy {
    pub(crate) cors: Cors,
    pub(crate) refuses_other_pages: bool,
    pub(crate) hooks: Hooks,
    pub(crate) drain: Drain,
}

/// What `Access-Control-Allow-Origin` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedOrigin<'a> {
    Any,
    /// This one; the answer then varies with the request's origin.
    Only(&'a str),
}

impl<'a> AllowedOrigin<'a> {
    /// The headers of a response that say so.
    pub(crate) fn headers(self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let (origin, vary) = match self {
            AllowedOrigin::Any => ("*", None),
            AllowedOrigin::Only(origin) => (origin, Some(("Vary", "Origin"))),
        };
        let allowed = ("Access-Control-Allow-Origin", origin);
        let exposed = ("Access-Control-Expose-Headers", EXPOSED_HEADERS);
        [Some(allowed), vary, Some(exposed)].into_iter().flatten()
    }
}

impl Policy {
    /// The server's own answer to requests that are not for the service.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Option<Response> {
        match (request.method, request.path) {
            ("GET" | "HEAD", "/health") => Some(status(200, r#"{"status":"ok"}"#)),
            ("GET" | "HEAD", "/ready") => Some(self.readiness()),
            ("OPTIONS", _) => self.preflight(request),
            _ if self.refuses_other_pages && self.is_of_other_page(request) => Some(status(
                403,
                r#"{"status":"browsers may not call for pages of this origin: see cors_origins"}"#,
            )),
            _ => None,
        }
    }

    /// Browsers send simple requests, which may delete a queue, without asking first.
    fn is_of_other_page(&self, request: &Request<'_>) -> bool {
        let origin = request.header("origin");
        if matches!(self.cors, Cors::Any) || self.allowed_origin(origin).is_some() {
            return false;
        }
        if is_of_sdk(request) && !is_elsewhere(request) {
            return false;
        }
        match request.header("sec-fetch-site") {
            // The user typed the address.
            Some("none") => false,
            // No page is served here, so under a name that somebody may own this one made the name
            // point here.
            Some("same-origin") => is_elsewhere(request),
            Some(_) => true,
            // An origin that is the host proves nothing, for the same reason.
            None => origin.is_some() || is_untold_page(request),
        }
    }

    /// Whether pages of that origin may read the answer.
    pub(crate) fn allowed_origin<'a>(&self, origin: Option<&'a str>) -> Option<AllowedOrigin<'a>> {
        let origin = origin?;
        match &self.cors {
            Cors::Off => None,
            Cors::Any => Some(AllowedOrigin::Any),
            Cors::Local => is_of_this_machine(origin).then_some(AllowedOrigin::Only(origin)),
            Cors::Origins(origins) => origins
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(origin))
                .then_some(AllowedOrigin::Only(origin)),
        }
    }

    fn readiness(&self) -> Response {
        if self.drain.is_started() {
            return status(503, r#"{"status":"draining"}"#);
        }
        if !(self.hooks.is_ready)() {
            return status(503, r#"{"status":"not ready"}"#);
        }
        let Some(url) = &self.hooks.companion_of else {
            return status(200, r#"{"status":"ready"}"#);
        };
        let mut body = br#"{"status":"ready","console_of":"#.to_vec();
        json_string(&mut body, url.as_bytes());
        body.push(b'}');
        Response::new(200, "application/json", body)
    }

    fn preflight(&self, request: &Request<'_>) -> Option<Response> {
        self.allowed_origin(request.header("origin"))?;
        request.header("access-control-request-method")?;
        let headers = request.header("access-control-request-headers").unwrap_or("*");
        Some(Response {
            status: 200,
            headers: vec![
                ("Access-Control-Allow-Methods", "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS".into()),
                ("Access-Control-Allow-Headers", headers.into()),
                ("Access-Control-Max-Age", PREFLIGHT_MAX_AGE_SECONDS.into()),
            ],
            ..Response::default()
        })
    }
}

/// Whether an origin, as `http://localhost:3000`, can only be of this machine: browsers look `localhost`
/// and what ends so up nowhere.
fn is_of_this_machine(origin: &str) -> bool {
    let of_scheme = |scheme| origin.strip_prefix(scheme);
    let Some(host) = of_scheme("http://").or_else(|| of_scheme("https://")) else { return false };
    let host = without_port(host);
    is_localhost(host) || address(host).is_some_and(|address| address.is_loopback())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_localhost(host: &str) -> bool {
    let name = host.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// Whether a browser asks without saying for which page. To plain HTTP elsewhere than on their own
/// machine, browsers say that with a GET in no header of their own. But they always say which
/// languages are wanted, which few programs do; Node's `fetch` does so only with `Sec-Fetch-Mode`.
/// With POST browsers name the page's origin, and over TLS they say the site.
fn is_untold_page(request: &Request<'_>) -> bool {
    let is_get = matches!(request.method, "GET" | "HEAD");
    let says_languages = request.header("accept-language").is_some();
    if request.is_tls || !is_get || !says_languages || request.header("sec-fetch-mode").is_some() {
        return false;
    }
    // A page under a name of its own that was made to point here chooses the other headers.
    is_elsewhere(request) || is_named_browser(request)
}

/// Many programs call themselves so, too: a name alone tells nothing.
fn is_named_browser(request: &Request<'_>) -> bool {
    request.header("user-agent").is_some_and(|agent| agent.starts_with("Mozilla/"))
}

/// Whether the request has a header that browsers send to other hosts only after a preflight, which
/// pages of other origins do not pass. A signature in the query proves nothing, since any page can
/// link to it.
fn is_of_sdk(request: &Request<'_>) -> bool {
    let is_signed = request.header("authorization").is_some_and(|text| text.starts_with("AWS4-"));
    is_signed || request.header("x-amz-target").is_some()
}

/// Whether the host is a name that somebody may own.
fn is_elsewhere(request: &Request<'_>) -> bool {
    let host = without_port(request.header("host").unwrap_or_default());
    host.contains('.') && !is_localhost(host) && address(host).is_none()
}

fn status(status: u16, body: &str) -> Response {
    Response::new(status, "application/json", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_this_machine_are_names_and_addresses_that_lead_nowhere_else() {
        for local in [
            "http://localhost",
            "http://localhost:3000",
            "https://App.LocalHost:8443",
            "http://127.0.0.1:5173",
            "http://127.1.2.3",
            "http://[::1]:3000",
            "http://[::1]",
        ] {
            assert!(is_of_this_machine(local), "{local}");
        }
        for other in [
            "https://evil.example",
            "http://localhost.evil.example:80",
            "http://evil-localhost",
            "http://127.0.0.1.evil.example",
            "http://10.0.0.1",
            "http://localhost:x@evil.example",
            "file://localhost",
            "null",
            "",
        ] {
            assert!(!is_of_this_machine(other), "{other}");
        }
    }
}
