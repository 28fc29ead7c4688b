//! CreateQueue, DeleteQueue, GetQueueUrl, GetQueueAttributes, SetQueueAttributes, PurgeQueue.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{BrokerError, Creation, Definition, Kind, NewQueue, Redrive, SharedQueue};
use millrace_core::{QueueKey, is_account, is_plain_name, limits};
use millrace_wire::ApiError;
use millrace_wire::sqs::{
    Action, Answer, CreateQueue, GetQueueAttributes, Map, SetQueueAttributes, Text,
};

use super::attributes::{self, Attributes};
use super::listings::has_url;
use super::policies::RedriveAllowPolicy;
use super::{Sqs, error, tags};
use crate::principal::Caller;
use crate::service::Call;

impl Sqs {
    pub(super) async fn create_queue(
        &self,
        call: &Call<'_>,
        input: &CreateQueue<'_>,
    ) -> Result<Answer, ApiError> {
        let name = input.queue_name.as_ref().map(Text::as_str);
        let name = name.ok_or_else(no_name)?;
        if name.is_empty() {
            return Err(ApiError::invalid_parameter_value("Queue name cannot be empty"));
        }
        let caller = call.caller;
        let key = QueueKey::new(&caller.region, &caller.principal.account, name);
        let given = pairs(input.attributes.as_ref());
        let tags = tags::check(name, pairs(input.tags.as_ref()), &BTreeMap::new())?;
        let queue = self.create(key, &given, tags).await?;
        Ok(Answer::CreateQueue { queue_url: self.queue_url(call, queue.key()) })
    }

    /// Creates a queue, or finds the one of that name if all given attributes agree with it.
    pub(super) async fn create(
        &self,
        key: QueueKey,
        given: &[(&str, &str)],
        tags: BTreeMap<String, String>,
    ) -> Result<Arc<SharedQueue>, ApiError> {
        let mut wanted = Attributes::default();
        wanted.settings.kind = kind_of(&key.name, given)?;
        if let Some((name, _)) = given.iter().find(|(name, _)| attributes::is_read_only(name)) {
            return Err(error::unknown_attribute(name));
        }
        let existing = self.shards.catalog().queue_by_key(&key);
        if let Err(error) = wanted.set(given.iter().copied()) {
            return self.with_all(existing, given).await?.ok_or(error);
        }
        let definition = existing.map(|queue| queue.definition());
        let is_new = definition.is_none_or(|it| it.settings.redrive != wanted.settings.redrive);
        if let Some(redrive) = wanted.settings.redrive.as_ref().filter(|_| is_new) {
            self.check_redrive_target(&key, wanted.settings.kind, redrive, given)?;
        }
        check_redrive_sources(&key, given)?;
        if self.options.recreate_cool_down && self.deleted.contains(&key, self.shards.now()) {
            return Err(error::queue_deleted_recently());
        }
        let Attributes { settings, texts } = wanted;
        let new = NewQueue { key, settings, attributes: texts, tags };
        let creation = self.shards.create_queue(&new).await;
        match creation.map_err(error::of_broker)? {
            Creation::Created(queue) => Ok(queue),
            Creation::Existing(queue) => {
                let current = Attributes::of(&queue.definition());
                match given.iter().find(|(name, value)| !current.has(name, value)) {
                    Some((name, _)) => Err(error::queue_name_exists(name)),
                    None => Ok(queue),
                }
            }
        }
    }

    /// The queue if it has all the given attributes, once that is durable. A new one might not
    /// have them, for want of others.
    async fn with_all(
        &self,
        queue: Option<Arc<SharedQueue>>,
        given: &[(&str, &str)],
    ) -> Result<Option<Arc<SharedQueue>>, ApiError> {
        let Some(queue) = queue else { return Ok(None) };
        let has_all = self.shards.catalog().update_queue(&queue, |definition| {
            let current = Attributes::of(definition);
            Ok::<_, ApiError>(given.iter().all(|(name, value)| current.has(name, value)))
        });
        match has_all.await {
            Ok(has_all) => Ok(has_all?.then_some(queue)),
            Err(BrokerError::QueueDoesNotExist) => Ok(None),
            Err(error) => Err(error::of_broker(error)),
        }
    }

    pub(super) async fn delete_queue(&self, queue: &Arc<SharedQueue>) -> Result<Answer, ApiError> {
        // Before the wait for the commit, which a client that leaves cuts short.
        if self.options.recreate_cool_down {
            self.deleted.add(queue.key().clone(), self.shards.now());
        }
        let deleted = self.shards.catalog().delete_queue(queue).await;
        deleted.map(|()| Answer::Void).map_err(|error| {
            // Otherwise somebody else has deleted it, and its name rests all the same.
            if !matches!(error, BrokerError::QueueDoesNotExist) {
                self.deleted.remove(queue.key());
            }
            error::of_broker(error)
        })
    }

    /// Forgets all queues, also those deleted before, whose names need not rest any longer (test
    /// mode).
    pub(crate) async fn reset(&self) -> Result<(), ApiError> {
        self.shards.reset().await.map_err(|error| {
            tracing::error!(%error, "reset failed");
            ApiError::internal_failure()
        })?;
        self.deleted.clear();
        Ok(())
    }

    /// The queue of a GetQueueUrl, by its name and owner.
    pub(super) fn queue_by_name(
        &self,
        caller: &Caller<'_>,
        input: &Action<'_>,
    ) -> Result<Arc<SharedQueue>, ApiError> {
        let Action::GetQueueUrl(input) = input else { return Err(ApiError::internal_failure()) };
        let name = input.queue_name.as_ref().map(Text::as_str);
        let name = name.filter(|name| !name.is_empty()).ok_or_else(no_name)?;
        let owner = input.queue_owner_aws_account_id.as_ref().map(Text::as_str);
        let owner = owner.filter(|owner| !owner.is_empty());
        if owner.is_some_and(|owner| !is_account(owner)) {
            return Err(error::queue_does_not_exist());
        }
        let Caller { principal, region, .. } = caller;
        let account = owner.unwrap_or(&principal.account);
        let queue = self.shards.catalog().queue(region, account, name);
        let queue = queue.filter(|_| has_url(name));
        // A caller must not learn that another account has a queue of that name.
        queue.ok_or_else(|| match principal.is_foreign_to(account) {
            true => error::queue_is_not_yours(),
            false => error::queue_does_not_exist(),
        })
    }

    pub(super) async fn get_queue_attributes(
        &self,
        queue: &Arc<SharedQueue>,
        input: &GetQueueAttributes<'_>,
    ) -> Result<Answer, ApiError> {
        let names = input.attribute_names.as_deref().unwrap_or_default();
        if let Some(unknown) = names.iter().find(|name| !attributes::is_known(name)) {
            return Err(error::unknown_attribute(unknown));
        }
        queue.catch_up().await;
        let (counts, _) = queue.count_messages();
        let is_wanted =
            |name: &str| names.iter().any(|n| matches!(n.as_str(), "All") || **n == *name);
        let attributes = attributes::values(&queue.definition(), counts, is_wanted);
        Ok(Answer::GetQueueAttributes { attributes })
    }

    pub(super) async fn set_queue_attributes(
        &self,
        queue: &Arc<SharedQueue>,
        input: &SetQueueAttributes<'_>,
    ) -> Result<Answer, ApiError> {
        let given = pairs(input.attributes.as_ref());
        if given.is_empty() {
            return Err(ApiError::missing_parameter("Attribute.Name"));
        }
        if let Some((name, _)) = given.iter().find(|(name, _)| attributes::is_read_only(name)) {
            return Err(error::unknown_attribute(name));
        }
        self.update(queue, &given, Vec::new()).await?;
        Ok(Answer::Void)
    }

    /// Sets the given attributes and adds the tags, or changes nothing.
    pub(super) async fn update(
        &self,
        queue: &SharedQueue,
        given: &[(&str, &str)],
        tags: Vec<(&str, &str)>,
    ) -> Result<(), ApiError> {
        let current = Attributes::of(&queue.definition());
        let mut wanted = current.clone();
        wanted.set(given.iter().copied())?;
        // One that stays may name a queue that is gone by now, or does not allow it any more.
        let is_new = wanted.settings.redrive != current.settings.redrive;
        if let Some(redrive) = wanted.settings.redrive.as_ref().filter(|_| is_new) {
            self.check_redrive_target(queue.key(), wanted.settings.kind, redrive, given)?;
        }
        check_redrive_sources(queue.key(), given)?;
        let change = |definition: &mut Definition| {
            let mut attributes = Attributes::of(definition);
            attributes.set(given.iter().copied())?;
            if !tags.is_empty() {
                definition.tags = tags::check(&queue.key().name, tags, &definition.tags)?;
            }
            definition.settings = attributes.settings;
            definition.attributes = attributes.texts;
            Ok(())
        };
        self.change(queue, change).await
    }

    pub(super) async fn purge_queue(&self, queue: &Arc<SharedQueue>) -> Result<Answer, ApiError> {
        match queue.purge().await {
            Ok(()) => Ok(Answer::Void),
            Err(BrokerError::PurgeInProgress) => {
                Err(error::purge_queue_in_progress(&queue.key().name))
            }
            Err(error) => Err(error::of_broker(error)),
        }
    }

    fn check_redrive_target(
        &self,
        source: &QueueKey,
        kind: Kind,
        redrive: &Redrive,
        given: &[(&str, &str)],
    ) -> Result<(), ApiError> {
        let Some((_, text)) = given.iter().find(|(name, _)| *name == "RedrivePolicy") else {
            return Ok(()); // Unchanged: the target may have been deleted since.
        };
        let invalid = |reason| Err(error::invalid_value(text, "RedrivePolicy", reason));
        let target = redrive.target();
        if target.region != source.region {
            return invalid("Dead-letter target must be in same region as the source.");
        }
        if target.account != source.account {
            return invalid("Dead-letter target owner should be same as the source.");
        }
        let Some(target) = self.shards.catalog().queue_by_key(&target) else {
            // A queue that is made as its own is there once it is made.
            return match target == *source {
                true => Ok(()),
                false => invalid("Dead letter target does not exist."),
            };
        };
        let definition = target.definition();
        if definition.settings.kind != kind {
            return invalid("Dead-letter queue must be same type of queue as the source.");
        }
        let allow = definition.attributes.get("RedriveAllowPolicy");
        let allow = allow.map(|text| RedriveAllowPolicy::parse(text)).transpose()?.flatten();
        if allow.is_some_and(|policy| !policy.allows(source)) {
            return invalid("The dead-letter queue does not allow redrive from the source queue.");
        }
        Ok(())
    }
}

/// The sources that a queue allows are of its region.
fn check_redrive_sources(target: &QueueKey, given: &[(&str, &str)]) -> Result<(), ApiError> {
    let name = "RedriveAllowPolicy";
    let Some((_, text)) = given.iter().find(|(given, _)| *given == name) else { return Ok(()) };
    let policy = RedriveAllowPolicy::parse(text)?;
    if policy.is_none_or(|policy| policy.sources().all(|it| it.region == target.region)) {
        return Ok(());
    }
    let reason = "Amazon SQS can't create the redrive allow policy. Source queues must be in same \
                  region as the dead-letter target.";
    Err(error::invalid_value(text, name, reason))
}

/// A map parameter's pairs.
pub(super) fn pairs<'r>(map: Option<&'r Map<'_>>) -> Vec<(&'r str, &'r str)> {
    map.map(|map| map.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
        .unwrap_or_default()
}

/// Standard or FIFO, by name and attribute, which must agree.
pub(super) fn kind_of(name: &str, given: &[(&str, &str)]) -> Result<Kind, ApiError> {
    let fifo = given.iter().find(|(name, _)| *name == "FifoQueue").map(|(_, value)| *value);
    let is_fifo_name = name.ends_with(".fifo");
    let is_fifo = match fifo {
        None => false,
        Some(value) if value.eq_ignore_ascii_case("true") => true,
        Some(value) if value.eq_ignore_ascii_case("false") && is_fifo_name => {
            let reason = "Modifying queue type is not supported.";
            return Err(error::invalid_attribute_value_because("FifoQueue", reason));
        }
        Some(value) if value.eq_ignore_ascii_case("false") => {
            return Err(error::unknown_attribute("FifoQueue"));
        }
        Some(_) => return Err(error::invalid_attribute_value("FifoQueue")),
    };
    let stem = if is_fifo { name.strip_suffix(".fifo").unwrap_or_default() } else { name };
    if stem.is_empty() || name.len() > limits::QUEUE_NAME_CHARS || !is_plain_name(stem) {
        return Err(if is_fifo { invalid_fifo_name() } else { invalid_name() });
    }
    Ok(if is_fifo { Kind::Fifo } else { Kind::Standard })
}

fn no_name() -> ApiError {
    ApiError::invalid_parameter_value(
        "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
    )
}

fn invalid_name() -> ApiError {
    ApiError::invalid_parameter_value(
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
    )
}

fn invalid_fifo_name() -> ApiError {
    ApiError::invalid_parameter_value(
        "The name of a FIFO queue can only include alphanumeric characters, hyphens, or \
         underscores, must end with .fifo suffix and be 1 to 80 in length",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_and_the_attribute_agree_on_the_kind() {
        let kind = |name: &str, fifo: Option<&str>| {
            let given: Vec<(&str, &str)> =
                fifo.map(|value| ("FifoQueue", value)).into_iter().collect();
            kind_of(name, &given).map_err(|error| error.code)
        };
        let long = "x".repeat(81);
        let long_fifo = format!("{}.fifo", &long[..75]);

        for name in ["a", "aZ_-9", &long[..80]] {
            assert_eq!(kind(name, None), Ok(Kind::Standard), "{name}");
        }
        for name in ["a.fifo", &long_fifo] {
            assert_eq!(kind(name, Some("True")), Ok(Kind::Fifo), "{name}");
            assert!(kind(name, None).is_err(), "{name}");
            assert_eq!(kind(name, Some("false")), Err("InvalidAttributeValue"), "{name}");
        }
        for name in ["", "a b", "a.b", &long] {
            assert_eq!(kind(name, None), Err("InvalidParameterValue"), "{name}");
        }
        for name in ["", "a", ".fifo", "fifo.a", ".fifoa", "a b.fifo", &format!("x{long_fifo}")] {
            assert_eq!(kind(name, Some("true")), Err("InvalidParameterValue"), "{name}");
        }
        assert_eq!(kind("a", Some("false")), Err("InvalidAttributeName"));
        assert_eq!(kind("a", Some("yes")), Err("InvalidAttributeValue"));
    }
}
