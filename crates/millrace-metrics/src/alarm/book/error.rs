//! Why the book refuses a change.

use std::io;

/// CloudWatch: alarms of an account and region.
pub(super) const ALARMS_MAX: usize = 5_000;
/// Alarms of an account in all regions, which it may name as it likes; of all accounts together there
/// are a tenth more.
pub(super) const ALARMS_OF_ACCOUNT_MAX: usize = if cfg!(test) { 5_500 } else { 100_000 };
/// CloudWatch: tags of a resource.
pub(super) const TAGS_MAX: usize = 50;

/// Why alarms were not changed.
#[derive(Debug, thiserror::Error)]
pub enum AlarmError {
    #[error("there is no alarm of that name")]
    NotFound,
    #[error("there are {ALARMS_MAX} alarms of the region already, or too many of all")]
    TooMany,
    #[error("an alarm has {TAGS_MAX} tags at most")]
    TooManyTags,
    #[error("the file of alarms could not be opened")]
    Unavailable,
    #[error("alarms cannot be written: {0}")]
    Io(#[from] io::Error),
}
