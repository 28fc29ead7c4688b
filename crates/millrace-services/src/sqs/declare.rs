//! Queues declared in the configuration, created when the server starts.

use std::collections::BTreeMap;

use millrace_core::QueueKey;
use millrace_wire::ApiError;

use super::Sqs;

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
        let Some(queue) = self.broker.queue_by_key(&key) else {
            return self.create(key, &given, declared.tags.clone()).await.map(|_| ());
        };
        self.update(&queue, &given, declared.tags.clone()).await
    }
}
