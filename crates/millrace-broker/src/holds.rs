//! Holds: positions from which somebody still needs the journal. The journal is not shortened
//! behind them. A view holds what it has not yet stored durably itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_journal::{Position, SegmentId};

/// All holds of a journal.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    from: BTreeMap<u64, Position>,
}

/// A hold; dropped, it holds nothing any more.
#[derive(Debug)]
pub struct Hold {
    holds: Arc<Holds>,
    number: u64,
}

impl Holds {
    pub(crate) fn hold_from(self: &Arc<Holds>, position: Position) -> Hold {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        state.from.insert(number, position);
        Hold { holds: Arc::clone(self), number }
    }

    /// The oldest segment that is held.
    pub(crate) fn oldest_segment(&self) -> Option<SegmentId> {
        self.state().from.values().min().map(|position| position.segment())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// Where it begins.
    pub(crate) fn from(&self) -> Option<Position> {
        self.holds.state().from.get(&self.number).copied()
    }

    /// Holds the journal from `position` on instead. It is to be further on: what is before may
    /// be gone.
    pub fn move_to(&self, position: Position) {
        self.holds.state().from.insert(self.number, position);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.state().from.remove(&self.number);
    }
}
