//! The part of a queue's page about IronMQ: type, projects, subscribers, alerts. Nothing of queues that
//! IronMQ does not know.

use millrace_broker::SharedQueue;
use millrace_services::{IronMqAlert, IronMqQueue, IronMqSubscriber, Services};
use serde_json::{Map, Value, json};

use crate::rows::Row;

/// Projects that a page names.
const PROJECTS_SHOWN: usize = 20;

/// Puts `iron_mq` into the head if there is something to show, and returns the subscribers. To be
/// asked by a viewer who may see the queue.
pub(crate) fn show(
    services: &Services,
    queue: &SharedQueue,
    head: &mut Map<String, Value>,
) -> Vec<Row> {
    let key = queue.key();
    let mut projects = services.projects(&key.region, &key.account, PROJECTS_SHOWN + 1);
    let known = services.iron_mq(queue);
    if projects.is_empty() && known.is_none() {
        return Vec::new();
    }
    let has_more_projects = projects.len() > PROJECTS_SHOWN;
    projects.truncate(PROJECTS_SHOWN);
    let mut shown = json!({
        "type": known.as_ref().map_or("pull", |known| known.kind),
        "projects": projects,
        "has_more_projects": has_more_projects,
    });
    let mut rows = Vec::new();
    if let Some(IronMqQueue { is_push, retries, alerts, subscribers, .. }) = &known {
        shown["alerts"] = alerts.iter().map(alert).collect();
        if *is_push {
            shown["retries"] = (*retries).into();
            rows = subscribers.iter().enumerate().map(subscriber).collect();
        }
    }
    if let Some(known) = known.filter(|known| known.is_push) {
        shown["retries_delay_s"] = known.retries_delay_s.into();
        shown["error_queue"] = known.error_queue.into();
        shown["latest_error"] = known.latest_error.into();
    }
    head.insert("iron_mq".to_owned(), shown);
    rows
}

fn alert(alert: &IronMqAlert) -> Value {
    json!({
        "type": alert.kind,
        "direction": alert.direction,
        "trigger": alert.trigger,
        "queue": alert.queue,
        "snooze_s": alert.snooze_s,
    })
}

/// Two names may look alike, so the row's key is its place.
fn subscriber((place, subscriber): (usize, &IronMqSubscriber)) -> Row {
    let mut cells = Map::new();
    cells.insert("name".to_owned(), subscriber.name.as_str().into());
    cells.insert("url".to_owned(), subscriber.url.as_str().into());
    cells.insert("queue".to_owned(), subscriber.queue.as_deref().into());
    cells.insert("waiting".to_owned(), subscriber.waiting.into());
    cells.insert("latest_error".to_owned(), subscriber.latest_error.as_deref().into());
    Row { key: place.to_string(), cells }
}
