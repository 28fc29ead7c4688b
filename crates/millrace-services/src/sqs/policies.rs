//! The JSON documents among a queue's attributes: RedrivePolicy, RedriveAllowPolicy.

use millrace_broker::Redrive;
use millrace_core::{Arn, QueueKey, limits};
use millrace_wire::ApiError;
use serde_json::{Map, Value};

use super::error;

/// `{"deadLetterTargetArn": ARN, "maxReceiveCount": 1 to 1,000}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedrivePolicy {
    pub redrive: Redrive,
    /// The document without white space, the count a number even if it was given as text.
    pub text: String,
}

impl RedrivePolicy {
    /// `None` for the empty text, which removes the policy.
    pub(crate) fn parse(text: &str) -> Result<Option<RedrivePolicy>, ApiError> {
        if text.is_empty() {
            return Ok(None);
        }
        check_length("RedrivePolicy", text)?;
        let invalid = |reason: &str| error::invalid_value(text, "RedrivePolicy", reason);
        let Ok(Value::Object(mut map)) = serde_json::from_str::<Value>(text) else {
            return Err(error::invalid_attribute_value_because(
                "RedrivePolicy",
                "Redrive policy is not a valid JSON map.",
            ));
        };
        for name in ["maxReceiveCount", "deadLetterTargetArn"] {
            if !map.contains_key(name) {
                let reason =
                    format!("Redrive policy does not contain mandatory attribute: {name}.");
                return Err(invalid(&reason));
            }
        }
        if map.len() > 2 {
            return Err(invalid(
                "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
            ));
        }
        let count = &map["maxReceiveCount"];
        let max_receive_count = count
            .as_u64()
            .or_else(|| count.as_str()?.parse().ok())
            .filter(|count| limits::MAX_RECEIVE_COUNT.contains(count))
            .ok_or_else(|| {
                let shown = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
                invalid(&format!(
                    "Invalid value for maxReceiveCount: {shown}, valid values are from 1 to 1000 \
                     both inclusive."
                ))
            })?;
        let arn = map["deadLetterTargetArn"].as_str().and_then(Arn::parse);
        let arn =
            arn.ok_or_else(|| invalid("Dead-letter target ARN should be fully qualified ARN."))?;
        let target = arn.queue().ok_or_else(|| {
            invalid("Only SQS queues are valid resources for deadLetterTargetArn.")
        })?;
        map.insert("maxReceiveCount".to_owned(), max_receive_count.into());
        let QueueKey { region, account, name } = target;
        let redrive =
            Redrive { region, account, name, max_receive_count: max_receive_count as u32 };
        Ok(Some(RedrivePolicy { redrive, text: Value::Object(map).to_string() }))
    }
}

/// `{"redrivePermission": "allowAll" | "denyAll" | "byQueue", "sourceQueueArns": [ARN, …]}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedriveAllowPolicy(Map<String, Value>);

impl RedriveAllowPolicy {
    /// `None` for the empty text, which removes the policy.
    pub(crate) fn parse(text: &str) -> Result<Option<RedriveAllowPolicy>, ApiError> {
        if text.is_empty() {
            return Ok(None);
        }
        check_length("RedriveAllowPolicy", text)?;
        let invalid = |reason: &str| error::invalid_value(text, "RedriveAllowPolicy", reason);
        let Ok(Value::Object(map)) = serde_json::from_str::<Value>(text) else {
            return Err(error::invalid_attribute_value_because(
                "RedriveAllowPolicy",
                "Redrive allow policy is not a valid JSON map.",
            ));
        };
        let is_known = |name: &String| matches!(&**name, "redrivePermission" | "sourceQueueArns");
        let permission = map.get("redrivePermission").and_then(Value::as_str);
        if !map.keys().all(is_known)
            || !matches!(permission, Some("allowAll" | "denyAll" | "byQueue"))
        {
            return Err(invalid("The policy has an unsupported format."));
        }
        match map.get("sourceQueueArns") {
            None if permission == Some("byQueue") => {
                return Err(invalid(
                    "At least one source queue ARN must be specified when redrivePermission is \
                     byQueue.",
                ));
            }
            Some(_) if permission != Some("byQueue") => {
                return Err(invalid(
                    "To specify one or more source queue ARNs, you must set redrivePermission to \
                     byQueue.",
                ));
            }
            Some(arns) => check_source_arns(arns).map_err(invalid)?,
            None => {}
        }
        Ok(Some(RedriveAllowPolicy(map)))
    }

    /// The document without white space.
    pub(crate) fn text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// Whether a queue may name this one as its dead-letter queue.
    pub(crate) fn allows(&self, source: &QueueKey) -> bool {
        match self.0.get("redrivePermission").and_then(Value::as_str) {
            Some("denyAll") => false,
            Some("byQueue") => {
                // Of whatever partition: it follows from the region.
                let is_source = |arn: &Value| {
                    let arn = arn.as_str().and_then(Arn::parse);
                    arn.and_then(|arn| arn.queue()).as_ref() == Some(source)
                };
                let arns = self.0.get("sourceQueueArns").and_then(Value::as_array);
                arns.is_some_and(|arns| arns.iter().any(is_source))
            }
            _ => true,
        }
    }
}

fn check_source_arns(arns: &Value) -> Result<(), &'static str> {
    let Some(arns) = arns.as_array() else { return Err("The policy has an unsupported format.") };
    if !limits::REDRIVE_ALLOW_SOURCES.contains(&arns.len()) {
        return Err("The number of source queue ARNs must be between 1 and 10.");
    }
    let is_queue =
        |arn: &Value| arn.as_str().and_then(Arn::parse).is_some_and(|arn| arn.queue().is_some());
    if !arns.iter().all(is_queue) {
        return Err("Source queue ARNs should be fully qualified ARNs of SQS queues.");
    }
    Ok(())
}

/// Before it is parsed, and shown again in an error.
fn check_length(name: &str, text: &str) -> Result<(), ApiError> {
    if text.len() > limits::POLICY_BYTES {
        return Err(error::invalid_attribute_value(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_redrive_policies_is_a_number_however_it_was_given() {
        let text = |count: &str| {
            let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
            format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":{count}}}")
        };
        for count in ["3", "\"3\""] {
            let policy = RedrivePolicy::parse(&text(count)).unwrap().unwrap();
            assert_eq!(policy.redrive.max_receive_count, 3);
            assert_eq!(policy.text, text("3"));
        }
    }

    #[test]
    fn bad_redrive_policies_are_refused() {
        let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
        for text in [
            "x",
            "[]",
            "{}",
            &format!("{{\"deadLetterTargetArn\":\"{arn}\"}}"),
            "{\"maxReceiveCount\":3}",
            &format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":0}}"),
            &format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":1001}}"),
            &format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":1,\"x\":1}}"),
            "{\"deadLetterTargetArn\":\"dead\",\"maxReceiveCount\":1}",
            &format!(
                "{{\"deadLetterTargetArn\":\"{arn}\",{}\"maxReceiveCount\":3}}",
                " ".repeat(8_192)
            ),
        ] {
            assert!(RedrivePolicy::parse(text).is_err(), "{text}");
        }
    }
}
