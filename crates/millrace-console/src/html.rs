//! Text into HTML, safely.

use std::fmt::Write;

/// Text as the content of an element or the value of a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

/// JSON as the content of a `<script type="application/json">`: nothing in it ends the element or
/// begins a comment.
pub(crate) fn json_block(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' => {
                // Writing to memory cannot fail.
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out
}

/// One segment of a path, percent-encoded.
pub(crate) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_does_not_survive() {
        let hostile = r#"<img src=x onerror="alert('1')">&amp;"#;

        let escaped = escape(hostile);

        assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
        assert!(escaped.ends_with("&amp;amp;"));
    }

    #[test]
    fn json_in_a_page_cannot_leave_its_block() {
        let json = serde_json::json!({ "name": "</script><!--<script>&" }).to_string();

        let block = json_block(&json);

        assert!(!block.contains(['<', '>', '&']), "{block}");
        let read: serde_json::Value = serde_json::from_str(&block).unwrap();
        assert_eq!(read["name"], "</script><!--<script>&");
    }
}
