//! TagQueue, UntagQueue, ListQueueTags (developer guide, "Cost allocation tags").

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{Definition, SharedQueue};
use millrace_core::limits;
use millrace_wire::ApiError;
use millrace_wire::sqs::{Answer, TagQueue, UntagQueue};

use super::Sqs;
use super::queues::pairs;

impl Sqs {
    pub(super) async fn tag_queue(
        &self,
        queue: &Arc<SharedQueue>,
        input: &TagQueue<'_>,
    ) -> Result<Answer, ApiError> {
        if input.tags.as_ref().is_none_or(|tags| tags.0.is_empty()) {
            return Err(ApiError::missing_parameter("Tags"));
        }
        let name = &queue.key().name;
        let change = |definition: &mut Definition| {
            definition.tags = check(name, pairs(input.tags.as_ref()), &definition.tags)?;
            Ok(())
        };
        self.change(queue, change).await?;
        Ok(Answer::Void)
    }

    pub(super) async fn untag_queue(
        &self,
        queue: &Arc<SharedQueue>,
        input: &UntagQueue<'_>,
    ) -> Result<Answer, ApiError> {
        let keys = input.tag_keys.as_ref();
        let keys = keys.ok_or_else(|| ApiError::missing_parameter("TagKeys"))?;
        if keys.is_empty() || !keys.iter().all(|key| has_key_length(key)) {
            return Err(bad_key_length());
        }
        let change = |definition: &mut Definition| {
            definition.tags.retain(|tag, _| !keys.iter().any(|key| key.as_str() == tag));
            Ok(())
        };
        self.change(queue, change).await?;
        Ok(Answer::Void)
    }

    pub(super) fn list_queue_tags(&self, queue: &Arc<SharedQueue>) -> Answer {
        let tags = queue.definition().tags.clone().into_iter().collect();
        Answer::ListQueueTags { tags }
    }
}

/// Returns true for a character that the keys and values of tags may have.
pub(crate) fn is_allowed(c: char) -> bool {
    c.is_alphanumeric()
        || c.is_whitespace()
        || matches!(c, '_' | '.' | ':' | '/' | '=' | '+' | '-' | '@')
}

fn has_key_length(key: &str) -> bool {
    limits::TAG_KEY_CHARS.contains(&key.chars().count())
}

fn bad_key_length() -> ApiError {
    ApiError::invalid_parameter_value("Tag keys must be between 1 and 128 characters in length.")
}

/// The tags that the queue of that name has after `given` are added to `current`.
pub(super) fn check(
    name: &str,
    given: Vec<(&str, &str)>,
    current: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let mut tags = current.clone();
    for (key, value) in given {
        if !has_key_length(key) {
            return Err(bad_key_length());
        }
        if value.chars().count() > limits::TAG_VALUE_CHARS {
            return Err(ApiError::invalid_parameter_value(
                "Tag values must be between 0 and 256 characters in length.",
            ));
        }
        for (what, text) in [("keys", key), ("values", value)] {
            if !text.chars().all(is_allowed) {
                return Err(ApiError::invalid_parameter_value(format!(
                    "Tag {what} may only contain unicode letters, digits, whitespace, or one of \
                     these symbols: _ . : / = + - @"
                )));
            }
        }
        if key.to_ascii_lowercase().starts_with("aws:") {
            return Err(ApiError::invalid_parameter_value(
                "Tag keys that begin with aws: are reserved for system use.",
            ));
        }
        tags.insert(key.to_owned(), value.to_owned());
    }
    if tags.len() > limits::TAGS {
        let message = format!("Too many tags added for queue {name}.");
        return Err(ApiError::invalid_parameter_value(message));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_few_and_of_bounded_texts() {
        let long = |len: usize| "\u{e9}".repeat(len);
        let is_taken = |key: &str, value: &str| {
            check("jobs", vec![(key, value)], &BTreeMap::new()).is_ok_and(|tags| tags[key] == value)
        };
        for (key, value) in [("a", ""), (&long(128), &long(256)), ("a _.:/=+-@", "a _.:/=+-@")] {
            assert!(is_taken(key, value), "{key}");
        }
        for (key, value) in [
            ("", ""),
            (&long(129), ""),
            ("a", &long(257)),
            ("a!", ""),
            ("a", "#"),
            ("aws:a", ""),
            ("AWS:a", ""),
        ] {
            assert!(!is_taken(key, value), "{key} {value}");
        }

        let of = |count: usize| (0..count).map(|n| (n.to_string(), String::new()));
        let full: BTreeMap<String, String> = of(limits::TAGS).collect();
        let added = |key, current| check("jobs", vec![(key, "new")], current);
        assert_eq!(added("0", &full).unwrap()["0"], "new", "it replaces one");
        assert!(added("more", &full).is_err());
        let but_one = of(limits::TAGS - 1).collect();
        assert_eq!(added("more", &but_one).unwrap().len(), limits::TAGS);
    }
}
