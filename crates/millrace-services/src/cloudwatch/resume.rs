//! What was active when the process before ended, as its metrics show.

use millrace_core::Timestamp;
use millrace_metrics::{
    BASE_PERIOD_S, Entity, MetricStore, Periods, Point, SeriesQuery, StoreError,
};

/// CloudWatch: a queue or topic has metrics up to six hours after it was last active.
pub(super) const ACTIVE_S: u64 = 6 * 3_600;
/// Where the metrics before a restart are looked for first.
const SHORT_RESTART_S: u64 = 300;
/// Entities whose metrics before a restart are read together.
const ENTITIES_PER_READ: usize = 1_000;

/// The metrics that an entity has begun to have, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Begun(u16);

impl Begun {
    /// The numbers of the metrics, 15 at most.
    pub(super) fn of(metrics: impl Iterator<Item = usize>) -> Begun {
        Begun(metrics.fold(0, |bits, metric| bits | 1 << metric))
    }

    pub(super) fn has(self, metric: usize) -> bool {
        self.0 & 1 << metric != 0
    }

    pub(super) fn and(self, other: Begun) -> Begun {
        Begun(self.0 | other.0)
    }
}

/// Entities that are active until `until` unless they are used again.
pub(super) struct StillActive {
    /// Numbers of the entities, and what they had in the latest minute that has metrics.
    pub found: Vec<(usize, Begun)>,
    pub until: Timestamp,
}

/// Finds the entities that were active in the latest minute that has metrics: those with a data
/// point of `always`. Tells which of `metrics` each of them had then.
pub(super) fn still_active(
    store: &MetricStore,
    entities: &[Entity],
    (always, metrics): (&str, &[&str]),
    now: Timestamp,
) -> Result<StillActive, StoreError> {
    // Most restarts are short, and six hours of many entities take seconds to read.
    for back_s in [SHORT_RESTART_S, ACTIVE_S] {
        // Also what seems to be to come: the clock may have been set back.
        let query = |entity| SeriesQuery {
            entity,
            metric: always,
            unit: None,
            periods: Periods { origin_s: 0, period_s: BASE_PERIOD_S },
            start_s: now.seconds().saturating_sub(back_s),
            end_s: now.seconds() + ACTIVE_S,
        };
        let queries: Vec<_> = entities.iter().map(query).collect();
        let points = store.points(&queries, now)?;
        let last_s = |points: &Vec<Point>| points.last().map(|point| point.time_s);
        let Some(latest_s) = points.iter().filter_map(last_s).max() else { continue };
        let all = entities.iter().enumerate().zip(&points);
        let were_active: Vec<(usize, &Entity)> = all
            .filter(|(_, points)| last_s(points) == Some(latest_s))
            .map(|(entity, _)| entity)
            .collect();
        let mut found = Vec::with_capacity(were_active.len());
        for some in were_active.chunks(ENTITIES_PER_READ) {
            let begun = begun_at(store, some, metrics, (latest_s, now))?;
            found.extend(some.iter().map(|(number, _)| *number).zip(begun));
        }
        return Ok(StillActive { found, until: Timestamp(latest_s * 1000).plus_seconds(ACTIVE_S) });
    }
    Ok(StillActive { found: Vec::new(), until: now })
}

/// Which metrics the entities had in that minute.
fn begun_at(
    store: &MetricStore,
    entities: &[(usize, &Entity)],
    metrics: &[&str],
    (minute_s, now): (u64, Timestamp),
) -> Result<Vec<Begun>, StoreError> {
    let queries: Vec<SeriesQuery<'_>> = entities
        .iter()
        .flat_map(|(_, entity)| metrics.iter().map(move |metric| (*entity, *metric)))
        .map(|(entity, metric)| SeriesQuery {
            entity,
            metric,
            unit: None,
            periods: Periods { origin_s: 0, period_s: BASE_PERIOD_S },
            start_s: minute_s,
            end_s: minute_s + BASE_PERIOD_S,
        })
        .collect();
    let points = store.points(&queries, now)?;
    let had = |of_entity: &[Vec<Point>]| {
        let metrics = of_entity.iter().enumerate().filter(|(_, points)| !points.is_empty());
        Begun::of(metrics.map(|(metric, _)| metric))
    };
    Ok(points.chunks(metrics.len().max(1)).map(had).collect())
}
