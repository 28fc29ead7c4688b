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
        let arn = arn.ok_or_else(|| invalid("Invalid value for deadLetterTargetArn."))?;
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

/// What is said of a RedriveAllowPolicy that is none.
const UNSUPPORTED_FORMAT: &str =
    "Amazon SQS can't create the redrive allow policy, as it's in an unsupported format.";

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
        let invalid = |reason: &str| {
            let reason = format!("Amazon SQS can't create the redrive allow policy. {reason}");
            error::invalid_value(text, "RedriveAllowPolicy", &reason)
        };
        let Ok(Value::Object(mut map)) = serde_json::from_str::<Value>(text) else {
            return Err(error::invalid_attribute_value_because(
                "RedriveAllowPolicy",
                UNSUPPORTED_FORMAT,
            ));
        };
        // As Terraform's jsonencode writes what is not set; Amazon leaves it out.
        if map.get("sourceQueueArns").is_some_and(Value::is_null) {
            map.remove("sourceQueueArns");
        }
        let is_known = |name: &String| matches!(&**name, "redrivePermission" | "sourceQueueArns");
        let permission = map.get("redrivePermission").and_then(Value::as_str);
        if !map.keys().all(is_known)
            || !matches!(permission, Some("allowAll" | "denyAll" | "byQueue"))
        {
            return Err(unsupported_format());
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
            Some(Value::Array(arns)) => check_source_arns(arns).map_err(invalid)?,
            Some(_) => return Err(unsupported_format()),
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
                self.sources().any(|allowed| allowed == *source)
            }
            _ => true,
        }
    }

    /// The queues that are named.
    pub(crate) fn sources(&self) -> impl Iterator<Item = QueueKey> {
        let arns = self.0.get("sourceQueueArns").and_then(Value::as_array);
        arns.into_iter().flatten().filter_map(queue_of)
    }
}

fn unsupported_format() -> ApiError {
    ApiError::invalid_parameter_value(format!(
        "Invalid value for the parameter RedriveAllowPolicy. Reason: {UNSUPPORTED_FORMAT}"
    ))
}

fn check_source_arns(arns: &[Value]) -> Result<(), &'static str> {
    if !limits::REDRIVE_ALLOW_SOURCES.contains(&arns.len()) {
        return Err("The number of source queue ARNs must be between 1 and 10.");
    }
    if !arns.iter().all(|arn| queue_of(arn).is_some()) {
        return Err("Source queue ARNs should be fully qualified ARNs of SQS queues.");
    }
    Ok(())
}

fn queue_of(arn: &Value) -> Option<QueueKey> {
    arn.as_str().and_then(Arn::parse)?.queue()
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
    fn bad_redrive_allow_policies_are_refused_in_amazons_words() {
        let unsupported = "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS \
                           can't create the redrive allow policy, as it's in an unsupported format.";
        let arns = |count: usize| {
            let arn = "\"arn:aws:sqs:us-east-1:000000000000:q\"";
            format!("[{}]", vec![arn; count].join(","))
        };
        let with = |permission: &str, arns: &str| {
            format!("{{\"redrivePermission\":\"{permission}\",\"sourceQueueArns\":{arns}}}")
        };
        for (text, code) in [
            ("x".to_owned(), "InvalidAttributeValue"),
            ("[]".to_owned(), "InvalidAttributeValue"),
            ("{}".to_owned(), "InvalidParameterValue"),
            (r#"{"redrivePermission":"some"}"#.to_owned(), "InvalidParameterValue"),
            (r#"{"redrivePermission":"denyAll","x":1}"#.to_owned(), "InvalidParameterValue"),
            (with("byQueue", "\"arn\""), "InvalidParameterValue"),
        ] {
            let refusal = RedriveAllowPolicy::parse(&text).unwrap_err();
            assert_eq!((refusal.code, &*refusal.message), (code, unsupported), "{text}");
        }
        for text in [
            r#"{"redrivePermission":"byQueue"}"#.to_owned(),
            with("byQueue", "[]"),
            with("byQueue", &arns(11)),
            with("byQueue", "[\"q\"]"),
            with("byQueue", &arns(1).replace(']', ",\"q\"]")),
            with("allowAll", &arns(1)),
        ] {
            let refusal = RedriveAllowPolicy::parse(&text).unwrap_err();
            let prefix = format!(
                "Value {text} for parameter RedriveAllowPolicy is invalid. Reason: Amazon SQS \
                 can't create the redrive allow policy. "
            );
            assert_eq!(refusal.code, "InvalidParameterValue", "{text}");
            assert!(refusal.message.starts_with(&prefix), "{}", refusal.message);
        }
        assert!(RedriveAllowPolicy::parse(&with("byQueue", &arns(10))).is_ok());
    }

    /// Amazon's answer in hashicorp/terraform-provider-aws issue 42453.
    #[test]
    fn sources_that_are_null_are_none() {
        let text = r#"{"redrivePermission":"denyAll","sourceQueueArns":null}"#;
        let policy = RedriveAllowPolicy::parse(text).unwrap().unwrap();
        assert_eq!(policy.text(), r#"{"redrivePermission":"denyAll"}"#);

        let text = r#"{"redrivePermission":"byQueue","sourceQueueArns":null}"#;
        let refusal = RedriveAllowPolicy::parse(text).unwrap_err();
        assert!(refusal.message.contains("At least one source queue ARN"), "{}", refusal.message);
    }

    #[test]
    fn who_may_use_a_dead_letter_queue_is_what_its_policy_says() {
        let queue = |name: &str| {
            let (region, account) = ("us-east-1".to_owned(), "000000000000".to_owned());
            QueueKey { region, account, name: name.to_owned() }
        };
        let allowed = |text: &str| {
            let policy = RedriveAllowPolicy::parse(text).unwrap().unwrap();
            ["a", "b", "c"].map(|name| policy.allows(&queue(name)))
        };
        let arn = |name: &str| format!("\"arn:aws:sqs:us-east-1:000000000000:{name}\"");

        assert_eq!(allowed(r#"{"redrivePermission":"allowAll"}"#), [true; 3]);
        assert_eq!(allowed(r#"{"redrivePermission":"denyAll"}"#), [false; 3]);
        let some = format!(
            r#"{{"redrivePermission":"byQueue","sourceQueueArns":[{},{}]}}"#,
            arn("a"),
            arn("c")
        );
        assert_eq!(allowed(&some), [true, false, true]);
        let elsewhere = some.replace("us-east-1", "eu-west-1");
        assert_eq!(allowed(&elsewhere), [false; 3]);
        assert_eq!(RedriveAllowPolicy::parse("").unwrap(), None);
        assert_eq!(RedrivePolicy::parse("").unwrap(), None);
    }

    #[test]
    fn documents_are_of_bounded_length() {
        let fitting = |text: &str, more: usize| {
            let spaces = " ".repeat(limits::POLICY_BYTES - text.len() + more);
            format!("{text}{spaces}")
        };
        let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
        let redrive = format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":3}}");
        let allow = r#"{"redrivePermission":"denyAll"}"#;

        assert!(RedrivePolicy::parse(&fitting(&redrive, 0)).is_ok());
        assert!(RedrivePolicy::parse(&fitting(&redrive, 1)).is_err());
        assert!(RedriveAllowPolicy::parse(&fitting(allow, 0)).is_ok());
        assert!(RedriveAllowPolicy::parse(&fitting(allow, 1)).is_err());
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
