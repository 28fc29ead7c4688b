//! Records on their way to the journal.

use smallvec::SmallVec;

use super::fields::Output;

/// The records that replay a series of changes, in order. They are one atomic batch: after a crash
/// all of it is in the journal, or nothing.
///
/// Methods that change a queue add their records here. The caller appends the batch before
/// anybody learns of the changes, and makes sure beforehand that the journal has room for it.
#[derive(Debug, Default)]
pub struct Records<'p> {
    /// Index parts, one behind the other: one piece of memory for all.
    indexes: Output,
    parts: SmallVec<[Part<'p>; 10]>,
}

#[derive(Debug)]
struct Part<'p> {
    /// Of the index part.
    end: usize,
    payload: &'p [u8],
}

impl<'p> Records<'p> {
    /// No records, and memory for index parts of so many bytes.
    pub fn with_capacity(index_bytes: usize) -> Records<'p> {
        Records { indexes: Output(Vec::with_capacity(index_bytes)), parts: SmallVec::new() }
    }

    pub fn len(&self) -> usize {
        self.parts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Index part and payload of each record.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &'p [u8])> {
        let mut start = 0;
        self.parts.iter().map(move |part| {
            let index = &self.indexes.0[start..part.end];
            start = part.end;
            (index, part.payload)
        })
    }

    /// Adds a record of that kind, whose fields take `field_bytes` at most: room for them is made
    /// once.
    pub(crate) fn add(
        &mut self,
        kind: u8,
        field_bytes: usize,
        payload: &'p [u8],
        write: impl FnOnce(&mut Output),
    ) {
        let start = self.indexes.0.len();
        self.indexes.0.reserve(1 + field_bytes);
        self.indexes.byte(kind);
        write(&mut self.indexes);
        let end = self.indexes.0.len();
        debug_assert!(end - start <= 1 + field_bytes, "kind {kind} takes {} bytes", end - start);
        self.parts.push(Part { end, payload });
    }
}
