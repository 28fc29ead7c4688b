//! Rows of the database: read by the writer, and changed as records say.

use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::change::Change;
use super::plan::Plan;
use crate::domain::{DomainFigures, DomainKey};

/// The writer's statements, prepared once.
pub(super) struct Rows<'c> {
    pub connection: &'c Connection,
    domain: Statement<'c>,
    domains_of: Statement<'c>,
    name: Statement<'c>,
    item: Statement<'c>,
    pairs: Statement<'c>,
    create_domain: Statement<'c>,
    delete_domain: Statement<'c>,
    note_deleted: Statement<'c>,
    figures: Statement<'c>,
    create_name: Statement<'c>,
    name_counts: Statement<'c>,
    delete_name: Statement<'c>,
    create_item: Statement<'c>,
    delete_item: Statement<'c>,
    delete_pairs: Statement<'c>,
    add_pair: Statement<'c>,
    remove_name: Statement<'c>,
    remove_pair: Statement<'c>,
    state: Statement<'c>,
    /// The latest id of all.
    pub last_id: u64,
}

/// A domain's id and figures.
pub(super) type DomainRow = (u64, DomainFigures);

impl<'c> Rows<'c> {
    pub(super) fn new(connection: &'c Connection) -> rusqlite::Result<Rows<'c>> {
        let prepare = |sql: &str| connection.prepare(sql);
        let mut rows = Rows {
            connection,
            domain: prepare(
                "SELECT id, items, item_name_bytes, names, name_bytes, pairs, value_bytes \
                 FROM domains WHERE region = ? AND account = ? AND name = ?",
            )?,
            domains_of: prepare("SELECT count(*) FROM domains WHERE region = ? AND account = ?")?,
            name: prepare("SELECT id, pairs, items FROM names WHERE domain = ? AND name = ?")?,
            item: prepare("SELECT id FROM items WHERE domain = ? AND name = ?")?,
            pairs: prepare(
                "SELECT attributes.place, names.name, attributes.value FROM attributes \
                 JOIN names ON names.id = attributes.name WHERE attributes.item = ?",
            )?,
            create_domain: prepare(
                "INSERT INTO domains (id, region, account, name) VALUES (?, ?, ?, ?)",
            )?,
            delete_domain: prepare("DELETE FROM domains WHERE id = ?")?,
            note_deleted: prepare("INSERT INTO deleted_domains (id) VALUES (?)")?,
            figures: prepare(
                "UPDATE domains SET items = ?, item_name_bytes = ?, names = ?, name_bytes = ?, \
                 pairs = ?, value_bytes = ? WHERE id = ?",
            )?,
            create_name: prepare("INSERT INTO names (id, domain, name) VALUES (?, ?, ?)")?,
            name_counts: prepare("UPDATE names SET pairs = ?, items = ? WHERE id = ?")?,
            delete_name: prepare("DELETE FROM names WHERE id = ?")?,
            create_item: prepare("INSERT INTO items (id, domain, name) VALUES (?, ?, ?)")?,
            delete_item: prepare("DELETE FROM items WHERE id = ?")?,
            delete_pairs: prepare("DELETE FROM attributes WHERE item = ?")?,
            add_pair: prepare(
                "INSERT INTO attributes (item, place, name, value) VALUES (?, ?, ?, ?)",
            )?,
            remove_name: prepare("DELETE FROM attributes WHERE item = ? AND place = ?")?,
            remove_pair: prepare(
                "DELETE FROM attributes WHERE item = ? AND place = ? AND value = ?",
            )?,
            state: prepare("UPDATE state SET applied = ?, last_id = ?")?,
            last_id: 0,
        };
        rows.load_last_id()?;
        Ok(rows)
    }

    /// After a rollback, too.
    pub(super) fn load_last_id(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT last_id FROM state";
        self.last_id = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0))? as u64;
        Ok(())
    }

    pub(super) fn begin(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")
    }

    /// Notes up to which position of the journal records are applied, and commits.
    pub(super) fn commit(&mut self, applied: u64) -> rusqlite::Result<()> {
        self.state.execute(params![applied as i64, self.last_id as i64])?;
        self.connection.execute_batch("COMMIT")
    }

    /// Commits what is not of the journal.
    pub(super) fn commit_own(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch("COMMIT")
    }

    /// Undoes the transaction, unless SQLite has done so.
    pub(super) fn roll_back(&mut self) -> rusqlite::Result<()> {
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        self.load_last_id()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn domain(&mut self, key: &DomainKey) -> rusqlite::Result<Option<DomainRow>> {
        let DomainKey { region, account, name } = key;
        let row = self.domain.query_row(params![region, account, name], |row| {
            Ok((unsigned(row, 0)?, figures_in(row, 1)?))
        });
        row.optional()
    }

    pub(super) fn domains_of(&mut self, region: &str, account: &str) -> rusqlite::Result<u64> {
        self.domains_of.query_row([region, account], |row| unsigned(row, 0))
    }

    /// Id, pairs and items of a name.
    pub(super) fn name(
        &mut self,
        domain: u64,
        name: &str,
    ) -> rusqlite::Result<Option<(u64, u64, u64)>> {
        let found = self.name.query_row(params![domain as i64, name], |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?, unsigned(row, 2)?))
        });
        found.optional()
    }

    /// The item as it is.
    pub(super) fn plan(&mut self, domain: u64, item: &str) -> rusqlite::Result<Plan> {
        let id = self.item.query_row(params![domain as i64, item], |row| unsigned(row, 0));
        let id = id.optional()?;
        let mut plan = Plan::new(item, id);
        if let Some(id) = id {
            let mut rows = self.pairs.query([id as i64])?;
            while let Some(row) = rows.next()? {
                plan.load(unsigned(row, 0)?, row.get(1)?, row.get(2)?);
            }
        }
        Ok(plan)
    }

    /// Changes the rows. That one is missing, or there already, is an error.
    pub(super) fn apply(&mut self, change: &Change<'_>) -> rusqlite::Result<()> {
        match *change {
            Change::DomainCreated { id, region, account, name } => {
                self.note_id(id);
                self.create_domain.execute(params![id as i64, region, account, name])?;
            }
            Change::DomainDeleted { id } => {
                self.delete_domain.execute([id as i64])?;
                self.note_deleted.execute([id as i64])?;
            }
            Change::Figures { id, figures } => {
                let DomainFigures {
                    items,
                    item_name_bytes,
                    attribute_names,
                    attribute_name_bytes,
                    attribute_values,
                    attribute_value_bytes,
                } = figures;
                self.figures.execute([
                    items as i64,
                    item_name_bytes as i64,
                    attribute_names as i64,
                    attribute_name_bytes as i64,
                    attribute_values as i64,
                    attribute_value_bytes as i64,
                    id as i64,
                ])?;
            }
            Change::NameCreated { id, domain, name } => {
                self.note_id(id);
                self.create_name.execute(params![id as i64, domain as i64, name])?;
            }
            Change::NameCounts { id, pairs: 0, .. } => {
                self.delete_name.execute([id as i64])?;
            }
            Change::NameCounts { id, pairs, items } => {
                self.name_counts.execute([pairs as i64, items as i64, id as i64])?;
            }
            Change::ItemCreated { id, domain, name } => {
                self.note_id(id);
                self.create_item.execute(params![id as i64, domain as i64, name])?;
            }
            Change::ItemDeleted { id } => {
                self.delete_pairs.execute([id as i64])?;
                self.delete_item.execute([id as i64])?;
            }
            Change::PairAdded { item, place, name, value } => {
                let (item, place, name) = (item as i64, place as i64, name as i64);
                self.add_pair.execute(params![item, place, name, value])?;
            }
            Change::NameRemoved { item, place } => {
                self.remove_name.execute([item as i64, place as i64])?;
            }
            Change::PairRemoved { item, place, value } => {
                self.remove_pair.execute(params![item as i64, place as i64, value])?;
            }
        }
        Ok(())
    }

    fn note_id(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }
}

/// A number that is never negative.
pub(super) fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| number as u64)
}

/// The figures of a domain, in the columns from `first` on.
pub(super) fn figures_in(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<DomainFigures> {
    Ok(DomainFigures {
        items: unsigned(row, first)?,
        item_name_bytes: unsigned(row, first + 1)?,
        attribute_names: unsigned(row, first + 2)?,
        attribute_name_bytes: unsigned(row, first + 3)?,
        attribute_values: unsigned(row, first + 4)?,
        attribute_value_bytes: unsigned(row, first + 5)?,
    })
}
