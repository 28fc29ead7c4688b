//! Settings of a queue that only IronMQ has, kept as one attribute of its definition: the type,
//! subscribers, alerts. What both have in common is in the definition's own fields, so that each
//! sees what the other has set.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_broker::Definition;
use millrace_core::limits;
use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// The attribute's name. SQS does not show it.
pub(super) const ATTRIBUTE: &str = "IronMQ";

/// Settings that only IronMQ knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IronSettings {
    #[serde(default)]
    pub kind: QueueType,
    #[serde(default)]
    pub push: Push,
    #[serde(default)]
    pub alerts: Vec<Alert>,
}

/// The way in which messages leave a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum QueueType {
    /// Clients, who ask for them.
    #[default]
    Pull,
    /// Nobody: each message is posted to every subscriber.
    Multicast,
    /// Nobody: each message is posted to one of the subscribers.
    Unicast,
}

/// Settings of a push queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Push {
    pub subscribers: Vec<Subscriber>,
    /// Attempts after the first.
    pub retries: u32,
    pub retries_delay_s: u32,
    /// Empty if there is none.
    #[serde(default)]
    pub error_queue: String,
    /// The subscribers were set by version 1.
    #[serde(default)]
    pub is_of_v1: bool,
    /// The project of whoever set the subscribers, and where the server was reached then: both are
    /// in the links that subscribers get.
    #[serde(default)]
    pub project: String,
    #[serde(default)]
    pub origin: String,
}

/// A subscriber that is a queue of the same project, by its name.
pub(super) struct SubscribedQueue<'a>(pub Cow<'a, str>);

impl<'a> SubscribedQueue<'a> {
    /// The queue in a URL, if it is one.
    pub(super) fn of(url: &'a str) -> Option<SubscribedQueue<'a>> {
        let name = url.strip_prefix("ironmq:///").filter(|name| !name.contains('/'))?;
        millrace_wire::ironmq::decoded(name).ok().map(SubscribedQueue)
    }
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subscriber {
    /// Version 1 has no names: there it is the URL.
    pub name: String,
    pub url: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A message about the size of the queue, when it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alert {
    pub id: String,
    pub kind: AlertKind,
    pub direction: Direction,
    pub trigger: u64,
    /// Name of the queue that the message goes to.
    pub queue: String,
    pub snooze_s: u64,
}

/// The rule by which an alert fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AlertKind {
    /// Fires when the size passes the trigger.
    #[default]
    Fixed,
    /// At each multiple of the trigger.
    Progressive,
}

/// The way in which the size passes the trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    #[default]
    Asc,
    Desc,
}

impl Default for Push {
    fn default() -> Push {
        Push {
            subscribers: Vec::new(),
            retries: limits::ironmq::RETRIES,
            retries_delay_s: limits::ironmq::RETRIES_DELAY_S,
            error_queue: String::new(),
            is_of_v1: false,
            project: String::new(),
            origin: String::new(),
        }
    }
}

impl QueueType {
    pub(super) fn name(self) -> &'static str {
        match self {
            QueueType::Pull => "pull",
            QueueType::Multicast => "multicast",
            QueueType::Unicast => "unicast",
        }
    }

    /// The type of that name; an empty one says nothing.
    pub(super) fn parse(name: &str) -> Result<Option<QueueType>, Refusal> {
        match name {
            "" => Ok(None),
            "pull" => Ok(Some(QueueType::Pull)),
            "multicast" => Ok(Some(QueueType::Multicast)),
            "unicast" => Ok(Some(QueueType::Unicast)),
            _ => Err(Refusal::bad("type must be pull, multicast or unicast")),
        }
    }
}

impl IronSettings {
    /// Those of a queue. One that IronMQ has not changed has the defaults.
    pub(super) fn of(definition: &Definition) -> IronSettings {
        let Some(text) = definition.attributes.get(ATTRIBUTE) else {
            return IronSettings::default();
        };
        serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::error!(queue = definition.name, %error, "IronMQ settings cannot be read");
            IronSettings::default()
        })
    }

    /// True for a queue whose messages are posted to subscribers.
    pub(super) fn is_push(&self) -> bool {
        self.kind != QueueType::Pull
    }

    /// Writes them into the attributes of a queue, where defaults need no place.
    pub(super) fn store(&self, attributes: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
        if *self == IronSettings::default() {
            attributes.remove(ATTRIBUTE);
            return Ok(());
        }
        let text = serde_json::to_string(self);
        let text = text.map_err(|error| Refusal::new(500, error.to_string()))?;
        attributes.insert(ATTRIBUTE.to_owned(), text);
        Ok(())
    }
}
