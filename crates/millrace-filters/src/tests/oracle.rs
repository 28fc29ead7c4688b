//! A slow and obvious evaluator: every alternative of the policy against every way to choose one
//! element of each array.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::Scope;

type Keys<T> = BTreeMap<Vec<String>, Vec<T>>;

/// Applies a valid policy. The message is an object: a body, or attributes by name.
pub(super) fn matches(policy: &Value, scope: Scope, message: &Value) -> bool {
    let (Value::Object(policy), Value::Object(_)) = (policy, message) else { return false };
    if policy.is_empty() {
        return true;
    }
    let flat_messages = choices(&[message], scope);
    alternatives(policy, scope, &[], vec![Keys::new()]).iter().any(|alternative| {
        flat_messages.iter().any(|message| {
            alternative.iter().all(|(key, conditions)| {
                let values = message.get(key).map_or(&[][..], Vec::as_slice);
                conditions.iter().any(|condition| condition_matches(condition, values))
            })
        })
    })
}

fn levels(name: &str, scope: Scope) -> Vec<String> {
    match scope {
        Scope::MessageAttributes => vec![name.to_owned()],
        Scope::MessageBody => name.split('.').map(str::to_owned).collect(),
    }
}

fn alternatives(
    policy: &Map<String, Value>,
    scope: Scope,
    prefix: &[String],
    mut known: Vec<Keys<Value>>,
) -> Vec<Keys<Value>> {
    for (name, value) in policy {
        let key = [prefix, &levels(name, scope)].concat();
        match value {
            Value::Array(policies) if name == "$or" => {
                let policies = policies.iter().filter_map(Value::as_object);
                known = policies
                    .flat_map(|policy| alternatives(policy, scope, prefix, known.clone()))
                    .collect();
            }
            Value::Array(conditions) => {
                for alternative in &mut known {
                    alternative.insert(key.clone(), conditions.clone());
                }
            }
            Value::Object(policy) => known = alternatives(policy, scope, &key, known),
            _ => {}
        }
    }
    known
}

/// All flat forms of what one name has: `parts` are the values that it has in the message.
fn choices(parts: &[&Value], scope: Scope) -> Vec<Keys<Value>> {
    let (arrays, own): (Vec<&Value>, Vec<&Value>) = parts.iter().partition(|part| part.is_array());
    let elements: Vec<&Value> = arrays.into_iter().flat_map(elements).collect();
    let own_counts =
        own.iter().any(|part| part.as_object().is_none_or(|object| !object.is_empty()));
    let mut candidates: Vec<Vec<&Value>> = elements.iter().map(|element| vec![*element]).collect();
    if own_counts || elements.is_empty() {
        candidates.push(own);
    }
    candidates.iter().flat_map(|candidate| flat(candidate, scope)).collect()
}

fn elements(array: &Value) -> Vec<&Value> {
    match array {
        Value::Array(list) => list.iter().flat_map(elements).collect(),
        other => vec![other],
    }
}

/// Flat forms of scalars and objects at the same place.
fn flat(parts: &[&Value], scope: Scope) -> Vec<Keys<Value>> {
    let mut scalars = Vec::new();
    let mut members: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for part in parts {
        let Value::Object(object) = part else {
            scalars.push((*part).clone());
            continue;
        };
        for (name, value) in object {
            let mut levels = levels(name, scope);
            let first = levels.remove(0);
            let nest = |value, level| Value::Object(Map::from_iter([(level, value)]));
            let value = levels.into_iter().rev().fold(value.clone(), nest);
            members.entry(first).or_default().push(value);
        }
    }
    let mut all = vec![Keys::new()];
    if !scalars.is_empty() {
        all = vec![Keys::from([(Vec::new(), scalars)])];
    }
    for (name, values) in members {
        let values: Vec<&Value> = values.iter().collect();
        let below = choices(&values, scope);
        let pairs = all.iter().flat_map(|keys| below.iter().map(move |below| (keys, below)));
        all = pairs
            .map(|(keys, below)| {
                let mut keys = keys.clone();
                for (path, values) in below {
                    keys.insert([&[name.clone()][..], path].concat(), values.clone());
                }
                keys
            })
            .collect();
    }
    all
}

fn condition_matches(condition: &Value, values: &[Value]) -> bool {
    let Value::Object(condition) = condition else {
        return values.iter().any(|value| equal(value, condition));
    };
    let (operator, operand) = condition.iter().next().unwrap();
    if operator == "exists" {
        return operand.as_bool() == Some(!values.is_empty());
    }
    values.iter().any(|value| {
        let text = value.as_str();
        let pattern = operand.as_str();
        match operator.as_str() {
            "prefix" => text.zip(pattern).is_some_and(|(text, with)| text.starts_with(with)),
            "suffix" => text.zip(pattern).is_some_and(|(text, with)| text.ends_with(with)),
            "equals-ignore-case" => text
                .zip(pattern)
                .is_some_and(|(text, as_)| text.to_lowercase() == as_.to_lowercase()),
            "anything-but" => match operand {
                Value::Array(list) => !list.iter().any(|other| equal(value, other)),
                Value::Object(_) => {
                    let prefix = operand["prefix"].as_str().unwrap();
                    !text.is_some_and(|text| text.starts_with(prefix))
                }
                _ => !equal(value, operand),
            },
            "numeric" => millionths(value).is_some_and(|number| {
                operand.as_array().unwrap().chunks(2).all(|pair| {
                    let bound = millionths(&pair[1]).unwrap();
                    match pair[0].as_str().unwrap() {
                        "=" => number == bound,
                        "<" => number < bound,
                        "<=" => number <= bound,
                        ">" => number > bound,
                        _ => number >= bound,
                    }
                })
            }),
            "cidr" => text.zip(pattern).is_some_and(|(text, network)| in_network(text, network)),
            _ => panic!("{operator}"),
        }
    })
}

fn equal(value: &Value, other: &Value) -> bool {
    match (millionths(value), millionths(other)) {
        (Some(one), Some(other)) => one == other,
        _ => value == other,
    }
}

/// For numbers of everyday size.
fn millionths(value: &Value) -> Option<i64> {
    value.as_f64().map(|number| (number * 1e6).round() as i64)
}

fn in_network(text: &str, network: &str) -> bool {
    let bits = |text: &str| match text.parse() {
        Ok(IpAddr::V4(address)) => Some((32, u128::from(address.to_bits()))),
        Ok(IpAddr::V6(address)) => Some((128, address.to_bits())),
        Err(_) => None,
    };
    let (network, mask) = network.split_once('/').unwrap();
    let mask: u32 = mask.parse().unwrap();
    let (Some((width, address)), Some((network_width, network))) = (bits(text), bits(network))
    else {
        return false;
    };
    let shifted = |address: u128| address.checked_shr(width - mask).unwrap_or(0);
    width == network_width && shifted(address) == shifted(network)
}
