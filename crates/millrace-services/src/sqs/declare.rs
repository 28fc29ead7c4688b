//! Queues declared in the configuration, created when the server starts.

use std::collections::BTreeMap;

use millrace_core::QueueKey;
use millrace_wire::ApiError;

use super::Sqs;
use super::attributes::Attributes;
use super::queues::kind_of;
use super::tags;

/// A queue that must be there. Attributes carry SQS names and override what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredQueue {
    pub region: String,
    pub account: String,
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub tags: BTreeMap<String, String>,
}

impl Sqs {
    /// Creates the queue, or brings the attributes and tags of the one that is there in line.
    pub(crate) async fn declare(&self, declared: &DeclaredQueue) -> Result<(), ApiError> {
        let key = QueueKey::new(&declared.region, &declared.account, &declared.name);
        let given: Vec<(&str, &str)> =
            declared.attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
        let texts: Vec<(&str, &str)> =
            declared.tags.iter().map(|(key, value)| (&**key, &**value)).collect();
        let tags = tags::check(&key.name, texts.clone(), &BTreeMap::new())?;
        let Some(queue) = self.shards.catalog().queue_by_key(&key) else {
            return self.create(key, &given, tags).await.map(|_| ());
        };
        let Err(error) = self.update(&queue, &given, texts).await else {
            return Ok(());
        };
        if error.status >= 500 || !are_sound(&key, &given) {
            return Err(error);
        }
        // What clients have set does not go with it. All other queues are to be served.
        let reason = error.message;
        tracing::error!(queue = %key, %reason, "queue stays as it is, not as configured");
        Ok(())
    }
}

/// Whether a new queue could have these attributes, as far as they tell.
fn are_sound(key: &QueueKey, given: &[(&str, &str)]) -> bool {
    let Ok(kind) = kind_of(&key.name, given) else { return false };
    let mut alone = Attributes::default();
    alone.settings.kind = kind;
    alone.set(given.iter().copied()).is_ok()
}
