//! Percent-encoding in both directions, as forms and signatures need it.

use std::borrow::Cow;

use memchr::memchr2;
use millrace_core::text::form;

/// Undoes percent-encoding; borrowed if there is nothing to undo. A plus sign is a space, in forms
/// and in URLs: whoever verifies a signature and whoever acts on the request must read the same. A
/// percent sign that is not followed by two hexadecimal digits stands for itself.
pub(crate) fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(form::decode(text))
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
