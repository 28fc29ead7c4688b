//! How many requests a server lets a connection serve. Some announce the last answer, some just
//! stop; both do it by count often enough that the count is worth learning: the spare is then
//! opened before it is needed.

use std::sync::{Mutex, PoisonError};

/// Below that, equal counts may be chance, and spares would double the connections.
const REQUESTS_MIN: u64 = 8;
/// How many requests before the end the spare is opened.
const SPARE_LEAD: u64 = 2;
/// Of that many connections that could be retired one goes on, to see whether it dies at all: what
/// was learned may have been chance, or the server is another one by now.
const TRY_EVERY: u32 = 16;

/// What has been learned about one endpoint.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    /// A lock because every answer looks; held for a few comparisons.
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    last_seen: Option<(u64, Ending)>,
    learned: Option<(u64, Ending)>,
    /// Connections at the limit of a silent end since it was learned.
    at_limit: u32,
}

/// How a server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Announced,
    Silent,
}

/// What to do with a connection that has just served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Keep,
    /// Keep it, and open a spare now.
    OpenSpare,
    /// It would die silently under the next request.
    Retire,
}

impl Lifetime {
    /// The server ended a connection that had served that many.
    pub(super) fn ended(&self, served: u64, ending: Ending) {
        self.locked(|state| {
            let seen = (served, ending);
            if served >= REQUESTS_MIN && state.last_seen == Some(seen) {
                state.learned = Some(seen);
                state.at_limit = 0;
            }
            state.last_seen = Some(seen);
        });
    }

    /// What to do with a connection that has served that many and is still open.
    pub(super) fn advise(&self, served: u64) -> Advice {
        self.locked(|state| match state.learned {
            Some((limit, Ending::Silent)) if served == limit => {
                state.at_limit = state.at_limit.wrapping_add(1);
                if state.at_limit.is_multiple_of(TRY_EVERY) { Advice::Keep } else { Advice::Retire }
            }
            Some((limit, _)) if served >= limit => {
                // It outlived what was learned.
                *state = State::default();
                Advice::Keep
            }
            Some((limit, _)) if served + SPARE_LEAD == limit => Advice::OpenSpare,
            _ => Advice::Keep,
        })
    }

    /// After how many requests connections end, as far as is known.
    pub(super) fn learned(&self) -> Option<u64> {
        self.locked(|state| state.learned.map(|(limit, _)| limit))
    }

    fn locked<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_seen_twice_in_a_row_is_learned() {
        let lifetime = Lifetime::default();
        lifetime.ended(80, Ending::Announced);
        assert_eq!(lifetime.learned(), None);
        lifetime.ended(80, Ending::Announced);

        assert_eq!(lifetime.learned(), Some(80));
        let advice = [77, 78, 79].map(|served| lifetime.advise(served));
        assert_eq!(advice, [Advice::Keep, Advice::OpenSpare, Advice::Keep]);
    }

    #[test]
    fn different_or_small_counts_teach_nothing() {
        let lifetime = Lifetime::default();
        for served in [80, 81, 80, 3, 3, 3] {
            lifetime.ended(served, Ending::Silent);
        }
        assert_eq!(lifetime.learned(), None);
    }

    #[test]
    fn silent_ends_are_forestalled_and_announced_ones_may_be_outlived() {
        let silent = Lifetime::default();
        let announced = Lifetime::default();
        for _ in 0..2 {
            silent.ended(20, Ending::Silent);
            announced.ended(20, Ending::Announced);
        }

        assert_eq!(silent.advise(20), Advice::Retire);
        assert_eq!(silent.learned(), Some(20));
        assert_eq!(announced.advise(20), Advice::Keep);
        assert_eq!(announced.learned(), None);
    }

    #[test]
    fn now_and_then_a_connection_may_outlive_a_silent_end() {
        let lifetime = Lifetime::default();
        let learn = || (0..2).for_each(|_| lifetime.ended(20, Ending::Silent));
        let retired = || (1..).take_while(|_| lifetime.advise(20) == Advice::Retire).count();
        learn();

        assert_eq!(retired(), 15);
        lifetime.ended(20, Ending::Silent);
        assert_eq!(lifetime.learned(), Some(20), "it died, as was learned");

        assert_eq!(retired(), 15);
        assert_eq!(lifetime.advise(21), Advice::Keep);
        assert_eq!(lifetime.learned(), None, "it lives");
    }
}
