//! Requests about the subscribers of a queue, and about what they have got.

use std::sync::Arc;

use millrace_broker::{Claim, Claimant, Definition, MessageState, SharedQueue};
use millrace_wire::Response;
use millrace_wire::ironmq::{self, SubscribersRequest, Version};
use millrace_wire::sqs::Text;
use serde_json::{Value, json};

use super::super::ids::{message_id, place};
use super::super::queue_change::check_together;
use super::super::refusal::Refusal;
use super::super::settings::{IronSettings, QueueType, Subscriber};
use super::super::{Change, IronMq, ProjectCall};
use super::endpoint::turn;
use super::{Budget, Stage, Status};

/// Attempts at one message that are counted, of which nothing else is remembered.
const ATTEMPTS_MAX: u32 = 200_000;

impl IronMq {
    pub(in crate::ironmq) async fn change_subscribers(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        change: Change,
    ) -> Result<Response, Refusal> {
        let request: SubscribersRequest<'_> = call.body()?;
        let given = request.subscribers.ok_or_else(|| call.missing("subscribers"))?.0;
        let by_url = call.version == Version::V1;
        let queue = self.queue(call, name)?;
        self.update(&queue, |definition: &mut Definition| {
            let mut iron = IronSettings::of(definition);
            if !iron.is_push() {
                return Err(Refusal::bad("Pull queues do not have subscribers"));
            }
            let mut subscribers = std::mem::take(&mut iron.push.subscribers);
            match change {
                Change::Remove => {
                    let text =
                        |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
                    let named: Vec<String> = (given.iter())
                        .map(|it| if by_url { text(&it.url) } else { text(&it.name) })
                        .collect();
                    let key =
                        |it: &Subscriber| if by_url { it.url.clone() } else { it.name.clone() };
                    subscribers.retain(|it| !named.contains(&key(it)));
                }
                Change::Add | Change::Replace => {
                    if change == Change::Replace {
                        subscribers.clear();
                    }
                    for it in &given {
                        add(&mut subscribers, Subscriber::checked(it)?, by_url);
                    }
                }
            }
            iron.set_subscribers(subscribers, call.set_by())?;
            check_together(queue.key(), &definition.settings, &iron, change != Change::Remove)?;
            iron.store(&mut definition.attributes)
        })
        .await?;
        match call.version {
            Version::V1 => Ok(self.shown(call, &queue, true)),
            Version::V3 => Ok(ironmq::text(200, "Updated")),
        }
    }

    pub(in crate::ironmq) fn push_statuses(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        let iron = self.pushers.settings(&queue);
        if !iron.is_push() {
            return Err(Refusal::bad("Pull queues do not have subscribers"));
        }
        let own = place(&queue, id).ok_or_else(Refusal::no_message)?;
        let waiting = queue.browser().one(own)?;
        let known = self.pushers.statuses(&queue, id);
        let hidden = self.pushers.hidden(&queue);
        let count = u32::try_from(iron.push.subscribers.len()).unwrap_or(u32::MAX);
        let mut budget = Budget::default();
        let mut statuses = Vec::with_capacity(iron.push.subscribers.len());
        let mut is_found = waiting.is_some() || !known.is_empty();
        for (number, subscriber) in (0..).zip(&iron.push.subscribers) {
            let remembered = known.iter().find(|it| *it.name == *subscriber.name);
            let mut status = remembered.cloned().unwrap_or_else(|| Status::new(&subscriber.name));
            let hidden = hidden.iter().find(|(it, _)| it == subscriber);
            let found = match (&waiting, hidden) {
                // Not copied yet, or of a unicast queue.
                (Some(peeked), _) => {
                    let tried = match iron.kind {
                        QueueType::Unicast => peeked.delivery.receive_count.min(ATTEMPTS_MAX),
                        _ => 0,
                    };
                    let tries = (1..=tried).filter(|it| turn(own.seq, *it, count) == number);
                    Some((queue.id(), own, tries.count(), peeked.state))
                }
                (None, Some((to, hidden))) if status.stage.is_pending() => {
                    let found = self.pushers.find((&queue, id), (to, hidden), &mut budget)?;
                    found.map(|it| {
                        let tries = it.delivery.receive_count as usize;
                        (hidden.id(), it.delivery.at, tries, it.state)
                    })
                }
                (None, _) => None,
            };
            is_found |= found.is_some();
            match found {
                Some((at, place, tries, state)) if remembered.is_none() => {
                    status.at = Some((at, place));
                    status.tries = u32::try_from(tries).unwrap_or(u32::MAX);
                    status.stage = stage(status.tries, state);
                }
                Some((at, place, ..)) => status.at = status.at.or(Some((at, place))),
                // It is with nobody any more.
                None if status.stage.is_pending() => status.stage = Stage::Deleted,
                None => {}
            }
            status.url.clone_from(&subscriber.url);
            statuses.push(status);
        }
        if !is_found {
            return Err(Refusal::no_message());
        }
        let shown: Vec<Value> = statuses.iter().map(|status| shown(status, &iron)).collect();
        Ok(ironmq::answer(200, json!({ "subscribers": shown }).to_string()))
    }

    /// Acknowledges a message that a subscriber has taken, by the id of the delivery.
    pub(in crate::ironmq) async fn acknowledge(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        id: &str,
        delivery: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        let kind = self.pushers.settings(&queue).kind;
        if kind == QueueType::Pull {
            return Err(Refusal::bad("Pull queues do not have subscribers"));
        }
        let own = place(&queue, delivery).filter(|_| kind == QueueType::Unicast);
        let (of, at, subscriber) = match own {
            Some(at) => (Arc::clone(&queue), at, None),
            None => {
                let hidden = self.pushers.hidden(&queue);
                let found = hidden.into_iter().find_map(|(subscriber, hidden)| {
                    place(&hidden, delivery).map(|at| (hidden, at, Some(subscriber.name)))
                });
                found.ok_or_else(Refusal::no_message)?
            }
        };
        self.check_id(&of, at, id)?;
        match of.delete_claimed(&[Claim { at, by: Claimant::Anybody }]).await?? {
            0 => Err(Refusal::no_message()),
            _ => {
                self.pushers.acknowledged(queue.id(), id, subscriber.as_deref());
                Ok(ironmq::text(200, "Deleted"))
            }
        }
    }

    /// Refuses the place of a message that has another id.
    pub(in crate::ironmq) fn check_id(
        &self,
        queue: &SharedQueue,
        at: millrace_broker::SlotSeq,
        id: &str,
    ) -> Result<(), Refusal> {
        let is_it = match queue.key().is_hidden() {
            // Whoever asks for one that is gone finds that out next.
            true => {
                let peeked = queue.browser().one(at)?;
                peeked.is_none_or(|peeked| super::shown_id(&peeked, queue) == id)
            }
            false => message_id(queue.id(), at) == id,
        };
        if is_it { Ok(()) } else { Err(Refusal::no_message()) }
    }
}

/// Adds a subscriber in the place of the one with the same key.
fn add(subscribers: &mut Vec<Subscriber>, new: Subscriber, by_url: bool) {
    let is_same =
        |it: &&mut Subscriber| if by_url { it.url == new.url } else { it.name == new.name };
    match subscribers.iter_mut().find(is_same) {
        Some(known) => {
            known.url = new.url;
            known.headers = new.headers;
        }
        None => subscribers.push(new),
    }
}

/// Progress of a message whose status is not remembered.
fn stage(tries: u32, state: MessageState) -> Stage {
    match (tries, state) {
        (0, _) => Stage::Queued,
        // An attempt, or the pause before the next.
        (_, MessageState::InFlight) => Stage::Reserved,
        (..) => Stage::Retrying,
    }
}

fn shown(status: &Status, iron: &IronSettings) -> Value {
    let id = status.at.map(|(queue, at)| message_id(queue, at)).unwrap_or_default();
    let remaining = match status.stage {
        Stage::Deleted | Stage::Error => 0,
        _ => iron.push.retries.saturating_add(1).saturating_sub(status.tries),
    };
    let mut shown = json!({
        "id": id,
        "name": &*status.name,
        "url": status.url,
        "status": status.stage.name(),
        "status_code": status.status_code.unwrap_or_default(),
        "tries": status.tries,
        "retries_remaining": remaining,
        "retries_delay": iron.push.retries_delay_s,
    });
    if let Some(at) = status.last_try_at {
        shown["last_try_at"] = json!(millrace_core::instant_text::format_iso8601_ms(at.0));
    }
    if !status.text.is_empty() {
        shown["msg"] = json!(status.text);
    }
    shown
}
