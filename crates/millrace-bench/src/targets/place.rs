//! Where data is put while measuring: on what file system, and whether there is room for it.
//!
//! A file system in memory has nothing to sync: every rate would be far too good. None is taken
//! unless it was asked for by name. Room is checked before an hour of measuring, not found out in
//! the midst of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{statfs, statvfs};

use super::bench::Scale;
use crate::{leftovers::Directory, process};

/// A directory that is removed when this is dropped.
pub(crate) struct Place {
    pub(crate) directory: Directory,
    /// As people call it.
    pub(crate) file_system: String,
}

/// What the targets take at once, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) disk_bytes: u64,
    /// Of servers, generator and ceiling together.
    pub(crate) memory_bytes: u64,
}

const GB: u64 = 1_000_000_000;
/// GB of disk by target, 1 to 11, generously: 1.2 KB a message that waits, and what is sent in some
/// seconds at half a million a second, twice, because segments are given back a little later.
const DISK_GB: [u64; 11] = [4, 8, 2, 4, 4, 4, 4, 1, 3, 3, 2];
/// 10,000,000 messages are drained by target 4 and kept by target 7.
const DISK_FULL_GB: [u64; 11] = [4, 8, 2, 20, 4, 4, 16, 1, 3, 3, 2];

impl Need {
    /// Of the targets in `only`, or of all if it is empty.
    pub(crate) fn of(scale: Scale, only: &[u8]) -> Need {
        let by_target = if scale == Scale::Full { DISK_FULL_GB } else { DISK_GB };
        let wanted = |number: u8| only.is_empty() || only.contains(&number);
        let all = (1..).zip(by_target).filter(|(number, _)| wanted(*number));
        let most = all.map(|(_, size)| size).max().unwrap_or(0);
        match scale {
            Scale::Quick => Need { disk_bytes: GB, memory_bytes: GB / 2 },
            Scale::Usual => Need { disk_bytes: most * GB, memory_bytes: 2 * GB },
            Scale::Full => Need { disk_bytes: most * GB, memory_bytes: 4 * GB },
        }
    }

    /// What there is too little of, if anything is.
    fn lack(self, free: Need) -> Option<String> {
        let gb = |bytes: u64| bytes as f64 / GB as f64;
        [
            ("disk", self.disk_bytes, free.disk_bytes),
            ("memory", self.memory_bytes, free.memory_bytes),
        ]
        .into_iter()
        .find(|(_, needed, free)| free < needed)
        .map(|(what, needed, free)| {
            format!(
                "these targets need {:.1} GB of {what}, {:.1} GB are free",
                gb(needed),
                gb(free)
            )
        })
    }
}

impl Place {
    /// A directory below `parent`, else below the system's one for temporary files.
    ///
    /// # Errors
    ///
    /// If there is no room for `need`, or the system's directory is not on a disk.
    pub(crate) fn choose(parent: Option<&Path>, need: Need) -> Result<Place> {
        let chosen = parent.map_or_else(std::env::temp_dir, PathBuf::from);
        let name = chosen.display();
        let kind = statfs(&chosen).with_context(|| format!("looking at {name}"))?.f_type as u32;
        if parent.is_none() && matches!(kind, TMPFS | RAMFS) {
            bail!(
                "{name} is in memory, where syncing does nothing: name a directory on the disk in question with --dir"
            );
        }
        let room = statvfs(&chosen).with_context(|| format!("looking at {name}"))?;
        let disk_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        let memory_bytes = process::available_bytes().unwrap_or(u64::MAX);
        if let Some(lack) = need.lack(Need { disk_bytes, memory_bytes }) {
            bail!("{lack} ({name}); --only measures some, --dir takes another disk");
        }
        let directory = Directory::below(&chosen);
        let directory = directory.with_context(|| format!("making a directory in {name}"))?;
        Ok(Place { directory, file_system: file_system(kind) })
    }
}

/// Numbers of file systems: statfs(2) and the kernel's magic.h.
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
const FILE_SYSTEMS: [(u32, &str); 11] = [
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
    (0x0000_ef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0x794c_7630, "overlay"),
    (0x0000_6969, "nfs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
];

/// ext2, ext3 and ext4 have one number.
fn file_system(kind: u32) -> String {
    let known = FILE_SYSTEMS.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("file system {kind:#x}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hungriest_target_says_what_is_needed() {
        let disk_gb = |scale, only: &[u8]| Need::of(scale, only).disk_bytes / GB;

        assert_eq!([disk_gb(Scale::Usual, &[]), disk_gb(Scale::Full, &[])], [8, 20]);
        assert_eq!([disk_gb(Scale::Usual, &[8]), disk_gb(Scale::Full, &[7, 8])], [1, 16]);
        assert_eq!(disk_gb(Scale::Quick, &[2]), 1);
    }

    #[test]
    fn what_lacks_is_told_with_its_number() {
        let need = Need { disk_bytes: 8 * GB, memory_bytes: 2 * GB };

        assert_eq!(need.lack(need), None);
        let lack = need.lack(Need { disk_bytes: 7 * GB, ..need }).unwrap();
        assert_eq!(lack, "these targets need 8.0 GB of disk, 7.0 GB are free");
        assert!(need.lack(Need { memory_bytes: GB, ..need }).unwrap().contains("GB of memory"));
    }

    #[test]
    fn a_place_without_room_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let some = Need { disk_bytes: 1, memory_bytes: 1 };

        let place = Place::choose(Some(parent.path()), some).unwrap();
        assert!(place.directory.path().starts_with(parent.path()) && !place.file_system.is_empty());

        let endless = Need { disk_bytes: u64::MAX, ..some };
        let error = Place::choose(Some(parent.path()), endless).err().unwrap().to_string();
        assert!(error.contains("of disk") && error.contains("--dir"), "{error}");
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!([file_system(TMPFS), file_system(7)], ["tmpfs", "file system 0x7"]);
    }
}
