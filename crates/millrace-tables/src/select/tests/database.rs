//! A database in memory, filled by hand.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use super::{Bounds, Found, Item, Page, Query, SelectError, run};

pub(super) struct Database {
    pub connection: Connection,
}

/// An item's name, and its attributes in the order of first insertion.
pub(super) type Row = (String, Vec<(String, BTreeSet<String>)>);

impl Database {
    pub(super) fn new(domain: &str, rows: &[Row]) -> Database {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(crate::schema::TABLES).unwrap();
        let database = Database { connection };
        database.fill(domain, rows);
        database
    }

    fn fill(&self, domain: &str, rows: &[Row]) {
        let connection = &self.connection;
        let insert = "INSERT INTO domains (region, account, name, items) VALUES ('r', 'a', ?, ?)";
        connection.execute(insert, params![domain, rows.len() as i64]).unwrap();
        let domain = connection.last_insert_rowid();
        let mut names: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        for (item, attributes) in rows {
            let insert = "INSERT INTO items (domain, name) VALUES (?, ?)";
            connection.execute(insert, params![domain, item]).unwrap();
            let item = connection.last_insert_rowid();
            for (place, (name, values)) in attributes.iter().enumerate() {
                let known = names.entry(name).or_insert_with(|| {
                    let insert = "INSERT INTO names (domain, name, pairs) VALUES (?, ?, 0)";
                    connection.execute(insert, params![domain, name]).unwrap();
                    (connection.last_insert_rowid(), 0, 0)
                });
                known.1 += values.len() as i64;
                known.2 += 1;
                for value in values {
                    let insert =
                        "INSERT INTO attributes (item, place, name, value) VALUES (?, ?, ?, ?)";
                    let parameters = params![item, place as i64, known.0, value];
                    connection.execute(insert, parameters).unwrap();
                }
            }
        }
        for (id, pairs, items) in names.into_values() {
            let update = "UPDATE names SET pairs = ?, items = ? WHERE id = ?";
            connection.execute(update, [pairs, items, id]).unwrap();
        }
    }

    pub(super) fn page(
        &self,
        expression: &str,
        token: Option<&str>,
        bounds: &Bounds,
    ) -> Result<Page, SelectError> {
        let query = Query { region: "r", account: "a", expression, token };
        run(&self.connection, &query, bounds)
    }

    pub(super) fn first(&self, expression: &str) -> Result<Page, SelectError> {
        self.page(expression, None, &Bounds::default())
    }

    /// All items, page by page.
    pub(super) fn all(&self, expression: &str, bounds: &Bounds) -> Vec<Item> {
        let mut all = Vec::new();
        let mut token = None;
        loop {
            match self.page(expression, token.as_deref(), bounds) {
                Ok(Page { found: Found::Items(items), token: next, .. }) => {
                    all.extend(items);
                    token = next;
                }
                other => panic!("{expression}: {other:?}"),
            }
            if token.is_none() {
                return all;
            }
        }
    }

    pub(super) fn count(&self, expression: &str, bounds: &Bounds) -> u64 {
        let mut all = 0;
        let mut token = None;
        loop {
            match self.page(expression, token.as_deref(), bounds) {
                Ok(Page { found: Found::Count(count), token: next, .. }) => {
                    all += count;
                    token = next;
                }
                other => panic!("{expression}: {other:?}"),
            }
            if token.is_none() {
                return all;
            }
        }
    }
}

/// Builds a row from pairs.
pub(super) fn row<'a>(name: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Row {
    let mut attributes: Vec<(String, BTreeSet<String>)> = Vec::new();
    for (name, value) in pairs {
        match attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => {
                values.insert(value.to_owned());
            }
            None => attributes.push((name.to_owned(), BTreeSet::from([value.to_owned()]))),
        }
    }
    (name.to_owned(), attributes)
}
