//! The files of the history's days.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::day::{Day, Resolution};
use crate::directory::{Directory, sync_dir};

pub(super) struct DayFile {
    pub resolution: Resolution,
    /// Opened when it is first needed.
    pub opened: Mutex<Option<Day>>,
}

impl DayFile {
    pub(super) fn unopened(resolution: Resolution) -> DayFile {
        DayFile { resolution, opened: Mutex::new(None) }
    }

    /// The opened file.
    pub(super) fn opened(
        &self,
        dir: Option<&Directory>,
        day: u64,
    ) -> io::Result<MutexGuard<'_, Option<Day>>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.is_none() {
            *opened = Some(match dir {
                None => Day::in_memory(),
                Some(dir) => {
                    dir.check()?;
                    open_day(&day_path(dir.path(), day, self.resolution))?
                }
            });
        }
        Ok(opened)
    }
}

/// The largest number of an entity that days hold values of.
pub(super) fn last_entity(
    dir: &Directory,
    days: &BTreeMap<u64, DayFile>,
) -> io::Result<Option<u32>> {
    let mut last = None;
    for (day, file) in days {
        let opened = file.opened(Some(dir), *day)?;
        last = last.max(opened.as_ref().and_then(Day::last_entity));
    }
    Ok(last)
}

pub(super) fn catalog_path(dir: &Path) -> PathBuf {
    dir.join("catalog.log")
}

pub(super) fn day_path(dir: &Path, day: u64, resolution: Resolution) -> PathBuf {
    dir.join(format!("{day}-{}.log", resolution.name()))
}

/// Opens a day's file. One that is none of ours is kept under another name, and begun anew: values
/// of that day are to be read and stored like others.
fn open_day(path: &Path) -> io::Result<Day> {
    let error = match Day::open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => error,
        Err(error) => {
            let text = format!("{}: {error}", path.display());
            return Err(io::Error::new(error.kind(), text));
        }
        opened => return opened,
    };
    let mut names = (1..).map(|number| path.with_extension(format!("log.foreign-{number}")));
    let aside = names.find(|name| !name.exists()).ok_or(io::ErrorKind::AlreadyExists)?;
    std::fs::rename(path, &aside)?;
    tracing::error!(%error, kept_as = %aside.display(), "a day of metrics is without its values");
    let day = Day::open(path)?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(day)
}

/// The files of a directory; of a day that has two, the finer one was rolled up and is removed.
pub(super) fn find_days(dir: &Path) -> io::Result<BTreeMap<u64, DayFile>> {
    let mut days: BTreeMap<u64, DayFile> = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let Some((day, name)) = stem.filter(|_| is_log).and_then(|stem| stem.split_once('-'))
        else {
            continue;
        };
        let resolution = Resolution::ALL.into_iter().find(|r| r.name() == name);
        let Some((day, resolution)) = day.parse::<u32>().ok().zip(resolution) else { continue };
        let day = u64::from(day);
        let Some(other) = days.insert(day, DayFile::unopened(resolution)) else { continue };
        let (finer, coarser) = (other.resolution.min(resolution), other.resolution.max(resolution));
        std::fs::remove_file(day_path(dir, day, finer))?;
        days.insert(day, DayFile::unopened(coarser));
    }
    Ok(days)
}
