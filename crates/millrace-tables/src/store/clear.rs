//! Removes what deleted domains held, a piece at a time. It is in no record: no reader sees it, and
//! wherever it stopped, it goes on.

use rusqlite::{Connection, OptionalExtension, params};

/// Pairs removed at a time, about: some milliseconds.
const PAIRS_AT_A_TIME: usize = 2_000;
/// Items, or names, removed at a time.
const ROWS_AT_A_TIME: usize = 500;

/// Removes a piece in a transaction of the caller's. Returns false if nothing is left to remove.
pub(super) fn clear_piece(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT id FROM deleted_domains LIMIT 1";
    let domain = connection.query_row(sql, [], |row| row.get::<_, i64>(0)).optional()?;
    let Some(domain) = domain else { return Ok(false) };
    let mut of_domain = connection.prepare("SELECT id FROM items WHERE domain = ? LIMIT ?")?;
    let items = of_domain.query_map(params![domain, ROWS_AT_A_TIME as i64], |row| row.get(0))?;
    let items = items.collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut remove_pairs = connection.prepare("DELETE FROM attributes WHERE item = ?")?;
    let mut remove_item = connection.prepare("DELETE FROM items WHERE id = ?")?;
    let mut pairs = 0;
    for item in &items {
        pairs += remove_pairs.execute([item])?;
        remove_item.execute([item])?;
        if pairs >= PAIRS_AT_A_TIME {
            break;
        }
    }
    if !items.is_empty() {
        return Ok(true);
    }
    let names = connection.execute(
        "DELETE FROM names WHERE id IN (SELECT id FROM names WHERE domain = ? LIMIT ?)",
        params![domain, ROWS_AT_A_TIME as i64],
    )?;
    if names == 0 {
        connection.execute("DELETE FROM deleted_domains WHERE id = ?", [domain])?;
    }
    Ok(true)
}
