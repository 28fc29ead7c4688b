//! Any policies and messages against the slow evaluator.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::oracle;
use crate::{Attribute, AttributeKind, FilterError, FilterPolicy, Filters, Message, Scope};

/// Few, so that policies and messages meet.
const NAMES: [&str; 4] = ["a", "b", "a.b", "b.a.b"];

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn texts() -> impl Strategy<Value = Value> {
    let texts = ["x", "Xy", "10.0.0.200", "2001:db8::1"];
    prop::sample::select(texts.to_vec()).prop_map(Value::from)
}

fn numbers() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![json!(1), json!(1.0), json!(1.5)])
}

fn scalars() -> impl Strategy<Value = Value> {
    let literals = prop::sample::select(vec![json!(true), json!(false), Value::Null]);
    prop_oneof![4 => texts(), 2 => numbers(), 1 => literals]
}

fn conditions() -> impl Strategy<Value = Value> {
    let patterns = prop::sample::select(vec!["x", "y", "xY", "1"]);
    let numeric = prop::sample::select(vec![
        json!(["=", 1]),
        json!(["<", 1]),
        json!(["<=", 1]),
        json!([">", 0]),
        json!([">=", 1.5]),
        json!([">", -1, "<", 1.5]),
        json!([">=", 0, "<=", 1]),
    ]);
    let networks = vec!["10.0.0.0/24", "10.0.0.0/25", "2001:db8::/32", "0.0.0.0/0", "::/0"];
    let operators = prop_oneof![
        patterns.clone().prop_map(|text| json!({ "prefix": text })),
        patterns.clone().prop_map(|text| json!({ "suffix": text })),
        patterns.clone().prop_map(|text| json!({ "equals-ignore-case": text })),
        prop_oneof![texts(), numbers()].prop_map(|value| json!({ "anything-but": value })),
        prop::collection::vec(texts(), 1..3).prop_map(|list| json!({ "anything-but": list })),
        prop::collection::vec(numbers(), 1..3).prop_map(|list| json!({ "anything-but": list })),
        patterns.prop_map(|text| json!({ "anything-but": { "prefix": text } })),
        numeric.prop_map(|range| json!({ "numeric": range })),
        any::<bool>().prop_map(|exists| json!({ "exists": exists })),
        prop::sample::select(networks).prop_map(|network| json!({ "cidr": network })),
    ];
    prop_oneof![scalars(), operators]
}

fn object(members: Vec<(String, Value)>) -> Value {
    Value::Object(Map::from_iter(members))
}

/// Policies of up to this many levels.
fn policies(levels: u32) -> BoxedStrategy<Value> {
    let list = prop::collection::vec(conditions(), 1..4).prop_map(Value::from);
    let member = (names(), list);
    if levels == 0 {
        return prop::collection::vec(member, 1..=2).prop_map(object).boxed();
    }
    let nested = (names(), policies(levels - 1));
    prop::collection::vec(prop_oneof![2 => member, 1 => nested], 1..=2).prop_map(object).boxed()
}

fn with_or(policies: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let choices = prop::collection::vec(policies.clone(), 2..3);
    (policies, prop::option::weighted(0.25, choices)).prop_map(|(mut policy, choices)| {
        if let Some(choices) = choices {
            policy["$or"] = Value::from(choices);
        }
        policy
    })
}

fn policies_of(scope: Scope) -> BoxedStrategy<(Scope, Value)> {
    let levels = match scope {
        Scope::MessageAttributes => 0,
        Scope::MessageBody => 2,
    };
    let once = with_or(policies(levels)).boxed();
    with_or(once).prop_map(move |policy| (scope, policy)).boxed()
}

fn bodies() -> impl Strategy<Value = Value> {
    let value = scalars().prop_recursive(3, 32, 4, |value| {
        prop_oneof![
            1 => prop::collection::vec(value.clone(), 0..4).prop_map(Value::from),
            2 => prop::collection::vec((names(), value), 0..5).prop_map(object),
        ]
    });
    prop::collection::vec((names(), value), 2..7).prop_map(object)
}

/// Attributes as the evaluator takes them: an array is a String.Array, `None` is Binary.
fn attributes() -> impl Strategy<Value = Vec<(String, Option<Value>)>> {
    let value = prop_oneof![
        3 => texts(),
        2 => numbers(),
        2 => prop::collection::vec(scalars(), 0..3).prop_map(Value::from),
    ];
    prop::collection::btree_map(names(), prop::option::weighted(0.9, value), 2..5)
        .prop_map(|attributes| attributes.into_iter().collect())
}

fn text_of(value: &Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "x".to_owned(),
    }
}

/// The policies by their keys, as they were written and compiled.
struct Case {
    policies: Vec<(usize, Scope, Value)>,
    compiled: Vec<FilterPolicy>,
    filters: Filters<usize>,
}

impl Case {
    fn new(policies: Vec<(Scope, Value)>) -> Self {
        let mut case = Self { policies: Vec::new(), compiled: Vec::new(), filters: Filters::new() };
        for (key, (scope, json)) in policies.into_iter().enumerate() {
            match FilterPolicy::parse(&json.to_string(), scope) {
                Ok(policy) => {
                    // Not in the order of the keys.
                    let key = key ^ 1;
                    case.filters.insert(key, policy.clone());
                    case.compiled.push(policy);
                    case.policies.push((key, scope, json));
                }
                Err(FilterError::TooComplex) => {}
                Err(error) => panic!("{json}: {error}"),
            }
        }
        case
    }

    fn check(
        &self,
        body: &Value,
        attributes: &[(String, Option<Value>)],
        removed: Option<usize>,
    ) -> Result<(), TestCaseError> {
        let body_text = body.to_string();
        let texts: Vec<String> = attributes.iter().map(|(_, value)| text_of(value)).collect();
        let given = attributes.iter().zip(&texts).map(|((name, value), text)| {
            let kind = match value {
                Some(Value::Array(_)) => AttributeKind::StringArray,
                Some(Value::Number(_)) => AttributeKind::Number,
                Some(_) => AttributeKind::String,
                None => AttributeKind::Binary,
            };
            Attribute { name, kind, value: text }
        });
        let message = Message::new(&body_text, given.collect());
        let present = attributes.iter().cloned();
        let by_name = object(present.filter_map(|(name, value)| Some((name, value?))).collect());

        let mut expected = Vec::new();
        for ((key, scope, json), policy) in self.policies.iter().zip(&self.compiled) {
            let subject = match scope {
                Scope::MessageAttributes => &by_name,
                Scope::MessageBody => body,
            };
            let matches = oracle::matches(json, *scope, subject);
            prop_assert_eq!(policy.matches(&message), matches, "{} of {}", json, subject);
            if matches && removed != Some(*key) {
                expected.push(*key);
            }
        }
        expected.sort_unstable();
        let mut found = Vec::new();
        self.filters.matching(&message, &mut found);
        prop_assert_eq!(found, expected);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn index_and_matcher_agree_with_the_slow_evaluator(
        policies in prop::collection::vec(
            prop_oneof![policies_of(Scope::MessageAttributes), policies_of(Scope::MessageBody)],
            1..6,
        ),
        messages in prop::collection::vec((bodies(), attributes()), 4),
        removed in 0_usize..6,
    ) {
        let mut case = Case::new(policies);
        for (body, attributes) in &messages {
            case.check(body, attributes, None)?;
        }
        case.filters.remove(removed);
        for (body, attributes) in &messages {
            case.check(body, attributes, Some(removed))?;
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(input in ".*") {
        crate::fuzz::filter(input.as_bytes());
    }
}
