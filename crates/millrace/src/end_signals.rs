//! The signals that ask a process to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP.
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    /// None under nohup, say.
    hang_up: Option<Signal>,
}

impl EndSignals {
    /// From here on these signals no longer end the process. Within a runtime.
    pub(crate) fn watch() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hang_up = match millrace_process::ignores_hang_up() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self { terminate, interrupt, hang_up })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hang_up => "SIGHUP",
        }
    }
}
