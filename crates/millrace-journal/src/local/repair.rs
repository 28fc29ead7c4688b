//! `millrace journal repair`: makes a damaged log start again, and keeps all of it that is whole.
//!
//! Blocks that cannot be read become zeros. Damaged frames are replaced by a [gap](super::gap); a damaged segment header is written anew, from
//! the segment before and from its own frames; for a segment that is missing an empty one is made.
//! What stands behind goes on to count: a replay passes over records whose messages it does not know,
//! as it does after the oldest segments are gone. So what the damage held is lost, its sends and its
//! deletes, and nothing else. Only where none of that helps, the log is [cut](super::cut).
//!
//! Copies of what is changed or taken away are kept. A journal without damage is left as it is, a torn
//! tail included: the next start cuts that by itself.
//!
//! After a cut the journal is opened once, in an epoch later than any that was cut: what clients were
//! given in those epochs (receipt handles, sequence numbers) must not be given again. The epochs of
//! what a gap replaces are not later than that of the frame behind it.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LocalOptions;
use super::backup::Backups;
use super::check::{CheckReport, check_survey};
use super::cut::{Cut, cut_at, segments_from};
use super::gap::{Gap, plan};
use super::recover::{check_segment_bytes, open_locked};
use super::scan::{scan, search};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_path, temporary_path};
use super::survey::{Corruption, Found, Survey, lock_dir, survey};
use super::unreadable::blank;
use crate::error::OpenError;
use crate::frame::Chain;
use crate::fs::{BLOCK_BYTES, FileSystem};
use crate::position::SegmentId;

/// What was found and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// Blocks that could not be read, segment and offset in bytes: they are zeros now.
    pub unreadable: Vec<(SegmentId, u64)>,
    /// Before anything else was done.
    pub found: CheckReport,
    /// Segments whose header was damaged and is written anew. That alone loses nothing.
    pub headers: Vec<SegmentId>,
    /// Segments that were missing, and are there again without anything in them.
    pub missing: Vec<SegmentId>,
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
        gaps: Vec::new(),
        backups: Backups::new(&*disk, dir),
    };
    let repairing = || OpenError::io("repairing the journal");
    let unreadable = repair.blank().map_err(repairing())?;
    let mut survey = survey(&*fs, dir)?;
    let found = check_survey(&*fs, dir, &survey)?;
    let mut damage = found.corruption.clone();
    let mut seen: Vec<Corruption> = Vec::new();
    while let Some(at) = damage.as_ref().filter(|at| !seen.contains(at)) {
        seen.push(at.clone());
        if !repair.mend(&survey, at).map_err(repairing())? {
            break;
        }
        survey = super::survey::survey(&*fs, dir)?;
        damage = check_survey(&*fs, dir, &survey)?.corruption;
    }
    let mut cut = None;
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
            open_locked(fs, dir, options, lock, latest, &mut |_| {})?;
        }
    }
    let Repair { headers, missing, gaps, backups, .. } = repair;
    Ok(RepairReport { unreadable, found, headers, missing, gaps, cut, backups: backups.paths })
}

/// A repair under way.
struct Repair<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    headers: Vec<SegmentId>,
    missing: Vec<SegmentId>,
    gaps: Vec<Gap>,
    backups: Backups<'a>,
}

impl Repair<'_> {
    fn blank(&mut self) -> io::Result<Vec<(SegmentId, u64)>> {
        let mut all = Vec::new();
        for id in segments_from(self.fs, self.dir, SegmentId(0))? {
            let file = self.fs.open(&segment_path(self.dir, id))?;
            let bad = blank(id, &*file, &mut self.backups)?;
            all.extend(bad.into_iter().map(|offset| (id, offset)));
        }
        Ok(all)
    }

    /// Mends what is damaged here without taking anything away. False if that cannot be done.
    fn mend(&mut self, survey: &Survey, at: &Corruption) -> io::Result<bool> {
        if at.offset < SEGMENT_HEADER_BYTES as u32 {
            return self.mend_header(survey, at);
        }
        let of = |id: SegmentId| survey.segments.iter().find(|found| found.header.segment == id);
        let Some(found) = of(at.segment) else { return Ok(false) };
        let next_start = of(at.segment.next()).map(|next| next.header.start);
        self.put_gaps(found, next_start)
    }

    fn put_gaps(&mut self, found: &Found, next_start: Option<Chain>) -> io::Result<bool> {
        let before = self.gaps.len();
        while let Some(planned) = plan(&*found.file, &found.header, next_start)? {
            if !self.missing.contains(&found.header.segment) {
                self.backups.copy(found.header.segment, &*found.file)?;
            }
            planned.write(&*found.file)?;
            self.gaps.push(planned.gap);
        }
        Ok(self.gaps.len() > before)
    }

    /// Writes the header of the segment whose header is damaged, or makes the one that is missing
    /// before it.
    fn mend_header(&mut self, survey: &Survey, at: &Corruption) -> io::Result<bool> {
        let before = last_in_order(&survey.segments, at.segment);
        let Some(salt) = self.salt(survey, at.segment)? else { return Ok(false) };
        let mut ignore = |_: crate::record::Replayed<'_>| ControlFlow::Continue(());
        let end = match before {
            Some(found) => scan(&*found.file, &found.header, u64::MAX, &mut ignore)?.chain,
            None => Chain::default(),
        };
        let segment = before.map_or(at.segment, |found| found.header.segment.next());
        if segment < at.segment {
            self.make(SegmentHeader {
                segment,
                salt,
                start: end,
                segment_bytes: BLOCK_BYTES as u32,
            })?;
            self.missing.push(segment);
            return Ok(true);
        }
        let file = self.fs.open(&segment_path(self.dir, segment))?;
        let first = SEGMENT_HEADER_BYTES as u32;
        let start = match search(&*file, segment, salt, first, &end)?.next {
            Some((offset, frame)) if offset == first => Chain::before(&frame),
            _ => end,
        };
        let segment_bytes = u32::try_from(file.size()?).unwrap_or(u32::MAX);
        let header = SegmentHeader { segment, salt, start, segment_bytes };
        self.backups.copy(segment, &*file)?;
        file.write_at(&[&header.encode()], 0)?;
        file.sync_data()?;
        self.headers.push(segment);
        Ok(true)
    }

    /// The journal's salt. Without any whole header, what stands in its place in the damaged one, if
    /// there are frames that it fits.
    fn salt(&self, survey: &Survey, damaged: SegmentId) -> io::Result<Option<u64>> {
        if let Some(found) = survey.segments.first() {
            return Ok(Some(found.header.salt));
        }
        let file = self.fs.open(&segment_path(self.dir, damaged))?;
        let salt = SegmentHeader::read_salt(&*file)?;
        let first = SEGMENT_HEADER_BYTES as u32;
        let traces = search(&*file, damaged, salt, first, &Chain::default())?;
        Ok(Some(salt).filter(|_| traces.frames > 0))
    }

    /// An empty segment. It has its name when it is durable.
    fn make(&self, header: SegmentHeader) -> io::Result<()> {
        let temporary = temporary_path(self.dir, header.segment, "seg");
        let file = self.fs.create(&temporary)?;
        file.allocate(u64::from(header.segment_bytes))?;
        file.write_at(&[&header.encode()], 0)?;
        file.sync_data()?;
        self.fs.rename(&temporary, &segment_path(self.dir, header.segment))?;
        self.fs.sync_dir(self.dir)
    }
}

/// The last segment before this one up to which nothing is missing or of another journal.
fn last_in_order(segments: &[Found], id: SegmentId) -> Option<&Found> {
    let first = segments.first()?.header;
    let mut expected = first.segment;
    let in_order = segments.iter().take_while(|found| {
        let fits = found.header.segment == expected
            && found.header.salt == first.salt
            && found.header.segment < id;
        expected = expected.next();
        fits
    });
    in_order.last()
}
