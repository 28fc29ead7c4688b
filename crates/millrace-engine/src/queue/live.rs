//! How many bytes of each journal segment a queue's messages still need.

use std::collections::VecDeque;

/// Live bytes by segment, ascending; segments without any are left out.
#[derive(Debug, Default)]
pub(super) struct LiveBytes {
    segments: VecDeque<(u32, u64)>,
    total: u64,
}

impl LiveBytes {
    pub(super) fn add(&mut self, position: u64, bytes: u32) {
        let segment = (position >> 32) as u32;
        self.total += u64::from(bytes);
        match self.segments.back_mut() {
            Some((last, live)) if *last == segment => *live += u64::from(bytes),
            Some((last, _)) if *last > segment => match self.find(segment) {
                Ok(at) => self.segments[at].1 += u64::from(bytes),
                Err(at) => self.segments.insert(at, (segment, u64::from(bytes))),
            },
            _ => self.segments.push_back((segment, u64::from(bytes))),
        }
    }

    pub(super) fn remove(&mut self, position: u64, bytes: u32) {
        let segment = (position >> 32) as u32;
        let at = match self.segments.front() {
            Some((first, _)) if *first == segment => 0,
            _ => match self.find(segment) {
                Ok(at) => at,
                Err(_) => return,
            },
        };
        self.total -= u64::from(bytes);
        self.segments[at].1 -= u64::from(bytes);
        if self.segments[at].1 == 0 {
            self.segments.remove(at);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = LiveBytes::default();
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn in_segment(&self, segment: u32) -> u64 {
        self.find(segment).map_or(0, |at| self.segments[at].1)
    }

    pub(super) fn oldest_segment(&self) -> Option<u32> {
        self.segments.front().map(|(segment, _)| *segment)
    }

    fn find(&self, segment: u32) -> Result<usize, usize> {
        self.segments.binary_search_by_key(&segment, |(segment, _)| *segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_leave_when_their_last_byte_does() {
        let mut live = LiveBytes::default();
        let position = |segment: u64| segment << 32 | 99;
        for segment in [3, 3, 5, 4] {
            live.add(position(segment), 10);
        }
        live.remove(position(3), 10);
        assert_eq!((live.oldest_segment(), live.total()), (Some(3), 30));
        assert_eq!([2, 3, 5].map(|segment| live.in_segment(segment)), [0, 10, 10]);
        live.remove(position(3), 10);
        assert_eq!((live.oldest_segment(), live.total()), (Some(4), 20));
        live.remove(position(5), 10);
        live.remove(position(4), 10);
        assert_eq!((live.oldest_segment(), live.total()), (None, 0));
    }
}
