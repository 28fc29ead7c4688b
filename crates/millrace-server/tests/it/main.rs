//! The server over real sockets, with a service that does what the test wants.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod balance;
mod bounds;
mod cancel;
mod drain;
mod framing;
mod http2;
mod idle_poll;
mod keep_alive;
mod policy;
mod strangers;
mod stream;
mod tls;
mod unfinished;
