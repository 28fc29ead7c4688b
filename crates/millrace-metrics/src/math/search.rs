//! SEARCH: series by schema and words.
//!
//! `{AWS/SQS,QueueName} MetricName="NumberOfMessagesSent" orders` finds that metric of all queues
//! with `orders` in their names. Within the braces stand the name space and the exact set of
//! dimension names; without braces any series may match. A word is looked for in the metric's name,
//! the name space, and the names and values of the dimensions: whole tokens of them, or all of it
//! if the word stands in quotes.

mod parse;
mod tokens;

use millrace_core::Timestamp;

use self::parse::{Search, Term, Wanted};
use super::budget::Budget;
use super::{MathError, SERIES_MAX, Span};
use crate::store::Named;
use crate::{ListFilter, Listed, MetricStore};

/// Words that are looked for in a series in the time that a data point takes.
const WORDS_PER_POINT: usize = 4;
/// What is measured and passed over in that time.
const ENTITIES_PER_POINT: usize = 4;

pub(super) fn search(
    store: &MetricStore,
    text: &str,
    span: &Span,
    budget: &mut Budget,
) -> Result<Vec<Listed>, MathError> {
    let search = parse::parse(text)?;
    let namespace = search.schema.as_ref().map(|schema| schema.namespace.as_str());
    let filter = ListFilter { namespace, ..ListFilter::default() };
    budget.look(store.entities(&span.scope) / ENTITIES_PER_POINT)?;
    let words = search.term.as_ref().map_or(0, Term::words);
    store.look_through(&span.scope, &filter, Timestamp(span.start_s * 1000), |series| {
        let mut found = Vec::new();
        for named in series {
            budget.look(1 + words / WORDS_PER_POINT)?;
            found.extend(search.finds(&named).then_some(named));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found.iter().take(SERIES_MAX).map(Listed::of).collect())
    })
}

impl Search {
    fn finds(&self, named: &Named<'_>) -> bool {
        let names = || named.2.iter().map(|(name, _)| name);
        self.schema.as_ref().is_none_or(|schema| names().eq(&schema.dimensions))
            && self.term.as_ref().is_none_or(|term| term.is_for(named))
    }
}

impl Term {
    fn words(&self) -> usize {
        match self {
            Term::Any(terms) | Term::All(terms) => terms.iter().map(Term::words).sum(),
            Term::Not(term) => term.words(),
            Term::Word { .. } => 1,
        }
    }

    fn is_for(&self, named: &Named<'_>) -> bool {
        let (namespace, metric, dimensions) = named;
        let mut dimensions = dimensions.iter();
        match self {
            Term::Any(terms) => terms.iter().any(|term| term.is_for(named)),
            Term::All(terms) => terms.iter().all(|term| term.is_for(named)),
            Term::Not(term) => !term.is_for(named),
            Term::Word { property, wanted } => match property.as_deref() {
                Some("MetricName") => wanted.is_in(metric),
                Some("Namespace") => wanted.is_in(namespace),
                Some(key) => dimensions.any(|(name, value)| name == key && wanted.is_in(value)),
                None => {
                    wanted.is_in(metric)
                        || wanted.is_in(namespace)
                        || dimensions.any(|(name, value)| wanted.is_in(name) || wanted.is_in(value))
                }
            },
        }
    }
}

impl Wanted {
    fn is_in(&self, text: &str) -> bool {
        match self {
            Wanted::Exactly(wanted) => text == wanted,
            Wanted::Tokens(pattern) => pattern.is_in(text),
        }
    }
}
