//! What files a journal directory has, judged by names and headers alone.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::scan::{Stop, begun_at};
use super::segment::{FileKind, SegmentHeader, segment_path};
use super::sidecar::Sidecar;
use crate::error::{Corruption, OpenError};
use crate::frame::{Chain, SEGMENT_HEADER_BYTES};
use crate::fs::{File, FileSystem};
use crate::position::{Position, SegmentId};

/// The files of a journal, before any frame is read.
pub(super) struct Survey {
    /// With a header of this log and place, ascending; contiguous if there is no corruption.
    pub(super) segments: Vec<Found>,
    /// Behind the last segment, without a header.
    pub(super) spares: Vec<(SegmentId, Arc<dyn File>)>,
    /// Files that are worth nothing.
    pub(super) temporary: Vec<String>,
    /// That most headers have.
    pub(super) salt: Option<u64>,
    /// Damage among the headers.
    pub(super) corruption: Option<Corruption>,
}

pub(super) struct Found {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn File>,
}

pub(super) fn lock_dir(fs: &dyn FileSystem, dir: &Path) -> Result<Box<dyn Send + Sync>, OpenError> {
    fs.lock(&dir.join("lock")).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { path: dir.to_owned() },
        _ => OpenError::Io { doing: "locking the journal directory".into(), source },
    })
}

/// Looks at names and headers.
pub(super) fn survey(fs: &dyn FileSystem, dir: &Path) -> Result<Survey, OpenError> {
    let names = fs.list(dir).map_err(OpenError::io("listing the journal directory"))?;
    let mut files = BTreeMap::new();
    let (mut temporary, mut indexes) = (Vec::new(), BTreeMap::new());
    for name in names {
        match FileKind::of(&name) {
            FileKind::Segment(id) => {
                let file = fs
                    .open(&segment_path(dir, id))
                    .map_err(OpenError::io(format!("opening segment {id}")))?;
                files.insert(id, file);
            }
            FileKind::Temporary => temporary.push(name),
            FileKind::Index(id) => {
                indexes.insert(id, name);
            }
            FileKind::Foreign => {}
        }
    }
    // Finished while its segment was being removed.
    let alone = indexes.iter().filter(|(id, _)| !files.contains_key(id));
    temporary.extend(alone.map(|(_, name)| name.clone()));
    let mut survey = sort_out(with_headers(files)?, temporary);
    if let Some((sealed, name)) = indexes.into_iter().next_back() {
        survey.judge_latest_sidecar(fs, dir, sealed, name)?;
    }
    Ok(survey)
}

/// A segment's file, whatever is in it.
struct Surveyed {
    id: SegmentId,
    file: Arc<dyn File>,
    header: Option<SegmentHeader>,
    size_bytes: u64,
}

fn with_headers(files: BTreeMap<SegmentId, Arc<dyn File>>) -> Result<Vec<Surveyed>, OpenError> {
    let mut surveyed = Vec::with_capacity(files.len());
    let mut has_last = false;
    for (id, file) in files.into_iter().rev() {
        let reading = || OpenError::io(format!("reading segment {id}"));
        // The process before may have ended because a sync failed: of the last segment, or of one
        // behind it that was about to be. The older ones had been synced.
        if !has_last {
            file.forget_clean().map_err(reading())?;
        }
        let header = read_header(&*file).map_err(reading())?;
        has_last |= header.is_some();
        let size_bytes = file.size().map_err(reading())?;
        surveyed.push(Surveyed { id, file, header, size_bytes });
    }
    surveyed.reverse();
    Ok(surveyed)
}

fn sort_out(files: Vec<Surveyed>, temporary: Vec<String>) -> Survey {
    let headed = files.iter().rposition(|file| file.header.is_some()).map_or(0, |at| at + 1);
    let mut survey = Survey {
        segments: Vec::new(),
        spares: Vec::new(),
        temporary,
        salt: most_common(files.iter().filter_map(|file| Some(file.header.as_ref()?.salt))),
        corruption: None,
    };
    for (number, Surveyed { id, file, header, size_bytes }) in files.into_iter().enumerate() {
        match header {
            _ if id == SegmentId::END => survey.note(id, "no segment has this number"),
            Some(header) => survey.add_segment(id, Found { header, file }, size_bytes),
            None if number < headed || number == 0 => survey.note(id, "segment header is damaged"),
            None => survey.add_spare(id, file),
        }
    }
    survey
}

impl Survey {
    /// The last segment before this one. Before the first damage none is missing.
    pub(super) fn last_before(&self, id: SegmentId) -> Option<&Found> {
        self.segments.iter().rfind(|found| found.header.segment < id)
    }

    /// The chain with which the next segment starts, if its header is to be believed.
    pub(super) fn next_start(&self, id: SegmentId) -> Option<Chain> {
        let next = id.next();
        let is_bad = self.corruption.as_ref().is_some_and(|corruption| corruption.segment <= next);
        let found = self.segments.iter().find(|found| found.header.segment == next);
        found.filter(|_| !is_bad).map(|found| found.header.start)
    }

    /// Where a segment ends by its sidecar, which it has when it is sealed: when the next one has
    /// its header. None if more was written behind that place since, as after a repair that cut the
    /// log.
    pub(super) fn sealed_end(
        &self,
        fs: &dyn FileSystem,
        dir: &Path,
        id: SegmentId,
    ) -> Result<Option<Stop>, OpenError> {
        let found = self.segments.iter().find(|found| found.header.segment == id);
        let sealed = |found: &Found| Some(Sidecar::load(fs, dir, &found.header, None)?.end);
        let Some((found, end)) = found.and_then(|found| Some((found, sealed(found)?))) else {
            return Ok(None);
        };
        let begun = begun_at(&*found.file, Position::new(id, end.offset));
        let begun = begun.map_err(OpenError::io(format!("reading segment {id}")))?;
        Ok((begun == 0).then_some(end))
    }

    /// A file whose header is whole. What does not belong to this log is noted and left out.
    fn add_segment(&mut self, id: SegmentId, found: Found, size_bytes: u64) {
        let header = &found.header;
        if header.segment != id {
            return self.note(id, format!("header is that of segment {}", header.segment));
        }
        if self.salt != Some(header.salt) {
            return self.note(id, "segment is another journal's");
        }
        let previous = self.segments.last().map(|previous| previous.header.segment);
        if let Some(previous) = previous.filter(|previous| previous.next() != id) {
            self.note(id, format!("does not follow segment {previous}"));
        } else if size_bytes < u64::from(header.segment_bytes) {
            // A file has its name only when its length is durable.
            self.note(id, "file is shorter than its header says");
        }
        self.segments.push(found);
    }

    /// A file without a header behind those that have one.
    fn add_spare(&mut self, id: SegmentId, file: Arc<dyn File>) {
        // Spares are made in order, and go the youngest first: what is missing before one was a
        // segment of the log.
        let spare = self.spares.last().map(|(before, _)| *before);
        let before = spare.or(self.segments.last().map(|last| last.header.segment));
        if let Some(before) = before.filter(|before| before.next() != id) {
            self.note(id, format!("does not follow segment {before}"));
        }
        self.spares.push((id, file));
    }

    /// The sidecar of the segment `sealed`, the latest that there is, tells of one that is missing,
    /// or is itself left over.
    fn judge_latest_sidecar(
        &mut self,
        fs: &dyn FileSystem,
        dir: &Path,
        sealed: SegmentId,
        name: String,
    ) -> Result<(), OpenError> {
        let last = self.segments.last().map(|last| last.header.segment);
        let Some(last) = last.filter(|last| sealed >= *last) else { return Ok(()) };
        if sealed > last || self.sealed_end(fs, dir, last)?.is_some() {
            let reason = format!("segment is missing, but segment {sealed} is sealed");
            self.note(last.next(), reason);
        } else {
            // Of what stood there before a repair. Where the log ends earlier now, nothing would be
            // written behind its end, and it would tell of a missing segment.
            self.temporary.push(name);
        }
        Ok(())
    }

    fn note(&mut self, segment: SegmentId, reason: impl fmt::Display) {
        self.corruption.get_or_insert(Corruption::at(segment, 0, reason));
    }
}

fn read_header(file: &dyn File) -> io::Result<Option<SegmentHeader>> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(bytes.get(..read).and_then(SegmentHeader::decode))
}

/// The first of those that there are most of.
fn most_common(salts: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: Vec<(u64, usize)> = Vec::new();
    for salt in salts {
        match counts.iter_mut().find(|(known, _)| *known == salt) {
            Some((_, count)) => *count += 1,
            None => counts.push((salt, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(salt, _)| salt)
}
