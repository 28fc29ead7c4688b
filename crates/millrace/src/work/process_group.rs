//! A child process with all that it starts.

use std::{io, time::Duration};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

/// Finds a process that has ended, without waiting for one.
const ENDED: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG);
/// Nobody tells when a group's last process ends.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The process group that a child leads; killed when dropped. To be dropped before the child is
/// waited for by others, while the child's process id is still its own.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    id: Option<Pid>,
}

/// A shell command in a process group of its own.
pub(super) fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).process_group(0).kill_on_drop(true);
    shell
}

impl ProcessGroup {
    /// The group of a child that was spawned by [`shell`].
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

    /// SIGTERM, then time to end for all of them, then SIGKILL to what is left.
    pub(super) async fn stop(&mut self, child: &mut Child, kill_after: Duration) {
        self.signal(Signal::TERM);
        let all_ended = async {
            let _ = child.wait().await;
            // A shell ends at once, whatever the command that it started still has to do.
            while self.has_members() {
                sleep(LOOK_PAUSE).await;
            }
        };
        let _ = timeout(kill_after, all_ended).await;
        self.kill();
    }

    fn has_members(&self) -> bool {
        let Some(id) = self.id else { return false };
        // Process 1, as in a container, is given the orphans, and they stay until waited for.
        while let Ok(Some(_)) = waitid(WaitId::Pgid(Some(id)), ENDED) {}
        test_kill_process_group(id).is_ok()
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
