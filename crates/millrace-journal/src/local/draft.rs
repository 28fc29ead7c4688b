//! The sidecar of a segment while that fills: reading all of a sealed segment again would cost a
//! twentieth of what sending costs.
//!
//! The start leaves the entries here that it finds in segments without sidecars, the appender those
//! of each committed frame; the background writes them to a temporary file whenever there are
//! enough. What it cannot write, or not in time, is given up: then the sealed segment is read after
//! all.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use super::lock;
use super::scan::Stop;
use super::segment::SegmentHeader;
use super::sidecar::{WRITE_BYTES, Writer, push_entry};
use crate::frame::{Chain, FRAME_HEADER_BYTES, Frame, FrameKind};
use crate::fs::FileSystem;
use crate::position::SegmentId;
use crate::record::{Replayed, records};

/// Entries that wait to be written, at most.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// See the module. Locks, in their order: `writer` (held over writes), `waiting` (microseconds).
pub(super) struct Draft {
    writer: Mutex<Option<Writer>>,
    /// None: given up.
    waiting: Mutex<Option<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    entries: Vec<u8>,
    frames: u64,
    records: u64,
}

impl Draft {
    /// Of a segment without frames.
    pub(super) fn new() -> Self {
        Self { writer: Mutex::new(None), waiting: Mutex::new(Some(Waiting::default())) }
    }

    /// Adds a record that the start found, which follows the one before. There is no background yet
    /// that would write what there is.
    pub(super) fn add_found(&self, fs: &dyn FileSystem, dir: &Path, record: &Replayed<'_>) {
        let (offset, payload_len) = (record.position.offset(), record.payload_len);
        self.extend(|waiting| {
            waiting.push(offset, payload_len, record.index);
            Some(())
        });
        if self.is_due()
            && let Err(error) = self.write(fs, dir, record.position.segment())
        {
            tracing::debug!(%error, "sidecar draft was given up");
        }
    }

    /// So many frames held what was found.
    pub(super) fn set_frames(&self, frames: u64) {
        if let Some(waiting) = &mut *lock(&self.waiting) {
            waiting.frames = frames;
        }
    }

    /// Adds a committed frame, which follows the one before.
    pub(super) fn add(&self, frame: &Frame) {
        self.extend(|waiting| waiting.add(frame));
    }

    /// Gives it up if that fails, or if the entries are too many.
    fn extend(&self, add: impl FnOnce(&mut Waiting) -> Option<()>) {
        let mut waiting = lock(&self.waiting);
        let is_added = waiting.as_mut().is_some_and(|waiting| {
            add(waiting).is_some() && waiting.entries.len() <= MAX_WAITING_BYTES
        });
        if !is_added {
            *waiting = None;
        }
    }

    /// Size of the file so far.
    pub(super) fn file_bytes(&self) -> u64 {
        lock(&self.writer).as_ref().map_or(0, Writer::bytes)
    }

    /// Whether there is enough to be written.
    pub(super) fn is_due(&self) -> bool {
        lock(&self.waiting).as_ref().is_some_and(|waiting| waiting.entries.len() >= WRITE_BYTES)
    }

    /// Writes what waits. Returns the file's size so far.
    pub(super) fn write(
        &self,
        fs: &dyn FileSystem,
        dir: &Path,
        segment: SegmentId,
    ) -> io::Result<u64> {
        let mut writer = lock(&self.writer);
        let written = self.write_waiting(&mut writer, fs, dir, segment);
        if written.is_err() {
            *lock(&self.waiting) = None;
        }
        written
    }

    /// Forgets it, whoever still adds to it. Returns whether there is a file.
    pub(super) fn give_up(&self) -> bool {
        let mut writer = lock(&self.writer);
        *lock(&self.waiting) = None;
        writer.take().is_some()
    }

    /// Makes a sidecar of it: of a segment that is sealed, ends at `end`, and is followed by one
    /// that starts with `chain`. Returns its size; None if the draft was given up.
    pub(super) fn finish(
        &self,
        fs: &dyn FileSystem,
        dir: &Path,
        header: &SegmentHeader,
        end: u32,
        chain: Chain,
    ) -> Option<io::Result<u64>> {
        let mut writer = lock(&self.writer);
        let (frames, records) = match &*lock(&self.waiting) {
            Some(waiting) => (waiting.frames, waiting.records),
            None => return None,
        };
        let written = self.write_waiting(&mut writer, fs, dir, header.segment);
        *lock(&self.waiting) = None;
        let stop = Stop { offset: end, chain, frames, records };
        let writer = writer.take()?;
        Some(written.and_then(|_| writer.finish(fs, dir, header, &stop)))
    }

    fn write_waiting(
        &self,
        writer: &mut Option<Writer>,
        fs: &dyn FileSystem,
        dir: &Path,
        segment: SegmentId,
    ) -> io::Result<u64> {
        let entries = match &mut *lock(&self.waiting) {
            Some(waiting) => std::mem::take(&mut waiting.entries),
            None => return Ok(0),
        };
        let writer = match writer {
            Some(writer) => writer,
            None => writer.insert(Writer::create(fs, dir, segment)?),
        };
        writer.write(&entries)?;
        Ok(writer.bytes())
    }
}

impl Waiting {
    fn push(&mut self, offset: u32, payload_len: u32, index: &[u8]) {
        push_entry(&mut self.entries, offset, payload_len, index);
        self.records += 1;
    }

    /// None if a record is not whole.
    fn add(&mut self, frame: &Frame) -> Option<()> {
        self.frames += 1;
        if frame.header.kind == FrameKind::Open {
            // Its record is the journal's own.
            return Some(());
        }
        let body = frame.header.place.offset() + FRAME_HEADER_BYTES as u32;
        let mut added = 0;
        for (start, record) in records(&frame.body).take(frame.header.records as usize) {
            self.push(body + start as u32, record.payload.len() as u32, record.index);
            added += 1;
        }
        (added == frame.header.records).then_some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use bytes::BytesMut;

    use super::*;
    use crate::frame::Prior;
    use crate::fs::{Fault, SimFileSystem};
    use crate::position::Position;
    use crate::record::Record;

    const SEGMENT: SegmentId = SegmentId(2);
    const INDEX_BYTES: usize = 100_000;

    fn frame() -> Frame {
        // A multiple of 8 bytes, as frames need it.
        let record = Record { index: &[7; INDEX_BYTES], payload: b"body" };
        let mut body = BytesMut::new();
        record.encode(&record.header(), &mut body);
        let place = Position::new(SEGMENT, 64);
        let mut header = Chain::default().next(FrameKind::Data, place, Prior::Durable);
        header.records = 1;
        Frame::seal(header, body.freeze(), 0)
    }

    fn finish(draft: &Draft, fs: &SimFileSystem) -> Option<io::Result<u64>> {
        let start = Chain::default();
        let header = SegmentHeader { segment: SEGMENT, salt: 0, start, segment_bytes: 1 << 20 };
        draft.finish(fs, Path::new("/journal"), &header, 1000, start)
    }

    #[test]
    fn enough_entries_are_due_and_written() {
        let fs = SimFileSystem::new(1);
        let draft = Draft::new();
        while !draft.is_due() {
            draft.add(&frame());
        }

        let bytes = draft.write(&fs, Path::new("/journal"), SEGMENT).unwrap();

        assert!(bytes as usize > WRITE_BYTES);
        assert!(!draft.is_due());
        draft.add(&frame());
        assert!(finish(&draft, &fs).unwrap().unwrap() > bytes + INDEX_BYTES as u64);
    }

    #[test]
    fn what_is_not_written_in_time_is_given_up() {
        let fs = SimFileSystem::new(1);
        let draft = Draft::new();
        for _ in 0..=MAX_WAITING_BYTES / INDEX_BYTES {
            draft.add(&frame());
        }

        assert!(!draft.is_due());
        assert!(finish(&draft, &fs).is_none());
        assert_eq!(fs.calls(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_given_up() {
        let fs = SimFileSystem::new(1);
        let draft = Draft::new();
        draft.add(&frame());
        fs.fail_next(Fault::NoSpace);

        draft.write(&fs, Path::new("/journal"), SEGMENT).unwrap_err();

        draft.add(&frame());
        assert!(finish(&draft, &fs).is_none());
    }

    #[test]
    fn draft_of_a_truncated_segment_is_not_written_any_more() {
        let fs = SimFileSystem::new(1);
        let draft = Draft::new();
        draft.add(&frame());
        draft.write(&fs, Path::new("/journal"), SEGMENT).unwrap();

        assert!(draft.give_up());

        let calls = fs.calls();
        draft.add(&frame());
        draft.write(&fs, Path::new("/journal"), SEGMENT).unwrap();
        assert!(finish(&draft, &fs).is_none());
        assert_eq!(fs.calls(), calls);
    }
}
