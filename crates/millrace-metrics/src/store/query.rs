//! Which series are asked for or listed.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::resolution::Resolution;
use crate::{Entity, Unit};

/// Which series is asked for.
#[derive(Clone, Copy, Debug)]
pub struct SeriesQuery<'a> {
    pub entity: &'a Entity,
    pub metric: &'a str,
    /// None: of any unit.
    pub unit: Option<Unit>,
    pub periods: Periods,
    pub start_s: u64,
    /// Not included.
    pub end_s: u64,
}

/// Periods that begin at an origin and at multiples of their length after and before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    pub origin_s: u64,
    pub period_s: u64,
}

/// Which series are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListFilter<'a> {
    pub namespace: Option<&'a str>,
    pub metric: Option<&'a str>,
    /// Each must be among the dimensions; without a value its name must.
    pub dimensions: &'a [(String, Option<String>)],
    /// Those that come later in the order only.
    pub after: Option<&'a Listed>,
    /// So many of them at most; none: all.
    pub most: Option<usize>,
}

/// Which series are removed: all that are not excluded.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveFilter<'a> {
    pub account: Option<&'a str>,
    pub region: Option<&'a str>,
    pub namespace: Option<&'a str>,
    pub metric: Option<&'a str>,
    /// Each must be among the dimensions.
    pub dimensions: &'a [(String, String)],
}

/// A series that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listed {
    pub namespace: String,
    pub metric: String,
    pub dimensions: Vec<(String, String)>,
}

/// Name space, metric and dimensions of a series, which order as [`Listed`] does.
pub(crate) type Named<'a> = (&'a str, &'a str, &'a [(String, String)]);

impl SeriesQuery<'_> {
    pub(super) fn range_s(&self) -> Range<u64> {
        self.start_s..self.end_s
    }

    pub(super) fn is_for(&self, metric: &str, unit: Unit) -> bool {
        self.metric == metric && self.unit.is_none_or(|wanted| wanted == unit)
    }
}

impl Listed {
    pub(crate) fn of((namespace, metric, dimensions): &Named<'_>) -> Listed {
        Listed {
            namespace: (*namespace).to_owned(),
            metric: (*metric).to_owned(),
            dimensions: dimensions.to_vec(),
        }
    }
}

impl ListFilter<'_> {
    pub(super) fn is_for(&self, entity: &Entity) -> bool {
        let has = |(name, value): &(String, Option<String>)| {
            let mut dimensions = entity.dimensions().iter();
            dimensions.any(|(n, v)| n == name && value.as_ref().is_none_or(|value| value == v))
        };
        self.namespace.is_none_or(|namespace| namespace == entity.namespace)
            && self.dimensions.iter().all(has)
    }
}

impl RemoveFilter<'_> {
    pub(super) fn is_for(&self, entity: &Entity, metric: &str) -> bool {
        let is = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| wanted == text);
        is(self.account, &entity.scope.account)
            && is(self.region, &entity.scope.region)
            && is(self.namespace, &entity.namespace)
            && is(self.metric, metric)
            && self.dimensions.iter().all(|wanted| entity.dimensions().contains(wanted))
    }
}

impl Periods {
    /// The shortest in which there are data points of that age, in seconds.
    pub fn shortest_s(age_s: u64) -> u64 {
        let kept = |resolution: &Resolution| age_s < resolution.kept_s();
        Resolution::ALL.into_iter().find(kept).unwrap_or(Resolution::Hour).period_s()
    }

    /// Whether each data point of those so far apart is of one period. Of shorter periods, or
    /// others in between, nothing can be said: CloudWatch returns no data points for them either.
    pub(super) fn hold_those(self, apart_s: u64) -> bool {
        self.period_s.is_multiple_of(apart_s)
    }

    /// The start of the period that holds a time.
    pub(crate) fn start_of(self, time_s: u64) -> u64 {
        let period_s = self.period_s.max(1);
        match time_s.checked_sub(self.origin_s % period_s) {
            Some(since_s) => time_s - since_s % period_s,
            None => 0,
        }
    }
}
