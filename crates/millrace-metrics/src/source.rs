//! Where the values of the minute that has not ended come from.

use millrace_core::Timestamp;

use crate::{Entity, Summary, Unit};

/// Gathers values by itself, for instance the counters of queues. The store closes each minute of
/// it and looks into the present one when it is asked about it.
pub trait Source: Send + Sync {
    /// What this entity has gathered since the last close; nothing if it is not of this source.
    fn peek(&self, entity: &Entity, now: Timestamp) -> Vec<Value>;

    /// What all have gathered since the last close. Gathering begins anew.
    fn close(&self, now: Timestamp) -> Vec<Sample>;
}

/// What one entity has gathered.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub entity: Entity,
    pub values: Vec<Value>,
}

/// One metric of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub metric: &'static str,
    pub unit: Unit,
    /// What it was, for gauges; what was counted, for counters.
    pub summary: Summary,
    /// Whether it goes on as it is while nothing happens; what is counted is zero then.
    pub is_gauge: bool,
}
