//! Which values match.

use super::{attribute, attributes_match, body_matches, policy};
use crate::{AttributeKind, Message, Scope};

/// A condition, a JSON value, and whether they match, as the only one of a key in a body.
const CONDITIONS: &[(&str, &str, bool)] = &[
    (r#""rugby""#, r#""rugby""#, true),
    (r#""rugby""#, r#""Rugby""#, false),
    (r#""rugby""#, r#""rugby ""#, false),
    (r#""99""#, "99", false),
    ("99", r#""99""#, false),
    ("300", "300.0", true),
    ("300", "3.0e2", true),
    ("-0.0", "0", true),
    ("123.456789", "123.4567891", true),
    ("123.456789", "123.456788", false),
    ("500000000", "5e8", true),
    ("500000001", "500000001.0", true),
    ("999999999", "9007199254740992", false),
    ("999999999", "18446744073709551614", false),
    ("-999999999", "-9223372036854775807", false),
    ("1e8", "1e300", false),
    ("true", "true", true),
    ("true", "false", false),
    ("true", r#""true""#, false),
    ("null", "null", true),
    ("null", "false", false),
    (r#"{"prefix":"bas"}"#, r#""baseball""#, true),
    (r#"{"prefix":"bas"}"#, r#""bas""#, true),
    (r#"{"prefix":"bas"}"#, r#""Basketball""#, false),
    (r#"{"prefix":""}"#, r#""""#, true),
    (r#"{"prefix":""}"#, "1", false),
    (r#"{"suffix":"ball"}"#, r#""baseball""#, true),
    (r#"{"suffix":"ball"}"#, r#""balls""#, false),
    (r#"{"equals-ignore-case":"tEnnis"}"#, r#""TeNNIS""#, true),
    (r#"{"equals-ignore-case":"tennis"}"#, r#""tenis""#, false),
    (r#"{"equals-ignore-case":"GRÜN"}"#, r#""grün""#, true),
    (r#"{"anything-but":"rugby"}"#, r#""tennis""#, true),
    (r#"{"anything-but":"rugby"}"#, r#""rugby""#, false),
    (r#"{"anything-but":["rugby","tennis"]}"#, r#""tennis""#, false),
    (r#"{"anything-but":["rugby","tennis"]}"#, r#""golf""#, true),
    (r#"{"anything-but":100}"#, "101", true),
    (r#"{"anything-but":100}"#, "100.0", false),
    (r#"{"anything-but":[100,500]}"#, "500", false),
    (r#"{"anything-but":["100"]}"#, "100", true),
    (r#"{"anything-but":100}"#, r#""100""#, true),
    (r#"{"anything-but":{"prefix":"bas"}}"#, r#""rugby""#, true),
    (r#"{"anything-but":{"prefix":"bas"}}"#, r#""baseball""#, false),
    (r#"{"anything-but":{"prefix":"1"}}"#, "1", true),
    (r#"{"numeric":["=",100]}"#, "100", true),
    (r#"{"numeric":["=",100]}"#, "100.1", false),
    (r#"{"numeric":["<",100]}"#, "99.999999", true),
    (r#"{"numeric":["<",100]}"#, "100", false),
    (r#"{"numeric":["<=",100]}"#, "100", true),
    (r#"{"numeric":[">",-1.5]}"#, "-1.4", true),
    (r#"{"numeric":[">",-1.5]}"#, "-1.5", false),
    (r#"{"numeric":[">=",-1.5]}"#, "-1.5", true),
    (r#"{"numeric":[">",0,"<=",100]}"#, "0", false),
    (r#"{"numeric":[">",0,"<=",100]}"#, "100", true),
    (r#"{"numeric":[">",0,"<=",100]}"#, "100.1", false),
    (r#"{"numeric":[">=",0,"<",100]}"#, "0", true),
    (r#"{"numeric":[">=",0,"<",100]}"#, "100", false),
    (r#"{"numeric":[">",600000000]}"#, "1e300", true),
    (r#"{"numeric":[">",600000000]}"#, "600000000", false),
    (r#"{"numeric":["<",-600000000]}"#, "-7000000000", true),
    (r#"{"numeric":["<",100]}"#, r#""1""#, false),
    (r#"{"exists":true}"#, r#""""#, true),
    (r#"{"exists":true}"#, "null", true),
    (r#"{"exists":true}"#, "{}", false),
    (r#"{"exists":true}"#, r#"{"leaf":1}"#, false),
    (r#"{"exists":true}"#, "[]", false),
    (r#"{"exists":false}"#, r#""""#, false),
    (r#"{"exists":false}"#, "[]", true),
    (r#"{"exists":false}"#, r#"{"leaf":1}"#, true),
    (r#"{"cidr":"10.0.0.0/24"}"#, r#""10.0.0.255""#, true),
    (r#"{"cidr":"10.0.0.0/24"}"#, r#""10.0.1.1""#, false),
    (r#"{"cidr":"10.0.0.9/24"}"#, r#""10.0.0.1""#, true),
    (r#"{"cidr":"10.0.0.1/32"}"#, r#""10.0.0.1""#, true),
    (r#"{"cidr":"0.0.0.0/0"}"#, r#""255.255.255.255""#, true),
    (r#"{"cidr":"0.0.0.0/0"}"#, r#""::1""#, false),
    (r#"{"cidr":"2001:db8::/32"}"#, r#""2001:DB8:0:1::5""#, true),
    (r#"{"cidr":"2001:db8::/32"}"#, r#""2001:db9::""#, false),
    (r#"{"cidr":"10.0.0.0/24"}"#, r#""10.0.0""#, false),
    (r#"{"cidr":"10.0.0.0/24"}"#, "10", false),
];

#[test]
fn conditions_on_a_value_of_the_body() {
    for (condition, value, expected) in CONDITIONS {
        let policy = format!(r#"{{"key":[{condition}]}}"#);

        assert_eq!(
            body_matches(&policy, &format!(r#"{{"other":1,"key":{value}}}"#)),
            *expected,
            "{condition} of {value}"
        );
        // The same one level down, and as one element of an array.
        let nested = format!(r#"{{"object":{policy}}}"#);
        assert_eq!(
            body_matches(&nested, &format!(r#"{{"object":{{"key":{value}}}}}"#)),
            *expected,
            "nested {condition} of {value}"
        );
        assert_eq!(
            body_matches(&policy, &format!(r#"{{"key":[{value}]}}"#)),
            *expected,
            "{condition} of [{value}]"
        );
    }
}

#[test]
fn conditions_on_an_attribute() {
    for (condition, value, expected) in CONDITIONS {
        let (kind, text) = match serde_json::from_str(value).unwrap() {
            serde_json::Value::String(text) => ("String", text),
            serde_json::Value::Number(_) => ("Number", (*value).to_owned()),
            _ => continue,
        };
        let policy = format!(r#"{{"key":[{condition}]}}"#);

        let attributes = [("other", "String", "rugby"), ("key", kind, text.as_str())];
        assert_eq!(attributes_match(&policy, &attributes), *expected, "{condition} of {value}");
        let list = format!("[{value}]");
        let attributes = [("key", "String.Array", list.as_str())];
        assert_eq!(attributes_match(&policy, &attributes), *expected, "{condition} of {list}");
    }
}

#[test]
fn a_missing_key_matches_only_its_absence() {
    for (condition, _, _) in CONDITIONS {
        let policy = format!(r#"{{"key":[{condition}]}}"#);
        let expected = *condition == r#"{"exists":false}"#;

        assert_eq!(body_matches(&policy, r#"{"other":1}"#), expected, "{condition}");
        assert_eq!(body_matches(&policy, "{}"), expected, "{condition}");
        assert_eq!(attributes_match(&policy, &[("other", "String", "x")]), expected, "{condition}");
        assert_eq!(attributes_match(&policy, &[]), expected, "{condition}");
        let nested = format!(r#"{{"object":{policy}}}"#);
        assert_eq!(body_matches(&nested, r#"{"object":{}}"#), expected, "{condition}");
        assert_eq!(body_matches(&nested, r#"{"object":1}"#), expected, "{condition}");
        assert_eq!(body_matches(&nested, "{}"), expected, "{condition}");
    }
}

#[test]
fn all_keys_and_any_value_of_each() {
    let policy = r#"{"store":["a","b"],"price":[{"numeric":["<",10]},99]}"#;
    for (store, price, expected) in
        [("a", "1", true), ("b", "99", true), ("c", "1", false), ("a", "50", false)]
    {
        let attributes = [("store", "String", store), ("price", "Number", price)];
        assert_eq!(attributes_match(policy, &attributes), expected, "{store} {price}");
        let body = format!(r#"{{"store":"{store}","price":{price}}}"#);
        assert_eq!(body_matches(policy, &body), expected, "{body}");
    }
    assert!(!attributes_match(policy, &[("store", "String", "a")]));
}

#[test]
fn types_of_attributes() {
    for (condition, kind, value, expected) in [
        (r#""a""#, "String.mine", "a", true),
        ("5", "Number.int", "5.0", true),
        ("5", "Number", "+5", true),
        ("0.5", "Number", ".5", true),
        ("5", "String", "5", false),
        (r#""5""#, "Number", "5", false),
        (r#""inf""#, "Number", "inf", true),
        (r#"{"numeric":[">",0]}"#, "Number", "inf", false),
        (r#""a""#, "Binary", "a", false),
        (r#"{"exists":true}"#, "Binary", "a", false),
        (r#"{"exists":false}"#, "Binary", "a", true),
        ("true", "String", "true", false),
        ("null", "String", "null", false),
        ("true", "String.Array", "[true]", true),
        ("null", "String.Array", "[1,null]", true),
        ("5", "String.Array", r#"["a",5]"#, true),
        (r#""a""#, "String.Array", r#"["a","b"]"#, true),
        (r#""c""#, "String.Array", r#"["a","b"]"#, false),
        (r#"{"exists":true}"#, "String.Array", "[1]", true),
        (r#"{"exists":true}"#, "String.Array", "[]", false),
        (r#"{"exists":false}"#, "String.Array", "[]", true),
        // One of the values is something else.
        (r#"{"anything-but":["rugby","tennis"]}"#, "String.Array", r#"["rugby","baseball"]"#, true),
        (r#"{"anything-but":["rugby","tennis"]}"#, "String.Array", r#"["rugby","tennis"]"#, false),
    ] {
        let policy = format!(r#"{{"key":[{condition}]}}"#);
        assert_eq!(
            attributes_match(&policy, &[("key", kind, value)]),
            expected,
            "{condition} of {kind} {value}"
        );
    }
}

#[test]
fn a_false_array_makes_attributes_unreadable() {
    for value in ["", "x", r#""a""#, "1", r#"{"a":1}"#, r#"[{"a":1}]"#, "[1"] {
        let message = Message::new(
            "{}",
            vec![attribute("list", "String.Array", value), attribute("key", "String", "a")],
        );

        assert!(!message.is_readable(Scope::MessageAttributes), "{value}");
        assert!(message.is_readable(Scope::MessageBody), "{value}");
        assert!(!policy(r#"{"key":["a"]}"#, Scope::MessageAttributes).matches(&message), "{value}");
    }
}

#[test]
fn a_body_that_is_no_object_matches_nothing() {
    for body in ["", "text", r#""text""#, "1", "null", r#"[{"a":1}]"#, r#"{"a":1"#, r#"{"a":1} x"#]
    {
        let message = Message::new(body, Vec::new());

        assert!(!message.is_readable(Scope::MessageBody), "{body}");
        assert!(!body_matches(r#"{"b":[{"exists":false}]}"#, body), "{body}");
        assert!(body_matches("{}", body), "{body}");
    }
    assert!(body_matches(r#"{"a":[1]}"#, " \n\t{\"a\":1}\r\n"));
}

#[test]
fn dots_are_levels_of_a_body_in_every_split() {
    let bodies = [
        r#"{"object":{"nested":{"test":"v"}}}"#,
        r#"{"object.nested.test":"v"}"#,
        r#"{"object.nested":{"test":"v"}}"#,
        r#"{"object":{"nested.test":"v"}}"#,
        r#"{"ob\u006aect.nested":{"te\u0073t":"v"}}"#,
    ];
    for policy in [
        r#"{"object.nested.test":["v"]}"#,
        r#"{"object":{"nested.test":["v"]}}"#,
        r#"{"object.nested":{"test":["v"]}}"#,
        r#"{"object":{"nested":{"test":["v"]}}}"#,
    ] {
        for body in bodies {
            assert!(body_matches(policy, body), "{policy} {body}");
        }
        assert!(!body_matches(policy, r#"{"object":{"nested":{"test":"w"}}}"#));
        assert!(!body_matches(policy, r#"{"object":{"nested":"v"}}"#));
    }
    let both = r#"{"object":{"x":[1],"y":[2]}}"#;
    assert!(body_matches(both, r#"{"object.x":1,"object":{"y":2}}"#));
    assert!(body_matches(r#"{"a..b":[1],".":[2]}"#, r#"{"a":{"":{"b":1}},"":{"":2}}"#));
}

#[test]
fn dots_are_no_levels_of_attributes() {
    assert!(attributes_match(r#"{"a.b":["v"]}"#, &[("a.b", "String", "v")]));
    assert!(!attributes_match(r#"{"a.b":["v"]}"#, &[("a", "String", "v")]));
}

#[test]
fn any_element_of_an_array_matches() {
    let policy = r#"{"headers":{"route-to":["queue1"]}}"#;
    for (routes, expected) in [
        (r#"["queue1"]"#, true),
        (r#"["queue2"]"#, false),
        (r#"["queue2","queue1"]"#, true),
        (r#"[["queue2",["queue1"]]]"#, true),
        ("[]", false),
        (r#"[{"queue1":1}]"#, false),
        (r#"[{"queue2":1},"queue1"]"#, true),
    ] {
        let body = format!(r#"{{"headers":{{"route-to":{routes}}}}}"#);
        assert_eq!(body_matches(policy, &body), expected, "{body}");
    }
}

#[test]
fn conditions_below_an_array_are_met_by_one_element() {
    let policy = r#"{"Records":{"s3":{"object":{"key":[{"prefix":"auto-"}]}},
                     "eventName":[{"prefix":"ObjectCreated:"}]}}"#;
    let record = |event: &str, object: &str| {
        format!(r#"{{"eventName":"{event}","s3":{{"object":{object}}}}}"#)
    };
    let auto = r#"{"key":"auto-1.xml","size":17}"#;
    let home = r#"{"key":"home-1.xml"}"#;
    let deep = format!("[[{auto}]]");
    for (records, expected) in [
        (vec![record("ObjectCreated:Put", auto)], true),
        (vec![record("ObjectRemoved:Delete", auto)], false),
        (vec![record("ObjectCreated:Put", home)], false),
        (vec![record("ObjectCreated:Put", &deep), record("ObjectRemoved:Delete", home)], true),
        (vec![record("ObjectRemoved:Delete", auto), record("ObjectCreated:Put", auto)], true),
        (vec![record("ObjectRemoved:Delete", auto), record("ObjectCreated:Put", home)], false),
        (vec![], false),
    ] {
        let body = format!(r#"{{"Records":[{}]}}"#, records.join(","));
        assert_eq!(body_matches(policy, &body), expected, "{body}");
    }
}

#[test]
fn keys_of_different_arrays_are_independent() {
    let policy = r#"{"a":{"x":[1]},"b":{"y":[2]}}"#;
    assert!(body_matches(policy, r#"{"a":[{"x":0},{"x":1}],"b":[{"y":2},{"y":3}]}"#));
}

#[test]
fn absence_is_of_one_element() {
    let policy = r#"{"a":{"b":[1],"c":[{"exists":false}]}}"#;
    assert!(body_matches(policy, r#"{"a":[{"b":1},{"b":1,"c":1}]}"#));
    assert!(!body_matches(policy, r#"{"a":[{"b":2},{"b":1,"c":1}]}"#));
    let policy = r#"{"a":{"b":[{"exists":false}]}}"#;
    assert!(body_matches(policy, r#"{"a":[{"b":1},{"c":1}]}"#));
    assert!(!body_matches(policy, r#"{"a":[{"b":1},{"b":2}]}"#));
}

#[test]
fn the_last_of_equal_keys_counts_in_a_policy_and_all_in_a_body() {
    assert!(body_matches(r#"{"a":[1],"a":[2]}"#, r#"{"a":2}"#));
    assert!(!body_matches(r#"{"a":[1],"a":[2]}"#, r#"{"a":1}"#));
    assert!(body_matches(r#"{"a":[1]}"#, r#"{"a":1,"a":2}"#));
    assert!(body_matches(r#"{"a":[2]}"#, r#"{"a":1,"a":2}"#));
}

#[test]
fn or_is_one_of_its_policies_with_the_keys_beside_it() {
    let policy = r#"{
        "$or": [{"metricName": ["CPU", "Read"]}, {"namespace": ["EC2", "ES"]}],
        "detail": {"scope": ["Service"], "$or": [{"source": ["watch"]}, {"type": ["Change"]}]}
    }"#;
    for (body, expected) in [
        (r#"{"metricName":"CPU","detail":{"scope":"watch","type":"Change"}}"#, false),
        (r#"{"metricName":"CPU","detail":{"scope":"Service","type":"CPU"}}"#, false),
        (r#"{"metricName":"CPU","detail":{"type":"Change"}}"#, false),
        (r#"{"metricName":"CPU","detail":{"scope":"Service"}}"#, false),
        (r#"{"metricName":"CPU","scope":"Service"}"#, false),
        (r#"{"metricName":"EC2","detail":{"scope":"Service","type":"Change"}}"#, false),
        (r#"{"metricName":"CPU","detail":{"scope":"Service","source":"watch"}}"#, true),
        (r#"{"metricName":"Read","detail":{"scope":"Service","source":"watch"}}"#, true),
        (r#"{"namespace":"EC2","detail":{"scope":"Service","source":"watch"}}"#, true),
        (r#"{"namespace":"ES","detail":{"scope":"Service","type":"Change"}}"#, true),
    ] {
        assert_eq!(body_matches(policy, body), expected, "{body}");
    }
    let policy =
        r#"{"source":["s"],"$or":[{"a":["1"]},{"b":["2"],"$or":[{"c":["3"]},{"d":["4"]}]}]}"#;
    for (names, expected) in
        [("sa", true), ("sbc", true), ("sbd", true), ("sb", false), ("a", false), ("sc", false)]
    {
        let attributes: Vec<_> = [("source", "s"), ("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
            .into_iter()
            .filter(|(name, _)| names.contains(&name[..1]))
            .map(|(name, value)| (name, "String", value))
            .collect();
        assert_eq!(attributes_match(policy, &attributes), expected, "{names}");
    }
}

#[test]
fn or_is_a_key_where_it_is_no_choice() {
    assert!(body_matches(r#"{"$or":["a"]}"#, r#"{"$or":"a"}"#));
    assert!(body_matches(r#"{"$or":[{"prefix":"a"},{"suffix":"b"}]}"#, r#"{"$or":"b"}"#));
    assert!(!body_matches(r#"{"$or":["a"]}"#, r#"{"a":"a"}"#));
    assert!(body_matches(r#"{"$or":{"a":[1]}}"#, r#"{"$or":{"a":1}}"#));
}

#[test]
fn kinds_of_data_types() {
    for (data_type, kind) in [
        ("String", AttributeKind::String),
        ("String.x", AttributeKind::String),
        ("String.Array", AttributeKind::StringArray),
        ("Number", AttributeKind::Number),
        ("Number.float", AttributeKind::Number),
        ("Binary", AttributeKind::Binary),
        ("Binary.png", AttributeKind::Binary),
    ] {
        assert_eq!(AttributeKind::of(data_type), kind, "{data_type}");
    }
}
