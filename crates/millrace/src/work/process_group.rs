//! A child process with all that it starts.

use std::{io, time::Duration};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{process::Child, time::timeout};

/// The process group that a child leads; killed when dropped. To be dropped before the child is
/// waited for by others, while the child's process id is still its own.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    id: Option<Pid>,
}

impl ProcessGroup {
    /// The group of a child that was spawned with `process_group(0)`.
    pub(super) fn of(child: &Child) -> io::Result<ProcessGroup> {
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        match id {
            Some(id) => Ok(ProcessGroup { id: Some(id) }),
            None => Err(io::Error::other("the command has no process id")),
        }
    }

    /// Whether the child has ended. It is not waited for: its process id stays its own.
    pub(super) fn has_lost_leader(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match self.id {
            Some(id) => !matches!(waitid(WaitId::Pid(id), look), Ok(None)),
            None => true,
        }
    }

    /// SIGTERM, then time to end, then SIGKILL to what is left.
    pub(super) async fn stop(&mut self, child: &mut Child, kill_after: Duration) {
        self.signal(Signal::TERM);
        let _ = timeout(kill_after, child.wait()).await;
        self.kill();
    }

    /// SIGKILL to what is left.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.id = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // It fails when nobody is left, which is what is wanted.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
