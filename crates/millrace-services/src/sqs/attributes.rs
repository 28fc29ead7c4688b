//! Queue attributes: text to settings and back (API reference, SetQueueAttributes).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use millrace_broker::{Counts, DeduplicationScope, Definition, Kind, Settings};
use millrace_core::limits;
use millrace_wire::ApiError;

use super::{error, policies, policy_document};

/// What a queue's attributes say: settings that the broker acts upon, and texts that it keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub settings: Settings,
    pub texts: BTreeMap<String, String>,
}

/// In the order in which GetQueueAttributes gives them.
pub(crate) const NAMES: [&str; 21] = [
    "QueueArn",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "VisibilityTimeout",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "DelaySeconds",
    "ReceiveMessageWaitTimeSeconds",
    "Policy",
    "RedrivePolicy",
    "RedriveAllowPolicy",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "SqsManagedSseEnabled",
    "FifoQueue",
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "FifoThroughputLimit",
];

const READ_ONLY: usize = 6;

impl Attributes {
    /// Those of an existing queue.
    pub(crate) fn of(definition: &Definition) -> Attributes {
        Attributes { settings: definition.settings.clone(), texts: definition.attributes.clone() }
    }

    /// Sets attributes by name; on failure some may be set, so apply to a copy.
    pub(crate) fn set<'r>(
        &mut self,
        given: impl Iterator<Item = (&'r str, &'r str)> + Clone,
    ) -> Result<(), ApiError> {
        for (name, value) in given.clone() {
            self.set_one(name, value)?;
        }
        self.drop_unused();
        self.check_encryption(given.clone())?;
        let is_high_throughput = self.text("FifoThroughputLimit") == Some("perMessageGroupId");
        if is_high_throughput && self.settings.deduplication_scope == DeduplicationScope::Queue {
            let mut given = given;
            return Err(if given.any(|(name, _)| name == "FifoThroughputLimit") {
                error::invalid_attribute_value_because(
                    "FifoThroughputLimit",
                    "To set FifoThroughputLimit to perMessageGroupId, the DeduplicationScope must \
                     be messageGroup.",
                )
            } else {
                error::invalid_attribute_value("DeduplicationScope")
            });
        }
        Ok(())
    }

    /// The value of an attribute that can be set, as GetQueueAttributes shows it.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let settings = &self.settings;
        let is_fifo = settings.kind == Kind::Fifo;
        let number = |value: u32| Some(value.to_string());
        match name {
            "VisibilityTimeout" => number(settings.visibility_timeout_s),
            "MaximumMessageSize" => number(settings.maximum_message_size_bytes),
            "MessageRetentionPeriod" => number(settings.retention_s),
            "DelaySeconds" => number(settings.delay_s),
            "ReceiveMessageWaitTimeSeconds" => number(settings.wait_time_s),
            "SqsManagedSseEnabled" => Some(self.text(name).unwrap_or("true").to_owned()),
            "FifoQueue" => is_fifo.then(|| "true".to_owned()),
            "ContentBasedDeduplication" => {
                is_fifo.then(|| settings.content_based_deduplication.to_string())
            }
            "DeduplicationScope" => is_fifo.then(|| match settings.deduplication_scope {
                DeduplicationScope::Queue => "queue".to_owned(),
                DeduplicationScope::MessageGroup => "messageGroup".to_owned(),
            }),
            "FifoThroughputLimit" => {
                is_fifo.then(|| self.text(name).unwrap_or("perQueue").to_owned())
            }
            _ => self.text(name).map(str::to_owned),
        }
    }

    /// Whether the attribute is what `value` says, texts or JSON documents compared. Nothing else
    /// is looked at: what one attribute needs of another, a queue that has both has.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        let mut given = self.clone();
        if given.set_one(name, value).is_err() {
            return false;
        }
        given.drop_unused();
        match name {
            // The count may be a number here and a text there.
            "RedrivePolicy" => given.settings.redrive == self.settings.redrive,
            _ => is_same(given.value(name), self.value(name)),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    fn set_one(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        match name {
            "VisibilityTimeout" => {
                self.settings.visibility_timeout_s =
                    number(name, value, &limits::VISIBILITY_TIMEOUT_S)?;
            }
            "MaximumMessageSize" => {
                self.settings.maximum_message_size_bytes =
                    number(name, value, &limits::MAXIMUM_MESSAGE_SIZE_BYTES)?;
            }
            "MessageRetentionPeriod" => {
                self.settings.retention_s = number(name, value, &limits::RETENTION_S)?;
            }
            "DelaySeconds" => self.settings.delay_s = number(name, value, &limits::DELAY_S)?,
            "ReceiveMessageWaitTimeSeconds" => {
                self.settings.wait_time_s = number(name, value, &limits::WAIT_TIME_S)?;
            }
            "Policy" => {
                policy_document::check_policy(value)?;
                self.set_text(name, value);
            }
            "RedrivePolicy" => {
                let policy = policies::RedrivePolicy::parse(value)?;
                self.settings.redrive = policy.as_ref().map(|policy| policy.redrive.clone());
                self.set_text(name, &policy.map(|policy| policy.text).unwrap_or_default());
            }
            "RedriveAllowPolicy" => {
                let policy = policies::RedriveAllowPolicy::parse(value)?;
                self.set_text(name, &policy.map(|policy| policy.text()).unwrap_or_default());
            }
            "KmsMasterKeyId" => self.set_key(name, value)?,
            "KmsDataKeyReusePeriodSeconds" => {
                let period = number(name, value, &limits::KMS_REUSE_PERIOD_S)?;
                self.set_text(name, &period.to_string());
            }
            "SqsManagedSseEnabled" => {
                self.set_text(name, &boolean(name, value)?.to_string());
            }
            _ if self.settings.kind == Kind::Fifo => self.set_one_of_fifo(name, value)?,
            "DeduplicationScope" | "FifoThroughputLimit" => {
                return Err(error::invalid_attribute_name(format!(
                    "You can specify the {name} only when FifoQueue is set to true."
                )));
            }
            _ => return Err(error::unknown_attribute(name)),
        }
        Ok(())
    }

    /// Sets what only FIFO queues have.
    fn set_one_of_fifo(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        match name {
            "FifoQueue" => {
                if !boolean(name, value)? {
                    let reason = "Modifying queue type is not supported.";
                    return Err(error::invalid_attribute_value_because(name, reason));
                }
            }
            "ContentBasedDeduplication" => {
                self.settings.content_based_deduplication = boolean(name, value)?;
            }
            "DeduplicationScope" => {
                self.settings.deduplication_scope = match value {
                    "queue" => DeduplicationScope::Queue,
                    "messageGroup" => DeduplicationScope::MessageGroup,
                    _ => return Err(error::invalid_attribute_value(name)),
                };
            }
            "FifoThroughputLimit" => match value {
                "perQueue" | "perMessageGroupId" => self.set_text(name, value),
                _ => return Err(error::invalid_attribute_value(name)),
            },
            _ => return Err(error::unknown_attribute(name)),
        }
        Ok(())
    }

    /// With a key, SQS's own encryption ends and the key has a period.
    fn set_key(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        if value.len() > limits::KMS_KEY_ID_BYTES {
            return Err(error::invalid_attribute_value(name));
        }
        self.set_text(name, value);
        if !value.is_empty() {
            self.texts.insert("SqsManagedSseEnabled".to_owned(), "false".to_owned());
            let period = self.texts.entry("KmsDataKeyReusePeriodSeconds".to_owned());
            period.or_insert_with(|| "300".to_owned());
        }
        Ok(())
    }

    /// The key's period is nothing without the key.
    fn drop_unused(&mut self) {
        if !self.texts.contains_key("KmsMasterKeyId") {
            self.texts.remove("KmsDataKeyReusePeriodSeconds");
        }
    }

    fn set_text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            self.texts.remove(name);
        } else {
            self.texts.insert(name.to_owned(), value.to_owned());
        }
    }

    /// One kind of server-side encryption at a time.
    fn check_encryption<'r>(
        &self,
        mut given: impl Iterator<Item = (&'r str, &'r str)>,
    ) -> Result<(), ApiError> {
        let turns_on = given.any(|(name, value)| {
            name == "SqsManagedSseEnabled" && value.eq_ignore_ascii_case("true")
        });
        if turns_on && self.texts.contains_key("KmsMasterKeyId") {
            return Err(error::invalid_attribute_name(
                "You can use one type of server-side encryption (SSE) at one time. You can either \
                 enable KMS SSE or SQS SSE.",
            ));
        }
        Ok(())
    }
}

/// The values of the attributes that a queue has, all or those named.
pub(crate) fn values(
    definition: &Definition,
    counts: Counts,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let attributes = Attributes::of(definition);
    let value = |name: &'static str| {
        let value = match name {
            "QueueArn" => Some(definition.key().to_string()),
            "ApproximateNumberOfMessages" => Some(counts.ready.to_string()),
            "ApproximateNumberOfMessagesNotVisible" => Some(counts.in_flight.to_string()),
            "ApproximateNumberOfMessagesDelayed" => Some(counts.delayed.to_string()),
            "CreatedTimestamp" => Some((definition.created_ms / 1000).to_string()),
            "LastModifiedTimestamp" => Some((definition.modified_ms / 1000).to_string()),
            _ => attributes.value(name),
        };
        Some((name, value?))
    };
    NAMES.into_iter().filter(|name| is_wanted(name)).filter_map(value).collect()
}

/// Whether an attribute of that name can be asked for.
pub(crate) fn is_known(name: &str) -> bool {
    name == "All" || NAMES.contains(&name)
}

/// Whether an attribute can only be read.
pub(crate) fn is_read_only(name: &str) -> bool {
    NAMES.iter().take(READ_ONLY).any(|known| *known == name)
}

/// Equal as texts or as JSON documents.
fn is_same(a: Option<String>, b: Option<String>) -> bool {
    if a == b {
        return true;
    }
    let json = |text: Option<String>| serde_json::from_str::<serde_json::Value>(&text?).ok();
    let (a, b) = (json(a), json(b));
    a.is_some() && a == b
}

fn number(name: &str, value: &str, allowed: &RangeInclusive<u64>) -> Result<u32, ApiError> {
    // `parse` takes a sign, too.
    let digits_only = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse::<u64>().ok().filter(|n| digits_only && allowed.contains(n));
    number.map(|n| n as u32).ok_or_else(|| error::invalid_attribute_value(name))
}

fn boolean(name: &str, value: &str) -> Result<bool, ApiError> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(error::invalid_attribute_value(name)),
    }
}

#[cfg(test)]
mod tests;
