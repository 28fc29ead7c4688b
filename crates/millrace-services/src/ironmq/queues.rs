//! Queues: listing, creating, changing, describing, deleting.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_broker::{Creation, Definition, NewQueue, QueueGlance, SharedQueue};
use millrace_core::{QueueKey, limits};
use millrace_wire::Response;
use millrace_wire::ironmq::{self, Number, QueueRequest, Version};
use millrace_wire::query::Parameters;
use serde_json::{Map, Value, json};

use super::queue_change;
use super::refusal::{Refusal, bounded};
use super::settings::{self, IronSettings};
use super::{IronMq, ProjectCall};

impl IronMq {
    /// The queue of that name in the caller's project.
    pub(super) fn queue(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
    ) -> Result<Arc<SharedQueue>, Refusal> {
        let place = &call.namespace;
        let queue = self.shards.catalog().queue(&place.region, &place.account, name);
        queue.ok_or_else(Refusal::no_queue)
    }

    /// The queue of that name, made if there is none.
    pub(super) async fn queue_or_new(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
    ) -> Result<Arc<SharedQueue>, Refusal> {
        match self.queue(call, name) {
            Ok(queue) => Ok(queue),
            Err(_) => self.create(call, name, &QueueRequest::default()).await,
        }
    }

    pub(super) async fn put_queue(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        request: &QueueRequest<'_>,
    ) -> Result<Response, Refusal> {
        let queue = match self.queue(call, name) {
            Ok(queue) => {
                self.change(call, &queue, request).await?;
                queue
            }
            Err(_) => self.create(call, name, request).await?,
        };
        Ok(self.shown(call, &queue, false))
    }

    pub(super) fn get_queue(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        Ok(self.shown(call, &queue, true))
    }

    pub(super) async fn delete_queue(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        self.shards.catalog().delete_queue(&queue).await?;
        self.pushers.deleted(&queue).await;
        Ok(ironmq::text(200, "Deleted."))
    }

    pub(super) async fn clear(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
    ) -> Result<Response, Refusal> {
        let queue = self.queue(call, name)?;
        queue.clear().await?;
        for (_, hidden) in self.pushers.hidden(&queue) {
            hidden.clear().await?;
        }
        Ok(ironmq::text(200, "Cleared"))
    }

    pub(super) fn list_queues(
        &self,
        call: &ProjectCall<'_>,
        parameters: &Parameters<'_>,
    ) -> Result<Response, Refusal> {
        let place = &call.namespace;
        let number = |name: &str| number(parameters, name);
        let per_page = number("per_page")?.and_then(Number::set).unwrap_or_default();
        let per_page = match u64::try_from(per_page) {
            Ok(0) => limits::ironmq::PER_PAGE,
            Ok(given) => given.min(limits::ironmq::PER_PAGE_MAX) as usize,
            Err(_) => {
                return Err(Refusal::out_of_range("per_page", 1, limits::ironmq::PER_PAGE_MAX));
            }
        };
        let prefix = parameters.get("prefix").unwrap_or_default();
        let after = parameters.get("previous").filter(|previous| !previous.is_empty());
        // Version 1 counts pages; version 3 takes no notice of them.
        let page = match call.version {
            Version::V1 => bounded("page", number("page")?, 0, limits::ironmq::PAGE_MAX)?,
            Version::V3 => None,
        };
        let skipped = page.unwrap_or_default() as usize * per_page;
        let catalog = self.shards.catalog();
        let owner = (&*place.region, &*place.account);
        let queues = catalog.list_queues(owner, prefix, after, skipped + per_page, |_| true);
        let shown = queues.iter().skip(skipped);
        let answer = match call.version {
            Version::V3 => {
                let name = |queue: &Arc<SharedQueue>| json!({ "name": queue.key().name });
                json!({ "queues": shown.map(name).collect::<Vec<_>>() })
            }
            Version::V1 => {
                let project = &place.project;
                let one = |queue: &Arc<SharedQueue>| json!({ "id": id_of_v1(queue), "project_id": project, "name": queue.key().name });
                shown.map(one).collect()
            }
        };
        Ok(ironmq::answer(200, answer.to_string()))
    }

    /// Creates a queue, and its dead-letter queue if that is missing.
    async fn create(
        &self,
        call: &ProjectCall<'_>,
        name: &str,
        request: &QueueRequest<'_>,
    ) -> Result<Arc<SharedQueue>, Refusal> {
        queue_change::check_name(name)?;
        if name.ends_with(".fifo") {
            return Err(Refusal::bad("Queues whose names end in .fifo are created through SQS"));
        }
        let place = &call.namespace;
        let key = QueueKey::new(&place.region, &place.account, name);
        let mut new = NewQueue {
            key,
            settings: queue_change::defaults(),
            attributes: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        let change = call.queue_change(request);
        let mut iron = IronSettings::default();
        let NewQueue { key, settings, attributes, .. } = &mut new;
        queue_change::apply(change, key, true, settings, attributes, &mut iron)?;
        self.make_queues_of(call, &new.settings, request).await?;
        // Durable with the queue, which is stored behind it.
        let remembered = self.projects.remember(place)?;
        let created = self.shards.create_queue(&new).await?;
        if let Some(ticket) = remembered {
            self.shards.home()?.committed(Some(ticket)).await?;
        }
        match created {
            Creation::Created(queue) => {
                self.pushers.changed(&queue, &IronSettings::default()).await;
                self.alerts.watch(&queue);
                Ok(queue)
            }
            // Somebody else was quicker.
            Creation::Existing(queue) => {
                self.change(call, &queue, request).await?;
                Ok(queue)
            }
        }
    }

    async fn change(
        &self,
        call: &ProjectCall<'_>,
        queue: &Arc<SharedQueue>,
        request: &QueueRequest<'_>,
    ) -> Result<(), Refusal> {
        let change = call.queue_change(request);
        let apply = |definition: &mut Definition| {
            let mut iron = IronSettings::of(definition);
            let Definition { settings, attributes, .. } = definition;
            queue_change::apply(change, queue.key(), false, settings, attributes, &mut iron)
        };
        let mut wanted = Definition::clone(&queue.definition());
        apply(&mut wanted)?;
        self.make_queues_of(call, &wanted.settings, request).await?;
        self.update(queue, apply).await
    }

    /// Changes a queue's definition and what follows from it.
    pub(super) async fn update(
        &self,
        queue: &Arc<SharedQueue>,
        change: impl FnOnce(&mut Definition) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut old = IronSettings::default();
        let updated = self.shards.catalog().update_queue(queue, |definition| {
            old = IronSettings::of(definition);
            change(definition)
        });
        updated.await??;
        self.pushers.changed(queue, &old).await;
        self.alerts.watch(queue);
        Ok(())
    }

    /// Creates the queues that a queue's settings name, if they are missing.
    async fn make_queues_of(
        &self,
        call: &ProjectCall<'_>,
        wanted: &millrace_broker::Settings,
        request: &QueueRequest<'_>,
    ) -> Result<(), Refusal> {
        let names_dead_letter = request.dead_letter.is_some();
        let Some(redrive) = wanted.redrive.as_ref().filter(|_| names_dead_letter) else {
            return Ok(());
        };
        match self.queue(call, &redrive.name) {
            Ok(target) if target.kind() == wanted.kind => Ok(()),
            Ok(_) => Err(Refusal::bad("A dead letter queue must be of the kind of its queue")),
            Err(_) => {
                Box::pin(self.create(call, &redrive.name, &QueueRequest::default())).await?;
                Ok(())
            }
        }
    }

    /// The answer that describes a queue.
    pub(super) fn shown(
        &self,
        call: &ProjectCall<'_>,
        queue: &SharedQueue,
        has_counters: bool,
    ) -> Response {
        let definition = queue.definition();
        let iron = IronSettings::of(&definition);
        let (counts, _) = queue.count_messages();
        // What waits for any subscriber; with several, for the one with most.
        let hidden = self.pushers.hidden(queue).into_iter();
        let hidden = hidden.map(|(_, hidden)| hidden.count_messages().0.total()).max();
        let size = counts.total() + hidden.unwrap_or_default();
        let counters = (size, QueueGlance::of(queue).sent_total);
        let description = match call.version {
            Version::V3 => {
                let described =
                    described(call, &definition, &iron, has_counters.then_some(counters));
                json!({ "queue": described })
            }
            Version::V1 => Value::Object(described_v1(call, queue, &iron, counters)),
        };
        ironmq::answer(200, description.to_string())
    }
}

/// Version 3's queue object.
fn described(
    call: &ProjectCall<'_>,
    definition: &Definition,
    iron: &IronSettings,
    counters: Option<(u64, u64)>,
) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("project_id", json!(call.namespace.project));
    put("name", json!(definition.name));
    if let Some((size, total)) = counters {
        put("size", json!(size));
        put("total_messages", json!(total));
    }
    put("message_timeout", json!(definition.settings.visibility_timeout_s));
    put("message_expiration", json!(definition.settings.retention_s));
    put("type", json!(iron.kind.name()));
    if iron.is_push() {
        let mut push = json!({
            "subscribers": subscribers(iron),
            "retries": iron.push.retries,
            "retries_delay": iron.push.retries_delay_s,
        });
        if !iron.push.error_queue.is_empty() {
            push["error_queue"] = json!(iron.push.error_queue);
        }
        put("push", push);
    }
    if let Some(redrive) = &definition.settings.redrive {
        let max_reservations = redrive.max_receive_count;
        put(
            "dead_letter",
            json!({ "queue_name": redrive.name, "max_reservations": max_reservations }),
        );
    }
    if !iron.alerts.is_empty() {
        put("alerts", iron.alerts.iter().map(alert).collect());
    }
    object
}

/// Version 1's.
fn described_v1(
    call: &ProjectCall<'_>,
    queue: &SharedQueue,
    iron: &IronSettings,
    (size, total): (u64, u64),
) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("id", json!(id_of_v1(queue)));
    put("name", json!(queue.key().name));
    put("size", json!(size));
    put("total_messages", json!(total));
    put("project_id", json!(call.namespace.project));
    put("retries", json!(iron.push.retries));
    put("push_type", json!(iron.kind.name()));
    put("retries_delay", json!(iron.push.retries_delay_s));
    put("subscribers", subscribers(iron));
    if !iron.push.error_queue.is_empty() {
        put("error_queue", json!(iron.push.error_queue));
    }
    if !iron.alerts.is_empty() {
        put("alerts", iron.alerts.iter().map(alert).collect());
    }
    object
}

/// The id of a queue, which only version 1 shows.
fn id_of_v1(queue: &SharedQueue) -> String {
    format!("{:024x}", queue.id().0)
}

fn subscribers(iron: &IronSettings) -> Value {
    let one = |it: &settings::Subscriber| {
        let mut shown = json!({ "name": it.name, "url": it.url });
        if !it.headers.is_empty() {
            shown["headers"] = json!(it.headers);
        }
        shown
    };
    iron.push.subscribers.iter().map(one).collect()
}

fn alert(alert: &settings::Alert) -> Value {
    json!({
        "id": alert.id,
        "type": alert.kind,
        "direction": alert.direction,
        "trigger": alert.trigger,
        "queue": alert.queue,
        "snooze": alert.snooze_s,
    })
}

/// A parameter that is a number; empty counts as 0.
pub(super) fn number(parameters: &Parameters<'_>, name: &str) -> Result<Option<Number>, Refusal> {
    let Some(text) = parameters.get(name) else { return Ok(None) };
    let number = Number::parse(text);
    number.map(Some).ok_or_else(|| Refusal::bad(format!("{name} must be a number")))
}
