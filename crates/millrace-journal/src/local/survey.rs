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
    // Finished while its segment was being removed.
    indexes.retain(|(id, _)| !files.contains_key(id));
    temporary.extend(indexes.into_iter().map(|(_, name)| name));
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
        headers.push((id, file, header));
    }
    headers.reverse();
    Ok(sort_out(headers, temporary))
}

type Surveyed = (SegmentId, Arc<dyn File>, Option<SegmentHeader>);

fn sort_out(headers: Vec<Surveyed>, temporary: Vec<String>) -> Survey {
    let headed = headers.iter().rposition(|(_, _, header)| header.is_some()).map_or(0, |at| at + 1);
    let mut survey =
        Survey { segments: Vec::new(), spares: Vec::new(), temporary, corruption: None };
    for (number, (id, file, header)) in headers.into_iter().enumerate() {
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
