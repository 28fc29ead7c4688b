//! The bytes of a connection that were read and not yet used.

use std::ops::Range;

/// What an idle connection may keep. Larger requests give their memory back.
const KEPT_BYTES: usize = 8 * 1024;

/// Bytes read and not yet used.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl ReadBuffer {
    /// With bytes that were read before.
    pub(crate) fn new(bytes: Vec<u8>) -> ReadBuffer {
        ReadBuffer { bytes, start: 0 }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        // Not for each of many small requests in it: what is moved is less than what was used.
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets the first bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.bytes.len().min(self.start + count);
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Forgets bytes in the middle; the range counts from the first unread byte.
    pub(crate) fn cut(&mut self, range: Range<usize>) {
        let end = self.bytes.len();
        self.bytes.drain(end.min(self.start + range.start)..end.min(self.start + range.end));
    }

    /// Gives memory back before a wait, if there is much of it and nothing in it.
    pub(crate) fn release(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.bytes.split_off(std::mem::take(&mut self.start))
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
