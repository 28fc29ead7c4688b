//! `millrace journal repair`: cuts the log at the damage, so that it starts again.
//!
//! Everything behind the damage goes, because later records may rest on those that are lost. What
//! is cut is kept beside it, as `.bak`, and the report says how much that was. A journal without
//! damage is left as it is, a torn tail included: the next start cuts that by itself.

use std::io;
use std::path::{Path, PathBuf};

use super::check::{CheckReport, check_survey, count_frames};
use super::segment::{SEGMENT_HEADER_BYTES, index_path, segment_path};
use super::survey::{Corruption, Survey, lock_dir, survey};
use super::zero::write_zeros;
use crate::error::OpenError;
use crate::frame::Chain;
use crate::fs::{File, FileSystem};
use crate::position::SegmentId;

const COPY_BYTES: usize = 1 << 20;

/// What was found and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// Before the repair.
    pub found: CheckReport,
    /// None if there was nothing to repair.
    pub cut: Option<Cut>,
}

/// Where the log was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub at: Corruption,
    /// Frames that were still readable behind the damage and are lost to the journal. The damaged
    /// one comes on top.
    pub lost_frames: u64,
    /// Segments that were taken away whole.
    pub removed: Vec<SegmentId>,
    /// Copies of everything that was changed or taken away.
    pub backups: Vec<PathBuf>,
}

/// Repairs a journal that no process has open.
pub fn repair(fs: &dyn FileSystem, dir: &Path) -> Result<RepairReport, OpenError> {
    let _lock = lock_dir(fs, dir)?;
    let survey = survey(fs, dir)?;
    let found = check_survey(fs, dir, &survey)?;
    let Some(at) = found.corruption.clone() else {
        return Ok(RepairReport { found, cut: None });
    };
    let cut = cut_at(fs, dir, &survey, at).map_err(OpenError::io("cutting the journal"))?;
    Ok(RepairReport { found, cut: Some(cut) })
}

fn cut_at(fs: &dyn FileSystem, dir: &Path, survey: &Survey, at: Corruption) -> io::Result<Cut> {
    let damaged = at.segment;
    let keeps_beginning = at.offset >= SEGMENT_HEADER_BYTES as u32;
    let mut cut = Cut { at, lost_frames: 0, removed: Vec::new(), backups: Vec::new() };
    for found in survey.segments.iter().filter(|found| found.header.segment >= damaged) {
        let from = if found.header.segment == damaged { cut.at.offset } else { 0 };
        let from = from.max(SEGMENT_HEADER_BYTES as u32);
        cut.lost_frames += count_frames(found, from, &Chain::default())?;
    }

    // From the youngest on, so that an interrupted repair leaves damage that is found again.
    let mut later = segments_from(fs, dir, damaged)?;
    if keeps_beginning {
        later.retain(|id| *id != damaged);
    }
    for id in later.into_iter().rev() {
        let backup = backup_path(fs, dir, id)?;
        remove_index(fs, dir, id)?;
        fs.rename(&segment_path(dir, id), &backup)?;
        fs.sync_dir(dir)?;
        cut.removed.push(id);
        cut.backups.push(backup);
    }
    if keeps_beginning {
        let path = segment_path(dir, damaged);
        let backup = backup_path(fs, dir, damaged)?;
        let file = fs.open(&path)?;
        copy(&*file, fs, &backup)?;
        remove_index(fs, dir, damaged)?;
        fs.sync_dir(dir)?;
        write_zeros(&*file, cut.at.offset, u32::try_from(file.size()?).unwrap_or(u32::MAX))?;
        cut.backups.push(backup);
    }
    Ok(cut)
}

/// All segment files from this one on, headers or not, ascending.
fn segments_from(fs: &dyn FileSystem, dir: &Path, from: SegmentId) -> io::Result<Vec<SegmentId>> {
    use super::segment::FileKind;
    let mut ids: Vec<SegmentId> = fs
        .list(dir)?
        .iter()
        .filter_map(|name| match FileKind::of(name) {
            FileKind::Segment(id) if id >= from => Some(id),
            _ => None,
        })
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

fn remove_index(fs: &dyn FileSystem, dir: &Path, id: SegmentId) -> io::Result<()> {
    match fs.remove(&index_path(dir, id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy(from: &dyn File, fs: &dyn FileSystem, to: &Path) -> io::Result<()> {
    let target = fs.create(to)?;
    let size = from.size()?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < size {
        let read = from.read_at(&mut buffer, offset)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        target.write_at(&[bytes], offset)?;
        offset += read as u64;
    }
    target.sync_data()
}

/// A name that no backup has: what an earlier or an interrupted repair kept stays.
fn backup_path(fs: &dyn FileSystem, dir: &Path, id: SegmentId) -> io::Result<PathBuf> {
    let taken = fs.list(dir)?;
    let mut name = format!("{id}.seg.bak");
    let mut number = 1;
    while taken.contains(&name) {
        number += 1;
        name = format!("{id}.seg.{number}.bak");
    }
    Ok(dir.join(name))
}
