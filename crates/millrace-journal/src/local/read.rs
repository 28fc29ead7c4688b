//! Reading records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::LocalJournal;
use super::ahead::Place;
use super::segment::Segment;
use crate::error::ReadError;
use crate::position::{Durability, Position};

impl LocalJournal {
    pub(super) fn read_record(
        &self,
        position: Position,
        record_len: u32,
    ) -> Result<Bytes, ReadError> {
        let (segment, limit) = self.segment_of(position, record_len)?;
        // Where nothing is synced, what is in the page cache would have to be written first.
        if self.options.durability == Durability::Fsync {
            let place = self.place(limit);
            if let Some(bytes) = self.ahead.read(place, position, record_len) {
                return Ok(bytes);
            }
        }
        read_alone(&segment, position, record_len)
    }

    /// Past what was read ahead, and past the page cache as far as it is clean.
    pub(super) fn read_from_disk(
        &self,
        position: Position,
        record_len: u32,
    ) -> Result<Bytes, ReadError> {
        let (segment, _) = self.segment_of(position, record_len)?;
        self.ahead.forget(position.segment());
        segment.file.forget_clean().map_err(|source| ReadError::Io { position, source })?;
        read_alone(&segment, position, record_len)
    }

    /// Reads what will be wanted soon. False if there is nothing such.
    pub(super) fn read_something_ahead(&self) -> bool {
        self.ahead.step(|segment| {
            let segment = self.segment(segment)?;
            Some(self.place(segment.end.load(Ordering::Acquire)))
        })
    }

    fn place(&self, limit: u32) -> Place<'_> {
        Place { fs: &*self.fs, dir: &self.dir, limit }
    }

    /// The segment that holds a committed record, and how many committed bytes it has.
    fn segment_of(
        &self,
        position: Position,
        record_len: u32,
    ) -> Result<(Arc<Segment>, u32), ReadError> {
        let segment = self.segment(position.segment()).ok_or(ReadError::Gone(position))?;
        let limit = segment.end.load(Ordering::Acquire);
        let end = u64::from(position.offset()) + u64::from(record_len);
        if end > u64::from(limit) {
            return Err(ReadError::Gone(position));
        }
        Ok((segment, limit))
    }
}

fn read_alone(segment: &Segment, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
    let mut bytes = vec![0; record_len as usize];
    let read = segment
        .file
        .read_at(&mut bytes, u64::from(position.offset()))
        .map_err(|source| ReadError::Io { position, source })?;
    if read < bytes.len() {
        return Err(ReadError::Damaged(position));
    }
    Ok(bytes.into())
}
