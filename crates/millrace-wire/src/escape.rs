//! Escaping of text for JSON and XML. Clean text is found and copied in blocks.

use millrace_core::text::{self, json, xml};

const BLOCK_BYTES: usize = 32;

/// Appends `text`, which is UTF-8, as a quoted JSON string.
pub fn json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    put(out, text, text::json_clean_bytes, json::escape_blocks, put_json);
    out.push(b'"');
}

/// Appends `text`, which is UTF-8, as the content of an XML element. Carriage returns survive the
/// parser's line-end normalisation, for message digests depend on them; characters that XML 1.0
/// cannot express become U+FFFD.
pub fn xml_text(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len());
    let mut put = |text| put(out, text, text::xml_clean_bytes, xml::escape_blocks, put_xml);
    if text::has_noncharacter(text) {
        let replaced = String::from_utf8_lossy(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        return put(replaced.as_bytes());
    }
    put(text);
}

/// Appends `text`: what `clean_bytes` counts as it is, behind it what `escape_blocks` can escape,
/// and what is left of that by `put_block`.
#[inline(always)]
fn put(
    out: &mut Vec<u8>,
    text: &[u8],
    clean_bytes: impl Fn(&[u8]) -> usize,
    escape_blocks: impl Fn(&mut Vec<u8>, &[u8]) -> usize,
    put_block: impl Fn(&mut Vec<u8>, &[u8]),
) {
    let mut rest = text;
    loop {
        let (clean, dirty) = rest.split_at(clean_bytes(rest).min(rest.len()));
        out.extend_from_slice(clean);
        if dirty.is_empty() {
            break;
        }
        let left = dirty.get(escape_blocks(out, dirty)..).unwrap_or_default();
        let (block, behind) = left.split_at(left.len().min(BLOCK_BYTES));
        put_block(out, block);
        rest = behind;
    }
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

fn put_xml(out: &mut Vec<u8>, block: &[u8]) {
    for byte in block {
        match xml::entity(*byte) {
            Some(entity) => out.extend_from_slice(entity.as_bytes()),
            None => out.push(*byte),
        }
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

    proptest! {
        /// As where nothing is escaped in blocks, because the processor cannot.
        #[test]
        fn json_is_escaped_the_same_on_every_processor(
            text in r#"(\PC|["\\\x00-\x1f]{1,40}|[a-z ]{30,70}){0,8}"#,
        ) {
            let mut out = b"\"".to_vec();
            put(&mut out, text.as_bytes(), text::json_clean_bytes, |_, _| 0, put_json);
            out.push(b'"');

            let expected = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(str::from_utf8(&out).unwrap(), expected);
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
