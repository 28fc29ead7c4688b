//! One transaction of the writer: decides each write by what is there then, and changes the rows.
//!
//! A write is decided before any of its rows changes, so a refused one leaves nothing. Figures of
//! domains and names are in memory until the end of the transaction, and for the next one.

use std::collections::{BTreeMap, HashMap};

use super::change::{Change, RecordWriter};
use super::plan::{NamePlan, Plan};
use super::rows::Rows;
use super::tables::Limits;
use crate::domain::{DomainFigures, DomainKey};
use crate::write::{Condition, Write, WriteError};

/// Domains and names in memory, each. Beyond, all are forgotten.
const CACHED_MAX: usize = 10_000;

/// What SQLite says; inside it, what the client is told.
pub(super) type Decided = rusqlite::Result<Result<(), WriteError>>;

/// See the module.
pub(super) struct Transaction<'c> {
    pub rows: Rows<'c>,
    pub record: RecordWriter,
    limits: Limits,
    domains: HashMap<DomainKey, Domain>,
    /// By domain and name.
    names: HashMap<u64, HashMap<String, Name>>,
    cached_names: usize,
}

struct Domain {
    id: u64,
    figures: DomainFigures,
    is_changed: bool,
}

#[derive(Clone, Copy)]
struct Name {
    id: u64,
    counts: NameCounts,
    is_changed: bool,
}

/// Pairs with a name, and items that have it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct NameCounts {
    pairs: u64,
    items: u64,
}

impl<'c> Transaction<'c> {
    pub(super) fn new(rows: Rows<'c>, limits: Limits) -> Transaction<'c> {
        Transaction {
            rows,
            record: RecordWriter::default(),
            limits,
            domains: HashMap::new(),
            names: HashMap::new(),
            cached_names: 0,
        }
    }

    pub(super) fn begin(&mut self) -> rusqlite::Result<()> {
        self.record.clear();
        if self.domains.len() > CACHED_MAX || self.cached_names > CACHED_MAX {
            self.forget();
        }
        self.rows.begin()
    }

    /// Undoes everything since `begin`.
    pub(super) fn roll_back(&mut self) -> rusqlite::Result<()> {
        self.forget();
        self.record.clear();
        self.rows.roll_back()
    }

    /// Decides a write and makes its changes. After an error of SQLite, all are to be undone.
    pub(super) fn decide(&mut self, write: &Write) -> Decided {
        match write {
            Write::CreateDomain(key) => self.create_domain(key),
            Write::DeleteDomain(key) => self.delete_domain(key),
            Write::Put { domain, items, condition } => {
                let items = items.iter().map(|item| (item.name.as_str(), item));
                self.change_items(domain, items, condition.as_ref(), |plan, item| {
                    plan.put(&item.attributes);
                })
            }
            Write::Delete { domain, items, condition } => {
                let items = items.iter().map(|item| (item.name.as_str(), item));
                self.change_items(domain, items, condition.as_ref(), |plan, item| {
                    plan.delete(&item.attributes);
                })
            }
        }
    }

    /// Writes the figures that changed. To be called once all writes are decided.
    pub(super) fn finish(&mut self) -> rusqlite::Result<()> {
        for domain in self.domains.values_mut().filter(|domain| domain.is_changed) {
            domain.is_changed = false;
            let change = Change::Figures { id: domain.id, figures: domain.figures };
            make(&mut self.rows, &mut self.record, &change)?;
        }
        for names in self.names.values_mut() {
            for name in names.values_mut().filter(|name| name.is_changed) {
                name.is_changed = false;
                let NameCounts { pairs, items } = name.counts;
                let change = Change::NameCounts { id: name.id, pairs, items };
                make(&mut self.rows, &mut self.record, &change)?;
            }
            names.retain(|_, name| name.counts.pairs > 0);
        }
        self.cached_names = self.names.values().map(HashMap::len).sum();
        Ok(())
    }

    fn create_domain(&mut self, key: &DomainKey) -> Decided {
        if self.domain(key)?.is_some() {
            return Ok(Ok(()));
        }
        let limit = self.limits.domains;
        if self.rows.domains_of(&key.region, &key.account)? >= limit {
            return Ok(Err(WriteError::TooManyDomains(limit)));
        }
        let id = self.rows.next_id();
        let DomainKey { region, account, name } = key;
        self.make(&Change::DomainCreated { id, region, account, name })?;
        let domain = Domain { id, figures: DomainFigures::default(), is_changed: false };
        self.domains.insert(key.clone(), domain);
        Ok(Ok(()))
    }

    fn delete_domain(&mut self, key: &DomainKey) -> Decided {
        if let Some((id, _)) = self.domain(key)? {
            self.make(&Change::DomainDeleted { id })?;
            self.domains.remove(key);
            self.names.remove(&id);
        }
        Ok(Ok(()))
    }

    /// Plans all items, checks what would be, and makes it so.
    fn change_items<'w, T: 'w>(
        &mut self,
        key: &DomainKey,
        items: impl Iterator<Item = (&'w str, &'w T)>,
        condition: Option<&Condition>,
        change: impl Fn(&mut Plan, &T),
    ) -> Decided {
        let Some((domain, figures)) = self.domain(key)? else {
            return Ok(Err(WriteError::NoSuchDomain));
        };
        let mut plans: Vec<Plan> = Vec::new();
        for (name, item) in items {
            let at = match plans.iter().position(|plan| plan.name == name) {
                Some(at) => at,
                None => {
                    plans.push(self.rows.plan(domain, name)?);
                    plans.len() - 1
                }
            };
            let Some(plan) = plans.get_mut(at) else { continue };
            if let Some(condition) = condition
                && let Err(refusal) = plan.check(condition)
            {
                return Ok(Err(refusal));
            }
            change(plan, item);
        }
        let names = self.name_changes(domain, &plans)?;
        let after = figures_after(figures, &plans, &names);
        if let Err(refusal) = self.check_limits(&plans, figures, after) {
            return Ok(Err(refusal));
        }
        self.create_names(domain, &names)?;
        for plan in plans {
            self.make_plan(domain, plan)?;
        }
        for (name, change) in names {
            if let Some(cached) = self.names.get_mut(&domain).and_then(|all| all.get_mut(&name)) {
                cached.counts = change.after;
                cached.is_changed |= change.before != change.after;
            }
        }
        if after != figures
            && let Some(domain) = self.domains.get_mut(key)
        {
            domain.figures = after;
            domain.is_changed = true;
        }
        Ok(Ok(()))
    }

    fn check_limits(
        &self,
        plans: &[Plan],
        before: DomainFigures,
        after: DomainFigures,
    ) -> Result<(), WriteError> {
        let Limits { domain_bytes, domain_pairs, item_pairs, .. } = self.limits;
        let is_full = |plan: &Plan| {
            let pairs = plan.pairs_after();
            pairs > item_pairs && pairs > plan.pairs_before()
        };
        if plans.iter().any(is_full) {
            return Err(WriteError::TooManyItemAttributes(item_pairs));
        }
        let pairs = after.attribute_values;
        if pairs > domain_pairs && pairs > before.attribute_values {
            return Err(WriteError::TooManyDomainAttributes(domain_pairs));
        }
        if size_bytes(&after) > domain_bytes && size_bytes(&after) > size_bytes(&before) {
            return Err(WriteError::TooManyDomainBytes(domain_bytes));
        }
        Ok(())
    }

    /// What the plans make of each name that they change.
    fn name_changes(
        &mut self,
        domain: u64,
        plans: &[Plan],
    ) -> rusqlite::Result<BTreeMap<String, NameChange>> {
        let mut changes = BTreeMap::<String, NameChange>::new();
        for plan in plans.iter().flat_map(|plan| plan.names.values()) {
            if plan.before == plan.after {
                continue;
            }
            if !changes.contains_key(&plan.name) {
                let counts = self.name(domain, &plan.name)?.map(|name| name.counts);
                let (before, after) = (counts.unwrap_or_default(), counts.unwrap_or_default());
                changes.insert(plan.name.clone(), NameChange { before, after });
            }
            if let Some(change) = changes.get_mut(&plan.name) {
                let NameCounts { pairs, items } = &mut change.after;
                step(pairs, plan.after.len() as u64, plan.before.len() as u64);
                step(items, (!plan.after.is_empty()).into(), (!plan.before.is_empty()).into());
            }
        }
        Ok(changes)
    }

    fn create_names(
        &mut self,
        domain: u64,
        names: &BTreeMap<String, NameChange>,
    ) -> rusqlite::Result<()> {
        for name in names.keys() {
            if self.name(domain, name)?.is_none() {
                let id = self.rows.next_id();
                self.make(&Change::NameCreated { id, domain, name })?;
                let created = Name { id, counts: NameCounts::default(), is_changed: true };
                self.names.entry(domain).or_default().insert(name.clone(), created);
                self.cached_names += 1;
            }
        }
        Ok(())
    }

    fn make_plan(&mut self, domain: u64, plan: Plan) -> rusqlite::Result<()> {
        let item = match (plan.id, plan.pairs_after()) {
            (Some(id), 0) => return self.make(&Change::ItemDeleted { id }),
            (None, 0) => return Ok(()),
            (Some(id), _) => id,
            (None, _) => {
                let id = self.rows.next_id();
                self.make(&Change::ItemCreated { id, domain, name: &plan.name })?;
                id
            }
        };
        for (place, NamePlan { name, before, after, is_cleared }) in plan.names {
            if before == after {
                continue;
            }
            let name = self.name(domain, &name)?.map_or(0, |name| name.id);
            let added = |value| Change::PairAdded { item, place, name, value };
            // The values that go may be many more than the call names: not one by one.
            if is_cleared && !before.is_subset(&after) {
                self.make(&Change::NameRemoved { item, place })?;
                for value in &after {
                    self.make(&added(value))?;
                }
                continue;
            }
            for value in before.difference(&after) {
                self.make(&Change::PairRemoved { item, place, value })?;
            }
            for value in after.difference(&before) {
                self.make(&added(value))?;
            }
        }
        Ok(())
    }

    fn domain(&mut self, key: &DomainKey) -> rusqlite::Result<Option<(u64, DomainFigures)>> {
        if let Some(domain) = self.domains.get(key) {
            return Ok(Some((domain.id, domain.figures)));
        }
        let found = self.rows.domain(key)?;
        if let Some((id, figures)) = found {
            self.domains.insert(key.clone(), Domain { id, figures, is_changed: false });
        }
        Ok(found)
    }

    fn name(&mut self, domain: u64, name: &str) -> rusqlite::Result<Option<Name>> {
        if let Some(name) = self.names.get(&domain).and_then(|names| names.get(name)) {
            return Ok(Some(*name));
        }
        let Some((id, pairs, items)) = self.rows.name(domain, name)? else { return Ok(None) };
        let found = Name { id, counts: NameCounts { pairs, items }, is_changed: false };
        self.names.entry(domain).or_default().insert(name.to_owned(), found);
        self.cached_names += 1;
        Ok(Some(found))
    }

    fn make(&mut self, change: &Change<'_>) -> rusqlite::Result<()> {
        make(&mut self.rows, &mut self.record, change)
    }

    fn forget(&mut self) {
        self.domains.clear();
        self.names.clear();
        self.cached_names = 0;
    }
}

/// A name before and after a write.
#[derive(Clone, Copy)]
struct NameChange {
    before: NameCounts,
    after: NameCounts,
}

/// Changes a number by what comes and what goes.
fn step(number: &mut u64, more: u64, less: u64) {
    *number = number.saturating_add(more).saturating_sub(less);
}

/// Changes the rows, and notes it in the record.
fn make(
    rows: &mut Rows<'_>,
    record: &mut RecordWriter,
    change: &Change<'_>,
) -> rusqlite::Result<()> {
    rows.apply(change)?;
    record.push(change);
    Ok(())
}

fn figures_after(
    figures: DomainFigures,
    plans: &[Plan],
    names: &BTreeMap<String, NameChange>,
) -> DomainFigures {
    let mut after = figures;
    for plan in plans {
        let (is_there, was_there) = (plan.pairs_after() > 0, plan.id.is_some());
        let bytes = plan.name.len() as u64;
        step(&mut after.items, is_there.into(), was_there.into());
        step(
            &mut after.item_name_bytes,
            if is_there { bytes } else { 0 },
            if was_there { bytes } else { 0 },
        );
        step(&mut after.attribute_values, plan.pairs_after(), plan.pairs_before());
        for name in plan.names.values().filter(|name| name.before != name.after) {
            let bytes = |values: &std::collections::BTreeSet<String>| {
                values.iter().map(|value| value.len() as u64).sum()
            };
            step(&mut after.attribute_value_bytes, bytes(&name.after), bytes(&name.before));
        }
    }
    for (name, NameChange { before, after: counts }) in names {
        let bytes = name.len() as u64;
        let (is_there, was_there) = (u64::from(counts.pairs > 0), u64::from(before.pairs > 0));
        step(&mut after.attribute_names, is_there, was_there);
        step(&mut after.attribute_name_bytes, is_there * bytes, was_there * bytes);
    }
    after
}

/// What counts against the limit of a domain.
fn size_bytes(figures: &DomainFigures) -> u64 {
    figures
        .item_name_bytes
        .saturating_add(figures.attribute_name_bytes)
        .saturating_add(figures.attribute_value_bytes)
}
