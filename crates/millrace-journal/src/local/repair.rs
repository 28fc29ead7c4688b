//! `millrace journal repair`: makes a damaged log start again, and keeps all of it that is whole.
//!
//! Blocks that cannot be read become zeros. Damaged frames are replaced by a [gap](super::gap); a
//! damaged segment header is written anew, from the segment before and from its own frames; for a
//! segment that is missing an empty one is made. What stands behind goes on to count: a replay
//! passes over records whose messages it does not know, as it does after the oldest segments are
//! gone. So what the damage held is lost, its sends and its deletes, and nothing else. Only where
//! none of that helps, the log is [cut](super::cut).
//!
//! Copies of what is changed or taken away are kept. A journal without damage is left as it is, a
//! torn tail included: the next start cuts that by itself.
//!
//! What clients were given in an epoch (receipt handles, sequence numbers) must not be given again.
//! The epochs of what a gap replaces are not later than that of the frame behind it. After a cut,
//! and where the end of the log is missing, the next is later than any that was lost; and it is
//! written first, for a repair may be interrupted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backup::Backups;
use super::check::{CheckReport, check_survey};
use super::cut::{Cut, cut_at, segments_from, write_epoch};
use super::gap::{Gap, plan};
use super::recover::{check_segment_bytes, recover_locked, start_epoch};
use super::salt::find_salt;
use super::scan::{end_of, search};
use super::segment::{SegmentHeader, index_path, segment_path, temporary_path};
use super::survey::{Found, Survey, lock_dir, survey};
use super::unreadable::blank;
use super::{LocalOptions, nonce};
use crate::error::{Corruption, OpenError};
use crate::frame::{Chain, FrameHeader, SEGMENT_HEADER_BYTES, Verdict};
use crate::fs::{BLOCK_BYTES, File, FileSystem};
use crate::owner::Owner;
use crate::position::{Epoch, SegmentId};

/// More starts than this in the segments that are missing at the end are not reckoned with: each
/// begins an epoch.
const LOST_EPOCHS: u64 = 1024;

/// Segments that are missing in a row.
const MISSING_MAX: u32 = 64;

/// What was found and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// Blocks that could not be read, segment and offset in bytes: they are zeros now.
    pub unreadable: Vec<(SegmentId, u64)>,
    /// Before anything else was done.
    pub found: CheckReport,
    /// Segments whose header was damaged and is written anew. That alone loses nothing.
    pub headers: Vec<SegmentId>,
    /// Segments that were missing, or without any frame, and are there again without anything in
    /// them.
    pub missing: Vec<SegmentId>,
    /// Segments whose file was too short, and has its length again. What was in the rest is lost.
    pub lengthened: Vec<SegmentId>,
    /// What was put in the place of damaged frames, and of all that missing segments held.
    pub gaps: Vec<Gap>,
    /// Only if there was damage that nothing else helps against.
    pub cut: Option<Cut>,
    /// Copies of everything that was changed or taken away.
    pub backups: Vec<PathBuf>,
}

/// Repairs a journal that no process has open.
pub fn repair(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<RepairReport, OpenError> {
    let lock = lock_dir(&*fs, dir)?;
    let disk = Arc::clone(&fs);
    let mut repair = Repair {
        fs: &*disk,
        dir,
        headers: Vec::new(),
        missing: Vec::new(),
        lengthened: Vec::new(),
        gaps: Vec::new(),
        backups: Backups::new(&*disk, dir),
    };
    let unreadable = repair.blank().map_err(OpenError::io("repairing the journal"))?;
    let mut survey = survey(&*fs, dir)?;
    let found = check_survey(&*fs, dir, &survey)?;
    let mut damage = found.corruption.clone();
    while let Some(at) = &damage
        && repair.mend(&survey, at)?
    {
        survey = super::survey::survey(&*fs, dir)?;
        damage = check_survey(&*fs, dir, &survey)?.corruption;
    }
    let mut cut = None;
    if damage.is_none() {
        let ending = end_unreadable(&survey, &unreadable);
        ending.map_err(OpenError::io("repairing the journal"))?;
    }
    if let Some(at) = damage {
        let cutting = OpenError::io("cutting the journal");
        let size = survey.segments.last().map(|last| last.header.segment_bytes);
        let (done, latest) =
            cut_at(&*fs, dir, &survey, at, &mut repair.backups).map_err(cutting)?;
        cut = Some(done);
        drop(survey);
        // Without any header nothing is known of epochs either: the next start begins a new log.
        if let Some(segment_bytes) = size {
            let usual = LocalOptions::default();
            let options = match check_segment_bytes(segment_bytes) {
                Ok(()) => LocalOptions { segment_bytes, ..usual },
                Err(_) => usual,
            };
            let owner = Owner::unnamed(nonce(&*disk));
            let journal = recover_locked(fs, dir, options, lock, None, &mut |_| {})?;
            start_epoch(journal, &owner, latest)?;
        }
    }
    let Repair { headers, missing, lengthened, gaps, backups, .. } = repair;
    let backups = backups.paths;
    Ok(RepairReport { unreadable, found, headers, missing, lengthened, gaps, cut, backups })
}

/// Where blocks at the end of the log could not be read, epochs may be lost with them.
fn end_unreadable(survey: &Survey, unreadable: &[(SegmentId, u64)]) -> io::Result<()> {
    let Some(Found { header, file }) = survey.segments.last() else { return Ok(()) };
    let stop = end_of(&**file, header)?;
    let end = (header.segment, u64::from(stop.offset));
    if unreadable.iter().any(|(id, offset)| (*id, offset + BLOCK_BYTES as u64) > end) {
        let latest = behind_lost(&stop.chain);
        write_epoch(&**file, header, (stop.offset, &stop.chain), latest)?;
    }
    Ok(())
}

/// A repair under way.
struct Repair<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    headers: Vec<SegmentId>,
    missing: Vec<SegmentId>,
    lengthened: Vec<SegmentId>,
    gaps: Vec<Gap>,
    backups: Backups<'a>,
}

impl Repair<'_> {
    fn blank(&mut self) -> io::Result<Vec<(SegmentId, u64)>> {
        let mut all = Vec::new();
        for id in segments_from(self.fs, self.dir, SegmentId(0))? {
            let file = self.fs.open(&segment_path(self.dir, id))?;
            // An earlier repair may have been interrupted, or its sync may have failed: what counts
            // is what the disk has.
            file.sync_data()?;
            file.forget_clean()?;
            let bad = blank(id, &*file, &mut self.backups)?;
            all.extend(bad.into_iter().map(|offset| (id, offset)));
        }
        self.fs.sync_dir(self.dir)?;
        Ok(all)
    }

    /// Mends what is damaged here without taking anything away. False if that cannot be done.
    fn mend(&mut self, survey: &Survey, at: &Corruption) -> Result<bool, OpenError> {
        if at.offset < SEGMENT_HEADER_BYTES as u32 {
            return self.mend_header(survey, at);
        }
        let mut segments = survey.segments.iter();
        let Some(found) = segments.find(|found| found.header.segment == at.segment) else {
            return Ok(false);
        };
        self.put_gaps(found, survey.next_start(at.segment), false)
            .map_err(OpenError::io("repairing the journal"))
    }

    fn put_gaps(
        &mut self,
        found: &Found,
        next_start: Option<Chain>,
        is_sealed: bool,
    ) -> io::Result<bool> {
        let before = self.gaps.len();
        while let Some(planned) = plan(&*found.file, &found.header, next_start, is_sealed)? {
            if !self.missing.contains(&found.header.segment) {
                self.backups.copy(found.header.segment, &*found.file)?;
            }
            planned.write(&*found.file)?;
            self.gaps.push(planned.gap);
        }
        Ok(self.gaps.len() > before)
    }

    /// Writes the header of the segment whose header is damaged, or makes the one that is missing
    /// before it, or gives one its length again.
    fn mend_header(&mut self, survey: &Survey, at: &Corruption) -> Result<bool, OpenError> {
        let repairing = || OpenError::io("repairing the journal");
        let before = survey.last_before(at.segment);
        let salt = match survey.salt {
            None => find_salt(self.fs, self.dir, at.segment).map_err(repairing())?,
            known => known,
        };
        let Some(salt) = salt else { return Ok(false) };
        let end = match before {
            Some(found) => match survey.sealed_end(self.fs, self.dir, found.header.segment)? {
                Some(end) => end.chain,
                None => {
                    // A later file shows that all of this one had been synced.
                    self.put_gaps(found, None, true).map_err(repairing())?;
                    end_of(&*found.file, &found.header).map_err(repairing())?.chain
                }
            },
            None => Chain::default(),
        };
        let segment = before.map_or(at.segment, |found| found.header.segment.next());
        let mut done = self.headers.iter().chain(&self.missing).chain(&self.lengthened);
        // A name that is far off is none of this journal, unless the header agrees.
        let is_own = survey.segments.iter().any(|own| own.header.segment == at.segment);
        let is_far =
            at.segment == SegmentId::END || !is_own && at.segment.0 - segment.0 > MISSING_MAX;
        if done.any(|done| *done == segment) || is_far {
            return Ok(false);
        }
        // A file that is too short as well may have no room for a gap.
        let usual = before.or(survey.segments.first()).map(|found| found.header.segment_bytes);
        let segment_bytes = usual.unwrap_or(BLOCK_BYTES as u32);
        let header = SegmentHeader { segment, salt, start: end, segment_bytes };
        let mut found = survey.segments.iter().map(|found| found.header);
        let own = found.find(|own| own.segment == segment);
        self.place_header(header, own).map_err(repairing())?;
        Ok(true)
    }

    fn place_header(
        &mut self,
        header: SegmentHeader,
        own: Option<SegmentHeader>,
    ) -> io::Result<()> {
        let segment = header.segment;
        let is_last = !self.has_frames_behind(&header)?;
        let file = match self.fs.open(&segment_path(self.dir, segment)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // What its sidecar knows has no bodies any more.
                self.fs.remove_present(&index_path(self.dir, segment))?;
                self.make(SegmentHeader { segment_bytes: BLOCK_BYTES as u32, ..header }, is_last)?;
                self.missing.push(segment);
                return Ok(());
            }
            opened => opened?,
        };
        self.backups.copy(segment, &*file)?;
        let size = file.size()?;
        if let Some(own) = own.filter(|own| size < u64::from(own.segment_bytes)) {
            lengthen(&*file, &own, is_last)?;
            self.lengthened.push(segment);
            return Ok(());
        }
        // Whole blocks are written: what ends within one was cut short.
        let whole = size.next_multiple_of(BLOCK_BYTES as u64);
        file.allocate(whole.max(u64::from(header.segment_bytes)))?;
        let segment_bytes = u32::try_from(file.size()?).unwrap_or(u32::MAX);
        match write_header(&*file, SegmentHeader { segment_bytes, ..header }, is_last)? {
            Contents::Frames => self.headers.push(segment),
            Contents::Nothing => self.missing.push(segment),
        }
        Ok(())
    }

    /// Whether a later file, with or without a header, has frames of this log.
    fn has_frames_behind(&self, header: &SegmentHeader) -> io::Result<bool> {
        for id in segments_from(self.fs, self.dir, header.segment.next())? {
            let file = self.fs.open(&segment_path(self.dir, id))?;
            let first = SEGMENT_HEADER_BYTES as u32;
            if search(&*file, id, header.salt, first, &Chain::default())?.frames > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An empty segment. It has its name when it is durable.
    fn make(&self, header: SegmentHeader, is_last: bool) -> io::Result<()> {
        let temporary = temporary_path(self.dir, header.segment, "seg");
        let file = self.fs.create(&temporary)?;
        file.allocate(u64::from(header.segment_bytes))?;
        write_header(&*file, header, is_last)?;
        self.fs.rename(&temporary, &segment_path(self.dir, header.segment))?;
        self.fs.sync_dir(self.dir)
    }
}

/// What is in a segment.
enum Contents {
    Frames,
    Nothing,
}

/// Writes a segment's header, which follows `header.start` unless its first frame says otherwise.
/// If nothing is in the last one, the end of the log is lost.
fn write_header(file: &dyn File, mut header: SegmentHeader, is_last: bool) -> io::Result<Contents> {
    let first = SEGMENT_HEADER_BYTES as u32;
    let traces = search(file, header.segment, header.salt, first, &header.start)?;
    match traces.next {
        Some((offset, frame)) if offset == first && !follows(&header.start, &frame) => {
            header.start = Chain::before(&frame);
        }
        None if is_last => {
            write_epoch(file, &header, (first, &header.start), behind_lost(&header.start))?;
        }
        _ => {}
    }
    file.write_at(&[&header.encode()], 0)?;
    file.sync_data()?;
    Ok(if traces.frames > 0 { Contents::Frames } else { Contents::Nothing })
}

/// Gives a file the length that its header tells. In the last one, what is missing is the end of
/// the log.
fn lengthen(file: &dyn File, header: &SegmentHeader, is_last: bool) -> io::Result<()> {
    let stop = end_of(file, header)?;
    let traces = search(file, header.segment, header.salt, stop.offset, &stop.chain)?;
    if is_last && traces.next.is_none() {
        write_epoch(file, header, (stop.offset, &stop.chain), behind_lost(&stop.chain))?;
    }
    file.allocate(u64::from(header.segment_bytes))?;
    file.sync_data()
}

/// An epoch behind those that may be lost with the end of the log.
fn behind_lost(end: &Chain) -> Epoch {
    Epoch(end.epoch.0.saturating_add(LOST_EPOCHS))
}

fn follows(chain: &Chain, frame: &FrameHeader) -> bool {
    // Its checksum says only what comes after it.
    matches!(chain.judge(frame, 0), Verdict::Valid(_))
}
