//! Texts and limits, most of them as recorded from SNS.

use super::policy;
use crate::{FilterError, FilterPolicy, Scope};

fn error(text: &str, scope: Scope) -> FilterError {
    match FilterPolicy::parse(text, scope) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error,
    }
}

#[test]
fn refused_with_the_words_of_sns() {
    for (text, expected) in [
        (r#"["k"]"#, "Filter is not an object"),
        (r#"null"#, "Filter is not an object"),
        (r#"{"k":{}}"#, "Empty objects are not allowed"),
        (r#"{"$or":[{"k":["v"]},{}]}"#, "Empty objects are not allowed"),
        (r#"{"k":[]}"#, "Empty arrays are not allowed"),
        (r#"{"$or":[]}"#, "Empty arrays are not allowed"),
        (r#"{"k":"v"}"#, r#""k" must be an object or an array"#),
        (r#"{"k":null}"#, r#""k" must be an object or an array"#),
        (r#"{"k":{"suffix":"v"}}"#, r#""suffix" must be an object or an array"#),
        (r#"{"k":{"suffix":"v","prefix":"v"}}"#, r#""suffix" must be an object or an array"#),
        (r#"{"k":{"other":"v"}}"#, r#""other" must be an object or an array"#),
        (r#"{"k":[["v"]]}"#, "Match value must be String, number, true, false, or null"),
        (r#"{"k":[{}]}"#, "Match expression name not found"),
        (r#"{"k":[{"wrong":1}]}"#, "Unrecognized match type wrong"),
        (r#"{"k":[{"wildcard":"v*"}]}"#, "Unrecognized match type wildcard"),
        // One policy is no choice, and operators are no keys: then `$or` is a key itself.
        (r#"{"$or":[{"k":["v"]}]}"#, "Unrecognized match type k"),
        (r#"{"$or":[{"k":["v"]},{"exists":[true]}]}"#, "Unrecognized match type k"),
        (r#"{"k":[{"suffix":"v","prefix":"w"}]}"#, "Only one key allowed in match expression"),
        (r#"{"k":[{"exists":true,"prefix":"w"}]}"#, "Only one key allowed in match expression"),
        (r#"{"k":[{"wrong":1,"prefix":"w"}]}"#, "Unrecognized match type wrong"),
        (r#"{"k":[{"prefix":100}]}"#, "prefix match pattern must be a string"),
        (r#"{"k":[{"suffix":100}]}"#, "suffix match pattern must be a string"),
        (r#"{"k":[{"suffix":null}]}"#, "suffix match pattern must be a string"),
        (r#"{"k":[{"suffix":[]}]}"#, "suffix match pattern must be a string"),
        (r#"{"k":[{"suffix":["v","w"]}]}"#, "suffix match pattern must be a string"),
        (
            r#"{"k":[{"equals-ignore-case":true}]}"#,
            "equals-ignore-case match pattern must be a string",
        ),
        (r#"{"k":[{"exists":"no"}]}"#, "exists match pattern must be either true or false."),
        (r#"{"k":[{"exists":null}]}"#, "exists match pattern must be either true or false."),
        (r#"{"k":[{"numeric":1}]}"#, "Value of numeric must be an array."),
        (r#"{"k":[{"numeric":[]}]}"#, "Invalid member in numeric match: ]"),
        (r#"{"k":[{"numeric":[1,"<="]}]}"#, "Invalid member in numeric match: 1"),
        (r#"{"k":[{"numeric":[[1]]}]}"#, "Invalid member in numeric match: ["),
        (r#"{"k":[{"numeric":["operator"]}]}"#, "Unrecognized numeric range operator: operator"),
        (r#"{"k":[{"numeric":["=","000"]}]}"#, "Value of equals must be numeric"),
        (r#"{"k":[{"numeric":["="]}]}"#, "Value of equals must be numeric"),
        (r#"{"k":[{"numeric":["<","000"]}]}"#, "Value of < must be numeric"),
        (r#"{"k":[{"numeric":["<="]}]}"#, "Value of <= must be numeric"),
        (r#"{"k":[{"numeric":[">",null]}]}"#, "Value of > must be numeric"),
        (r#"{"k":[{"numeric":[">="]}]}"#, "Value of >= must be numeric"),
        (r#"{"k":[{"numeric":["=",1,"=",1]}]}"#, "Too many elements in numeric expression"),
        (r#"{"k":[{"numeric":["<",100,">",10]}]}"#, "Too many elements in numeric expression"),
        (r#"{"k":[{"numeric":[">",20,30]}]}"#, "Bad value in numeric range: 30"),
        (r#"{"k":[{"numeric":[">",20,"test"]}]}"#, "Bad numeric range operator: test"),
        (r#"{"k":[{"numeric":[">=",1,">",2]}]}"#, "Bad numeric range operator: >"),
        (r#"{"k":[{"numeric":[">",20,"<="]}]}"#, "Value of <= must be numeric"),
        (r#"{"k":[{"numeric":[">","20","<","30"]}]}"#, "Value of > must be numeric"),
        (r#"{"k":[{"numeric":[">",20,"<","30"]}]}"#, "Value of < must be numeric"),
        (
            r#"{"k":[{"numeric":[">",20,"<",30,"<",50]}]}"#,
            "Too many terms in numeric range expression",
        ),
        (r#"{"k":[{"numeric":[">",3,"<",1]}]}"#, "Bottom must be less than top"),
        (r#"{"k":[{"numeric":[">=",3,"<=",3]}]}"#, "Bottom must be less than top"),
        (r#"{"k":[{"anything-but":{}}]}"#, "Anything-But expression name not found"),
        (
            r#"{"k":[{"anything-but":{"wrong-operator":null}}]}"#,
            "Unsupported anything-but pattern: wrong-operator",
        ),
        (
            r#"{"k":[{"anything-but":{"suffix":"test"}}]}"#,
            "Unsupported anything-but pattern: suffix",
        ),
        (
            r#"{"k":[{"anything-but":{"wildcard":"*"}}]}"#,
            "Unsupported anything-but pattern: wildcard",
        ),
        (
            r#"{"k":[{"anything-but":{"exists":false}}]}"#,
            "Unsupported anything-but pattern: exists",
        ),
        (r#"{"k":[{"anything-but":{"prefix":false}}]}"#, "prefix match pattern must be a string"),
        (r#"{"k":[{"anything-but":{"prefix":""}}]}"#, "Null prefix not allowed"),
        (
            r#"{"k":[{"anything-but":{"prefix":"a","suffix":"b"}}]}"#,
            "Only one key allowed in match expression",
        ),
        (
            r#"{"k":[{"anything-but":true}]}"#,
            "Value of anything-but must be an array or single string/number value.",
        ),
        (
            r#"{"k":[{"anything-but":[null]}]}"#,
            "Inside anything but list, start|null|boolean is not supported.",
        ),
        (
            r#"{"k":[{"anything-but":[1,"a"]}]}"#,
            "Inside anything but list, either all values are number or string, mixed type is not supported",
        ),
        (
            r#"{"k":[{"anything-but":[]}]}"#,
            "Inside anything but list, either all values are number or string, mixed type is not supported",
        ),
        (r#"{"k":[{"cidr":10}]}"#, "prefix match pattern must be a string"),
        (r#"{"k":[{"cidr":"10.0.0.0"}]}"#, "Malformed CIDR, one '/' required"),
        (r#"{"k":[{"cidr":"10.0.0.0/24/1"}]}"#, "Malformed CIDR, one '/' required"),
        (r#"{"k":[{"cidr":"10.0.0.0/x"}]}"#, "Malformed CIDR, mask bits must be an integer"),
        (r#"{"k":[{"cidr":"10.0.0/24"}]}"#, "Nonstandard IP address: 10.0.0"),
        (r#"{"k":[{"cidr":"10.0.0.0/33"}]}"#, "Nonstandard IP address: 10.0.0.0"),
        (r#"{"k":[{"cidr":"10.0.0.0/-1"}]}"#, "Nonstandard IP address: 10.0.0.0"),
        (r#"{"k":[{"cidr":"host/24"}]}"#, "Nonstandard IP address: host"),
        (r#"{"k":[{"cidr":"2001:db8::/129"}]}"#, "Nonstandard IP address: 2001:db8::"),
    ] {
        for scope in [Scope::MessageAttributes, Scope::MessageBody] {
            let error = error(text, scope);

            assert_eq!(error.to_string(), expected, "{text}");
            assert!(error.is_prefixed(), "{text}");
        }
    }
}

#[test]
fn text_that_is_not_json_is_refused_with_a_reason() {
    for text in ["{", "x", r#"{"k":["v"]} x"#, r#"{"k":[1e999]}"#, r#"{"k":["\ud800"]}"#] {
        let error = error(text, Scope::MessageBody).to_string();

        let reason = error.strip_prefix("failed to parse JSON. ");
        assert!(reason.is_some_and(|reason| !reason.is_empty()), "{error}");
    }
}

#[test]
fn levels_are_for_bodies_only_and_have_a_text_without_prefix() {
    for text in
        [r#"{"object":{"key":[{"prefix":"auto-"}]}}"#, r#"{"$or":[{"a":[1]},{"b":{"c":[2]}}]}"#]
    {
        let error = error(text, Scope::MessageAttributes);

        assert_eq!(
            error.to_string(),
            "Filter policy scope MessageAttributes does not support nested filter policy"
        );
        assert!(!error.is_prefixed());
        policy(text, Scope::MessageBody);
    }
}

#[test]
fn blank_text_and_an_empty_object_are_no_policy() {
    for text in ["", "  \n", "{}", " { } "] {
        for scope in [Scope::MessageAttributes, Scope::MessageBody] {
            assert!(policy(text, scope).is_empty(), "{text:?}");
        }
    }
}

#[test]
fn five_keys_at_the_top_and_not_six() {
    for scope in [Scope::MessageAttributes, Scope::MessageBody] {
        policy(r#"{"a":[1],"b":[1],"c":[1],"d":[1],"e":[1]}"#, scope);
        let error = error(r#"{"a":[1],"b":[1],"c":[1],"d":[1],"e":[1],"f":[1]}"#, scope);
        assert_eq!(error.to_string(), "Filter policy can not have more than 5 keys");
    }
    policy(r#"{"a":{"b":[1],"c":[1],"d":[1],"e":[1],"f":[1],"g":[1]}}"#, Scope::MessageBody);
}

/// `[0,1,…]` of this length.
fn list(length: usize) -> String {
    let values: Vec<_> = (0..length).map(|value| value.to_string()).collect();
    format!("[{}]", values.join(","))
}

#[test]
fn combinations_are_bounded() {
    let or_of_three = |source, name, first, second| {
        format!(
            r#"{{"source":{},"$or":[{{"name":{}}},
               {{"type":{},"$or":[{{"id":{}}},{{"space":{}}}]}}]}}"#,
            list(source),
            list(name),
            list(4),
            list(first),
            list(second)
        )
    };
    let nested_or = |scopes, types| {
        format!(
            r#"{{"$or":[{{"name":[1,2,3]}},{{"namespace":[1,2]}}],
               "detail":{{"scope":{},"$or":[{{"source":[1]}},{{"type":{}}}]}}}}"#,
            list(scopes),
            list(types)
        )
    };
    use Scope::{MessageAttributes, MessageBody};
    for (text, scope, accepted) in [
        (format!(r#"{{"k":{}}}"#, list(150)), MessageAttributes, true),
        (format!(r#"{{"k":{}}}"#, list(151)), MessageAttributes, false),
        (format!(r#"{{"k":{},"l":{}}}"#, list(50), list(3)), MessageAttributes, true),
        (format!(r#"{{"k":{},"l":{}}}"#, list(100), list(51)), MessageAttributes, false),
        // 3 × 6 + 3 × 4 × 4 + 3 × 4 × 7 = 150
        (or_of_three(3, 6, 4, 7), MessageAttributes, true),
        // 4 × 6 + 4 × 4 × 4 + 4 × 4 × 4 = 152
        (or_of_three(4, 6, 4, 4), MessageAttributes, false),
        // Levels multiply, too: 3 × 4 × 2 × 3 = 72, with three more values 216
        (
            format!(r#"{{"a":{{"b":{{"c":{}}}}},"d":{{"e":{}}}}}"#, list(4), list(3)),
            MessageBody,
            true,
        ),
        (
            format!(
                r#"{{"a":{{"b":{{"c":{}}}}},"d":{{"e":{}}},"f":{}}}"#,
                list(4),
                list(3),
                list(3)
            ),
            MessageBody,
            false,
        ),
        // (3 + 2) × 4 × (2 + 6) = 160
        (nested_or(2, 3), MessageBody, false),
        // (3 + 2) × 2 × (2 + 6) = 80
        (nested_or(1, 3), MessageBody, true),
    ] {
        match FilterPolicy::parse(&text, scope) {
            Ok(_) => assert!(accepted, "accepted: {text}"),
            Err(error) => {
                assert_eq!(error.to_string(), "Filter policy is too complex");
                assert!(!accepted, "{text}");
            }
        }
    }
}

#[test]
fn text_of_256_kib_and_no_more() {
    let of_length = |length: usize| {
        let head = r#"{"k":[""#;
        let tail = r#""]}"#;
        format!("{head}{}{tail}", "v".repeat(length - head.len() - tail.len()))
    };

    policy(&of_length(262_144), Scope::MessageBody);
    let error = error(&of_length(262_145), Scope::MessageBody);

    assert_eq!(error, FilterError::TooLarge);
}

#[test]
fn sums_that_overflow_are_too_complex() {
    let mut text = r#"{"k":[1,2]}"#.to_owned();
    for _ in 0..60 {
        text = format!(r#"{{"$or":[{text},{{"k":[1]}}],"l":[1,2,3,4,5,6,7,8,9,10]}}"#);
    }
    assert_eq!(error(&text, Scope::MessageBody), FilterError::TooComplex);
}

#[test]
fn numbers_are_below_a_milliard() {
    for text in ["1000000000", "-1e9", r#"{"numeric":[">",1e9]}"#, r#"{"anything-but":2e9}"#] {
        let refused = error(&format!(r#"{{"k":[{text}]}}"#), Scope::MessageBody);
        assert!(refused.to_string().contains("number out of range"), "{text}: {refused}");
    }
    policy(r#"{"k":[999999999.99999,-999999999]}"#, Scope::MessageBody);
}
