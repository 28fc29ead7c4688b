//! The tables. Texts compare by their UTF-8 bytes (SQLite's BINARY), as Select does.

/// What a new database is made of. All ids are of one sequence, so they are never used again.
///
/// - `domains`: each domain with its figures.
/// - `names`: the attribute names of a domain; how many pairs, and how many items, have each. A name
///   without pairs has no row. Select takes an attribute to have one value an item only if the two
///   are equal.
/// - `items`: ids rise in the order of first insertion.
/// - `attributes`: the pairs. `place` is the rank of the name in its item by first insertion.
/// - `deleted_domains`: domains whose names, items and attributes are still to be removed.
/// - `state`: one row. Which database this is, the latest id, and the position of the latest
///   record of the journal that is in it.
pub const TABLES: &str = "
CREATE TABLE domains (
    id INTEGER PRIMARY KEY,
    region TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    items INTEGER NOT NULL DEFAULT 0,
    item_name_bytes INTEGER NOT NULL DEFAULT 0,
    names INTEGER NOT NULL DEFAULT 0,
    name_bytes INTEGER NOT NULL DEFAULT 0,
    pairs INTEGER NOT NULL DEFAULT 0,
    value_bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (region, account, name)
) STRICT;
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    domain INTEGER NOT NULL,
    name TEXT NOT NULL,
    pairs INTEGER NOT NULL DEFAULT 0,
    items INTEGER NOT NULL DEFAULT 0,
    UNIQUE (domain, name)
) STRICT;
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    domain INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (domain, name)
) STRICT;
CREATE TABLE attributes (
    item INTEGER NOT NULL,
    place INTEGER NOT NULL,
    name INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (item, place, value)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attributes_by_value ON attributes (name, value, item);
CREATE TABLE deleted_domains (id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    database TEXT NOT NULL,
    applied INTEGER NOT NULL DEFAULT 0,
    last_id INTEGER NOT NULL DEFAULT 0,
    is_accepted INTEGER NOT NULL DEFAULT 0
) STRICT;
";
