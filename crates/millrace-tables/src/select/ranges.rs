//! Sets of texts as ranges of an index.

use super::ast::Test;

/// The texts from `low` up to, but not including, `high`; without an end if that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub low: String,
    pub high: Option<String>,
}

/// Ranges in ascending order that neither overlap nor touch. None is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    pub(super) fn all() -> Ranges {
        Ranges(vec![Range { low: String::new(), high: None }])
    }

    /// Returns the texts that pass the test, or more of them. Nothing passes `is null`.
    pub(super) fn of(test: &Test) -> Ranges {
        let from = |low: String, high| Ranges::new(vec![Range { low, high }]);
        let one = |text: &str| Range { low: text.to_owned(), high: Some(successor(text)) };
        match test {
            Test::Equal(value) => Ranges::new(vec![one(value)]),
            Test::NotEqual(value) => Ranges::new(vec![
                Range { low: String::new(), high: Some(value.clone()) },
                Range { low: successor(value), high: None },
            ]),
            Test::Less(value) => from(String::new(), Some(value.clone())),
            Test::LessOrEqual(value) => from(String::new(), Some(successor(value))),
            Test::Greater(value) => from(successor(value), None),
            Test::GreaterOrEqual(value) => from(value.clone(), None),
            Test::Like(pattern) if pattern.is_text() => Ranges::new(vec![one(pattern.prefix())]),
            Test::Like(pattern) => {
                from(pattern.prefix().to_owned(), behind_prefix(pattern.prefix()))
            }
            Test::Between(low, high) => from(low.clone(), Some(successor(high))),
            Test::In(values) => Ranges::new(values.iter().map(|value| one(value)).collect()),
            Test::NotLike(_) | Test::IsNotNull => Ranges::all(),
            Test::IsNull => Ranges::default(),
        }
    }

    /// Returns true if [`Ranges::of`] has no more than what passes.
    pub(super) fn are_exact(test: &Test) -> bool {
        match test {
            Test::Like(pattern) => pattern.is_text() || pattern.is_prefix(),
            Test::NotLike(_) | Test::IsNull => false,
            _ => true,
        }
    }

    pub(super) fn as_slice(&self) -> &[Range] {
        &self.0
    }

    pub(super) fn contain(&self, text: &str) -> bool {
        self.0.iter().any(|range| {
            range.low.as_str() <= text && range.high.as_deref().is_none_or(|high| text < high)
        })
    }

    pub(super) fn union(&self, other: &Ranges) -> Ranges {
        Ranges::new([self.0.as_slice(), other.0.as_slice()].concat())
    }

    pub(super) fn intersection(&self, other: &Ranges) -> Ranges {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |two| (one, two)));
        let common = pairs.map(|(one, two)| Range {
            low: one.low.as_str().max(two.low.as_str()).to_owned(),
            high: match (&one.high, &two.high) {
                (Some(one), Some(two)) => Some(one.min(two).clone()),
                (one, two) => one.as_ref().or(two.as_ref()).cloned(),
            },
        });
        Ranges::new(common.collect())
    }

    /// Returns the one range from the first text to the end of the last.
    pub(super) fn with_no_start(&self) -> Ranges {
        let Some(last) = self.0.last() else { return Ranges::default() };
        Ranges(vec![Range { low: String::new(), high: last.high.clone() }])
    }

    /// Returns the one range from the first text on.
    pub(super) fn with_no_end(&self) -> Ranges {
        let Some(first) = self.0.first() else { return Ranges::default() };
        Ranges(vec![Range { low: first.low.clone(), high: None }])
    }

    fn new(mut ranges: Vec<Range>) -> Ranges {
        ranges.retain(|range| range.high.as_ref().is_none_or(|high| range.low < *high));
        ranges.sort_by(|one, two| one.low.cmp(&two.low));
        let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if last.high.as_ref().is_none_or(|high| range.low <= *high) => {
                    last.high = match (last.high.take(), range.high) {
                        (Some(one), Some(two)) => Some(one.max(two)),
                        _ => None,
                    };
                }
                _ => merged.push(range),
            }
        }
        Ranges(merged)
    }
}

/// The text that follows `text` in the order of bytes.
pub(super) fn successor(text: &str) -> String {
    format!("{text}\0")
}

/// The first text behind all that start with `prefix`, if there is one. The order of UTF-8 bytes is
/// that of characters.
fn behind_prefix(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::*;

    #[test]
    fn ranges_hold_what_passes() {
        let like = |pattern: &str| Test::Like(Pattern::parse(pattern));
        let text = |text: &str| text.to_owned();
        let tests = [
            Test::Equal(text("b")),
            Test::NotEqual(text("b")),
            Test::Less(text("b")),
            Test::LessOrEqual(text("b")),
            Test::Greater(text("b")),
            Test::GreaterOrEqual(text("b")),
            Test::Between(text("a"), text("b")),
            Test::Between(text("b"), text("a")),
            Test::In(vec![text("b"), text("a"), text("b"), text("")]),
            like("b"),
            like("b%"),
            like("%b"),
            like("b%c"),
            like("%"),
            like("\u{10ffff}%"),
            like("a\u{10ffff}%"),
            like("\u{d7ff}%"),
            Test::NotLike(Pattern::parse("b%")),
            Test::IsNull,
            Test::IsNotNull,
        ];
        let texts = [
            "",
            "\0",
            "a",
            "a\0",
            "aa",
            "a\u{10ffff}",
            "a\u{10ffff}\0",
            "b",
            "b\0",
            "bc",
            "bac",
            "c",
            "\u{d7ff}",
            "\u{d7ff}x",
            "\u{e000}",
            "\u{10ffff}",
            "\u{10ffff}\u{10ffff}",
        ];
        for test in &tests {
            let ranges = Ranges::of(test);
            for text in texts {
                let (passes, is_in) = (test.passes(text), ranges.contain(text));
                assert!(is_in || !passes, "{test:?} {text:?}");
                assert!(is_in == passes || !Ranges::are_exact(test), "{test:?} {text:?}");
            }
        }
        for (one, two) in tests.iter().flat_map(|one| tests.iter().map(move |two| (one, two))) {
            let (one, two) = (Ranges::of(one), Ranges::of(two));
            let (both, either) = (one.intersection(&two), one.union(&two));
            for text in texts {
                assert_eq!(both.contain(text), one.contain(text) && two.contain(text));
                assert_eq!(either.contain(text), one.contain(text) || two.contain(text));
            }
        }
    }
}
