//! The server over real sockets, with a service that does what the test wants.

mod support;

mod bounds;
mod cancel;
mod drain;
mod framing;
mod http2;
mod keep_alive;
mod policy;
mod tls;
