//! What files a journal directory has, judged by names and headers alone.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::segment::{FileKind, SEGMENT_HEADER_BYTES, SegmentHeader, segment_path};
use crate::error::OpenError;
use crate::fs::{File, FileSystem};
use crate::position::SegmentId;

/// Damage that is not the trace of a crash, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("journal is corrupt: segment {segment} offset {offset}: {reason}")]
pub struct Corruption {
    pub segment: SegmentId,
    pub offset: u32,
    pub reason: String,
}

impl Corruption {
    pub(super) fn at(segment: SegmentId, offset: u32, reason: impl fmt::Display) -> Self {
        Self { segment, offset, reason: reason.to_string() }
    }
}

/// The files of a journal, before any frame is read.
pub(super) struct Survey {
    /// With a header, ascending and contiguous.
    pub(super) segments: Vec<Found>,
    /// Behind the last segment, without a header.
    pub(super) spares: Vec<(SegmentId, Arc<dyn File>)>,
    /// Files that are worth nothing.
    pub(super) temporary: Vec<String>,
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
    let (mut temporary, mut indexes) = (Vec::new(), Vec::new());
    for name in names {
        match FileKind::of(&name) {
            FileKind::Segment(id) => {
                let file = fs
                    .open(&segment_path(dir, id))
                    .map_err(OpenError::io(format!("opening segment {id}")))?;
                files.insert(id, file);
            }
            FileKind::Temporary => temporary.push(name),
            FileKind::Index(id) => indexes.push((id, name)),
            FileKind::Foreign => {}
        }
    }
    // The others were finished while their segments were being removed.
    let (indexed, orphaned): (Vec<_>, Vec<_>) =
        indexes.into_iter().partition(|(id, _)| files.contains_key(id));
    temporary.extend(orphaned.into_iter().map(|(_, name)| name));
    let last_indexed = indexed.into_iter().map(|(id, _)| id).max();
    let mut headers = Vec::new();
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
        let size = file.size().map_err(reading())?;
        headers.push((id, file, header, size));
    }
    headers.reverse();
    let mut survey = sort_out(headers, temporary);
    // Only sealed segments have sidecars, and a segment is sealed when the next one has its header.
    if let (Some(last), Some(sealed)) = (survey.segments.last(), last_indexed)
        && last.header.segment == sealed
    {
        survey.note(sealed.next(), format!("segment is missing, but segment {sealed} is sealed"));
    }
    Ok(survey)
}

type Surveyed = (SegmentId, Arc<dyn File>, Option<SegmentHeader>, u64);

fn sort_out(headers: Vec<Surveyed>, temporary: Vec<String>) -> Survey {
    let headed = headers.iter().rposition(|(_, _, header, _)| header.is_some());
    let headed = headed.map_or(0, |at| at + 1);
    let mut survey =
        Survey { segments: Vec::new(), spares: Vec::new(), temporary, corruption: None };
    for (number, (id, file, header, size)) in headers.into_iter().enumerate() {
        let Some(header) = header else {
            if number < headed || number == 0 {
                survey.note(id, "segment header is damaged");
            } else {
                survey.spares.push((id, file));
            }
            continue;
        };
        if header.segment != id {
            survey.note(id, format!("header is that of segment {}", header.segment));
        } else if let Some(previous) = survey.segments.last()
            && (previous.header.segment.next() != id || previous.header.salt != header.salt)
        {
            let reason = format!("does not follow segment {}", previous.header.segment);
            survey.note(id, reason);
        } else if size < u64::from(header.segment_bytes) {
            // A file has its name only when its length is durable.
            survey.note(id, "file is shorter than its header says");
        }
        survey.segments.push(Found { header, file });
    }
    survey
}

impl Survey {
    fn note(&mut self, segment: SegmentId, reason: impl fmt::Display) {
        self.corruption.get_or_insert(Corruption::at(segment, 0, reason));
    }
}

fn read_header(file: &dyn File) -> io::Result<Option<SegmentHeader>> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(bytes.get(..read).and_then(SegmentHeader::decode))
}
