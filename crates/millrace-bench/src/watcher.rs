//! A thread beside a run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result};

/// Ends when this is dropped, which waits for it.
pub(crate) struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// `run` returns soon after it is over.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<Watcher> {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_seen_over = Arc::clone(&is_over);
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(&is_seen_over)).context("starting a thread")?;
        Ok(Watcher { is_over, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
