//! Alarms: a query, a threshold, and how many data points must cross it.

mod book;
mod configuration;
mod definition;
mod outbox;
mod reason;
mod rule;

pub use book::{AlarmBook, AlarmError, KeptHistory};
pub use definition::{Alarm, Change, HistoryItem, HistoryKind};
pub use outbox::Owed;
pub use reason::time_text;
pub use rule::{Comparison, MissingData, Rule, State, Verdict, Watched, WatchedPoint};
