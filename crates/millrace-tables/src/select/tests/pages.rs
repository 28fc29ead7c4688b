//! Pages and tokens.

use std::time::Duration;

use super::database::{Row, row};
use super::{Bounds, Database, Found, Page, Query, SelectError, run};

/// Items `i000` and so on. `list` has two values, the others one. Only odd numbers have `odd`.
fn numbered(count: usize) -> Database {
    let rows: Vec<Row> = (0..count)
        .map(|number| {
            let text = format!("{number:03}");
            let even = (number % 2 == 0).to_string();
            let other = format!("{:03}", count - number);
            let mut pairs =
                vec![("number", text.as_str()), ("even", &even), ("list", &text), ("list", &other)];
            if number % 2 == 1 {
                pairs.push(("odd", &text));
            }
            row(&format!("i{text}"), pairs)
        })
        .collect();
    Database::new("mydomain", &rows)
}

fn names(page: &Page) -> Vec<&str> {
    match &page.found {
        Found::Items(items) => items.iter().map(|item| item.name.as_str()).collect(),
        Found::Count(count) => panic!("a count of {count}"),
    }
}

#[test]
fn a_page_has_a_hundred_items_unless_a_limit_says_otherwise() {
    let database = numbered(250);

    let first = database.first("select * from mydomain").unwrap();
    let whole = database.first("select itemName() from mydomain limit 250").unwrap();

    assert_eq!(names(&first).len(), 100);
    assert!(first.token.is_some());
    assert_eq!(names(&whole).len(), 250);
    assert_eq!(whole.token, None, "the limit is met exactly at the end");
}

#[test]
fn a_token_goes_on_with_another_limit_and_another_output() {
    let database = numbered(50);
    let bounds = Bounds::default();

    let first = database.first("select * from mydomain where number > '009' limit 20").unwrap();
    let second = "SELECT  itemName() from `mydomain` where number > \"009\" limit 2";
    let second = database.page(second, first.token.as_deref(), &bounds).unwrap();
    let third = "select number from mydomain where number > '009'";
    let third = database.page(third, second.token.as_deref(), &bounds).unwrap();

    assert_eq!(names(&first).last(), Some(&"i029"));
    assert_eq!(names(&second), ["i030", "i031"]);
    assert_eq!(names(&third).first(), Some(&"i032"));
    assert_eq!(names(&third).last(), Some(&"i049"));
    assert_eq!(third.token, None);
}

#[test]
fn the_token_of_a_count_skips() {
    let database = numbered(50);
    let conditions = [
        "where even = 'true' order by even",
        "where list > '005' order by list desc",
        "where itemName() > 'i' order by itemName() desc",
        "where number > '020' and even = 'true' order by number",
        "where list > '020' or odd > '0'",
        "where number > '020'",
        "",
    ];
    for condition in conditions {
        let counted = database.first(&format!("select count(*) from mydomain {condition} limit 5"));
        let counted = counted.unwrap();
        let expression = format!("select itemName() from mydomain {condition}");
        let all = database.first(&expression).unwrap();
        let rest = database.page(&expression, counted.token.as_deref(), &Bounds::default());

        assert_eq!(counted.found, Found::Count(5), "{condition}");
        assert_eq!(names(&rest.unwrap()), names(&all)[5..], "{condition}");
    }
}

#[test]
fn a_token_of_another_query_is_refused() {
    let database = numbered(50);
    let bounds = Bounds::default();
    let expression = "select * from mydomain where number > '009' limit 2";
    let token = database.first(expression).unwrap().token.unwrap();
    let mut longer = token.clone();
    longer.push('!');
    let of_other_version = format!("B{}", &token[1..]);
    let of_no_walk = format!("{}_{}", &token[..12], &token[13..]);

    let others = [
        "select * from mydomain where number > '008' limit 2",
        "select * from mydomain where number > '009' order by number limit 2",
        "select * from mydomain where number > '009' or number > '009'",
        "select * from mydomain",
    ];
    for other in others {
        let answer = database.page(other, Some(&token), &bounds);
        assert_eq!(answer, Err(SelectError::Token), "{other}");
    }
    let long = "A".repeat(1 << 20);
    for token in
        ["", "AAAA", "no token", &token[..16], &longer, &of_other_version, &of_no_walk, &long]
    {
        let answer = database.page(expression, Some(token), &bounds);
        assert_eq!(answer, Err(SelectError::Token), "{token}");
    }
    let of_other_account =
        Query { region: "r", account: "b", expression, token: Some(token.as_str()) };
    assert_eq!(run(&database.connection, &of_other_account, &bounds), Err(SelectError::Token));
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
}

#[test]
fn a_page_ends_at_its_bytes() {
    let database = numbered(50);
    let bounds = Bounds { answer_bytes: 600, ..Bounds::default() };
    let expressions = [
        "select * from mydomain where number > '' order by number",
        "select * from mydomain where itemName() > '' and number > '' order by itemName()",
        "select * from mydomain",
    ];
    for expression in expressions {
        let page = database.page(expression, None, &bounds).unwrap();
        assert_eq!(names(&page), ["i000", "i001"], "{expression}");
        let all: Vec<String> =
            database.all(expression, &bounds).into_iter().map(|item| item.name).collect();
        let expected: Vec<String> = (0..50).map(|number| format!("i{number:03}")).collect();
        assert_eq!(all, expected, "{expression}");
    }
    let one = Bounds { answer_bytes: 1, ..Bounds::default() };
    assert_eq!(names(&database.page(expressions[0], None, &one).unwrap()), ["i000"]);
}

#[test]
fn what_the_time_limit_cuts_short_goes_on_from_there() {
    let database = numbered(500);
    let at_once = Bounds { time: Duration::ZERO, ..Bounds::default() };
    let rare = "select itemName() from mydomain where list > '' intersection number like '%77'";

    let first = database.page(rare, None, &at_once).unwrap();
    let all = database.all(rare, &at_once);
    let first_count = "select count(*) from mydomain where number >= '100' and even like '%e'";
    let first_count = database.page(first_count, None, &at_once).unwrap();

    assert!(first.examined < 100, "{}", first.examined);
    assert!(first.token.is_some());
    assert_eq!(all.len(), 5);
    assert_eq!(first_count.found, Found::Count(64));
    assert!(first_count.token.is_some());
    let expression = "select count(*) from mydomain where number >= '100' and even like '%e'";
    assert_eq!(database.count(expression, &at_once), 400);
}

#[test]
fn a_full_page_does_not_look_for_more_for_long() {
    let database = numbered(3_000);
    let one = "select itemName() from mydomain where not number > '000' limit 1";

    let page = database.first(one).unwrap();
    let rest = database.page(one, page.token.as_deref(), &Bounds::default()).unwrap();

    assert_eq!(names(&page), ["i000"]);
    assert_eq!(page.examined, 1_001);
    assert_eq!((names(&rest), &rest.token), (vec![], &None));
}

#[test]
fn a_count_of_everything_reads_nothing() {
    let database = numbered(300);

    let all = database.first("select count(*) from mydomain").unwrap();
    let some = database.first("select count(*) from mydomain limit 200").unwrap();

    assert_eq!((all.found, all.token, all.examined), (Found::Count(300), None, 0));
    assert_eq!(some.found, Found::Count(200));
    assert!(some.token.is_some());
}
