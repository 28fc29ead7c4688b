//! The bytes of a connection that were read and not yet used.

use std::ops::Range;

/// What a connection may keep between requests. Larger ones give their memory back.
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
        self.append_of(bytes, usize::MAX);
    }

    /// The same for a part of a request of `request_bytes`. More memory than for the whole of it,
    /// or twice what came so far, is not taken: large ones add up.
    pub(crate) fn append_of(&mut self, bytes: &[u8], request_bytes: usize) {
        // Not for each of many small requests in it: what is moved is less than what was used.
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        let needed = len + bytes.len();
        if needed > capacity {
            let whole = self.start.saturating_add(request_bytes);
            self.bytes.reserve_exact(whole.min(2 * capacity).max(needed) - len);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets the first bytes, and gives back what memory they took: it counts as a body's only
    /// until the request is answered, and the next one may be there already.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.bytes.len().min(self.start + count);
        let capacity = self.bytes.capacity();
        if capacity > KEPT_BYTES && self.unread().len() < capacity / 4 {
            // Not for each of many small requests in it: what is copied is a quarter of the last
            // time.
            self.bytes = self.unread().to_vec();
            self.start = 0;
        } else if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Forgets bytes in the middle; the range counts from the first unread byte.
    pub(crate) fn cut(&mut self, range: Range<usize>) {
        let end = self.bytes.len();
        self.bytes.drain(end.min(self.start + range.start)..end.min(self.start + range.end));
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.bytes.split_off(std::mem::take(&mut self.start))
    }

    /// The memory that it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_request_leaves_no_memory_to_what_comes_behind_it() {
        for behind in [&b""[..], b"P", b"POST / HTTP/1.1"] {
            let mut buffer = ReadBuffer::default();
            buffer.append(&[0; 1_000_000]);
            buffer.append(behind);

            buffer.consume(1_000_000);

            assert_eq!(buffer.unread(), behind);
            assert!(buffer.bytes.capacity() <= KEPT_BYTES, "{}", buffer.bytes.capacity());
        }
    }

    #[test]
    fn a_request_of_known_length_takes_no_more_memory_than_that() {
        let mut buffer = ReadBuffer::default();
        for piece in [16_384; 61] {
            buffer.append_of(&vec![0; piece], 1_000_000);
            assert!(buffer.bytes.capacity() <= 1_000_000.min(2 * buffer.unread().len()));
        }
        buffer.append(&[0; 1_000]);
        assert!(buffer.bytes.capacity() >= buffer.unread().len());
    }

    #[test]
    fn many_requests_in_one_buffer_are_seldom_copied() {
        let mut buffer = ReadBuffer::default();
        buffer.append(&[0; 100_000]);
        let mut copies = 0;

        for _ in 0..1_000 {
            let before = buffer.bytes.as_ptr();
            buffer.consume(100);
            copies += usize::from(buffer.bytes.as_ptr() != before);
        }

        assert!(copies <= 3, "{copies}");
    }
}
