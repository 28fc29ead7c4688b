//! Escaping of text for JSON and XML. Input that needs no escape is found in blocks of 32 bytes,
//! which the compiler turns into vector instructions, and is copied in runs.

const BLOCK_BYTES: usize = 32;
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends `text`, which is UTF-8, as a quoted JSON string.
pub(crate) fn json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    escape(out, text, json_needs_escape, json_escape);
    out.push(b'"');
}

/// Appends `text`, which is UTF-8, as the content of an XML element. Carriage returns survive the
/// parser's line-end normalisation, for message digests depend on them; control characters that
/// XML 1.0 cannot express become U+FFFD.
pub(crate) fn xml_text(out: &mut Vec<u8>, text: &[u8]) {
    escape(out, text, xml_needs_escape, xml_escape);
}

/// Appends `bytes` as lower-case hexadecimal digits.
pub(crate) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(HEX_DIGITS[usize::from(byte >> 4)]);
        out.push(HEX_DIGITS[usize::from(byte & 15)]);
    }
}

fn escape(
    out: &mut Vec<u8>,
    text: &[u8],
    needs_escape: impl Fn(u8) -> bool,
    put: impl Fn(&mut Vec<u8>, u8),
) {
    let mut blocks = text.chunks_exact(BLOCK_BYTES);
    let mut copied = 0;
    let mut start = 0;
    let mut slow = |out: &mut Vec<u8>, start: usize, block: &[u8]| {
        for (at, byte) in (start..).zip(block) {
            if needs_escape(*byte) {
                out.extend_from_slice(text.get(copied..at).unwrap_or_default());
                put(out, *byte);
                copied = at + 1;
            }
        }
    };

    out.reserve(text.len());
    for block in &mut blocks {
        // No early exit, or the compiler could not use vectors.
        let is_dirty = block.iter().fold(false, |dirty, byte| dirty | needs_escape(*byte));
        if is_dirty {
            slow(out, start, block);
        }
        start += BLOCK_BYTES;
    }
    slow(out, start, blocks.remainder());
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
}

fn json_needs_escape(byte: u8) -> bool {
    (byte < b' ') | (byte == b'"') | (byte == b'\\')
}

fn json_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            hex(out, &[byte]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn xml_needs_escape(byte: u8) -> bool {
    ((byte < b' ') & (byte != b'\t') & (byte != b'\n'))
        | (byte == b'&')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'"')
}

fn xml_escape(out: &mut Vec<u8>, byte: u8) {
    let entity = match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => "&quot;",
        b'\r' => "&#xD;",
        _ => "\u{fffd}",
    };
    out.extend_from_slice(entity.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn xml_unescape(text: &str) -> String {
        // The ampersand last, or escaped text that looks like an entity would be unescaped twice.
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#xD;", "\r")
            .replace("&amp;", "&")
    }

    proptest! {
        #[test]
        fn json_strings_read_back_as_they_were(text in r#"(\PC|["\\\x00-\x1f]|[a-z ]{30,70}){0,8}"#) {
            let mut out = Vec::new();
            json_string(&mut out, text.as_bytes());

            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn xml_text_reads_back_as_it_was(text in r#"(\PC|[&<>"'\r\n\t]|&amp;|[a-z ]{30,70}){0,8}"#) {
            let mut out = Vec::new();
            xml_text(&mut out, text.as_bytes());

            let escaped = String::from_utf8(out).unwrap();
            prop_assert!(!escaped.contains(['<', '>', '"', '\r']));
            prop_assert_eq!(xml_unescape(&escaped), text);
        }
    }

    #[test]
    fn xml_text_replaces_what_xml_cannot_express() {
        let mut out = Vec::new();
        xml_text(&mut out, b"a\x00\x1b\tb\n");

        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}\u{fffd}\tb\n");
    }
}
