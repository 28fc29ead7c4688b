//! The fan-out of multicast queues: a message goes to the hidden queues of all subscribers.

use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{
    Accepted, BrokerError, Incoming, NewContent, Outgoing, SendTo, SharedQueue, SlotSeq,
};
use millrace_core::MessageId;
use millrace_push::{AfterFailure, BoxFuture, Endpoint, Failure, Request};

use super::super::post::SENDER;
use super::{Pushers, message};

/// Bytes of one append. Beyond that a message is appended in several, and a crash in between
/// repeats it for those that have it already.
const APPEND_BYTES: usize = 16 << 20;
/// Until the fan-out is tried again, after the journal took no change or a subscriber went.
const PAUSE: Duration = Duration::from_secs(1);

/// A multicast queue.
pub(super) struct Spread {
    pub pushers: Arc<Pushers>,
    pub queue: Arc<SharedQueue>,
}

impl Endpoint for Spread {
    fn name(&self) -> &str {
        self.queue.arn()
    }

    fn is_local(&self, _: &Incoming) -> bool {
        true
    }

    fn deliver<'a>(&'a self, message: &'a Incoming) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            let spread = self.spread(message).await;
            spread.map_err(|error| error.to_string())
        })
    }

    fn request(&self, _: &Incoming) -> Result<Request, String> {
        Err("messages of multicast queues are first copied".to_owned())
    }

    fn delay_before(&self, _: u32) -> Option<Duration> {
        Some(PAUSE)
    }

    fn failed<'a>(&'a self, _: &'a Incoming, _: &'a Failure) -> BoxFuture<'a, AfterFailure> {
        Box::pin(async { AfterFailure::Later })
    }
}

impl Spread {
    async fn spread(&self, message: &Incoming) -> Result<(), BrokerError> {
        let settings = self.pushers.settings(&self.queue);
        let mut targets = Vec::with_capacity(settings.push.subscribers.len());
        for (subscriber, key) in settings.push.subscribers.iter().zip(&settings.hidden) {
            let hidden = self.pushers.hidden_or_new(&self.queue, key).await?;
            targets.push((hidden, subscriber));
        }
        // A shard's are together, and each append is of one shard.
        targets.sort_unstable_by_key(|(hidden, _)| hidden.id());
        let id = message::id(&message.content, (self.queue.id(), message.delivery.at), false);
        let mut content = Vec::new();
        NewContent {
            body: message.content.body(),
            body_md5: message.content.body_md5(),
            attributes: message::with_id(&message.content, &id),
            sender: SENDER,
            ..NewContent::default()
        }
        .encode(&mut content);
        let outgoing = || {
            [Outgoing {
                id: MessageId::from_random(fastrand::u128(..)),
                content: &content,
                size_bytes: message.content.body().len(),
                group: None,
                deduplication_id: None,
                delay_s: None,
            }]
        };
        let at_once = (APPEND_BYTES / content.len().max(1)).max(1);
        let by_shard =
            targets.chunk_by(|(one, _), (next, _)| one.id().shard() == next.id().shard());
        for some in by_shard.flat_map(|of_shard| of_shard.chunks(at_once)) {
            let Some((first, _)) = some.first() else { continue };
            let shard = self.pushers.shards.shard_of(first)?;
            let messages: Vec<_> = some.iter().map(|_| outgoing()).collect();
            let sends: Vec<_> = (some.iter().zip(&messages))
                .map(|((queue, _), messages)| SendTo { queue, messages })
                .collect();
            let (accepted, appended) = shard.begin_fan_out(&sends, &[])?;
            drop(sends);
            drop(messages);
            shard.committed(appended.map(|it| it.ticket)).await?;
            for ((hidden, subscriber), accepted) in some.iter().zip(&accepted) {
                let place = accepted.first().and_then(place);
                self.pushers.statuses.change((self.queue.id(), &id), &subscriber.name, |status| {
                    if status.at.is_none() {
                        status.url.clone_from(&subscriber.url);
                        status.at = place.map(|at| (hidden.id(), at));
                    }
                });
            }
        }
        Ok(())
    }
}

fn place(accepted: &Accepted) -> Option<SlotSeq> {
    Some(SlotSeq { slot: accepted.slot?, seq: accepted.seq })
}
