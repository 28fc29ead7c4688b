//! What the answer to a call means for each message that the call was about.

use millrace_client::{CallError, CallErrorKind, EntryError};

use crate::settlement::CallEnd;

/// What an answer means for one entry.
pub(super) enum Answer {
    Done,
    Failed(String),
    Refused(String),
}

/// What an answer means for all entries of a call.
pub(super) struct Answers {
    pub(super) call: CallEnd,
    /// One for each.
    pub(super) entries: Vec<Answer>,
}

/// One answer for each of `count` entries; entries without one have failed.
pub(super) fn answers<T>(
    count: usize,
    result: Result<Vec<Result<T, EntryError>>, CallError>,
) -> Answers {
    let answer = |result: Result<T, EntryError>| match result {
        Ok(_) => Answer::Done,
        Err(error) if error.is_retryable() => Answer::Failed(error.to_string()),
        Err(error) => Answer::Refused(error.to_string()),
    };
    let mut retry_after = None;
    let is_of_entries = result.is_ok();
    let mut entries: Vec<Answer> = match result {
        Ok(results) => results.into_iter().map(answer).collect(),
        Err(error) => {
            retry_after = error.retry_after;
            // Credentials may be renewed and found again.
            let may_succeed = error.is_retryable() || error.kind == CallErrorKind::Auth;
            let make = if may_succeed { Answer::Failed } else { Answer::Refused };
            (0..count).map(|_| make(error.to_string())).collect()
        }
    };
    entries.resize_with(count, || Answer::Failed("the answer lacks the entry".to_owned()));
    let has_failed = entries.iter().all(|answer| matches!(answer, Answer::Failed(_)));
    let call = match has_failed {
        true if is_of_entries && count == 1 => CallEnd::OneFailed,
        true => CallEnd::Failed { retry_after },
        false => CallEnd::Answered,
    };
    Answers { call, entries }
}
