//! What the file of the alarms holds.

use serde::{Deserialize, Serialize};

use crate::Scope;
use crate::alarm::outbox::Owed;
use crate::alarm::{Alarm, Change, HistoryItem};

#[derive(Serialize, Deserialize)]
pub(super) enum Frame {
    Alarm(Box<Alarm>),
    Deleted {
        scope: Scope,
        name: String,
    },
    History(HistoryItem),
    /// A change of state, its item of the history and the actions that it owes: all or nothing.
    Entered {
        id: u64,
        change: Box<Change>,
        item: HistoryItem,
    },
    /// What is left of a change's actions, where the file was written anew.
    Owed(Box<Owed>),
    /// An action is done, or cannot be done.
    Acted {
        id: u64,
        arn: String,
        item: HistoryItem,
    },
}
