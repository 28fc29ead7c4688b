//! Texts made to be slow, large or deep.

use super::{body_matches, policy};
use crate::{FilterError, FilterPolicy, Filters, Message, Scope};

#[test]
fn deep_policies_are_refused() {
    let nested = format!("{}[1]{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    let error = FilterPolicy::parse(&nested, Scope::MessageBody).unwrap_err();
    assert!(error.to_string().starts_with("failed to parse JSON. recursion limit"), "{error}");

    let dotted = format!(r#"{{"{}":[1]}}"#, ".".repeat(200_000));
    let error = FilterPolicy::parse(&dotted, Scope::MessageBody).unwrap_err();
    assert_eq!(error, FilterError::TooComplex);

    let as_deep_as_it_may = vec!["a"; 128].join(".");
    let policy = format!(r#"{{"{as_deep_as_it_may}":[1]}}"#);
    assert!(body_matches(&policy, &format!(r#"{{"{as_deep_as_it_may}":1}}"#)));
}

#[test]
fn deep_bodies_match_nothing_below_the_bound() {
    let nested = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    assert!(!body_matches(r#"{"b":[{"exists":false}]}"#, &nested));
    let arrays = format!(r#"{{"a":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(!body_matches(r#"{"b":[{"exists":false}]}"#, &arrays));

    let dotted =
        format!(r#"{{"{}":1,"a":{{"x{}":1}},"b":1}}"#, ".".repeat(100_000), ".x".repeat(127));
    assert!(body_matches(r#"{"b":[1],"a":[{"exists":false}]}"#, &dotted));
}

#[test]
fn alternatives_that_repeat_many_keys_are_refused() {
    let keys: Vec<_> = (0..200).map(|key| format!(r#""k{key}":[1]"#)).collect();
    let branches: Vec<_> = (0..100).map(|key| format!(r#"{{"b{key}":[1]}}"#)).collect();
    let text =
        format!(r#"{{"$or":[{{{},"$or":[{}]}},{{"x":[1]}}]}}"#, keys.join(","), branches.join(","));

    let error = FilterPolicy::parse(&text, Scope::MessageBody).unwrap_err();

    assert_eq!(error, FilterError::TooComplex);
}

/// Each takes a blink if its cost grows with its size, and minutes if with the square of it.
#[test]
fn large_bodies_are_matched() {
    let policies = [
        r#"{"a":{"b":[1],"c":[2]}}"#,
        r#"{"a":["x"]}"#,
        r#"{"a":{"b":{"c":{"d":{"e":[{"exists":false}]}}}}}"#,
        r#"{"$or":[{"a":[{"numeric":[">",5]}]},{"a.b":[{"suffix":"z"}]}]}"#,
    ];
    let repeat = |part: &dyn Fn(usize) -> String, count: usize| {
        (0..count).map(part).collect::<Vec<_>>().join(",")
    };
    let bodies = [
        format!(r#"{{"a":[{}]}}"#, repeat(&|_| r#"{"b":1}"#.into(), 100_000)),
        format!(r#"{{"a":[{}]}}"#, repeat(&|_| r#""x""#.into(), 200_000)),
        format!(r#"{{"a":[{}]}}"#, repeat(&|_| "{}".into(), 200_000)),
        format!(r#"{{"a":[{}]}}"#, repeat(&|_| "[[1],{}]".into(), 100_000)),
        format!("{{{}}}", repeat(&|key| format!(r#""a.k{}":1"#, key * 7919 % 50_000), 50_000)),
        format!("{{{}}}", repeat(&|key| format!(r#""a.b.c.d.e{key}":1"#), 50_000)),
        format!("{{{}}}", repeat(&|_| r#""a":[{"b":1},2]"#.into(), 50_000)),
        format!("{{{}}}", repeat(&|_| r#""a":{"b":[{"c":1}]},"a.b":[{}]"#.into(), 20_000)),
    ];
    let mut filters = Filters::new();
    for key in 0..1000 {
        filters.insert(key, policy(r#"{"a":["x"]}"#, Scope::MessageBody));
    }
    for (at, body) in bodies.iter().enumerate() {
        let message = Message::new(body, Vec::new());
        assert!(message.is_readable(Scope::MessageBody), "{at}");
        for text in policies {
            policy(text, Scope::MessageBody).matches(&message);
        }
        let mut found = Vec::new();
        filters.matching(&message, &mut found);
        assert_eq!(found.len(), if at == 1 { 1000 } else { 0 }, "{at}");
    }
}

#[test]
fn a_value_that_repeats_counts_once_for_each_policy() {
    let mut filters = Filters::new();
    for key in 0..1000 {
        filters.insert(key, policy(r#"{"a":{"b":["x"]}}"#, Scope::MessageBody));
    }
    let body = format!(r#"{{"a":[{}]}}"#, vec![r#"{"b":"x"}"#; 20_000].join(","));
    let message = Message::new(&body, Vec::new());
    let mut found = Vec::new();

    let evaluated = filters.matching(&message, &mut found);

    assert_eq!(filters.indexed(&message).len(), 1);
    assert_eq!((found.len(), evaluated), (1000, 1000));
}
