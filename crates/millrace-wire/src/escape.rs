//! Escaping of text for JSON and XML. Input that needs no escape is found in blocks, which the
//! compiler turns into vector instructions.

use millrace_core::text::{json, json_clean_bytes};

const BLOCK_BYTES: usize = 32;
/// Blocks looked at together, so that whether all are clean is asked once.
const STRIDE_BLOCKS: usize = 8;

/// Appends `text`, which is UTF-8, as a quoted JSON string.
pub fn json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    loop {
        let (clean, dirty) = rest.split_at(json_clean_bytes(rest).min(rest.len()));
        out.extend_from_slice(clean);
        if dirty.is_empty() {
            break;
        }
        let left = dirty.get(json::escape_blocks(out, dirty)..).unwrap_or_default();
        let (block, behind) = left.split_at(left.len().min(BLOCK_BYTES));
        put_json(out, block);
        rest = behind;
    }
    out.push(b'"');
}

/// Appends `text`, which is UTF-8, as the content of an XML element. Carriage returns survive the
/// parser's line-end normalisation, for message digests depend on them; control characters that
/// XML 1.0 cannot express become U+FFFD.
pub(crate) fn xml_text(out: &mut Vec<u8>, text: &[u8]) {
    // U+FFFE and U+FFFF are no XML characters; in UTF-8 both begin with this byte.
    if text.iter().fold(false, |found, byte| found | (*byte == 0xef)) {
        let replaced = String::from_utf8_lossy(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        return escape_xml(out, replaced.as_bytes());
    }
    escape_xml(out, text);
}

/// Without branches but for the rare long form, because quotes in JSON within JSON come at
/// unpredictable places.
fn put_json(out: &mut Vec<u8>, block: &[u8]) {
    // The longest escape has six bytes.
    let mut room = [0; 6 * BLOCK_BYTES];
    let mut end = 0;
    for byte in block {
        let escape = json::ESCAPES[usize::from(*byte)];
        if escape == b'u' {
            if let Some(slots) = room.get_mut(end..end + 6) {
                slots.copy_from_slice(&json::long_escape(*byte));
            }
            end += 6;
            continue;
        }
        let is_escaped = escape != 0;
        if let Some([first, second]) = room.get_mut(end..end + 2) {
            *first = if is_escaped { b'\\' } else { *byte };
            *second = escape;
        }
        end += 1 + usize::from(is_escaped);
    }
    out.extend_from_slice(room.get(..end).unwrap_or_default());
}

/// Copies clean blocks and leaves the others, and the last, shorter one if it is not clean, to
/// `put_xml`.
fn escape_xml(out: &mut Vec<u8>, text: &[u8]) {
    // No early exit, or the compiler could not use vectors.
    let is_clean = |blocks: &[[u8; BLOCK_BYTES]]| {
        let bytes = blocks.as_flattened().iter();
        bytes.fold(0, |dirty, byte| dirty | u8::from(xml_needs_escape(*byte))) == 0
    };
    let (blocks, tail) = text.as_chunks();

    out.reserve(text.len());
    for stride in blocks.chunks(STRIDE_BLOCKS) {
        if is_clean(stride) {
            out.extend_from_slice(stride.as_flattened());
            continue;
        }
        for block in stride {
            if is_clean(std::slice::from_ref(block)) {
                out.extend_from_slice(block);
            } else {
                put_xml(out, block);
            }
        }
    }
    if tail.iter().any(|byte| xml_needs_escape(*byte)) {
        put_xml(out, tail);
    } else {
        out.extend_from_slice(tail);
    }
}

// Called per byte, and only inlined is it made vectors of.
#[inline(always)]
fn xml_needs_escape(byte: u8) -> bool {
    ((byte < b' ') & (byte != b'\t') & (byte != b'\n'))
        | (byte == b'&')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'"')
}

fn put_xml(out: &mut Vec<u8>, block: &[u8]) {
    for byte in block {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\r' => "&#xD;",
            byte if xml_needs_escape(*byte) => "\u{fffd}",
            byte => {
                out.push(*byte);
                continue;
            }
        };
        out.extend_from_slice(entity.as_bytes());
    }
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

    /// The longest escapes, as many as there may be before, in and behind a block.
    #[test]
    fn json_strings_may_be_all_escapes() {
        for count in 0..200 {
            for character in ["\u{1}", "\"", "a\n", "\u{7f}é"] {
                let text = character.repeat(count);
                let mut out = Vec::new();
                json_string(&mut out, text.as_bytes());
                assert_eq!(str::from_utf8(&out).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }

    /// Alone, wherever blocks and strides of them begin and end.
    #[test]
    fn xml_text_may_have_one_escape_anywhere() {
        for (character, entity) in [
            ("&", "&amp;"),
            ("<", "&lt;"),
            (">", "&gt;"),
            ("\"", "&quot;"),
            ("\r", "&#xD;"),
            ("\u{1f}", "\u{fffd}"),
            ("\u{fffe}", "\u{fffd}"),
            ("\t\n\u{7f}", "\t\n\u{7f}"),
        ] {
            for before in 0..300 {
                let (before, behind) = ("a".repeat(before), "b".repeat(300 - before));
                let mut out = Vec::new();
                xml_text(&mut out, format!("{before}{character}{behind}").as_bytes());
                assert_eq!(String::from_utf8(out).unwrap(), format!("{before}{entity}{behind}"));
            }
        }
    }

    #[test]
    fn xml_text_replaces_what_xml_cannot_express() {
        let mut out = Vec::new();
        xml_text(&mut out, b"a\x00\x1b\tb\n");

        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}\u{fffd}\tb\n");
        let mut out = Vec::new();
        xml_text(&mut out, "<\u{fffe}\u{ff01}\u{ffff}".as_bytes());
        assert_eq!(String::from_utf8(out).unwrap(), "&lt;\u{fffd}\u{ff01}\u{fffd}");
    }
}
