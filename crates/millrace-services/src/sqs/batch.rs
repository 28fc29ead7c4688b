//! What all batch actions check of the batch as a whole.

use millrace_core::{is_plain_name, limits};
use millrace_wire::ApiError;
use millrace_wire::sqs::{FailedEntry, Text};

use super::error;

/// Checks number and ids of a batch's entries; `entry` is the name of one in error texts.
pub(crate) fn check<'r>(
    ids: impl ExactSizeIterator<Item = Option<&'r Text<'r>>> + Clone,
    entry: &str,
) -> Result<(), ApiError> {
    if ids.len() == 0 {
        return Err(error::empty_batch(entry));
    }
    if ids.len() > limits::BATCH_ENTRIES {
        return Err(error::too_many_entries(ids.len()));
    }
    for (number, id) in (1..).zip(ids.clone()) {
        let Some(id) = id.map(Text::as_str) else {
            return Err(ApiError::missing_parameter(&format!("{entry}.{number}.Id")));
        };
        let has_length = (1..=limits::BATCH_ENTRY_ID_CHARS).contains(&id.len());
        if !has_length || !is_plain_name(id) {
            return Err(error::invalid_batch_entry_id());
        }
    }
    // So few are compared with one another sooner than hashed.
    let texts = ids.flatten().map(Text::as_str);
    let mut numbered = texts.clone().enumerate();
    match numbered.find(|(number, id)| texts.clone().take(*number).any(|before| before == *id)) {
        Some((_, repeated)) => Err(error::batch_entry_ids_not_distinct(repeated)),
        None => Ok(()),
    }
}

/// A batch entry's failure: legacy code in both protocols.
pub(crate) fn failed(id: Option<&Text<'_>>, error: ApiError) -> FailedEntry {
    FailedEntry {
        id: id.map(|id| id.as_str().to_owned()).unwrap_or_default(),
        code: error.code,
        sender_fault: error.is_sender_fault(),
        message: error.message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_small_and_their_ids_differ() {
        let code = |ids: &[Option<&str>]| {
            let ids: Vec<Option<Text<'_>>> = ids.iter().map(|id| id.map(Into::into)).collect();
            check(ids.iter().map(Option::as_ref), "Entry").err().map(|error| error.code)
        };
        let numbered: Vec<String> = (0..11).map(|number| number.to_string()).collect();
        let numbered: Vec<Option<&str>> = numbered.iter().map(|id| Some(&**id)).collect();
        let long = "x".repeat(81);

        assert_eq!(code(&numbered[..10]), None);
        assert_eq!(code(&[Some(&long[..80])]), None);
        assert_eq!(code(&[Some("aZ_-9")]), None);
        for (ids, part) in [
            (&[][..], "EmptyBatchRequest"),
            (&numbered, "TooManyEntriesInBatchRequest"),
            (&[None], "MissingParameter"),
            (&[Some("")], "InvalidBatchEntryId"),
            (&[Some(&*long)], "InvalidBatchEntryId"),
            (&[Some("a b")], "InvalidBatchEntryId"),
            (&[Some("a"), Some("b"), Some("a")], "BatchEntryIdsNotDistinct"),
        ] {
            let code = code(ids).unwrap();
            assert!(code.contains(part), "{code} for {ids:?}");
        }
    }
}
