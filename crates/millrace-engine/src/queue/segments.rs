//! What a queue still needs of each journal segment.

use std::collections::VecDeque;

/// Amounts by segment, ascending; segments without any are left out.
#[derive(Debug, Default)]
pub(super) struct PerSegment {
    segments: VecDeque<(u32, u64)>,
    total: u64,
}

impl PerSegment {
    /// `position`: of a record in the segment.
    pub(super) fn add(&mut self, position: u64, amount: u32) {
        let segment = (position >> 32) as u32;
        self.total += u64::from(amount);
        match self.segments.back_mut() {
            Some((last, sum)) if *last == segment => *sum += u64::from(amount),
            Some((last, _)) if *last > segment => match self.find(segment) {
                Ok(at) => self.segments[at].1 += u64::from(amount),
                Err(at) => self.segments.insert(at, (segment, u64::from(amount))),
            },
            _ => self.segments.push_back((segment, u64::from(amount))),
        }
    }

    pub(super) fn remove(&mut self, position: u64, amount: u32) {
        let segment = (position >> 32) as u32;
        let at = match self.segments.front() {
            Some((first, _)) if *first == segment => 0,
            _ => match self.find(segment) {
                Ok(at) => at,
                Err(_) => return,
            },
        };
        self.total -= u64::from(amount);
        self.segments[at].1 -= u64::from(amount);
        if self.segments[at].1 == 0 {
            self.segments.remove(at);
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn in_segment(&self, segment: u32) -> u64 {
        self.find(segment).map_or(0, |at| self.segments[at].1)
    }

    /// In that segment and all before it.
    pub(super) fn up_to(&self, segment: u32) -> u64 {
        let before = self.segments.iter().take_while(|(other, _)| *other <= segment);
        before.map(|(_, sum)| sum).sum()
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
        let mut live = PerSegment::default();
        let position = |segment: u64| segment << 32 | 99;
        for segment in [3, 3, 5, 4] {
            live.add(position(segment), 10);
        }
        live.remove(position(3), 10);
        assert_eq!((live.oldest_segment(), live.total()), (Some(3), 30));
        assert_eq!([2, 3, 5].map(|segment| live.in_segment(segment)), [0, 10, 10]);
        assert_eq!([2, 3, 4, 9].map(|segment| live.up_to(segment)), [0, 10, 20, 30]);
        live.remove(position(3), 10);
        assert_eq!((live.oldest_segment(), live.total()), (Some(4), 20));
        live.remove(position(5), 10);
        live.remove(position(4), 10);
        assert_eq!((live.oldest_segment(), live.total()), (None, 0));
    }
}
