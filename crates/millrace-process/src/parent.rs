//! Children that end with the process that started them, even if that is killed with SIGKILL.
//!
//! A process that is killed cannot end its children, and a server or a node that stays behind would
//! hold its memory, port and data for ever. So a child learns its parent's id from an environment
//! variable and asks the kernel to kill it when that parent is gone. The children are Millrace's
//! own programs, so they can ask for that themselves, without unsafe code between fork and exec.
//! Other programs ignore the variable.
//!
//! The kernel watches the thread that started the child, not the whole process: start children from
//! threads that live as long as the children are needed.

use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Holds the id of the process that this one follows. Not `MILLRACE_…`: a server refuses unknown
/// variables with that prefix.
const VARIABLE: &str = "_MILLRACE_PARENT";

/// Makes the child, once started, end when this process does.
pub fn end_with_parent(command: &mut Command) {
    command.env(VARIABLE, std::process::id().to_string());
}

/// Ends this process with its parent, if the parent used [`end_with_parent`]. Call it first in
/// `main`.
pub fn follow_parent() {
    let variable = std::env::var(VARIABLE).ok();
    let Some(parent) = variable.and_then(|id| Pid::from_raw(id.parse().ok()?)) else { return };
    // A sandbox may forbid it; the process then only outlives a killed parent.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have ended before the call.
    if getppid() != Some(parent) {
        std::process::exit(1);
    }
}
