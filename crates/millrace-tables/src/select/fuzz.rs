//! The entry point for fuzzing: any bytes go in, nothing may panic but what shows a defect.

use rusqlite::Connection;

use super::ast::{Output, Select};
use super::{Bounds, Query, SelectError, parser, run};

/// A text as an expression. What it means is written and parsed again, and asked of a domain. What
/// follows the first NUL is the token.
pub fn select(input: &[u8]) {
    let Ok(input) = str::from_utf8(input) else { return };
    let (expression, token) = match input.split_once('\0') {
        Some((expression, token)) => (expression, Some(token)),
        None => (input, None),
    };
    let Ok(select) = parser::parse(expression) else { return };
    let written = format!("select * {select}");
    let expected = Select { output: Output::All, limit: None, ..select.clone() };
    assert_eq!(parser::parse(&written), Ok(expected), "{written}");

    match answer(&select.domain, &Query { region: "r", account: "a", expression, token }) {
        Ok(()) | Err(SelectError::Token) => {}
        Err(error) => panic!("{error}"),
    }
}

fn answer(domain: &str, query: &Query<'_>) -> Result<(), SelectError> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(crate::schema::TABLES)?;
    let insert =
        "INSERT INTO domains (id, region, account, name, items) VALUES (1, 'r', 'a', ?, 1)";
    connection.execute(insert, [domain])?;
    connection.execute_batch(
        "INSERT INTO items (id, domain, name) VALUES (1, 1, 'i');
         INSERT INTO names (id, domain, name, pairs) VALUES (1, 1, 'a', 2);
         INSERT INTO attributes (item, place, name, value) VALUES (1, 0, 1, 'b'), (1, 0, 1, 'c');",
    )?;
    run(&connection, query, &Bounds::default())?;
    Ok(())
}
