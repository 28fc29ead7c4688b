//! What a query costs: which index SQLite uses, and how many entries are examined.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::super::ast::Direction;
use super::super::walk::Index;
use super::{Bounds, Found, Query, run};

#[test]
fn every_walk_searches_an_index_and_sorts_nothing() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(crate::schema::TABLES).unwrap();
    let value = "SEARCH attributes USING COVERING INDEX attributes_by_value (name=? AND ";
    let name = "SEARCH items USING COVERING INDEX sqlite_autoindex_items_1 \
                (domain=? AND name>? AND name<?)";
    let cases = [
        (
            Index::Values { name: 1 },
            Direction::Ascending,
            format!("{value}(value,item)>(?,?) AND value<?)"),
        ),
        (
            Index::Values { name: 1 },
            Direction::Descending,
            format!("{value}value>? AND (value,item)<(?,?))"),
        ),
        (Index::ItemNames { domain: 1 }, Direction::Ascending, name.to_owned()),
        (Index::ItemNames { domain: 1 }, Direction::Descending, name.to_owned()),
    ];
    for (index, direction, expected) in cases {
        let sql = index.sql(direction);
        assert_eq!(plan_of(&connection, sql), expected, "{sql}");
    }
    let pairs = "SELECT name, value FROM attributes WHERE item = ? ORDER BY place, value";
    assert_eq!(plan_of(&connection, pairs), "SEARCH attributes USING PRIMARY KEY (item=?)");
}

fn plan_of(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![0; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3));
    rows.unwrap().collect::<Result<Vec<String>, _>>().unwrap().join("; ")
}

const ITEMS: i64 = 1_000_000;

/// Prints the time of first pages. Run it with
/// `cargo test --profile fast -p millrace-tables --lib speed -- --ignored --nocapture`.
#[test]
#[ignore = "builds a database of a million items"]
fn first_pages_of_a_million_items() {
    let directory = tempfile::tempdir().unwrap();
    let connection = Connection::open(directory.path().join("items")).unwrap();
    fill(&connection);
    let cases = [
        ("ticker = 'T0500'", true),
        ("ticker in ('T0001', 'T0500', 'T0999')", true),
        ("ticker != 'T0000'", true),
        ("day > '0500000'", true),
        ("day between '0300000' and '0300050'", true),
        ("day like '07%'", true),
        ("day not like '07%'", true),
        ("day like '%77'", false),
        ("day like '%777777'", false),
        ("itemName() like '%777777'", false),
        ("label = 'even'", true),
        ("label > 'm'", true),
        ("every(label) > 'a'", true),
        ("every(label) = 'even'", false),
        ("not label = 'even'", true),
        ("day > '0500000' order by day", true),
        ("day > '0500000' order by day desc", true),
        ("day is not null order by day", true),
        ("label > 'a' order by label", true),
        ("label < 'z' order by label", true),
        ("label < 'z' order by label desc", true),
        ("label > 'odd' order by label", false),
        ("ticker = 'T0500' order by ticker", true),
        ("itemName() > 'item0500000'", true),
        ("itemName() > 'item0500000' order by itemName() desc", true),
        ("ticker = 'T0500' and day > '0900000'", true),
        ("ticker = 'T0500' and day > '0900000' order by day desc", true),
        ("ticker = 'T0500' intersection label = 'even'", true),
        ("label = 'even' and half = 'first'", true),
        ("label = 'even' and half = 'second'", false),
        ("half = 'second' and label = 'even' and day > '' order by day", false),
        ("ticker = 'T0500' or ticker = 'T0501'", true),
        ("ticker = 'T0500' or day = '0000007'", true),
        ("ticker = 'T0500' or day = '0000007' order by day", true),
        ("seldom is not null", true),
        ("seldom is null", true),
        ("day is null", false),
    ];
    let mut report = String::from("ms, median of five | examined | found | token | condition\n");
    let mut slow = Vec::new();
    for (condition, is_fast) in cases {
        let expression = format!("select * from mydomain where {condition}");
        let examined = measure(&connection, &expression, condition, &mut report);
        if is_fast && examined > 3_000 {
            slow.push(condition);
        }
    }
    let counts = [
        "",
        "where ticker = 'T0500'",
        "where day > '0500000'",
        "where label > 'a'",
        "where day is null",
    ];
    for condition in counts {
        let expression = format!("select count(*) from mydomain {condition}");
        measure(&connection, &expression, &format!("count(*) {condition}"), &mut report);
    }
    println!("{report}");
    assert_eq!(slow, Vec::<&str>::new());
}

fn measure(connection: &Connection, expression: &str, name: &str, report: &mut String) -> u64 {
    let query = Query { region: "r", account: "a", expression, token: None };
    let mut times: Vec<Duration> = Vec::new();
    let mut last = None;
    for _ in 0..5 {
        let started = Instant::now();
        last = Some(run(connection, &query, &Bounds::default()).unwrap());
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let page = last.unwrap();
    let found = match page.found {
        Found::Items(items) => items.len() as u64,
        Found::Count(count) => count,
    };
    let ms = times[2].as_secs_f64() * 1000.0;
    let token = page.token.is_some();
    writeln!(report, "{ms:9.2} | {} | {found} | {token} | {name}", page.examined).unwrap();
    page.examined
}

/// Each item has six attributes. `label` has two values.
fn fill(connection: &Connection) {
    connection.execute_batch("PRAGMA journal_mode = wal; PRAGMA cache_size = -200000;").unwrap();
    connection.execute_batch(crate::schema::TABLES).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let domain = "INSERT INTO domains (id, region, account, name, items) VALUES (1, 'r', 'a', 'mydomain', ?)";
    connection.execute(domain, [ITEMS]).unwrap();
    let names = ["ticker", "day", "label", "half", "text", "seldom"];
    let mut item =
        connection.prepare("INSERT INTO items (id, domain, name) VALUES (?, 1, ?)").unwrap();
    let insert = "INSERT INTO attributes (item, place, name, value) VALUES (?, ?, ?, ?)";
    let mut pair = connection.prepare(insert).unwrap();
    let mut pairs = [0_i64; 6];
    for id in 1..=ITEMS {
        item.execute(params![id, format!("item{id:07}")]).unwrap();
        let mut add = |name: usize, value: &str| {
            pairs[name] += 1;
            pair.execute(params![id, name as i64, name as i64 + 1, value]).unwrap();
        };
        // In no order, as a multiple of it goes round.
        let mixed = id * 7_919 % ITEMS;
        add(0, &format!("T{:04}", mixed % 1_000));
        add(1, &format!("{mixed:07}"));
        add(2, if id % 2 == 0 { "even" } else { "odd" });
        add(2, &format!("n{}", id % 10));
        // The second half is where the labels are odd, so no item has both.
        add(3, if id % 2 == 0 { "first" } else { "second" });
        add(4, "a text that is as long as those of others are");
        if id % 10_000 == 0 {
            add(5, "x");
        }
    }
    for (index, name) in names.iter().enumerate() {
        let items = if index == 2 { pairs[index] / 2 } else { pairs[index] };
        let insert = "INSERT INTO names (id, domain, name, pairs, items) VALUES (?, 1, ?, ?, ?)";
        connection.execute(insert, params![index as i64 + 1, name, pairs[index], items]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    connection
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size = -4096;")
        .unwrap();
}
