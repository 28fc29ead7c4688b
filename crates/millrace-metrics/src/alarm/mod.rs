//! Alarms: a query, a threshold, and how many data points must cross it.

mod book;
mod outbox;
mod rule;

pub use book::{Alarm, AlarmBook, AlarmError, Change, HistoryItem, HistoryKind, KeptHistory};
pub use outbox::Owed;
pub use rule::{Comparison, MissingData, Rule, State, Verdict};
