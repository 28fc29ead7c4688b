//! The patterns of `like`: `%` stands for any text, `\%` for a percent sign.

use std::fmt::{self, Write};

/// A pattern, cut at its wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Never empty. A text matches if it starts with the first piece, ends with the last, and has
    /// the others between, in their order. A single piece is the text.
    pieces: Vec<String>,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Pattern {
        let mut pieces = Vec::new();
        let mut piece = String::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '%' => pieces.push(std::mem::take(&mut piece)),
                '\\' if characters.peek() == Some(&'%') => piece.extend(characters.next()),
                _ => piece.push(character),
            }
        }
        pieces.push(piece);
        Pattern { pieces }
    }

    /// The text that all matches start with.
    pub(super) fn prefix(&self) -> &str {
        self.pieces.first().map_or("", String::as_str)
    }

    /// Returns true if nothing but the prefix is asked for.
    pub(super) fn is_prefix(&self) -> bool {
        matches!(self.pieces.as_slice(), [_, rest @ ..] if !rest.is_empty() && rest.iter().all(String::is_empty))
    }

    /// Returns true if there is no wildcard.
    pub(super) fn is_text(&self) -> bool {
        self.pieces.len() == 1
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self.pieces.as_slice() {
            [] => false,
            [piece] => text == piece,
            [first, between @ .., last] => {
                let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
                for piece in between {
                    // The earliest place leaves the most for the others.
                    let Some((_, behind)) = rest.split_once(piece.as_str()) else { return false };
                    rest = behind;
                }
                rest.ends_with(last.as_str())
            }
        }
    }
}

/// The text of the pattern, as it can be parsed again.
impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.pieces.iter().enumerate() {
            if index > 0 {
                formatter.write_char('%')?;
            }
            formatter.write_str(&piece.replace('%', "\\%"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn percent_stands_for_any_text_unless_escaped() {
        let cases: &[(&str, &str, bool)] = &[
            ("a%", "a", true),
            ("a%", "abc", true),
            ("a%", "ba", false),
            ("a%", "A", false),
            ("%a", "cba", true),
            ("%a", "ab", false),
            ("%b%", "abc", true),
            ("%b%", "ac", false),
            ("%", "", true),
            ("", "", true),
            ("", "a", false),
            ("a%a", "a", false),
            ("a%a", "aa", true),
            ("%ab%ab%", "abab", true),
            ("%ab%ab%", "aba", false),
            ("100\\%", "100%", true),
            ("100\\%", "100x", false),
            ("100\\%%", "100% sure", true),
            ("a\\b%", "a\\bc", true),
            ("_", "a", false),
            ("%é%", "Café au lait", true),
        ];
        for (pattern, text, expected) in cases {
            let parsed = Pattern::parse(pattern);
            assert_eq!(parsed.matches(text), *expected, "{text:?} like {pattern:?}");
            assert_eq!(Pattern::parse(&parsed.to_string()), parsed, "{pattern:?}");
        }
    }
}
