//! SEARCH: series by schema and words.
//!
//! `{AWS/SQS,QueueName} MetricName="NumberOfMessagesSent" orders` finds that metric of all queues
//! whose name contains `orders`. Within the braces stand the name space and the exact set of
//! dimension names; without braces any series may match. A word without `=` is looked for in the
//! metric's name, the name space and the values of the dimensions, ignoring case. All words must
//! match, `OR` between words offers alternatives, `NOT` before a word excludes.

use millrace_core::Timestamp;

use super::budget::Budget;
use super::{MathError, SERIES_MAX, Span};
use crate::{ListFilter, Listed, MetricStore};

struct Word {
    /// `MetricName`, `Namespace` or a dimension; none: any of them.
    key: Option<String>,
    text: String,
    /// In quotes: the whole value must be the text.
    is_exact: bool,
    is_excluded: bool,
}

pub(super) fn search(
    store: &MetricStore,
    text: &str,
    span: &Span,
    budget: &mut Budget,
) -> Result<Vec<Listed>, MathError> {
    let (schema, words) = match text.trim_start().strip_prefix('{') {
        Some(rest) => {
            let end = rest.split_once('}');
            let (schema, words) = end.ok_or_else(|| MathError::new("SEARCH lacks a }"))?;
            (Some(schema), words)
        }
        None => (None, text),
    };
    let mut parts = schema.unwrap_or_default().split(',').map(|part| part.trim().trim_matches('"'));
    let namespace = parts.next().filter(|namespace| !namespace.is_empty());
    let mut dimensions: Vec<&str> = parts.collect();
    dimensions.sort_unstable();
    let alternatives = words_of(words)?;
    let filter = ListFilter { namespace, ..ListFilter::default() };
    let listed = store.list(&span.scope, &filter, Timestamp(span.start_s * 1000));
    budget.take(listed.len())?;
    let matches = |listed: &Listed| {
        let names = || listed.dimensions.iter().map(|(name, _)| name.as_str());
        (schema.is_none() || names().eq(dimensions.iter().copied()))
            && alternatives.iter().any(|words| words.iter().all(|word| word.matches(listed)))
    };
    Ok(listed.into_iter().filter(matches).take(SERIES_MAX).collect())
}

/// Alternatives, each of which is words that must all match.
fn words_of(text: &str) -> Result<Vec<Vec<Word>>, MathError> {
    let mut alternatives = vec![Vec::new()];
    let mut is_excluded = false;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (head, is_quoted, tail) = next_word(rest)?;
        rest = tail;
        match head.as_str() {
            "AND" if !is_quoted => {}
            "NOT" if !is_quoted => is_excluded = true,
            "OR" if !is_quoted => alternatives.push(Vec::new()),
            _ => {
                let (key, text, is_exact) = match rest.strip_prefix('=') {
                    Some(tail) => {
                        let (text, is_exact, tail) = next_word(tail.trim_start())?;
                        rest = tail;
                        (Some(head), text, is_exact)
                    }
                    None => (None, head, is_quoted),
                };
                let word =
                    Word { key, text, is_exact, is_excluded: std::mem::take(&mut is_excluded) };
                if let Some(words) = alternatives.last_mut() {
                    words.push(word);
                }
            }
        }
    }
    Ok(alternatives)
}

/// The next word, whether it stands in quotes, and what follows it.
fn next_word(text: &str) -> Result<(String, bool, &str), MathError> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.split_once('"');
        let (word, tail) = end.ok_or_else(|| MathError::new("a text in SEARCH has no end"))?;
        return Ok((word.to_owned(), true, tail.trim_start()));
    }
    let len = text.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(text.len());
    let (word, tail) = text.split_at(len);
    if word.is_empty() || word.contains(['(', ')']) {
        return Err(MathError::new("SEARCH has no brackets here"));
    }
    Ok((word.to_owned(), false, tail.trim_start()))
}

impl Word {
    fn matches(&self, listed: &Listed) -> bool {
        let dimensions = || listed.dimensions.iter();
        let found = match self.key.as_deref() {
            Some("MetricName") => self.is_in(&listed.metric),
            Some("Namespace") => self.is_in(&listed.namespace),
            Some(key) => dimensions().any(|(name, value)| name == key && self.is_in(value)),
            None => {
                self.is_in(&listed.metric)
                    || self.is_in(&listed.namespace)
                    || dimensions().any(|(_, value)| self.is_in(value))
            }
        };
        found != self.is_excluded
    }

    fn is_in(&self, value: &str) -> bool {
        if self.is_exact {
            return value == self.text;
        }
        value.to_lowercase().contains(&self.text.to_lowercase())
    }
}
