//! How far apart data points are, by their age.

use crate::{BASE_PERIOD_S, FIVE_MINUTES_KEPT_S, HOURS_KEPT_S, MINUTES_KEPT_S};

pub(crate) const DAY_S: u64 = 86_400;
pub(crate) const MINUTES_OF_DAY: u16 = 1_440;

/// How far apart data points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resolution {
    Minute,
    FiveMinutes,
    Hour,
}

impl Resolution {
    pub(crate) const ALL: [Resolution; 3] =
        [Resolution::Minute, Resolution::FiveMinutes, Resolution::Hour];

    pub(crate) fn period_minutes(self) -> u16 {
        match self {
            Resolution::Minute => 1,
            Resolution::FiveMinutes => 5,
            Resolution::Hour => 60,
        }
    }

    pub(crate) fn period_s(self) -> u64 {
        u64::from(self.period_minutes()) * BASE_PERIOD_S
    }

    /// How long its data points are kept after the end of their day.
    pub(crate) fn kept_s(self) -> u64 {
        match self {
            Resolution::Minute => MINUTES_KEPT_S,
            Resolution::FiveMinutes => FIVE_MINUTES_KEPT_S,
            Resolution::Hour => HOURS_KEPT_S,
        }
    }

    /// The resolution that follows; after the last one, data points are dropped.
    pub(crate) fn coarser(self) -> Option<Resolution> {
        match self {
            Resolution::Minute => Some(Resolution::FiveMinutes),
            Resolution::FiveMinutes => Some(Resolution::Hour),
            Resolution::Hour => None,
        }
    }
}
