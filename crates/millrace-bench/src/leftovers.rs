//! What would stay behind a process that leaves at once: children, and directories for data.
//!
//! Who exits at a second signal runs no destructors, so what they would do is written down here.
//! Who is killed cannot even do that: children then end by themselves, and directories stay. A
//! child is killed and gone before directories are removed: it may write there.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

use millrace_process::end_with_parent;

/// Is removed at the latest when this process leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leftover {
    Child(u32),
    Directory(PathBuf),
}

/// By number, in the order in which they were made. A lock, because whoever leaves is another
/// thread than those that make and remove them.
static ALL: Mutex<Vec<(u64, Leftover)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Somebody sees to it that nothing is left, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered(u64);

/// A directory that is removed when this is dropped, or when the process leaves.
#[derive(Debug)]
pub(crate) struct Directory {
    // Removed first, unregistered then.
    directory: TempDir,
    _registered: Registered,
}

impl Registered {
    /// Starts a child of this process. To be dropped as soon as that has been waited for: its
    /// number may be another process's some time.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Registered)> {
        end_with_parent(command);
        // Locked before: who leaves meanwhile would not know of the child.
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let registered = Registered::new(&mut all, Leftover::Child(child.id()));
        Ok((child, registered))
    }

    fn new(all: &mut Vec<(u64, Leftover)>, leftover: Leftover) -> Registered {
        let number = NEXT.fetch_add(1, Relaxed);
        all.push((number, leftover));
        Registered(number)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(number, _)| *number != self.0);
    }
}

impl Directory {
    /// Below the system's directory for temporary files.
    pub(crate) fn new() -> io::Result<Directory> {
        Directory::below(&std::env::temp_dir())
    }

    pub(crate) fn below(parent: &Path) -> io::Result<Directory> {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir_in(parent)?;
        let path = directory.path().to_owned();
        let registered = Registered::new(&mut all, Leftover::Directory(path));
        Ok(Directory { directory, _registered: registered })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Ends the process, and leaves nothing of what was registered.
pub(crate) fn leave(code: i32) -> ! {
    // Held to the end: nobody else is to begin anything, or to wait for a child that we kill.
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    remove(all.iter().map(|(_, leftover)| leftover));
    std::process::exit(code)
}

fn remove<'a>(all: impl Iterator<Item = &'a Leftover> + Clone) {
    for leftover in all.clone() {
        let Leftover::Child(id) = leftover else { continue };
        if let Some(pid) = i32::try_from(*id).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
    for leftover in all {
        if let Leftover::Directory(path) = leftover {
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn is_registered(leftover: &Leftover) -> bool {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|(_, one)| one == leftover)
    }

    #[test]
    fn what_is_dropped_in_time_is_nobody_elses_business() {
        let directory = Directory::new().unwrap();
        let path = directory.path().to_owned();
        assert!(is_registered(&Leftover::Directory(path.clone())));

        drop(directory);

        assert!(!is_registered(&Leftover::Directory(path.clone())) && !path.exists());
    }

    #[test]
    fn children_are_ended_and_directories_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        fs::create_dir_all(path.join("more")).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();

        remove([Leftover::Directory(path.clone()), Leftover::Child(child.id())].iter());

        assert!(!path.exists());
        // Gone, and no longer a child.
        assert!(child.wait().is_err());
    }
}
