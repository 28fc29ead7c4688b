//! Words that are not in quotes match whole tokens of names and values.
//!
//! User guide, "CloudWatch search expressions: Tokenization": a token begins where the case or
//! digits do, and ends before what is neither letter nor digit; all of them together are a token,
//! too. `CustomCount1` has `custom`, `count`, `1` and `customcount1`.

/// What a word looks for.
#[derive(Debug)]
pub(super) struct Pattern {
    parts: Vec<String>,
    /// All of it is letters and digits, so that the case says where its tokens begin.
    is_plain: bool,
}

impl Pattern {
    /// `None`: the word has neither letters nor digits.
    pub(super) fn of(word: &str) -> Option<Pattern> {
        let parts: Vec<String> = parts(word).into_iter().map(str::to_owned).collect();
        let is_plain = word.chars().all(char::is_alphanumeric);
        (!parts.is_empty()).then_some(Pattern { parts, is_plain })
    }

    /// Whether the tokens of the word follow one another in the text. One alone is compared without
    /// its case; several, as in `CustomCount`, with it, unless something stands between them.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let found = parts(text);
        if let [only] = self.parts.as_slice() {
            return found.iter().any(|part| part.eq_ignore_ascii_case(only))
                || found.concat().eq_ignore_ascii_case(only);
        }
        let is_same = |(found, wanted): (&&str, &String)| match self.is_plain {
            true => **found == *wanted,
            false => found.eq_ignore_ascii_case(wanted),
        };
        let mut places = found.windows(self.parts.len());
        places.any(|place| place.iter().zip(&self.parts).all(is_same))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Other,
}

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            c if c.is_numeric() => Kind::Digit,
            c if c.is_uppercase() => Kind::Upper,
            c if c.is_alphabetic() => Kind::Lower,
            _ => Kind::Other,
        }
    }
}

/// The tokens of a text in their order, as they are written.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before = Kind::Other;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let kind = Kind::of(c);
        let next = chars.peek().map_or(Kind::Other, |(_, c)| Kind::of(*c));
        let goes_on = match (before, kind) {
            // The last capital begins a word: `SDBFailure`.
            (Kind::Upper, Kind::Upper) => next != Kind::Lower,
            (Kind::Upper, Kind::Lower) => true,
            (before, kind) => before == kind,
        };
        if !goes_on {
            parts.extend(text.get(start..at).filter(|_| before != Kind::Other));
            start = at;
        }
        before = kind;
    }
    parts.extend(text.get(start..).filter(|_| before != Kind::Other));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_user_guide() {
        assert_eq!(parts("CustomCount1"), ["Custom", "Count", "1"]);
        assert_eq!(parts("SDBFailure"), ["SDB", "Failure"]);
        assert_eq!(parts("Project2-trial333"), ["Project", "2", "trial", "333"]);
        assert_eq!(parts("couNT"), ["cou", "NT"]);
        assert_eq!(parts("--"), [""; 0]);
    }

    #[test]
    fn words_match_whole_tokens() {
        let is_in = |word: &str, text: &str| Pattern::of(word).unwrap().is_in(text);

        for word in ["count", "Count", "COUNT", "CustomCount", "Count1", "1", "Custom"] {
            assert!(is_in(word, "CustomCount1"), "{word}");
        }
        for word in ["couNT", "customcount", "count1", "Cust", "ount", "CountCustom"] {
            assert!(!is_in(word, "CustomCount1"), "{word}");
        }
        for word in ["network/errors", "network+errors", "network-errors", "Network_Errors"] {
            assert!(is_in(word, "Network-Errors-2") && is_in(word, "NetworkErrors2"), "{word}");
        }
        assert!(is_in("customcount", "CustomCount"), "all of it is a token");
        assert!(is_in("orders", "orders-dlq") && !is_in("order", "orders-dlq"));
        assert!(Pattern::of("-").is_none());
    }
}
