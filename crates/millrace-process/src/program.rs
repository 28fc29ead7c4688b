//! The other program of the pair `millrace` and `millrace-bench`.

use std::{env, path::PathBuf};

/// Finds a program beside this one, else in the directories of PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|this| Some(this.parent()?.join(name)));
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|directory| directory.join(name));
    beside.into_iter().chain(in_path).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_beside_this_one_or_in_path() {
        let this = env::current_exe().unwrap();
        let name = this.file_name().unwrap().to_str().unwrap();

        assert_eq!(find_program(name), Some(this.clone()));
        assert!(find_program("sh").is_some_and(|shell| shell.is_absolute()));
        assert_eq!(find_program("millrace-no-such-program"), None);
    }
}
