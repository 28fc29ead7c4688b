//! Running to an end that waits for nobody.
//!
//! A look-up of a name is a call that cannot be given up: where it blocks a thread of the runtime,
//! as that of servers of credentials does, it does so for as long as the resolver tries, half a
//! minute and more where no name server answers. Whoever drops a runtime waits for that, though
//! nobody wants the answer any more.

use anyhow::Context;
use tokio::runtime::Builder;

/// Runs `work` on this thread and returns its outcome. All that it has left behind in the runtime
/// is dropped, but for blocking calls under way: those end with the process.
pub(crate) fn end_soon<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn end_waits_for_no_call_that_blocks() {
        let (answer, look_up) = mpsc::channel::<()>();
        let begun = async {
            let (begin, begun) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _ = begin.send(());
                look_up.recv_timeout(Duration::from_secs(60))
            });
            Ok(begun.await?)
        };

        end_soon(begun).unwrap();

        assert!(answer.send(()).is_ok(), "it still waits for its answer");
    }
}
