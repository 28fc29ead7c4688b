//! Sockets that listened before the server was started: socket activation, as systemd does it
//! (sd_listen_fds(3)).
//!
//! While such a server is started anew, connections wait instead of being refused. The settings
//! still say where to listen, and what that takes: a socket only stands in for an address that they
//! name.

use std::net::TcpListener;

use anyhow::Context;
use listenfd::ListenFd;

use crate::config::{Config, UsageError};

/// Takes over what was handed to this process. To be called before there are threads: the variables
/// that tell of it are removed.
pub(crate) fn sockets(config: &Config) -> anyhow::Result<Vec<TcpListener>> {
    let mut handed = ListenFd::from_env();
    let mut sockets = Vec::with_capacity(handed.len());
    for index in 0..handed.len() {
        let socket = handed.take_tcp_listener(index);
        let socket = socket.with_context(|| format!("taking over socket {index} of LISTEN_FDS"))?;
        let Some(socket) = socket else { continue };
        let address =
            socket.local_addr().context("asking a socket of LISTEN_FDS for its address")?;
        if !config.listen.iter().chain(&config.console_listen).any(|named| *named == address) {
            return Err(UsageError(format!(
                "a socket for {address} was handed over (LISTEN_FDS), which neither listen nor \
                 console_listen names"
            ))
            .into());
        }
        sockets.push(socket);
    }
    Ok(sockets)
}
