//! Number of policies that a message costs.

use super::{attribute, policy};
use crate::{Filters, Message, Scope};

/// The subscriptions that match, and how many policies were evaluated.
fn matching(filters: &Filters<u32>, message: &Message<'_>) -> (Vec<u32>, usize) {
    let mut found = Vec::new();
    let evaluated = filters.matching(message, &mut found);
    (found, evaluated)
}

#[test]
fn different_exact_values_cost_what_matches() {
    let mut filters = Filters::new();
    for key in 0..1000 {
        let text = format!(r#"{{"event":["order"],"tenant":["c{key}"]}}"#);
        let scope = [Scope::MessageAttributes, Scope::MessageBody][key as usize % 2];
        filters.insert(key, policy(&text, scope));
    }

    let message = |tenant| {
        Message::new(
            r#"{"event":"order","tenant":"c501","items":["c1","c3"]}"#,
            vec![attribute("event", "String", "order"), attribute("tenant", "String", tenant)],
        )
    };

    // The first policy of each scope is indexed by its event: nothing was in the index then.
    let (found, evaluated) = matching(&filters, &message("c500"));
    assert_eq!(found, [500, 501]);
    assert_eq!(evaluated, 4);
    let (found, evaluated) = matching(&filters, &message("c1001"));
    assert_eq!(found, [501]);
    assert_eq!(evaluated, 3);
}

#[test]
fn different_keys_cost_what_matches() {
    let mut filters = Filters::new();
    for key in 0..1000 {
        let text = format!(r#"{{"object":{{"k{key}":[true,"yes",1,null,false]}}}}"#);
        filters.insert(key, policy(&text, Scope::MessageBody));
    }
    for value in ["true", "false", "null", "1.0", r#""yes""#, r#"[7,"yes"]"#] {
        let body = format!(r#"{{"object":[{{"k7":{value}}},{{"k8":2,"x":true}}]}}"#);
        assert_eq!(matching(&filters, &Message::new(&body, Vec::new())), (vec![7], 1), "{body}");
    }
}

#[test]
fn alternatives_are_indexed_each() {
    let mut filters = Filters::new();
    for key in 0..100 {
        let text =
            format!(r#"{{"$or":[{{"a":["{key}"]}},{{"b":[{key}],"c":[{{"prefix":"x"}}]}}]}}"#);
        filters.insert(key, policy(&text, Scope::MessageBody));
    }

    let message = Message::new(r#"{"a":"5","b":6,"c":"xy"}"#, Vec::new());
    assert_eq!(matching(&filters, &message), (vec![5, 6], 2));
    let message = Message::new(r#"{"a":5,"b":6,"c":"y"}"#, Vec::new());
    assert_eq!(matching(&filters, &message), (vec![], 1));
}

#[test]
fn other_policies_are_evaluated_one_by_one() {
    let mut filters = Filters::new();
    for (key, text) in [
        r#"{"a":[{"prefix":"x"}]}"#,
        r#"{"a":["x",{"exists":false}]}"#,
        r#"{"$or":[{"a":["x"]},{"b":[{"exists":false}]}]}"#,
        "{}",
    ]
    .into_iter()
    .enumerate()
    {
        filters.insert(key as u32, policy(text, Scope::MessageBody));
    }

    assert_eq!(matching(&filters, &Message::new(r#"{"b":1}"#, Vec::new())), (vec![1, 3], 4));
    assert_eq!(matching(&filters, &Message::new("no", Vec::new())), (vec![3], 4));
}

#[test]
fn replaced_and_removed_policies_leave_nothing() {
    let mut filters = Filters::new();
    let texts = [
        r#"{"a":["1"]}"#,
        r#"{"a":["1","2",3,true,false,null]}"#,
        r#"{"$or":[{"a":["1"]},{"b":["1"]}]}"#,
        r#"{"a":[{"prefix":"1"}]}"#,
    ];
    let message = || Message::new(r#"{"a":"1"}"#, vec![attribute("a", "String", "1")]);

    for scope in [Scope::MessageBody, Scope::MessageAttributes] {
        for text in texts {
            filters.insert(1, policy(text, scope));
            filters.insert(2, policy(text, scope));
            assert_eq!(matching(&filters, &message()), (vec![1, 2], 2), "{text}");
            assert!(filters.remove(2));
            assert_eq!(matching(&filters, &message()), (vec![1], 1), "{text}");
            assert_eq!(filters.len(), 1);
        }
    }
    assert!(!filters.remove(2));
    assert!(filters.remove(1));
    assert!(filters.is_empty());
    assert_eq!(matching(&filters, &message()), (vec![], 0));
}

#[test]
fn found_subscriptions_are_appended_once_and_in_order() {
    let mut filters = Filters::new();
    for key in [9, 3, 7] {
        filters.insert(key, policy(r#"{"a":[1,2]}"#, Scope::MessageBody));
    }
    filters.insert(5, policy(r#"{"a":[{"exists":true}]}"#, Scope::MessageBody));
    let mut found = vec![7, 7];

    filters.matching(&Message::new(r#"{"a":[1,2,1,2]}"#, Vec::new()), &mut found);

    assert_eq!(found, [7, 7, 3, 5, 7, 9]);
}

#[test]
fn only_what_policies_ask_for_is_parsed() {
    let mut filters = Filters::new();
    let message = || Message::new(r#"{"a":"1"}"#, vec![attribute("a", "String", "1")]);

    let unused = message();
    matching(&filters, &unused);
    assert!(!unused.is_parsed(Scope::MessageBody) && !unused.is_parsed(Scope::MessageAttributes));

    filters.insert(1, policy(r#"{"a":["1"]}"#, Scope::MessageAttributes));
    filters.insert(2, policy(r#"{"a":[{"prefix":"1"}]}"#, Scope::MessageAttributes));
    let attributes_only = message();
    assert_eq!(matching(&filters, &attributes_only).0, [1, 2]);
    assert!(!attributes_only.is_parsed(Scope::MessageBody));

    filters.insert(3, policy(r#"{"a":["1"]}"#, Scope::MessageBody));
    assert_eq!(matching(&filters, &message()).0, [1, 2, 3]);
}
