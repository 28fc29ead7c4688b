//! Hexadecimal digits of escapes, in upper or lower case.

/// For each byte the value of that digit, [`NO_DIGIT`] if it is none.
pub(super) const DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        table[digit as usize] = value;
        table[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    table
};

/// Has a bit that no digit's value has.
pub(super) const NO_DIGIT: u8 = 0x80;

/// What the digits stand for, if all of them are digits.
#[inline(always)]
pub(super) fn number<const N: usize>(digits: &[u8; N]) -> Option<u16> {
    let (mut number, mut signs) = (0, 0);
    for digit in digits {
        let value = DIGITS[usize::from(*digit)];
        number = number << 4 | u16::from(value);
        signs |= value;
    }
    (signs & NO_DIGIT == 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_a_byte() {
        for value in 0..=u8::MAX {
            for digits in [format!("{value:02x}"), format!("{value:02X}")] {
                assert_eq!(number::<2>(digits.as_bytes().try_into().unwrap()), Some(value.into()));
            }
        }
        for digits in [b"g0", b"0G", b"/0", b"0:", b"\xb00", b"0\xc6"] {
            assert_eq!(number(digits), None, "{digits:?}");
        }
    }
}
