//! Advice about a server that does not start: taken addresses, damaged data, data in use.
//!
//! The advice is a line of its own behind the error's text.

use std::{io, net::SocketAddr};

use anyhow::{Error, anyhow};
use millrace_journal::OpenError;
use millrace_server::BindError;

use crate::config::Config;

/// Adds what to do about an address of the services that cannot be listened on.
pub(crate) fn of_listening(error: BindError) -> Error {
    let advice = |address: SocketAddr| {
        let port = address.port();
        let other = port.checked_add(2).unwrap_or(port - 2);
        format!(
            "another program uses port {port}, perhaps a Millrace or LocalStack; end it, or take \
             another port: millrace serve --listen {other}\n(`millrace ready --endpoint \
             http://{address}` says whether it is a Millrace)"
        )
    };
    let text = taken(&error).map(advice);
    with_advice(Error::new(error).context("starting to listen"), text)
}

/// The same for the console.
pub(crate) fn of_console(error: BindError) -> Error {
    let advice = |address: SocketAddr| {
        let port = address.port();
        let other = port.checked_add(2).unwrap_or(port - 2);
        format!(
            "another program uses port {port}; give the console another port \
             (--console-listen {other}), or start without it (--console-listen off)"
        )
    };
    let text = taken(&error).map(advice);
    with_advice(Error::new(error).context("starting to listen for the console"), text)
}

/// Adds what to do about data that cannot be opened.
pub(crate) fn of_data(error: Error, config: &Config) -> Error {
    let data = config.data.display();
    let tables = error.downcast_ref::<millrace_tables::OpenError>();
    if tables.is_some_and(millrace_tables::OpenError::is_mismatch) {
        let advice = format!(
            "put journal and tables of one backup back together; or copy the directory, then \
             `millrace journal accept-domains --data {data}` makes the server take the domains as \
             they are: docs/troubleshooting.md, \"the database of domains\""
        );
        return with_advice(error.context(format!("opening the data in {data}")), Some(advice));
    }
    let advice = match error.downcast_ref::<OpenError>() {
        Some(OpenError::Corrupt(_)) => Some(format!(
            "copy the directory, then `millrace journal repair --data {data}` makes the journal \
             start again and says what is lost: docs/troubleshooting.md, \"journal is corrupt\""
        )),
        Some(OpenError::Locked { .. }) => Some(
            "another server uses this directory; end it, or give this one its own with --data DIR"
                .to_owned(),
        ),
        _ => None,
    };
    with_advice(error.context(format!("opening the data in {data}")), advice)
}

/// The address, if another program has it.
fn taken(error: &BindError) -> Option<SocketAddr> {
    match error {
        BindError::Address(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
            Some(*address)
        }
        _ => None,
    }
}

fn with_advice(error: Error, advice: Option<String>) -> Error {
    match advice {
        Some(advice) => anyhow!("{error:#}\n{advice}"),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_at(address: &str) -> BindError {
        BindError::Address(address.parse().unwrap(), io::ErrorKind::AddrInUse.into())
    }

    #[test]
    fn taken_port_names_another_one() {
        let text = of_listening(taken_at("127.0.0.1:4566")).to_string();
        assert!(text.contains("127.0.0.1:4566"), "{text}");
        assert!(text.contains("--listen 4568"), "{text}");
        let text = of_console(taken_at("127.0.0.1:65535")).to_string();
        assert!(text.contains("--console-listen 65533"), "{text}");
        let denied = io::ErrorKind::PermissionDenied.into();
        let text = of_listening(BindError::Address("127.0.0.1:80".parse().unwrap(), denied));
        assert!(!text.to_string().contains("--listen"));
    }
}
