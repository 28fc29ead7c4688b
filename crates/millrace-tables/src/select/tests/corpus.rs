//! The queries of `tests/simpledb/corpus.json`, which are asked of the server, too.

use serde_json::Value;

use super::database::row;
use super::{Database, Found, SelectError};

const CORPUS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/simpledb/corpus.json"));

#[test]
fn queries_of_the_corpus_have_their_answers() {
    let corpus: Value = serde_json::from_str(CORPUS).unwrap();
    let rows: Vec<_> = list(&corpus["items"])
        .iter()
        .map(|item| {
            let pairs = list(&item["attributes"]).iter();
            row(text(&item["name"]), pairs.map(|pair| (text(&pair[0]), text(&pair[1]))))
        })
        .collect();
    let database = Database::new(text(&corpus["domain"]), &rows);
    for query in list(&corpus["queries"]) {
        check(&database, query);
    }
}

fn check(database: &Database, query: &Value) {
    let expression = text(&query["expression"]);
    let answer = database.first(expression);
    if let Some(code) = query["error"].as_str() {
        assert_eq!(answer.map_err(|error| code_of(&error)), Err(code), "{expression}");
        return;
    }
    let page = answer.unwrap_or_else(|error| panic!("{expression}: {error}"));
    let items = match page.found {
        Found::Count(count) => {
            assert_eq!(Some(count), query["count"].as_u64(), "{expression}");
            return;
        }
        Found::Items(items) => items,
    };
    let mut found: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    let mut expected: Vec<&str> = list(&query["items"]).iter().map(text).collect();
    if query["in_order"] != true {
        found.sort_unstable();
        expected.sort_unstable();
    }
    assert_eq!(found, expected, "{expression}");
    for item in items.iter().filter(|_| query["attributes"].is_object()) {
        let pairs = item.attributes.iter().map(|pair| vec![pair.name.clone(), pair.value.clone()]);
        let pairs = serde_json::to_value(pairs.collect::<Vec<_>>()).unwrap();
        assert_eq!(pairs, query["attributes"][&item.name], "{expression}");
    }
}

fn code_of(error: &SelectError) -> &'static str {
    match error {
        SelectError::Syntax => "InvalidQueryExpression",
        SelectError::TooManyPredicates(_) => "InvalidNumberPredicates",
        SelectError::TooManyValues(_) => "InvalidNumberValueTests",
        SelectError::Sort => "InvalidSortExpression",
        SelectError::Limit(_) => "InvalidParameterValue",
        SelectError::TooManyAttributes(_) => "TooManyRequestedAttributes",
        SelectError::Token => "InvalidNextToken",
        SelectError::NoSuchDomain => "NoSuchDomain",
        SelectError::TimedOut => "RequestTimeout",
        SelectError::Failed(_) => "InternalError",
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
