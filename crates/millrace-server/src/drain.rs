//! The signal that the server is to finish.

use std::sync::Arc;

use tokio::sync::watch;

/// Starts a drain, and tells whoever waits for it. Clones share one signal.
///
/// The server and the services hold clones: on [`Drain::start`] the server stops accepting, and
/// the services answer held requests (long polls) at once.
#[derive(Clone, Debug)]
pub struct Drain {
    sender: Arc<watch::Sender<bool>>,
}

impl Drain {
    /// A signal that has not been given.
    pub fn new() -> Drain {
        Drain { sender: Arc::new(watch::Sender::new(false)) }
    }

    /// Gives the signal. Later calls do nothing.
    pub fn start(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the signal has been given.
    pub fn is_started(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns once the signal has been given. Cancel safe.
    pub async fn started(&self) {
        // Fails only when the sender is gone, which `self` holds.
        let _ = self.sender.subscribe().wait_for(|is_started| *is_started).await;
    }
}

impl Default for Drain {
    fn default() -> Drain {
        Drain::new()
    }
}
