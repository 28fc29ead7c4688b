//! What names a series: whose it is, name space, dimensions, and the metric's name.

use serde::{Deserialize, Serialize};

/// Whose metrics they are: metrics of different regions or accounts never meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scope {
    /// For instance `us-east-1`.
    pub region: String,
    /// Twelve digits.
    pub account: String,
}

/// What is measured: a queue, for instance. Its series differ by the metric's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entity {
    pub scope: Scope,
    /// For instance `AWS/SQS`.
    pub namespace: String,
    /// Name and value, in ascending order of name: the set counts, not the order.
    dimensions: Vec<(String, String)>,
}

impl Entity {
    /// An entity; the dimensions may come in any order.
    pub fn new(scope: Scope, namespace: &str, mut dimensions: Vec<(String, String)>) -> Entity {
        dimensions.sort();
        Entity { scope, namespace: namespace.to_owned(), dimensions }
    }

    /// A queue: name space `AWS/SQS`, dimension `QueueName`.
    pub fn of_queue(key: &millrace_core::QueueKey) -> Entity {
        let scope = Scope { region: key.region.clone(), account: key.account.clone() };
        Entity::new(scope, "AWS/SQS", vec![("QueueName".to_owned(), key.name.clone())])
    }

    /// A topic: name space `AWS/SNS`, dimension `TopicName`.
    pub fn of_topic(scope: Scope, name: &str) -> Entity {
        Entity::new(scope, "AWS/SNS", vec![("TopicName".to_owned(), name.to_owned())])
    }

    /// Name and value, in ascending order of name.
    pub fn dimensions(&self) -> &[(String, String)] {
        &self.dimensions
    }
}
