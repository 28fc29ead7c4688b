//! Batches, entry by entry.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytestring::ByteString;
use tokio::time::Instant;

use super::Retry;
use crate::error::{CallError, CallErrorKind, EntryError};

/// Entries of ordered groups may be sent again that long after an attempt that may have stored
/// them. Then they would be stored twice, and out of order: SQS forgets a deduplication id after
/// five minutes, of which the attempt itself gets one.
const REPEAT_ORDERED_MAX: Duration = Duration::from_secs(240);

type Outcomes<T> = Vec<Result<T, EntryError>>;

/// Entries that go over the wire together, and how often they did.
struct Part {
    indices: Vec<usize>,
    retries: u32,
    wait: Option<Duration>,
    /// Not to be sent again after that.
    until: Option<Instant>,
}

/// What is known of the entries.
struct Decided<T> {
    outcomes: Vec<Option<Result<T, EntryError>>>,
    /// Why entries without an outcome have none: the last call that carried them failed so.
    failures: Vec<Option<EntryError>>,
    /// That of the last call that failed as a whole.
    error: Option<CallError>,
}

impl Retry {
    /// Makes a batch call. Entries that failed and may succeed are sent again without the others,
    /// and a batch that is too large is halved. An entry behind which one of its group was accepted
    /// is not sent again: it would stand in the wrong place. Nor are entries of groups, once they
    /// may no longer be recognised as repeated. Fails as a whole if no entry got an answer.
    pub(super) async fn entries<E, T, F>(
        &self,
        entries: &[E],
        group: impl Fn(&E) -> Option<&ByteString>,
        call: impl Fn(Vec<E>) -> F,
    ) -> Result<Outcomes<T>, CallError>
    where
        E: Clone,
        F: Future<Output = Result<Outcomes<T>, CallError>>,
    {
        let mut decided = Decided::none_of(entries.len());
        let whole =
            Part { indices: (0..entries.len()).collect(), retries: 0, wait: None, until: None };
        let is_ordered = entries.iter().any(|entry| group(entry).is_some());
        let mut parts = VecDeque::from([whole]);

        while let Some(mut part) = parts.pop_front() {
            if part.retries > 0 && !self.wait(part.retries, part.wait, part.until).await {
                continue;
            }
            if !self.pace.admit_until(part.until).await {
                continue;
            }
            let begun = Instant::now();
            let batch = part.indices.iter().filter_map(|index| entries.get(*index).cloned());
            match self.attempt(call(batch.collect())).await {
                Ok(outcomes) => {
                    let group = |index| entries.get(index).and_then(&group);
                    let failed = decided.note(&part.indices, outcomes, group);
                    if !failed.is_empty() {
                        parts.push_front(Part { indices: failed, ..part }.again(None));
                    }
                }
                Err(error) if error.kind == CallErrorKind::BatchTooLarge && part.is_divisible() => {
                    // In order, for those of a FIFO group.
                    let (first, second) = part.halves();
                    parts.push_front(second);
                    parts.push_front(first);
                }
                Err(error) => {
                    if is_ordered && error.is_ambiguous {
                        part.until.get_or_insert(begun + REPEAT_ORDERED_MAX);
                    }
                    decided.fail(&part.indices, &error);
                    if error.is_retryable() {
                        parts.push_front(part.again(error.retry_after));
                    }
                }
            }
        }
        decided.finish()
    }
}

impl<T> Decided<T> {
    fn none_of(count: usize) -> Decided<T> {
        let mut outcomes = Vec::new();
        outcomes.resize_with(count, || None);
        Decided { outcomes, failures: vec![None; count], error: None }
    }

    /// Notes the outcomes of the entries at `indices`; returns the indices to try again.
    fn note<'g>(
        &mut self,
        indices: &[usize],
        outcomes: Outcomes<T>,
        group: impl Fn(usize) -> Option<&'g ByteString>,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        let mut accepted = HashSet::new();
        for (index, outcome) in indices.iter().zip(outcomes).rev() {
            let group = group(*index);
            let is_overtaken = group.is_some_and(|group| accepted.contains(group));
            match &outcome {
                Ok(_) => accepted.extend(group),
                Err(error) if error.is_retryable() && !is_overtaken => again.push(*index),
                Err(_) => {}
            }
            if let Some(slot) = self.outcomes.get_mut(*index) {
                *slot = Some(outcome);
            }
        }
        again.reverse();
        again
    }

    /// The call for the entries at `indices` failed as a whole. What an earlier one may have done
    /// stays open.
    fn fail(&mut self, indices: &[usize], error: &CallError) {
        for index in indices {
            if let Some(failure) = self.failures.get_mut(*index) {
                let is_final = !error.is_retryable();
                *failure = Some(EntryError::new(&error.code, &error.message, is_final));
            }
        }
        let was_ambiguous = self.error.as_ref().is_some_and(|earlier| earlier.is_ambiguous);
        let is_ambiguous = error.is_ambiguous || was_ambiguous;
        self.error = Some(CallError { is_ambiguous, ..error.clone() });
    }

    fn finish(self) -> Result<Outcomes<T>, CallError> {
        if let Some(error) = self.error
            && self.outcomes.iter().all(Option::is_none)
        {
            return Err(error);
        }
        let left_out = || EntryError::new("NotAnswered", "the answer leaves the entry out", false);
        let decided = self.outcomes.into_iter().zip(self.failures);
        Ok(decided
            .map(|(outcome, failure)| {
                outcome.unwrap_or_else(|| Err(failure.unwrap_or_else(left_out)))
            })
            .collect())
    }
}

impl Part {
    fn again(self, wait: Option<Duration>) -> Part {
        Part { retries: self.retries + 1, wait, ..self }
    }

    fn is_divisible(&self) -> bool {
        self.indices.len() > 1
    }

    fn halves(mut self) -> (Part, Part) {
        let second = self.indices.split_off(self.indices.len() / 2);
        let until = self.until;
        let part = |indices| Part { indices, retries: 0, wait: None, until };
        (part(self.indices), part(second))
    }
}
