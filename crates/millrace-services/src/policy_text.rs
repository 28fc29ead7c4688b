//! Documents of policies: what is one (IAM user guide, "Grammar of the IAM JSON policy language"), and
//! how one is changed and written.

use millrace_wire::ApiError;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Map, Value, json};

/// Returns true if the document is a policy. The names of its principals and actions are not
/// looked up.
pub(crate) fn is_policy(document: &Value) -> bool {
    statements(document).is_some_and(|statements| statements.into_iter().all(is_statement))
}

/// All actions that the statements of a policy name.
pub(crate) fn actions(document: &Value) -> impl Iterator<Item = &str> {
    let statements = statements(document).unwrap_or_default();
    let lists = statements
        .into_iter()
        .filter_map(|statement| statement.get("Action").or_else(|| statement.get("NotAction")));
    let texts = lists.flat_map(|list| match list {
        Value::Array(list) => list.iter().collect(),
        single => vec![single],
    });
    texts.filter_map(Value::as_str)
}

/// The statements of a document whose other members are sound.
pub(crate) fn statements(document: &Value) -> Option<Vec<&Value>> {
    let document = document.as_object()?;
    let is_known = |name: &String| matches!(&**name, "Version" | "Id" | "Statement");
    let is_version = |version: &Value| {
        version.as_str().is_some_and(|text| matches!(text, "2008-10-17" | "2012-10-17"))
    };
    let is_sound = document.keys().all(is_known)
        && document.get("Version").is_none_or(is_version)
        && document.get("Id").is_none_or(Value::is_string);
    let statements = match document.get("Statement")? {
        Value::Array(statements) => statements.iter().collect(),
        statement => vec![statement],
    };
    (is_sound && !statements.is_empty()).then_some(statements)
}

/// Returns true if all members of a statement are sound.
pub(crate) fn is_statement(statement: &Value) -> bool {
    let Some(statement) = statement.as_object() else { return false };
    let is_known = |name: &String| {
        matches!(
            &**name,
            "Sid"
                | "Effect"
                | "Principal"
                | "NotPrincipal"
                | "Action"
                | "NotAction"
                | "Resource"
                | "NotResource"
                | "Condition"
        )
    };
    let effect = statement.get("Effect").and_then(Value::as_str);
    statement.keys().all(is_known)
        && statement.get("Sid").is_none_or(Value::is_string)
        && matches!(effect, Some("Allow" | "Deny"))
        && has_one(statement, ["Principal", "NotPrincipal"], is_principal)
        && has_one(statement, ["Action", "NotAction"], is_texts)
        && has_one(statement, ["Resource", "NotResource"], is_texts)
        && statement.get("Condition").is_none_or(is_condition)
}

/// Exactly one of the two, and it is what it should be.
fn has_one(statement: &Map<String, Value>, names: [&str; 2], is_sound: fn(&Value) -> bool) -> bool {
    let [this, that] = names.map(|name| statement.get(name));
    this.xor(that).is_some_and(is_sound)
}

fn is_principal(principal: &Value) -> bool {
    let is_known =
        |kind: &String| matches!(&**kind, "AWS" | "Service" | "Federated" | "CanonicalUser");
    match principal {
        Value::Object(kinds) => {
            !kinds.is_empty() && kinds.keys().all(is_known) && kinds.values().all(is_texts)
        }
        everybody => everybody == "*",
    }
}

/// A text, or a list of some.
fn is_texts(value: &Value) -> bool {
    match value {
        Value::Array(list) => !list.is_empty() && list.iter().all(Value::is_string),
        single => single.is_string(),
    }
}

/// Operators, each with keys, each with values.
fn is_condition(condition: &Value) -> bool {
    let operators = condition.as_object();
    operators.is_some_and(|operators| operators.values().all(Value::is_object))
}

/// The policy's statements as a list; a single one may stand without.
pub(crate) fn statements_mut(policy: &mut Value) -> &mut Vec<Value> {
    let statements = &mut policy["Statement"];
    if !statements.is_array() {
        let single = statements.take();
        *statements = if single.is_null() { json!([]) } else { json!([single]) };
    }
    match statements {
        Value::Array(list) => list,
        _ => unreachable!("made a list above"),
    }
}

/// A text, or a list where there are several.
pub(crate) fn one_or_many(mut texts: Vec<String>) -> Value {
    match texts.len() {
        1 => Value::from(texts.remove(0)),
        _ => Value::from(texts),
    }
}

/// A policy as text, its members in the order in which Amazon writes them.
pub(crate) fn in_order(policy: &Value) -> Result<String, ApiError> {
    serde_json::to_string(&InOrder(policy)).map_err(|_| ApiError::internal_failure())
}

struct InOrder<'v>(&'v Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const ORDER: [&str; 12] = [
            "Version",
            "Id",
            "Statement",
            "Sid",
            "Effect",
            "Principal",
            "NotPrincipal",
            "Action",
            "NotAction",
            "Resource",
            "NotResource",
            "Condition",
        ];
        match self.0 {
            Value::Object(members) => {
                let place = |name: &str| ORDER.iter().position(|it| *it == name);
                let mut members: Vec<(&String, &Value)> = members.iter().collect();
                members.sort_by_key(|(name, _)| place(name).unwrap_or(ORDER.len()));
                serializer.collect_map(members.into_iter().map(|(name, it)| (name, InOrder(it))))
            }
            Value::Array(elements) => serializer.collect_seq(elements.iter().map(InOrder)),
            scalar => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_policies_have_amazons_order() {
        let policy = json!({
            "Statement": [{
                "Condition": { "StringLike": { "b": "1", "a": "2" } },
                "Resource": "r",
                "Action": ["x", "a"],
                "Principal": { "AWS": "p" },
                "Effect": "Allow",
                "Sid": "s",
            }],
            "Id": "i",
            "Version": "2008-10-17",
        });

        assert_eq!(
            in_order(&policy).unwrap(),
            r#"{"Version":"2008-10-17","Id":"i","Statement":[{"Sid":"s","Effect":"Allow","Principal":{"AWS":"p"},"Action":["x","a"],"Resource":"r","Condition":{"StringLike":{"a":"2","b":"1"}}}]}"#
        );
    }

    #[test]
    fn statements_are_a_list_however_they_were_written() {
        for (policy, count) in [
            (json!({}), 0),
            (json!({"Statement": []}), 0),
            (json!({"Statement": {"Sid": "a"}}), 1),
            (json!({"Statement": [{"Sid": "a"}, {"Sid": "b"}]}), 2),
        ] {
            let mut changed = policy.clone();
            assert_eq!(statements_mut(&mut changed).len(), count, "{policy}");
            assert!(changed["Statement"].is_array());
        }
        assert_eq!(one_or_many(vec!["a".into()]), json!("a"));
        assert_eq!(one_or_many(vec!["a".into(), "b".into()]), json!(["a", "b"]));
    }
}
