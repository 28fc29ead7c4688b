//! Messages that the server posts itself: to subscribers that are queues, to error queues, alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{
    Attribute, BrokerError, Creation, Kind, NewContent, NewQueue, Outgoing, Shards, SharedQueue,
    Unavailable,
};
use millrace_core::{MessageId, QueueKey, md5};

use super::super::post::{GROUP, SENDER};
use super::super::queue_change;

/// The reason for a message that was not posted.
#[derive(Debug, thiserror::Error)]
pub(in crate::ironmq) enum NotPosted {
    #[error("there is no queue {0}, and FIFO queues are created through SQS")]
    NoQueue(String),
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl NotPosted {
    /// True if it may work later.
    pub(super) fn is_for_now(&self) -> bool {
        !matches!(
            self,
            NotPosted::NoQueue(_)
                | NotPosted::Broker(BrokerError::Unavailable(Unavailable::TooLarge { .. }))
        )
    }
}

/// Posts a message to the queue of that name beside another, which is made if it is missing.
/// Returns once it is durable.
pub(in crate::ironmq) async fn post(
    shards: &Shards,
    beside: &QueueKey,
    name: &str,
    body: &[u8],
    attributes: Vec<Attribute<'_>>,
) -> Result<(), NotPosted> {
    let queue = queue_or_new(shards, beside, name).await?;
    let id = MessageId::from_random(fastrand::u128(..));
    let is_fifo = queue.kind() == Kind::Fifo;
    // In FIFO queues no message repeats another.
    let deduplication_id = if is_fifo { id.to_string() } else { String::new() };
    let size = |it: &Attribute<'_>| it.name.len() + it.data_type.len() + it.value.len();
    let size_bytes = body.len() + attributes.iter().map(size).sum::<usize>();
    let mut content = Vec::new();
    NewContent {
        body,
        body_md5: md5(body),
        attributes,
        sender: SENDER,
        deduplication_id: &deduplication_id,
        ..NewContent::default()
    }
    .encode(&mut content);
    let outgoing = Outgoing {
        id,
        content: &content,
        size_bytes,
        group: is_fifo.then_some(GROUP),
        deduplication_id: is_fifo.then_some(&*deduplication_id),
        delay_s: None,
    };
    queue.send(&[outgoing]).await?;
    Ok(())
}

async fn queue_or_new(
    shards: &Shards,
    beside: &QueueKey,
    name: &str,
) -> Result<Arc<SharedQueue>, NotPosted> {
    let key = QueueKey::new(&beside.region, &beside.account, name);
    if let Some(queue) = shards.catalog().queue_by_key(&key) {
        return Ok(queue);
    }
    if name.ends_with(".fifo") {
        return Err(NotPosted::NoQueue(name.to_owned()));
    }
    let (attributes, tags) = (BTreeMap::new(), BTreeMap::new());
    let new = NewQueue { key, settings: queue_change::defaults(), attributes, tags };
    let (Creation::Created(queue) | Creation::Existing(queue)) = shards.create_queue(&new).await?;
    Ok(queue)
}
