//! Expressions made to hurt.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::fuzz;
use super::super::parser::parse;
use super::{Database, Found, SelectError};

#[test]
fn nesting_is_bounded() {
    let nested = |open: &str, close: &str, depth: usize| {
        let (open, close) = (open.repeat(depth), close.repeat(depth));
        format!("select * from mydomain where {open} a = 'b' {close}")
    };
    for (open, close) in [("(", ")"), ("not ", ""), ("not (", ")")] {
        assert!(parse(&nested(open, close, 30)).is_ok(), "{open}");
        assert_eq!(parse(&nested(open, close, 100_000)), Err(SelectError::Syntax), "{open}");
        assert_eq!(parse(&nested(open, "", 100_000)), Err(SelectError::Syntax), "{open}");
    }
}

#[test]
fn an_expression_is_as_long_as_a_request_at_most() {
    let mut long = "select * from mydomain".to_owned();
    long.push_str(&" ".repeat((1 << 20) - long.len()));
    assert!(parse(&long).is_ok());
    long.push(' ');
    assert_eq!(parse(&long), Err(SelectError::Syntax));
}

#[test]
fn a_chain_that_no_choice_of_many_values_fits_is_evaluated_soon() {
    // Each of `a` and `b` has 126 values. Each passes another five of ten tests, so none of them can
    // be left out, and no pair passes all twenty tests.
    let values: BTreeSet<String> = (0..1_u32 << 10)
        .filter(|bits| bits.count_ones() == 5)
        .step_by(2)
        .map(|bits| (0..10).filter(|bit| bits >> bit & 1 == 1).map(|bit| LETTERS[bit]).collect())
        .collect();
    let attributes = ["a", "b"].map(|name| (name.to_owned(), values.clone()));
    let database = Database::new("mydomain", &[("item".to_owned(), attributes.to_vec())]);
    let tests = ["a", "b"].iter().flat_map(|attribute| {
        LETTERS.iter().map(move |letter| format!("{attribute} like '%{letter}%'"))
    });
    let condition = tests.collect::<Vec<_>>().join(" and ");

    let page = database.first(&format!("select * from mydomain where {condition}")).unwrap();

    assert_eq!(page.found, Found::Items(Vec::new()));
}

const LETTERS: [char; 10] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

/// Pieces of the language, in any order.
fn pieces() -> impl Strategy<Value = String> {
    const PIECES: [&str; 43] = [
        "select",
        "*",
        "from",
        "mydomain",
        "where",
        "a",
        "b",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "'b'",
        "\"c\"",
        "'it''s'",
        "`a`",
        "`",
        "'",
        "and",
        "or",
        "not",
        "intersection",
        "(",
        ")",
        "every",
        "every(a)",
        "itemName()",
        "count(*)",
        "between",
        "in",
        "('b', 'c')",
        "like",
        "'%b%'",
        "is",
        "null",
        "is not null",
        "order by",
        "a desc",
        "limit",
        "7",
        ",",
        "é",
    ];
    let piece = prop_oneof![
        20 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let pieces = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "));
    prop_oneof![
        pieces.clone(),
        pieces.prop_map(|rest| format!("select * from mydomain where a = 'b' and {rest}")),
    ]
}

proptest! {
    #[test]
    fn any_text_is_answered_or_refused(expression in pieces()) {
        fuzz::select(expression.as_bytes());
    }
}
