//! Numbers as rows hold them, and texts as old files do: unsigned integers in groups of seven bits,
//! the lowest first; floats as eight bytes, little-endian; texts with their length before them.

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Takes numbers from the front of some bytes; `None` where there are too few or senseless ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.varint()?).ok()
    }

    pub(crate) fn float(&mut self) -> Option<f64> {
        let bytes = self.bytes(8)?;
        bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let count = self.number()?;
        str::from_utf8(self.bytes(count)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_hold_any_number_and_no_more() {
        for (value, len) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!((Reader(&bytes).varint(), bytes.len()), (Some(value), len));
        }
        let ten = |last: u8| [[0xff; 9].as_slice(), &[last]].concat();
        assert_eq!(Reader(&ten(1)).varint(), Some(u64::MAX));
        assert_eq!(Reader(&ten(2)).varint(), None, "more than 64 bits");
        assert_eq!(Reader(&ten(0x80)).varint(), None, "more than ten bytes");
    }
}
