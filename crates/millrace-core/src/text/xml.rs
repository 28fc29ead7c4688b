//! Escapes of XML text, of which JSON in XML has many, at unpredictable places.
//!
//! In blocks, as those of [`super::json`]: 1 KiB of JSON is escaped in 0.37 µs with AVX-512 and in 0.73
//! with AVX2; byte by byte in 2.2.

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx512;

#[cfg(not(target_feature = "avx2"))]
use multiversion::{multiversion, target::match_target};

/// What bytes are written as if not as themselves. Carriage returns would not survive a parser's
/// normalisation of line ends; U+FFFD stands for characters that XML 1.0 cannot express.
const ENTITIES: [&str; 8] = ["", "&amp;", "&lt;", "&gt;", "&quot;", "&#xD;", "\u{fffd}", ""];

/// The entities with zeros behind.
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
const PADDED: [[u8; 8]; 8] = {
    let mut padded = [[0; 8]; 8];
    let mut entity = 0;
    while entity < ENTITIES.len() {
        let (bytes, _) = padded[entity].split_at_mut(ENTITIES[entity].len());
        bytes.copy_from_slice(ENTITIES[entity].as_bytes());
        entity += 1;
    }
    padded
};

/// For each byte which of [`ENTITIES`] it is written as.
const ENTITY_OF: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = 6;
        control += 1;
    }
    table[b'\t' as usize] = 0;
    table[b'\n' as usize] = 0;
    table[b'\r' as usize] = 5;
    table[b'&' as usize] = 1;
    table[b'<' as usize] = 2;
    table[b'>' as usize] = 3;
    table[b'"' as usize] = 4;
    table
};

/// What the byte is written as in XML text; None if as itself.
#[inline]
#[must_use]
pub fn entity(byte: u8) -> Option<&'static str> {
    let entity = ENTITIES[usize::from(ENTITY_OF[usize::from(byte)])];
    (!entity.is_empty()).then_some(entity)
}

/// Appends the beginning of `text`, escaped. Returns how many bytes of it that was: all but the last
/// 63 or fewer, or none.
#[cfg_attr(
    not(target_feature = "avx2"),
    multiversion(targets(
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vbmi2+popcnt",
        "x86_64+avx2+popcnt"
    ))
)]
pub fn escape_blocks(out: &mut Vec<u8>, text: &[u8]) -> usize {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vbmi2+popcnt" => avx512::escape(out, text),
        "x86_64+avx2+popcnt" => avx2::escape(out, text),
        _ => {
            let _ = (out, text);
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[cfg_attr(not(target_feature = "avx2"), multiversion(targets("x86_64+avx2+popcnt")))]
    fn escape_by_avx2(out: &mut Vec<u8>, text: &[u8]) -> usize {
        match_target! {
            "x86_64+avx2+popcnt" => avx2::escape(out, text),
            _ => escape_blocks(out, text),
        }
    }

    fn escaped_one_by_one(text: &[u8]) -> Vec<u8> {
        let escaped = text.iter().map(|byte| match entity(*byte) {
            Some(entity) => entity.as_bytes().to_vec(),
            None => vec![*byte],
        });
        escaped.collect::<Vec<_>>().concat()
    }

    #[test]
    fn entities_are_those_of_xml() {
        for (byte, written) in [
            (b'&', Some("&amp;")),
            (b'<', Some("&lt;")),
            (b'>', Some("&gt;")),
            (b'"', Some("&quot;")),
            (b'\r', Some("&#xD;")),
            (b'\0', Some("\u{fffd}")),
            (0x1f, Some("\u{fffd}")),
            (b'\t', None),
            (b'\n', None),
            (b'\'', None),
            (0x7f, None),
            (0xa6, None),
        ] {
            assert_eq!(entity(byte), written, "{byte}");
        }
    }

    proptest! {
        /// What this machine chooses, and AVX2 if it chooses better.
        #[test]
        fn blocks_are_escaped_as_byte_by_byte(
            text in prop::collection::vec(prop::sample::select(&b"aaaaaaaaz&<>\"\r\n\t\0\x1f\xa6\xbc"[..]), 0..400),
            clean in prop::collection::vec(b'a'..=b'z', 0..200),
        ) {
            let text = [&text[..], &clean, &text].concat();
            for escape in [escape_blocks, escape_by_avx2] {
                let mut out = b"before".to_vec();
                let done = escape(&mut out, &text);

                prop_assert!(done == 0 || text.len() - done < 64, "{} of {}", done, text.len());
                prop_assert_eq!(&out[6..], escaped_one_by_one(&text[..done]));
            }
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
    fn with_avx2_nearly_all_is_done_in_blocks() {
        if is_x86_feature_detected!("avx2") {
            // More than is put together before it is appended.
            let text = [b'"'; 4000];
            for escape in [escape_blocks, escape_by_avx2] {
                assert!(escape(&mut Vec::new(), &text) >= 3968);
            }
        }
    }
}
