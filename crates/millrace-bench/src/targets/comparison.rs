//! A scenario on Millrace and on the ceiling by turns, and the medians of what the turns found.
//!
//! What belongs together is divided within a round, and the median taken of the shares: a busy
//! moment hits both sides of a round, and not those of another.

use crate::load::Report;
use crate::statistics::median;

/// The ceiling's turn and, right after it, Millrace's.
pub(crate) struct Round {
    pub(crate) own: Report,
    pub(crate) ceiling: Report,
    /// What one fdatasync took between them.
    pub(crate) sync_us: f64,
}

/// All rounds of a scenario.
#[derive(Default)]
pub(crate) struct Comparison {
    pub(crate) rounds: Vec<Round>,
}

impl Round {
    /// Millrace's rate as a share of the ceiling's, which is above zero.
    pub(crate) fn ratio(&self) -> f64 {
        self.own.rate() / self.ceiling.rate()
    }
}

impl Comparison {
    /// Messages a second.
    pub(crate) fn rate(&self) -> f64 {
        self.median(|round| round.own.rate())
    }

    pub(crate) fn ratio(&self) -> f64 {
        self.median(Round::ratio)
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        median(self.rounds.iter().filter_map(|round| round.own.server_cpu_us_per_message()))
    }

    pub(crate) fn sync_us(&self) -> f64 {
        self.median(|round| round.sync_us)
    }

    /// How much of a core the generator took while Millrace answered.
    pub(crate) fn generator(&self) -> f64 {
        self.median(|round| round.own.own_cores())
    }

    /// How many times the ceiling's value ours is.
    pub(crate) fn times(&self, value: impl Fn(&Report) -> f64) -> f64 {
        self.median(|round| value(&round.own) / value(&round.ceiling).max(1.0))
    }

    /// The median of what each round comes to.
    pub(crate) fn median(&self, value: impl FnMut(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(value))
    }
}
