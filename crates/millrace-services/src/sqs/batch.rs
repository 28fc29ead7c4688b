//! What all batch actions check of the batch as a whole.

use millrace_core::limits;
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
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let has_length = (1..=limits::BATCH_ENTRY_ID_CHARS).contains(&id.len());
        if !has_length || !id.bytes().all(is_allowed) {
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
