//! Percent-encoding in both directions, as forms and signatures need it.

use std::borrow::Cow;

use memchr::memchr2;

/// Undoes percent-encoding; borrowed if there is nothing to undo. A plus sign is a space, in forms
/// and in URLs: whoever verifies a signature and whoever acts on the request must read the same. A
/// percent sign that is not followed by two hexadecimal digits stands for itself.
pub(crate) fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }

    // Byte by byte: where one is encoded, as in JSON, the next is a few bytes on. Never longer
    // than before.
    let mut decoded = vec![0; text.len()];
    let mut slots = decoded.iter_mut();
    let mut rest = text;
    while let [byte, tail @ ..] = rest
        && let Some(slot) = slots.next()
    {
        (*slot, rest) = match (*byte, tail) {
            (b'%', [high, low, after @ ..]) => match hex_byte(*high, *low) {
                Some(byte) => (byte, after),
                None => (b'%', tail),
            },
            (b'+', _) => (b' ', tail),
            (byte, _) => (byte, tail),
        };
    }
    let unused = slots.len();
    decoded.truncate(text.len() - unused);
    Cow::Owned(decoded)
}

/// Appends `bytes` with all but the unreserved characters of RFC 3986 encoded, in upper case.
pub(crate) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

    for byte in bytes {
        if is_unreserved(*byte) {
            out.push(*byte);
        } else {
            let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            out.extend_from_slice(&[b'%', digits[0], digits[1]]);
        }
    }
}

/// Unreserved characters of RFC 3986.
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let high = char::from(high).to_digit(16)?;
    let low = char::from(low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decode_borrows_what_is_not_encoded() {
        assert!(matches!(decode(b"plain"), Cow::Borrowed(b"plain")));
    }

    #[test]
    fn decode_leaves_broken_escapes_alone() {
        assert_eq!(decode(b"%4"), &b"%4"[..]);
        assert_eq!(decode(b"100%+%zz%41"), &b"100% %zzA"[..]);
        assert_eq!(decode(b"%g0%0G%/0%:0%aF"), &b"%g0%0G%/0%:0\xaf"[..]);
    }

    proptest! {
        #[test]
        fn decode_undoes_encode(bytes: Vec<u8>) {
            let mut encoded = Vec::new();
            encode(&mut encoded, &bytes);

            prop_assert_eq!(&decode(&encoded)[..], &bytes[..]);
        }
    }
}
