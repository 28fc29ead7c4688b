//! Telling the service manager how far the process is, as systemd wants to hear it of services with
//! `Type=notify` (sd_notify(3)).
//!
//! Without `NOTIFY_SOCKET` nobody wants to hear anything. That somebody cannot be told is a warning:
//! the server serves all the same.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

/// How long somebody who does not read may hold us up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Requests are answered from now on.
pub(crate) fn ready() {
    tell("READY=1");
}

/// The drain has begun.
pub(crate) fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(?socket, state, %error, "the service manager could not be told");
    }
}

/// A name that begins with `@` is none of a file, but one in the abstract name space.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(PATIENCE))?;
    sender.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
