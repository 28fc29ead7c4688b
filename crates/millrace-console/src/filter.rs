//! A filter policy of SNS, tried on a message that nobody publishes.
//!
//! The answer is what a subscription with the policy would do, by the same code. A policy that SNS
//! refuses is an answer, too: people try while they write.

use std::collections::BTreeMap;

use millrace_filters::{Attribute, AttributeKind, FilterPolicy, Message, Scope};
use millrace_wire::ApiError;
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes of a trial: matching runs on the thread that serves the console.
const MAX_BYTES: usize = 128 << 10;

/// A policy and a message, as a page gives them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial<'a> {
    policy: String,
    scope: &'a str,
    #[serde(default)]
    message: String,
    /// As SNS's own actions have them.
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
}

/// `{"matches"}`, with `"is_readable": false` if no policy of that scope can match the message; or
/// `{"problem"}`, the reason why SNS refuses the policy.
pub(crate) fn try_out(body: &[u8]) -> Result<Value, ApiError> {
    if body.len() > MAX_BYTES {
        let text = format!("A policy and a message to try have at most {MAX_BYTES} bytes.");
        return Err(ApiError::invalid_parameter_value(text));
    }
    let trial: Trial<'_> = serde_json::from_slice(body)
        .map_err(|_| ApiError::invalid_parameter_value("A policy, a scope and a message."))?;
    let scope = match trial.scope {
        "MessageAttributes" => Scope::MessageAttributes,
        "MessageBody" => Scope::MessageBody,
        _ => return Err(ApiError::invalid_parameter_value("There is no such scope.")),
    };
    let policy = match FilterPolicy::parse(&trial.policy, scope) {
        Ok(policy) => policy,
        Err(error) => return Ok(json!({ "problem": error.to_string() })),
    };
    let text = |value: &'_ Value, member: &str| {
        value.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let values: Vec<_> = trial
        .attributes
        .iter()
        .map(|(name, value)| (name, text(value, "DataType"), text(value, "StringValue")))
        .collect();
    let attributes = values.iter().map(|(name, data_type, value)| Attribute {
        name,
        kind: AttributeKind::of(data_type),
        value,
    });
    let message = Message::new(&trial.message, attributes.collect());
    let matches = policy.matches(&message);
    Ok(json!({ "matches": matches, "is_readable": message.is_readable(scope) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(policy: &str, scope: &str, message: &str, attributes: Value) -> Value {
        let trial = json!({
            "policy": policy, "scope": scope, "message": message, "attributes": attributes,
        });
        try_out(trial.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_message_is_tried_as_a_subscription_would() {
        let colour = |value: &str| json!({ "c": { "DataType": "String", "StringValue": value } });
        let by_attribute =
            |value| tried(r#"{"c":["red"]}"#, "MessageAttributes", "", colour(value));
        assert_eq!(by_attribute("red"), json!({ "matches": true, "is_readable": true }));
        assert_eq!(by_attribute("blue"), json!({ "matches": false, "is_readable": true }));

        let number = json!({ "n": { "DataType": "Number", "StringValue": "5" } });
        let range = r#"{"n":[{"numeric":[">",4]}]}"#;
        assert_eq!(tried(range, "MessageAttributes", "", number)["matches"], true);

        let by_body = |message| tried(r#"{"a":{"b":[1]}}"#, "MessageBody", message, json!({}));
        assert_eq!(by_body(r#"{"a":{"b":1}}"#)["matches"], true);
        assert_eq!(by_body("plain"), json!({ "matches": false, "is_readable": false }));
    }

    #[test]
    fn a_policy_that_is_refused_is_answered_with_the_reason() {
        let nested = tried(r#"{"a":{"b":[1]}}"#, "MessageAttributes", "", json!({}));
        let no_json = tried("{", "MessageBody", "", json!({}));

        assert!(nested["problem"].as_str().unwrap().contains("does not support nested"));
        assert!(no_json["problem"].as_str().unwrap().starts_with("failed to parse JSON. "));
    }

    #[test]
    fn without_a_policy_all_messages_match() {
        for policy in ["", "{}"] {
            assert_eq!(tried(policy, "MessageBody", "plain", json!({}))["matches"], true);
        }
    }

    #[test]
    fn what_is_no_trial_is_refused() {
        let large =
            format!(r#"{{"policy":"","scope":"MessageBody","message":"{:1$}"}}"#, "", MAX_BYTES);
        for body in ["", "[]", r#"{"policy":"","scope":"Body"}"#, large.as_str()] {
            assert_eq!(try_out(body.as_bytes()).unwrap_err().status, 400);
        }
    }
}
