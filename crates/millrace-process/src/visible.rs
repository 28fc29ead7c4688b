//! Text from elsewhere, made safe to show on a terminal.

use std::borrow::Cow;

/// Returns the text with control characters escaped, except line breaks and tabs.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if steers(character) => out.extend(character.escape_default()),
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Includes DEL and U+0080 to U+009F, which JSON does not escape.
fn steers(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(visible("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(visible("\x1b[2J\r\u{9b}\x7f"), "\\u{1b}[2J\\r\\u{9b}\\u{7f}");
    }
}
