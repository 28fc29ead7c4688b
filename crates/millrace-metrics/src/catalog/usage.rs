//! How many series there are and how long their names are, of all accounts and of each.

use std::collections::HashMap;

use millrace_core::may_take;

use crate::Entity;
use crate::memory_limits::NAME_BYTES_MOST;

/// Series that the clients of an account give, at most, so that nobody fills memory with names; and
/// as many of the server's own, so that clients cannot keep queues from being measured. All
/// accounts together have a tenth more.
pub(crate) const SERIES_MAX: usize = if cfg!(test) { 2_000 } else { 1_000_000 };
/// Memory of a series besides its names.
const SERIES_BYTES: usize = 512;

/// What entities and their series take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub client_series: usize,
    pub own_series: usize,
    pub name_bytes: usize,
}

/// What those of all accounts and of each take.
#[derive(Debug)]
pub(super) struct Usages {
    /// Memory of the names that the clients of an account give, at most. The server's own series do
    /// not count.
    pub name_bytes_max: usize,
    all: Usage,
    by_account: HashMap<String, Usage>,
}

impl Usage {
    /// What an entity takes without its series.
    pub(super) fn of_entity(entity: &Entity) -> Usage {
        let dimensions = entity.dimensions().iter().map(|(name, value)| name.len() + value.len());
        let name_bytes = match is_own(entity) {
            true => 0,
            false => entity.namespace.len() + dimensions.sum::<usize>(),
        };
        Usage { name_bytes, ..Usage::default() }
    }

    /// What one of an entity's series takes; one without a name was removed, or has lost it.
    pub(super) fn of_series(entity: &Entity, metric: &str) -> Usage {
        match is_own(entity) {
            _ if metric.is_empty() => Usage::default(),
            true => Usage { own_series: 1, ..Usage::default() },
            false => Usage {
                client_series: 1,
                name_bytes: SERIES_BYTES + metric.len(),
                ..Usage::default()
            },
        }
    }

    fn add(&mut self, other: &Usage) {
        self.client_series += other.client_series;
        self.own_series += other.own_series;
        self.name_bytes += other.name_bytes;
    }

    fn remove(&mut self, other: &Usage) {
        self.client_series -= other.client_series;
        self.own_series -= other.own_series;
        self.name_bytes -= other.name_bytes;
    }
}

impl Default for Usages {
    fn default() -> Usages {
        let (all, by_account) = (Usage::default(), HashMap::new());
        Usages { name_bytes_max: NAME_BYTES_MOST, all, by_account }
    }
}

impl Usages {
    pub(super) fn add(&mut self, entity: &Entity, usage: &Usage) {
        self.all.add(usage);
        self.by_account.entry(entity.scope.account.clone()).or_default().add(usage);
    }

    pub(super) fn remove(&mut self, entity: &Entity, usage: &Usage) {
        self.all.remove(usage);
        if let Some(of_account) = self.by_account.get_mut(&entity.scope.account) {
            of_account.remove(usage);
            if *of_account == Usage::default() {
                self.by_account.remove(&entity.scope.account);
            }
        }
    }

    /// Whether the entity's account may have one more series.
    pub(super) fn have_room_for(&self, entity: &Entity) -> bool {
        let of = self.by_account.get(&entity.scope.account).copied().unwrap_or_default();
        let all = &self.all;
        match is_own(entity) {
            true => may_take(of.own_series, all.own_series, SERIES_MAX),
            false => {
                may_take(of.client_series, all.client_series, SERIES_MAX)
                    && may_take(of.name_bytes, all.name_bytes, self.name_bytes_max)
            }
        }
    }

    /// What all take together.
    #[cfg(test)]
    pub(super) fn all(&self) -> Usage {
        self.all
    }
}

/// CloudWatch: clients cannot put metrics in these name spaces.
fn is_own(entity: &Entity) -> bool {
    entity.namespace.starts_with("AWS/")
}
