//! What a call makes of one item: pure rules, without a database.
//!
//! A put adds values; `replace` first removes those that the item had before the call. A name
//! keeps its place for as long as it has values; within a call, also while it has none. An item
//! without values does not exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::write::{Condition, PutAttribute, WriteError};

/// An item while a call changes it.
#[derive(Debug)]
pub(super) struct Plan {
    pub name: String,
    /// Of the item, if it is in the database.
    pub id: Option<u64>,
    /// By place.
    pub names: BTreeMap<u64, NamePlan>,
    places: BTreeMap<String, u64>,
}

/// A name of an item, with its values before the call and after it.
#[derive(Debug, Default)]
pub(super) struct NamePlan {
    pub name: String,
    pub before: BTreeSet<String>,
    pub after: BTreeSet<String>,
    /// All values were removed at once, whatever was added since.
    pub is_cleared: bool,
}

impl Plan {
    pub(super) fn new(name: &str, id: Option<u64>) -> Plan {
        Plan { name: name.to_owned(), id, names: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Adds a pair as the database has it.
    pub(super) fn load(&mut self, place: u64, name: String, value: String) {
        let plan = self.names.entry(place).or_default();
        if plan.name.is_empty() {
            plan.name.clone_from(&name);
            self.places.insert(name, place);
        }
        plan.after.insert(value.clone());
        plan.before.insert(value);
    }

    pub(super) fn check(&self, condition: &Condition) -> Result<(), WriteError> {
        let values = |name: &str| {
            let place = self.places.get(name)?;
            self.names.get(place).map(|plan| &plan.after).filter(|values| !values.is_empty())
        };
        match condition {
            Condition::Absent(name) => match values(name) {
                None => Ok(()),
                Some(_) => Err(WriteError::AttributeExists(name.clone())),
            },
            Condition::Is(expected) => {
                let name = &expected.name;
                let found = values(name);
                let found = found.ok_or_else(|| WriteError::AttributeDoesNotExist(name.clone()))?;
                if found.len() > 1 {
                    return Err(WriteError::MultiValued(name.clone()));
                }
                match found.first() {
                    Some(found) if *found != expected.value => Err(WriteError::OtherValue {
                        name: name.clone(),
                        found: found.clone(),
                        expected: expected.value.clone(),
                    }),
                    _ => Ok(()),
                }
            }
        }
    }

    pub(super) fn put(&mut self, attributes: &[PutAttribute]) {
        for attribute in attributes.iter().filter(|attribute| attribute.replace) {
            self.remove_name(&attribute.name);
        }
        for PutAttribute { name, value, .. } in attributes {
            let place = match self.places.get(name) {
                Some(place) => *place,
                None => {
                    let last = self.names.last_key_value();
                    let place = last.map_or(0, |(last, _)| last.saturating_add(1));
                    self.places.insert(name.clone(), place);
                    self.names
                        .insert(place, NamePlan { name: name.clone(), ..NamePlan::default() });
                    place
                }
            };
            if let Some(plan) = self.names.get_mut(&place) {
                plan.after.insert(value.clone());
            }
        }
    }

    /// Removes what is named, or all if nothing is.
    pub(super) fn delete(&mut self, attributes: &[(String, Option<String>)]) {
        if attributes.is_empty() {
            for plan in self.names.values_mut() {
                plan.clear();
            }
        }
        for (name, value) in attributes {
            match value {
                None => self.remove_name(name),
                Some(value) => {
                    let place = self.places.get(name);
                    if let Some(plan) = place.and_then(|place| self.names.get_mut(place)) {
                        plan.after.remove(value);
                    }
                }
            }
        }
    }

    pub(super) fn pairs_before(&self) -> u64 {
        self.names.values().map(|plan| plan.before.len() as u64).sum()
    }

    pub(super) fn pairs_after(&self) -> u64 {
        self.names.values().map(|plan| plan.after.len() as u64).sum()
    }

    fn remove_name(&mut self, name: &str) {
        let place = self.places.get(name);
        if let Some(plan) = place.and_then(|place| self.names.get_mut(place)) {
            plan.clear();
        }
    }
}

impl NamePlan {
    fn clear(&mut self) {
        self.after.clear();
        self.is_cleared = true;
    }
}
