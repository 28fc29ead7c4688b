//! Who else on this machine can read or change a configuration file with secrets.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
/// Of a directory: only a file's owner may replace it.
const STICKY: u32 = 0o1000;

/// One sentence for each way. A group that may read is what the manual recommends.
pub(super) fn exposures(path: &Path) -> Vec<String> {
    let mode = |path: &Path| fs::metadata(path).map_or(0, |found| found.mode());
    let file = mode(path);
    let is_open = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = mode(parent.unwrap_or(Path::new(".")));
        directory & OTHERS_WRITE != 0 && directory & STICKY == 0
    };
    // The path may be a link: both the link and its target can be replaced.
    let is_replaceable =
        is_open(path) || fs::canonicalize(path).is_ok_and(|target| is_open(&target));
    let found = [
        (file & OTHERS_WRITE != 0, "everybody on this machine can change it, and so add keys"),
        (file & OTHERS_WRITE == 0 && file & GROUP_WRITES != 0, "its group can change it"),
        (is_replaceable, "everybody on this machine can replace it: its directory is open to all"),
        (file & OTHERS_READ != 0, "everybody on this machine can read its secrets"),
    ];
    let what = found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what);
    what.map(|what| format!("{} (mode {:03o}): {what}", path.display(), file & 0o777)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn found(file_mode: u32, directory_mode: u32) -> Vec<String> {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("m.toml");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(directory_mode)).unwrap();
        let found = exposures(&file);
        let of = |text: String| text.rsplit_once("): ").unwrap().1.to_owned();
        found.into_iter().map(of).collect()
    }

    #[test]
    fn what_others_can_do_with_a_file_is_said() {
        for quiet in [0o600, 0o400, 0o640, 0o440] {
            assert!(found(quiet, 0o700).is_empty(), "{quiet:o}");
        }
        let (change, read) = (
            "everybody on this machine can change it, and so add keys",
            "everybody on this machine can read its secrets",
        );
        assert_eq!(found(0o602, 0o700), [change]);
        assert_eq!(found(0o666, 0o700), [change, read]);
        assert_eq!(found(0o644, 0o700), [read]);
        assert_eq!(found(0o660, 0o700), ["its group can change it"]);
        let replace = "everybody on this machine can replace it: its directory is open to all";
        assert_eq!(found(0o600, 0o777), [replace]);
        assert!(found(0o600, 0o1777).is_empty());
    }

    #[test]
    fn a_link_into_a_directory_that_is_open_to_all_is_said() {
        let directory = tempfile::TempDir::new().unwrap();
        let open = directory.path().join("open");
        fs::create_dir(&open).unwrap();
        let (file, link) = (open.join("m.toml"), directory.path().join("link.toml"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();

        assert!(exposures(&link).is_empty());
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(exposures(&link).len(), 1);
    }

    #[test]
    fn a_file_that_is_not_there_is_open_to_nobody() {
        let directory = tempfile::TempDir::new().unwrap();
        assert!(exposures(&directory.path().join("none")).is_empty());
    }
}
