//! The runtime of whatever waits for the network.

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// On the calling thread alone.
pub(crate) fn current_thread() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("starting a runtime")
}
