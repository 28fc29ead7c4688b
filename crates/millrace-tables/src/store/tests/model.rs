//! Random writes, against collections of the standard library. Also: the same records, applied to
//! an empty database, give the same database.

use std::collections::{BTreeMap, BTreeSet};

use futures_executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::domain::DomainFigures;
use crate::item::Attribute;
use crate::write::Condition;

/// An item: names in the order of first insertion, with their values.
type Item = Vec<(String, BTreeSet<String>)>;

#[derive(Default)]
struct Model {
    domains: BTreeMap<String, BTreeMap<String, Item>>,
}

impl Model {
    /// Makes the write, or returns false.
    fn write(&mut self, write: &Write) -> bool {
        let name = &write.domain().name;
        match write {
            Write::CreateDomain(_) => {
                self.domains.entry(name.clone()).or_default();
                true
            }
            Write::DeleteDomain(_) => {
                self.domains.remove(name);
                true
            }
            Write::Put { items, condition, .. } => {
                let Some(domain) = self.domains.get_mut(name) else { return false };
                let mut after = domain.clone();
                for put in items {
                    let item = after.entry(put.name.clone()).or_default();
                    if !holds(item, condition.as_ref()) {
                        return false;
                    }
                    for attribute in put.attributes.iter().filter(|attribute| attribute.replace) {
                        let named = item.iter_mut().filter(|(name, _)| *name == attribute.name);
                        named.for_each(|(_, values)| values.clear());
                    }
                    for PutAttribute { name, value, .. } in &put.attributes {
                        match item.iter_mut().find(|(known, _)| known == name) {
                            Some((_, values)) => drop(values.insert(value.clone())),
                            None => item.push((name.clone(), [value.clone()].into())),
                        }
                    }
                }
                *domain = after;
                tidy(domain);
                true
            }
            Write::Delete { items, condition, .. } => {
                let Some(domain) = self.domains.get_mut(name) else { return false };
                let mut after = domain.clone();
                for deleted in items {
                    let item = after.entry(deleted.name.clone()).or_default();
                    if !holds(item, condition.as_ref()) {
                        return false;
                    }
                    if deleted.attributes.is_empty() {
                        item.clear();
                    }
                    for (name, value) in &deleted.attributes {
                        for (_, values) in item.iter_mut().filter(|(known, _)| known == name) {
                            values.retain(|known| value.as_ref().is_some_and(|gone| gone != known));
                        }
                    }
                }
                *domain = after;
                tidy(domain);
                true
            }
        }
    }

    fn figures(&self, domain: &str) -> Option<DomainFigures> {
        let items = self.domains.get(domain)?;
        let mut figures = DomainFigures::default();
        let mut names = BTreeSet::new();
        for (name, item) in items {
            figures.items += 1;
            figures.item_name_bytes += name.len() as u64;
            for (name, values) in item {
                names.insert(name);
                figures.attribute_values += values.len() as u64;
                figures.attribute_value_bytes +=
                    values.iter().map(|value| value.len() as u64).sum::<u64>();
            }
        }
        figures.attribute_names = names.len() as u64;
        figures.attribute_name_bytes = names.iter().map(|name| name.len() as u64).sum();
        Some(figures)
    }
}

fn holds(item: &Item, condition: Option<&Condition>) -> bool {
    let values = |name: &str| {
        let named = item.iter().find(|(known, _)| known == name);
        named.map(|(_, values)| values).filter(|values| !values.is_empty())
    };
    match condition {
        None => true,
        Some(Condition::Absent(name)) => values(name).is_none(),
        Some(Condition::Is(Attribute { name, value })) => {
            values(name).is_some_and(|values| values.len() == 1 && values.contains(value))
        }
    }
}

fn tidy(domain: &mut BTreeMap<String, Item>) {
    for item in domain.values_mut() {
        item.retain(|(_, values)| !values.is_empty());
    }
    domain.retain(|_, item| !item.is_empty());
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

fn write() -> impl Strategy<Value = Write> {
    let domain = || word(&["d", "e"]).prop_map(|name| key(&name));
    let name = || word(&["a", "b", "größe"]);
    let value = || word(&["", "1", "2", "value"]);
    let item = || word(&["i", "j", "item"]);
    let condition = || {
        let is =
            (name(), value()).prop_map(|(name, value)| Condition::Is(Attribute { name, value }));
        let absent = name().prop_map(Condition::Absent);
        prop::option::weighted(0.3, prop_oneof![is, absent])
    };
    let attribute = (name(), value(), any::<bool>())
        .prop_map(|(name, value, replace)| PutAttribute { name, value, replace });
    let put = (item(), prop::collection::vec(attribute, 1..5))
        .prop_map(|(name, attributes)| PutItem { name, attributes });
    let puts = (domain(), prop::collection::vec(put, 1..4), condition())
        .prop_map(|(domain, items, condition)| Write::Put { domain, items, condition });
    let deleted = (item(), prop::collection::vec((name(), prop::option::of(value())), 0..4))
        .prop_map(|(name, attributes)| DeletedItem { name, attributes });
    let deletes = (domain(), prop::collection::vec(deleted, 1..4), condition())
        .prop_map(|(domain, items, condition)| Write::Delete { domain, items, condition });
    prop_oneof![
        1 => domain().prop_map(Write::CreateDomain),
        1 => domain().prop_map(Write::DeleteDomain),
        12 => puts,
        6 => deletes,
    ]
}

/// Counts of names, which Select goes by, against the pairs themselves.
const MISCOUNTED: &str = "SELECT count(*) FROM names WHERE domain IN (SELECT id FROM domains) AND \
    (pairs, items) <> (SELECT count(*), count(DISTINCT item) FROM attributes \
    WHERE attributes.name = names.id)";

fn check(tables: &Tables, model: &Model) {
    let miscounted = |reader: &rusqlite::Connection| {
        reader.query_row(MISCOUNTED, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(block_on(tables.read("0", miscounted)).unwrap(), 0);
    for domain in ["d", "e"] {
        assert_eq!(block_on(tables.figures(&key(domain))).unwrap(), model.figures(domain));
        for item in ["i", "j", "item"] {
            let found = block_on(tables.item(&key(domain), item, None)).unwrap();
            let found = found.map(|found| {
                found.into_iter().map(|pair| (pair.name, pair.value)).collect::<Vec<_>>()
            });
            let expected = model.domains.get(domain).map(|items| {
                let item = items.get(item).into_iter().flatten();
                item.flat_map(|(name, values)| {
                    values.iter().map(move |value| (name.clone(), value.clone()))
                })
                .collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{item} of {domain}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn writes_are_as_the_model_says(writes in prop::collection::vec(write(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let log = Arc::new(MemoryLog::default());
        let tables = open(directory.path(), &log).unwrap();
        let mut model = Model::default();
        for write in [Write::CreateDomain(key("d"))].into_iter().chain(writes) {
            let is_made = model.write(&write);
            prop_assert_eq!(block_on(tables.write(write.clone())).is_ok(), is_made, "{:?}", write);
        }
        check(&tables, &model);
        drop(tables);

        std::fs::remove_dir_all(directory.path()).unwrap();
        let again = open(directory.path(), &log).unwrap();
        check(&again, &model);
    }
}
