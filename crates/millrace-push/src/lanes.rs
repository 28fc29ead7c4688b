//! Limits on attempts at a time: of one endpoint, and of all.
//!
//! Attempts at endpoints that do not answer take their whole time-out, so they must not take the
//! places of others. There are three lanes of places: for endpoints whose latest attempt was
//! answered promptly, for those that have had no attempt since the start, and for all others. And
//! an endpoint that fails has one attempt under way at a time, until it is answered again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An answer that comes later makes its endpoint one of the slow ones.
const PROMPT_WITHIN: Duration = Duration::from_secs(1);

/// The places of all endpoints.
#[derive(Debug)]
pub(crate) struct Lanes {
    prompt: Arc<Semaphore>,
    new: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

/// A place, held while an attempt goes on.
pub(crate) type Place = OwnedSemaphorePermit;

/// Which lane an endpoint is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Prompt,
    New,
    Slow,
}

impl Lanes {
    /// Half of the places are for prompt endpoints, the others have a quarter each.
    pub(crate) fn new(places: usize) -> Lanes {
        let lane =
            |places: usize| Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)));
        Lanes { prompt: lane(places / 2), new: lane(places / 4), slow: lane(places / 4) }
    }

    /// Waits for a place, in order of arrival. Never `None`: the lanes are not closed. Cancel safe.
    pub(crate) async fn place(&self, lane: Lane) -> Option<Place> {
        let places = match lane {
            Lane::Prompt => &self.prompt,
            Lane::New => &self.new,
            Lane::Slow => &self.slow,
        };
        Arc::clone(places).acquire_owned().await.ok()
    }
}

/// Number of attempts of one endpoint that may go on, as its answers show.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    most: usize,
    lane: Lane,
}

impl Window {
    pub(crate) fn new(most: usize) -> Window {
        Window { size: 1, most: most.max(1), lane: Lane::New }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// An attempt was answered, however, after that long.
    pub(crate) fn answered(&mut self, after: Duration) {
        if after <= PROMPT_WITHIN {
            self.size = self.size.saturating_mul(2).min(self.most);
            self.lane = Lane::Prompt;
        } else {
            self.size = self.size.saturating_add(1).min(self.most);
            self.lane = Lane::Slow;
        }
    }

    /// An attempt had no answer, or one that asks for a pause.
    pub(crate) fn failed(&mut self) {
        self.size = 1;
        self.lane = Lane::Slow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;
    const LATE: Duration = Duration::from_secs(2);

    #[test]
    fn a_window_opens_with_answers_and_closes_with_failures() {
        let mut window = Window::new(6);
        assert_eq!((window.size(), window.lane()), (1, Lane::New), "nothing is known of it");

        for size in [2, 4, 6, 6] {
            window.answered(AT_ONCE);
            assert_eq!((window.size(), window.lane()), (size, Lane::Prompt));
        }
        window.failed();
        assert_eq!((window.size(), window.lane()), (1, Lane::Slow));
        window.answered(LATE);
        assert_eq!((window.size(), window.lane()), (2, Lane::Slow));
        window.answered(AT_ONCE);
        assert_eq!((window.size(), window.lane()), (4, Lane::Prompt));
    }

    #[tokio::test]
    async fn slow_endpoints_take_no_place_of_prompt_ones() {
        let lanes = Lanes::new(8);
        let _slow = [lanes.place(Lane::Slow).await, lanes.place(Lane::Slow).await];
        let _new = [lanes.place(Lane::New).await, lanes.place(Lane::New).await];

        let full = tokio::time::timeout(Duration::from_millis(1), lanes.place(Lane::Slow)).await;
        assert!(full.is_err(), "both places of the lane are taken");
        assert!(lanes.place(Lane::Prompt).await.is_some());
    }
}
