//! Select: its language, and how SQLite answers it.
//!
//! ```text
//!  text ─ lexer ─ parser ─▶ ast ─ ranges ─▶ plan: one walk of an index
//!                            │                       │ candidates, in the order of the answer
//!                            └──── condition ──▶ filter ─▶ page
//! ```
//! An answer is a walk of one index, so that neither a sort nor a set of items is ever held. Each
//! candidate is loaded, and the condition is evaluated on it. A page knows at any moment how far the
//! walk has come: what a time limit cuts short goes on from there.
//!
//! Bounded: the length and the depth of an expression, its predicates and values, the items and
//! bytes of a page, the time for it.

mod ast;
mod condition;
mod covers;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod lexer;
mod page;
mod parser;
mod pattern;
mod plan;
mod ranges;
#[cfg(test)]
mod tests;
mod token;
mod walk;

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use self::ast::Output;
pub use self::error::SelectError;
use self::token::Position;
use crate::item::Item;

/// A query, as a client sends it.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub region: &'a str,
    pub account: &'a str,
    pub expression: &'a str,
    /// From the page before.
    pub token: Option<&'a str>,
}

/// What ends a page, besides the expression's own limit.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Of the answer as XML, about.
    pub answer_bytes: usize,
    pub time: Duration,
}

/// An answer, or a page of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub found: Found,
    /// If there is more.
    pub token: Option<String>,
    /// Items that the condition was evaluated on.
    pub examined: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Without attributes if the output is `itemName()`.
    Items(Vec<Item>),
    /// The answer to `count(*)`, to be added to those of the other pages. Clients see one item
    /// named `Domain` with the attribute `Count`.
    Count(u64),
}

impl Default for Bounds {
    fn default() -> Bounds {
        // SimpleDB developer guide, "Limits": 1 MB and 5 s. A reader is interrupted after 5 s; a
        // page that ends before still answers.
        Bounds { answer_bytes: 1 << 20, time: Duration::from_millis(4500) }
    }
}

/// Answers a query with the first page, or with the page that the token is for.
///
/// Everything is read from one snapshot.
pub fn run(
    connection: &Connection,
    query: &Query<'_>,
    bounds: &Bounds,
) -> Result<Page, SelectError> {
    let select = parser::parse(query.expression)?;
    let fingerprint = token::fingerprint(query, &select);
    let after = match query.token {
        Some(token) => Some(Position::from_token(token, fingerprint)?),
        None => None,
    };
    let snapshot = connection.unchecked_transaction()?;
    let sql = "SELECT id, items FROM domains WHERE region = ? AND account = ? AND name = ?";
    let parameters = params![query.region, query.account, select.domain];
    let found = snapshot.query_row(sql, parameters, |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    });
    let (domain, items) = found.optional()?.ok_or(SelectError::NoSuchDomain)?;
    let is_whole_count = select.output == Output::Count
        && select.condition.is_none()
        && select.limit.is_none()
        && after.is_none();
    if is_whole_count {
        return Ok(Page { found: Found::Count(items), token: None, examined: 0 });
    }
    let plan = plan::plan(&snapshot, domain, &select, after.as_ref())?;
    let gathered = page::gather(&snapshot, domain, &select, &plan, (after, bounds))?;
    let token = gathered.next.map(|next| next.to_token(fingerprint));
    Ok(Page { found: gathered.found, token, examined: gathered.examined })
}
