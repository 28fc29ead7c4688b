//! Names to addresses, by the system's resolver: a call that blocks, so on a thread of its own.
//!
//! Where the system gives no thread for it, that is an error; tokio's own look-up panics then. A
//! look-up that nobody waits for any more goes on until the resolver gives up: there are
//! [`AT_A_TIME`] at most, or as many as the transport's options say, and further ones wait.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use tokio::sync::{Semaphore, oneshot};

/// Each may take half a minute where no name server answers; more at a time find out no more.
pub(super) const AT_A_TIME: usize = 64;

/// Looks names up.
#[derive(Debug)]
pub(super) struct LookUps {
    places: Arc<Semaphore>,
}

impl LookUps {
    pub(super) fn new(at_a_time: usize) -> LookUps {
        let places = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        LookUps { places: Arc::new(Semaphore::new(places)) }
    }

    /// The addresses of a host, in the order in which they are to be tried. Cancel safe.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        self.addresses_on(thread::Builder::new(), host, port).await
    }

    async fn addresses_on(
        &self,
        thread: thread::Builder,
        host: &str,
        port: u16,
    ) -> io::Result<Vec<SocketAddr>> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (found, addresses) = oneshot::channel();
        let host = host.to_owned();
        thread.name("look-up".to_owned()).spawn(move || {
            let _place = place;
            // Nobody may wait any more.
            let _ = found.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
        })?;
        addresses.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn names_are_looked_up_and_addresses_are_not() {
        let look_ups = LookUps::new(AT_A_TIME);

        let of_name = look_ups.addresses("localhost", 80).await.unwrap();
        assert!(of_name.iter().any(|address| address.ip().is_loopback()), "{of_name:?}");

        look_ups.places.close();
        let of_address = look_ups.addresses("127.0.0.1", 80).await.unwrap();
        assert_eq!(of_address, [SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80)]);
        assert!(look_ups.addresses("localhost", 80).await.is_err());
    }

    #[tokio::test]
    #[cfg(target_pointer_width = "64")]
    async fn thread_that_cannot_be_had_is_an_error_and_takes_no_place() {
        let look_ups = LookUps::new(AT_A_TIME);
        // No process has room for such a stack.
        let thread = thread::Builder::new().stack_size(1 << 47);

        look_ups.addresses_on(thread, "localhost", 80).await.unwrap_err();

        assert_eq!(look_ups.places.available_permits(), AT_A_TIME);
    }
}
