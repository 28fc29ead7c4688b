//! Reads that take microseconds.

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{figures_in, unsigned};
use crate::domain::{DomainFigures, DomainKey};
use crate::item::Attribute;

pub(super) fn list_domains(
    connection: &Connection,
    region: &str,
    account: &str,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM domains WHERE region = ? AND account = ? AND name > ? \
         ORDER BY name LIMIT ?",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // No domain has an empty name.
    let names = params![region, account, after.unwrap_or_default(), limit];
    let names = statement.query_map(names, |row| row.get(0))?;
    names.collect()
}

pub(super) fn all_domains(connection: &Connection) -> rusqlite::Result<Vec<DomainKey>> {
    let mut statement =
        connection.prepare("SELECT region, account, name FROM domains ORDER BY id")?;
    let keys = statement.query_map([], |row| {
        Ok(DomainKey { region: row.get(0)?, account: row.get(1)?, name: row.get(2)? })
    })?;
    keys.collect()
}

pub(super) fn domain_count(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT count(*) FROM domains", [], |row| unsigned(row, 0))
}

pub(super) fn figures(
    connection: &Connection,
    key: &DomainKey,
) -> rusqlite::Result<Option<DomainFigures>> {
    let DomainKey { region, account, name } = key;
    let figures = connection.query_row(
        "SELECT items, item_name_bytes, names, name_bytes, pairs, value_bytes \
         FROM domains WHERE region = ? AND account = ? AND name = ?",
        params![region, account, name],
        |row| figures_in(row, 0),
    );
    figures.optional()
}

pub(super) fn item(
    connection: &Connection,
    key: &DomainKey,
    item: &str,
    names: Option<&[String]>,
) -> rusqlite::Result<Option<Vec<Attribute>>> {
    let DomainKey { region, account, name } = key;
    let mut statement = connection.prepare(
        "SELECT names.name, attributes.value FROM domains \
         LEFT JOIN items ON items.domain = domains.id AND items.name = ? \
         LEFT JOIN attributes ON attributes.item = items.id \
         LEFT JOIN names ON names.id = attributes.name \
         WHERE domains.region = ? AND domains.account = ? AND domains.name = ? \
         ORDER BY attributes.place, attributes.value",
    )?;
    let mut rows = statement.query(params![item, region, account, name])?;
    let mut attributes = None;
    while let Some(row) = rows.next()? {
        let found: &mut Vec<Attribute> = attributes.get_or_insert_default();
        // A domain without the item: one row of nothing.
        let Some(name) = row.get::<_, Option<String>>(0)? else { continue };
        if names.is_none_or(|names| names.contains(&name)) {
            found.push(Attribute { name, value: row.get(1)? });
        }
    }
    Ok(attributes)
}
