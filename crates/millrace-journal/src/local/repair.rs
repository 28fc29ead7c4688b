//! `millrace journal repair`: cuts the log at the damage, so that it starts again.
//!
//! Everything behind the damage goes, because later records may rest on those that are lost. What
//! is cut is kept beside it, as `.bak`, and the report says how much that was. A segment whose header
//! alone is damaged loses nothing: what stood there follows from the segment before. A journal without
//! damage is left as it is, a torn tail included: the next start cuts that by itself.
//!
//! After a cut the journal is opened once, in an epoch later than any that was cut: what clients were
//! given in those epochs (receipt handles, sequence numbers) must not be given again.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LocalOptions;
use super::check::{CheckReport, check_survey};
use super::recover::{check_segment_bytes, open_locked};
use super::scan::{scan, search};
use super::segment::{FileKind, SEGMENT_HEADER_BYTES, SegmentHeader, index_path, segment_path};
use super::survey::{Corruption, Survey, lock_dir, survey};
use super::zero::write_zeros;
use crate::error::OpenError;
use crate::frame::Chain;
use crate::fs::{File, FileSystem};
use crate::position::{Epoch, SegmentId};

const COPY_BYTES: usize = 1 << 20;

/// What was found and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// Before the repair.
    pub found: CheckReport,
    /// Segments whose header was damaged and is written anew; nothing in them is lost.
    pub headers: Vec<SegmentId>,
    /// None if there was no damage but that of headers.
    pub cut: Option<Cut>,
    /// Copies of everything that was changed or taken away.
    pub backups: Vec<PathBuf>,
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
}

/// Repairs a journal that no process has open.
pub fn repair(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<RepairReport, OpenError> {
    let lock = lock_dir(&*fs, dir)?;
    let mut survey = survey(&*fs, dir)?;
    let found = check_survey(&*fs, dir, &survey)?;
    let mut report = RepairReport { found, headers: Vec::new(), cut: None, backups: Vec::new() };
    let mut damage = report.found.corruption.clone();
    while let Some(at) = &damage
        && write_header(&*fs, dir, &survey, at, &mut report.backups)
            .map_err(OpenError::io("writing a segment's header anew"))?
    {
        report.headers.push(at.segment);
        survey = super::survey::survey(&*fs, dir)?;
        damage = check_survey(&*fs, dir, &survey)?.corruption;
    }
    let Some(at) = damage else { return Ok(report) };
    let size = survey.segments.last().map(|last| last.header.segment_bytes);
    let cutting = OpenError::io("cutting the journal");
    let (cut, latest) = cut_at(&*fs, dir, &survey, at, &mut report.backups).map_err(cutting)?;
    report.cut = Some(cut);
    drop(survey);
    // Without any header nothing is known of epochs either: the next start begins a new log.
    if let Some(segment_bytes) = size {
        let usual = LocalOptions::default();
        let options = match check_segment_bytes(segment_bytes) {
            Ok(()) => LocalOptions { segment_bytes, ..usual },
            Err(_) => usual,
        };
        open_locked(fs, dir, options, lock, latest, &mut |_| {})?;
    }
    Ok(report)
}

/// Writes the header of the segment at whose header the damage is, if the segment before says what it
/// was: the chain of that must go on here.
fn write_header(
    fs: &dyn FileSystem,
    dir: &Path,
    survey: &Survey,
    at: &Corruption,
    backups: &mut Vec<PathBuf>,
) -> io::Result<bool> {
    let before = survey.segments.iter().find(|found| found.header.segment.next() == at.segment);
    let Some(before) = before.filter(|_| at.offset == 0) else { return Ok(false) };
    let mut ignore = |_: crate::record::Replayed<'_>| ControlFlow::Continue(());
    let end = scan(&*before.file, &before.header, u64::MAX, &mut ignore)?;
    let path = segment_path(dir, at.segment);
    let file = fs.open(&path)?;
    let header = SegmentHeader {
        segment: at.segment,
        salt: before.header.salt,
        start: end.chain,
        segment_bytes: u32::try_from(file.size()?).unwrap_or(u32::MAX),
    };
    if scan(&*file, &header, u64::MAX, &mut ignore)?.frames == 0 {
        return Ok(false);
    }
    let backup = backup_path(fs, dir, at.segment)?;
    copy(&*file, fs, &backup)?;
    fs.sync_dir(dir)?;
    backups.push(backup);
    file.write_at(&[&header.encode()], 0)?;
    file.sync_data()?;
    Ok(true)
}

/// Returns the latest epoch that was cut, too.
fn cut_at(
    fs: &dyn FileSystem,
    dir: &Path,
    survey: &Survey,
    at: Corruption,
    backups: &mut Vec<PathBuf>,
) -> io::Result<(Cut, Epoch)> {
    let damaged = at.segment;
    let keeps_beginning = at.offset >= SEGMENT_HEADER_BYTES as u32;
    let mut cut = Cut { at, lost_frames: 0, removed: Vec::new() };
    let headers = survey.segments.iter().map(|found| found.header);
    let mut latest = headers.clone().map(|header| header.start.epoch).max().unwrap_or_default();

    // From the youngest on, so that an interrupted repair leaves damage that is found again.
    let mut later = segments_from(fs, dir, damaged)?;
    // One salt for all of them, also for those without a header.
    if let Some(salt) = headers.map(|header| header.salt).next() {
        for id in &later {
            let file = fs.open(&segment_path(dir, *id))?;
            let from = if *id == damaged { cut.at.offset } else { 0 };
            let from = from.max(SEGMENT_HEADER_BYTES as u32);
            let traces = search(&*file, *id, salt, from, &Chain::default())?;
            cut.lost_frames += traces.frames;
            latest = latest.max(traces.epoch);
        }
    }
    if keeps_beginning {
        later.retain(|id| *id != damaged);
    }
    for id in later.into_iter().rev() {
        let backup = backup_path(fs, dir, id)?;
        remove_index(fs, dir, id)?;
        fs.rename(&segment_path(dir, id), &backup)?;
        fs.sync_dir(dir)?;
        cut.removed.push(id);
        backups.push(backup);
    }
    if keeps_beginning {
        let path = segment_path(dir, damaged);
        let backup = backup_path(fs, dir, damaged)?;
        let file = fs.open(&path)?;
        copy(&*file, fs, &backup)?;
        remove_index(fs, dir, damaged)?;
        fs.sync_dir(dir)?;
        write_zeros(&*file, cut.at.offset, u32::try_from(file.size()?).unwrap_or(u32::MAX))?;
        backups.push(backup);
    }
    Ok((cut, latest))
}

/// All segment files from this one on, headers or not, ascending.
fn segments_from(fs: &dyn FileSystem, dir: &Path, from: SegmentId) -> io::Result<Vec<SegmentId>> {
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
