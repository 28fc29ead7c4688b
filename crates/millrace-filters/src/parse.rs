//! The grammar and the limits of filter policies.
//!
//! ```text
//! policy    := { key: [condition, …] | policy, … }     policies in policies: for bodies only
//! "$or"     := [ policy, policy, … ]                   in the place of a key
//! ```

use std::sync::Arc;

use crate::condition::Condition;
use crate::json::Json;
use crate::node::MAX_LEVELS;
use crate::policy::{Alternative, Path, Rule};
use crate::{FilterError, Scope};

// SNS developer guide, "Filter policy constraints".
const MAX_BYTES: usize = 256 * 1024;
const MAX_KEYS: usize = 5;
const MAX_COMBINATIONS: usize = 150;
/// Keys of all alternatives together. SNS does not document such a limit; `$or` with its 150
/// alternatives may otherwise repeat thousands of keys in each.
const MAX_RULES: usize = 10_000;

/// Names that an operator has or may get: an array with an object that has one is no `$or`.
const RESERVED: [&str; 24] = [
    "exactly",
    "equals-ignore-case",
    "prefix",
    "suffix",
    "anything-but",
    "exists",
    "wildcard",
    "numeric",
    "cidr",
    "=",
    "<",
    "<=",
    ">",
    ">=",
    "regex",
    "not-wildcard",
    "not-equals-ignore-case",
    "date-after",
    "date-on-or-after",
    "date-before",
    "date-on-or-before",
    "in-date-range",
    "ip-address-in-range",
    "ip-address-not-in-range",
];

/// A member of a policy.
enum Item {
    Key { name: String, conditions: Vec<Condition> },
    Nested { name: String, items: Vec<Item> },
    Or(Vec<Vec<Item>>),
}

/// Size of a policy, as a whole or up to one of its members.
#[derive(Clone, Copy)]
struct Size {
    /// Complexity as SNS counts it: values of the lists and levels of their keys, multiplied within each
    /// alternative, and the sum of all alternatives.
    combinations: usize,
    alternatives: usize,
    rules: usize,
}

/// Checks a policy and writes it as alternatives without `$or`. None: there is no policy.
pub(crate) fn alternatives(text: &str, scope: Scope) -> Result<Vec<Alternative>, FilterError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if text.len() > MAX_BYTES {
        return Err(FilterError::TooLarge);
    }
    let json = serde_json::from_str(text).map_err(|error| FilterError::Json(error.to_string()))?;
    let Json::Object(members) = json else { return Err(FilterError::NotAnObject) };
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let keys = members.len();
    let items = object(members)?;
    if scope == Scope::MessageAttributes && is_nested(&items) {
        return Err(FilterError::Nested);
    }
    if keys > MAX_KEYS {
        return Err(FilterError::TooManyKeys);
    }
    let size = measure(&items, 1, Size { combinations: 1, alternatives: 1, rules: 0 });
    if size.combinations > MAX_COMBINATIONS || size.rules > MAX_RULES {
        return Err(FilterError::TooComplex);
    }
    let alternatives = expand(items, scope, &Path::new(), vec![Vec::new()])?;
    Ok(alternatives.into_iter().map(Alternative::new).collect())
}

fn object(members: Vec<(String, Json)>) -> Result<Vec<Item>, FilterError> {
    if members.is_empty() {
        return Err(FilterError::EmptyObject);
    }
    members.into_iter().map(|(name, value)| member(name, value)).collect()
}

fn member(name: String, value: Json) -> Result<Item, FilterError> {
    match value {
        Json::Object(members) => Ok(Item::Nested { name, items: object(members)? }),
        Json::List(list) if list.is_empty() => Err(FilterError::EmptyArray),
        Json::List(list) if name == "$or" && is_or(&list) => {
            let policies = list.into_iter().filter_map(|policy| match policy {
                Json::Object(members) => Some(object(members)),
                _ => None,
            });
            Ok(Item::Or(policies.collect::<Result<_, _>>()?))
        }
        Json::List(list) => {
            let conditions = list.iter().map(Condition::parse).collect::<Result<_, _>>()?;
            Ok(Item::Key { name, conditions })
        }
        _ => Err(FilterError::Rule(name)),
    }
}

/// `$or` is a key like any other unless its list is one of two or more policies.
fn is_or(list: &[Json]) -> bool {
    let is_policy = |json: &Json| match json {
        Json::Object(members) => members.iter().all(|(name, _)| !RESERVED.contains(&name.as_str())),
        _ => false,
    };
    list.len() >= 2 && list.iter().all(is_policy)
}

fn is_nested(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Key { .. } => false,
        Item::Nested { .. } => true,
        Item::Or(policies) => policies.iter().any(|items| is_nested(items)),
    })
}

fn measure(items: &[Item], level: usize, before: Size) -> Size {
    items.iter().fold(before, |size, item| match item {
        Item::Key { conditions, .. } => Size {
            combinations: size.combinations.saturating_mul(conditions.len()).saturating_mul(level),
            rules: size.rules.saturating_add(size.alternatives),
            ..size
        },
        Item::Nested { items, .. } => measure(items, level + 1, size),
        Item::Or(policies) => {
            let none = Size { combinations: 0, alternatives: 0, rules: 0 };
            policies.iter().map(|items| measure(items, level, size)).fold(none, Size::plus)
        }
    })
}

impl Size {
    fn plus(self, other: Self) -> Self {
        Self {
            combinations: self.combinations.saturating_add(other.combinations),
            alternatives: self.alternatives.saturating_add(other.alternatives),
            rules: self.rules.saturating_add(other.rules),
        }
    }
}

/// Adds the items' rules to each alternative; `$or` makes several of each.
fn expand(
    items: Vec<Item>,
    scope: Scope,
    prefix: &Path,
    mut alternatives: Vec<Vec<Rule>>,
) -> Result<Vec<Vec<Rule>>, FilterError> {
    for item in items {
        match item {
            Item::Key { name, conditions } => {
                let path = extend(prefix, &name, scope)?;
                let rule = Rule { path, conditions: conditions.into() };
                for rules in &mut alternatives {
                    rules.push(rule.clone());
                }
            }
            Item::Nested { name, items } => {
                let path = extend(prefix, &name, scope)?;
                alternatives = expand(items, scope, &path, alternatives)?;
            }
            Item::Or(policies) => {
                let mut all = Vec::new();
                for items in policies {
                    all.append(&mut expand(items, scope, prefix, alternatives.clone())?);
                }
                alternatives = all;
            }
        }
    }
    Ok(alternatives)
}

/// In a body, a dot in a key stands for a level; in the name of an attribute it does not.
fn extend(prefix: &Path, name: &str, scope: Scope) -> Result<Path, FilterError> {
    let mut path = prefix.clone();
    match scope {
        Scope::MessageAttributes => path.push(Arc::from(name)),
        Scope::MessageBody => {
            path.extend(name.split('.').take(MAX_LEVELS + 1).map(Arc::from));
        }
    }
    if path.len() > MAX_LEVELS { Err(FilterError::TooComplex) } else { Ok(path) }
}
