//! What each kind of write comes to, and why one is refused.

use futures_executor::block_on;

use super::*;
use crate::domain::DomainFigures;
use crate::item::Attribute;
use crate::store::Limits;
use crate::testing::{limited_tables, memory_tables};
use crate::write::Condition;

fn tables() -> Tables {
    let tables = memory_tables();
    create(&tables, "d");
    tables
}

/// Puts `name=value` pairs; `+name=value` replaces.
fn put_text(tables: &Tables, text: &str) {
    let attribute = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        let replace = name.starts_with('+');
        let (name, value) = (name.trim_start_matches('+').to_owned(), value.to_owned());
        PutAttribute { name, value, replace }
    };
    let attributes = text.split_whitespace().map(attribute).collect();
    let items = vec![PutItem { name: "i".to_owned(), attributes }];
    block_on(tables.write(Write::Put { domain: key("d"), items, condition: None })).unwrap();
}

/// Deletes words, which are `name` or `name=value`.
fn delete_text(tables: &Tables, text: &str) {
    let attribute = |word: &str| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (word.to_owned(), None),
    };
    let attributes = text.split_whitespace().map(attribute).collect();
    let items = vec![DeletedItem { name: "i".to_owned(), attributes }];
    block_on(tables.write(Write::Delete { domain: key("d"), items, condition: None })).unwrap();
}

fn text(tables: &Tables) -> String {
    let pairs = item(tables, "i").unwrap();
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

#[test]
fn calls_one_after_the_other_leave_these_pairs() {
    // Calls by `;`: puts, and deletes after a `-`.
    let cases = [
        ("a=1", "a=1"),
        ("a=1; a=2", "a=1 a=2"),
        ("a=2; a=1", "a=1 a=2"),
        ("a=1; a=1", "a=1"),
        ("a=1 a=1", "a=1"),
        ("a=1; +a=2", "a=2"),
        ("a=1; +a=1", "a=1"),
        ("a=1 a=2; +a=2 +a=3", "a=2 a=3"),
        ("a=1 b=1; +a=2", "a=2 b=1"),
        ("b=1; a=1", "b=1 a=1"),
        ("b=1 a=1; +b=2", "b=2 a=1"),
        ("b=1 a=1; - b; b=2", "a=1 b=2"),
        ("a=1; a=2 +a=3", "a=2 a=3"),
        ("+a=1 +a=2 +a=3 +a=4", "a=1 a=2 a=3 a=4"),
        ("a= b=", "a= b="),
        ("a=1 a=2; - a=1", "a=2"),
        ("a=1 a=2; - a", ""),
        ("a=1 b=2; - a=9 c d=1", "a=1 b=2"),
        ("a=1 b=2; -", ""),
        ("a=1; -; a=2", "a=2"),
        ("a=1; - a=1; b=1 a=3", "b=1 a=3"),
        ("a=1 a=2 a=3; +a=3", "a=3"),
    ];
    for (calls, expected) in cases {
        let tables = tables();
        for call in calls.split(';').map(str::trim) {
            match call.strip_prefix('-') {
                Some(names) => delete_text(&tables, names),
                None => put_text(&tables, call),
            }
        }
        assert_eq!(text(&tables), expected, "{calls}");
    }
}

#[test]
fn conditions_are_of_the_only_value() {
    let is = |name: &str, value: &str| {
        Condition::Is(Attribute { name: name.to_owned(), value: value.to_owned() })
    };
    let absent = |name: &str| Condition::Absent(name.to_owned());
    let other = |name: &str, found: &str, expected: &str| WriteError::OtherValue {
        name: name.to_owned(),
        found: found.to_owned(),
        expected: expected.to_owned(),
    };
    let cases = [
        (is("a", "1"), Ok(())),
        (is("a", "2"), Err(other("a", "1", "2"))),
        (is("a", ""), Err(other("a", "1", ""))),
        (is("b", "1"), Err(WriteError::MultiValued("b".to_owned()))),
        (is("c", "1"), Err(WriteError::AttributeDoesNotExist("c".to_owned()))),
        (absent("c"), Ok(())),
        (absent("a"), Err(WriteError::AttributeExists("a".to_owned()))),
        (absent("b"), Err(WriteError::AttributeExists("b".to_owned()))),
    ];
    for (condition, expected) in cases {
        for is_delete in [false, true] {
            let tables = tables();
            put_text(&tables, "a=1 b=1 b=2");
            let condition = Some(condition.clone());
            let domain = key("d");
            let write = match is_delete {
                false => {
                    let put = PutAttribute { name: "x".into(), value: "y".into(), replace: true };
                    let items = vec![PutItem { name: "i".to_owned(), attributes: vec![put] }];
                    Write::Put { domain, items, condition }
                }
                true => {
                    let items = vec![DeletedItem { name: "i".into(), attributes: Vec::new() }];
                    Write::Delete { domain, items, condition }
                }
            };

            let outcome = block_on(tables.write(write.clone()));

            assert_eq!(outcome, expected, "{write:?}");
            let after = match (expected.is_ok(), is_delete) {
                (false, _) => "a=1 b=1 b=2",
                (true, false) => "a=1 b=1 b=2 x=y",
                (true, true) => "",
            };
            assert_eq!(text(&tables), after, "{write:?}");
        }
    }
}

#[test]
fn limits_refuse_what_exceeds_them_and_change_nothing() {
    let limits = Limits { domains: 1, domain_bytes: 12, domain_pairs: 5, item_pairs: 3 };
    let tables = limited_tables(limits);
    create(&tables, "d");
    create(&tables, "d");
    let second = block_on(tables.write(Write::CreateDomain(key("e"))));
    assert_eq!(second, Err(WriteError::TooManyDomains(1)));
    put(&tables, "i", &[("a", "1"), ("a", "2")]).unwrap();

    let cases: [(&str, &[(&str, &str)], _); 3] = [
        ("i", &[("a", "3"), ("a", "4")], WriteError::TooManyItemAttributes(3)),
        ("j", &[("a", "0123456789")], WriteError::TooManyDomainBytes(12)),
        ("i", &[("b", "0123456789")], WriteError::TooManyDomainBytes(12)),
    ];
    for (item, pairs, expected) in cases {
        assert_eq!(put(&tables, item, pairs), Err(expected));
    }
    put(&tables, "j", &[("a", "1"), ("a", "2"), ("a", "3")]).unwrap();
    let full = put(&tables, "k", &[("a", "1")]);
    assert_eq!(full, Err(WriteError::TooManyDomainAttributes(5)));
    put(&tables, "j", &[("a", "3")]).unwrap();

    assert_eq!(item(&tables, "i").unwrap(), pairs(&[("a", "1"), ("a", "2")]));
    let expected = DomainFigures {
        items: 2,
        item_name_bytes: 2,
        attribute_names: 1,
        attribute_name_bytes: 1,
        attribute_values: 5,
        attribute_value_bytes: 5,
    };
    assert_eq!(block_on(tables.figures(&key("d"))).unwrap(), Some(expected));
}

#[test]
fn a_batch_is_put_as_a_whole_or_not_at_all() {
    let tables = tables();
    let many: Vec<(String, String)> =
        (0..257).map(|number| ("a".to_owned(), number.to_string())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let first = put_of("d", "i", &[("a", "1")]);
    let (Write::Put { items: mut both, .. }, Write::Put { items, .. }) =
        (first.clone(), put_of("d", "j", &many))
    else {
        panic!("puts");
    };
    both.extend(items);
    let batch = Write::Put { domain: key("d"), items: both, condition: None };

    assert_eq!(block_on(tables.write(batch)), Err(WriteError::TooManyItemAttributes(256)));
    assert_eq!(item(&tables, "i"), Some(Vec::new()));
    assert_eq!(put(&tables, "j", &many[..256]), Ok(()));
    assert_eq!(item(&tables, "j").unwrap().len(), 256);
}

#[test]
fn what_is_not_there_is_no_domain() {
    let tables = tables();
    block_on(tables.write(Write::DeleteDomain(key("none")))).unwrap();
    let missing = block_on(tables.write(put_of("none", "i", &[("a", "1")])));

    assert_eq!(missing, Err(WriteError::NoSuchDomain));
    let missing = block_on(tables.write(delete_of("none", "i")));
    assert_eq!(missing, Err(WriteError::NoSuchDomain));
    assert_eq!(block_on(tables.item(&key("none"), "i", None)).unwrap(), None);
    assert_eq!(block_on(tables.figures(&key("none"))).unwrap(), None);
    assert_eq!(item(&tables, "i"), Some(Vec::new()));
}

#[test]
fn domains_are_listed_by_account_in_order() {
    let tables = tables();
    for name in ["e", "Z", "abc", "ab"] {
        create(&tables, name);
    }
    let other = DomainKey { account: "111111111111".to_owned(), ..key("b") };
    block_on(tables.write(Write::CreateDomain(other))).unwrap();
    let list = |after, limit| {
        let key = key("");
        block_on(tables.list_domains(&key.region, &key.account, after, limit)).unwrap()
    };

    assert_eq!(list(None, 100), ["Z", "ab", "abc", "d", "e"]);
    assert_eq!(list(None, 2), ["Z", "ab"]);
    assert_eq!(list(Some("ab"), 2), ["abc", "d"]);
    assert!(list(Some("e"), 2).is_empty());
}

#[test]
fn named_attributes_alone_are_read() {
    let tables = tables();
    put_text(&tables, "b=2 b=1 a=1 c=1");
    let read = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let found = block_on(tables.item(&key("d"), "i", Some(names))).unwrap().unwrap();
        found.into_iter().map(|pair| pair.name + &pair.value).collect::<Vec<_>>()
    };

    assert_eq!(read(&["a", "b", "x"]), ["b1", "b2", "a1"]);
    assert!(read(&["x"]).is_empty());
}

#[test]
fn a_domain_made_again_is_empty_at_once_and_what_it_held_is_removed() {
    let tables = tables();
    for number in 0..1_200 {
        put(&tables, &number.to_string(), &[("a", "1"), ("b", "2"), ("b", "3")]).unwrap();
    }

    block_on(tables.write(Write::DeleteDomain(key("d")))).unwrap();
    assert_eq!(item(&tables, "0"), None);
    create(&tables, "d");
    assert_eq!(item(&tables, "0"), Some(Vec::new()));
    put(&tables, "0", &[("a", "new")]).unwrap();

    let rows = || {
        let sql = "SELECT (SELECT count(*) FROM attributes) + (SELECT count(*) FROM items) \
                   + (SELECT count(*) FROM names) + (SELECT count(*) FROM deleted_domains)";
        let count = move |reader: &rusqlite::Connection| {
            reader.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        block_on(tables.read("0", count)).unwrap()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while rows() > 3 {
        assert!(std::time::Instant::now() < until, "{} rows are left", rows());
        std::thread::yield_now();
    }
    assert_eq!(item(&tables, "0").unwrap(), pairs(&[("a", "new")]));
}
