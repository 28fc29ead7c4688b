//! Children that end with this process, whatever ends it.
//!
//! Who is killed outright (SIGKILL, the kernel for want of memory) ends no children, and a server
//! or a node that stays behind holds its memory, its port and its data for ever. So each child is
//! told who its parent is, and has the kernel kill it when that is gone. The children are this
//! program itself, so the child can ask for that without unsafe code between fork and exec; another
//! program, or an earlier version of this one, does not know the variable.
//!
//! The kernel means the thread that started the child, not the process: children are started by
//! threads that live as long as they are needed.

use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Names the process whose end is to be the end of this one. Not `MILLRACE_…`: a server refuses
/// variables of that kind which it does not know.
const VARIABLE: &str = "_MILLRACE_BENCH_PARENT";

/// The child that is to be started ends when this process does.
pub(crate) fn end_with_us(command: &mut Command) {
    command.env(VARIABLE, std::process::id().to_string());
}

/// Does what the process that started this one has asked for with [`end_with_us`], if it has. To be
/// called first of all.
pub fn follow_parent() {
    let variable = std::env::var(VARIABLE).ok();
    let Some(parent) = variable.and_then(|id| Pid::from_raw(id.parse().ok()?)) else { return };
    // It fails where a sandbox forbids it: then all is as it was.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before it was followed.
    if getppid() != Some(parent) {
        std::process::exit(1);
    }
}
