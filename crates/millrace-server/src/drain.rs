//! The signal that the server is to finish.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::watch;

/// Starts a drain, and tells whoever waits for it. Clones share one signal.
///
/// The server and the services hold clones: on [`Drain::start`] the server stops accepting, and
/// the services answer held requests (long polls) at once.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Signal {
    /// Every request looks at this, so it is not behind the lock that `sender` has. It is set
    /// (release) before `sender` wakes anybody; who is woken sees it (acquire).
    is_started: AtomicBool,
    sender: watch::Sender<bool>,
}

impl Drain {
    /// A signal that has not been given.
    pub fn new() -> Drain {
        Drain::default()
    }

    /// Gives the signal. Later calls do nothing.
    pub fn start(&self) {
        self.signal.is_started.store(true, Ordering::Release);
        self.signal.sender.send_replace(true);
    }

    /// Whether the signal has been given.
    pub fn is_started(&self) -> bool {
        self.signal.is_started.load(Ordering::Acquire)
    }

    /// Returns once the signal has been given. Cancel safe.
    pub async fn started(&self) {
        // Fails only when the sender is gone, which `self` holds.
        let _ = self.signal.sender.subscribe().wait_for(|is_started| *is_started).await;
    }
}
