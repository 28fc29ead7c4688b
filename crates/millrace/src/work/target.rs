//! A URL that messages are posted to.

use anyhow::Context;
use millrace_client::transport::{Endpoint, Head, HeadError, Transport, TransportOptions};

use super::WorkFlags;
use crate::config::UsageError;

/// Where requests go, and the connections kept to it: as many as handlers may run.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) transport: Transport,
    path: String,
}

impl Target {
    /// The URL that a flag names; `default_path` if it has no path.
    pub(super) fn parse(
        flag: &str,
        url: &str,
        default_path: &str,
        flags: &WorkFlags,
    ) -> anyhow::Result<Target> {
        let endpoint = Endpoint::parse(url).map_err(|error| UsageError(error.to_string()))?;
        let path = match path(url) {
            "" | "/" => default_path,
            path => path,
        };
        let is_sendable = Head::new("POST", path, &endpoint.authority);
        is_sendable.map_err(|error| UsageError(format!("{flag}: {error}")))?;
        let mut options = TransportOptions::default();
        options.answer_timeout = flags.timeout();
        options.lane_connections = flags.most_handlers();
        let transport = Transport::new(endpoint, &options);
        let transport = transport.with_context(|| format!("preparing {flag}"))?;
        Ok(Target { transport, path: path.to_owned() })
    }

    /// The head of a request.
    pub(super) fn head(&self, method: &str) -> Result<Head, HeadError> {
        Head::new(method, &self.path, &self.transport.endpoint().authority)
    }
}

/// Adds a header that came with a message; what HTTP cannot carry is left out.
pub(super) fn optional(head: &mut Head, name: &str, value: &str) {
    if let Err(error) = head.header(name, value) {
        tracing::debug!(name, %error, "header left out");
    }
}

/// Path and query of a URL.
fn path(url: &str) -> &str {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let from = after_scheme.find(['/', '?', '#']).unwrap_or(after_scheme.len());
    let path = after_scheme.get(from..).unwrap_or_default();
    path.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_all_behind_the_host_but_the_fragment() {
        assert_eq!(path("http://h:1/a/b?c=d#e"), "/a/b?c=d");
        assert_eq!(path("http://h"), "");
        assert_eq!(path("http://h/"), "/");
        assert_eq!(path("https://h#x"), "");
    }
}
