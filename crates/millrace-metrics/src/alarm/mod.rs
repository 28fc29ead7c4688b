//! Alarms: a query, a threshold, and how many data points must cross it. All of it is pure, and JSON
//! on disk; who keeps alarms is another's business.

mod change;
mod configuration;
mod definition;
mod history;
mod old_file;
mod reason;
mod rule;

pub use change::{Change, Owed};
pub use configuration::Step;
pub use definition::Alarm;
pub use history::{HistoryItem, HistoryKind};
pub use old_file::OldAlarms;
pub use reason::time_text;
pub use rule::{Comparison, MissingData, Rule, State, Verdict, Watched, WatchedPoint};
