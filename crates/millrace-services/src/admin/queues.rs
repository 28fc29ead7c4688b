//! `POST /_millrace/queues`: the contents of the caller's queues and how fast they change, a page
//! at a time. Amazon has only a call for each queue, and metrics that come minutes late.
//!
//! The body is JSON: `prefix` of the names, and `after`, the last name of the page before. Each
//! queue has counts, totals since the process started, averages of the last one or two minutes, and
//! the age of its oldest message. `next` says that there are more.
//!
//! `POST /_millrace/queues/find` with `name` says in which regions and accounts there are queues of
//! that name, as far as the caller may know, and which region and account were asked.

use std::sync::Arc;

use millrace_broker::{QueueGlance, Shards, SharedQueue};
use millrace_core::{Timestamp, limits};
use millrace_wire::{ApiError, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admin, json};
use crate::principal::Caller;

/// Queues of one name that are found, at most.
const FOUND_MAX: usize = 10;
/// Queues that are looked at before other tasks get their turn.
const QUEUES_PER_TURN: usize = 128;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Listing {
    prefix: String,
    after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
}

impl Admin {
    pub(super) async fn queues(
        &self,
        caller: &Caller<'_>,
        body: &[u8],
    ) -> Result<Response, ApiError> {
        let Listing { prefix, after } = parse(body)?;
        let limit = *limits::LIST_RESULTS.end() as usize;
        let Caller { principal, region, .. } = caller;
        let (owner, after) = ((&**region, &*principal.account), after.as_deref());
        let catalog = self.shards.catalog();
        let found = catalog.list_queues(owner, &prefix, after, limit + 1, |_| true);
        let now = self.shards.now();
        let mut shown = Vec::with_capacity(found.len().min(limit));
        for (index, queue) in found.iter().take(limit).enumerate() {
            if index % QUEUES_PER_TURN == QUEUES_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            shown.push(self.shown(queue, now));
        }
        let next = found.get(limit - 1).filter(|_| found.len() > limit).map(|it| &it.key().name);
        Ok(json(json!({ "now_ms": now.0, "queues": shown, "next": next }).to_string()))
    }

    fn shown(&self, queue: &Arc<SharedQueue>, now: Timestamp) -> Value {
        let glance = QueueGlance::of(queue);
        let (earlier, since) = self.monitor.earlier(queue);
        let elapsed_s = (now.millis_since(since) as f64 / 1e3).max(1.0);
        let rate = |total: u64, before: u64| total.saturating_sub(before) as f64 / elapsed_s;
        let totals = glance.totals;
        let definition = queue.definition();
        let redrive = definition.settings.redrive.as_ref();
        json!({
            "name": queue.key().name,
            "available": glance.counts.ready,
            "in_flight": glance.counts.in_flight,
            "delayed": glance.counts.delayed,
            "sent": totals.messages_sent,
            "received": totals.messages_received,
            "sent_per_second": rate(totals.messages_sent, earlier.messages_sent),
            "received_per_second": rate(totals.messages_received, earlier.messages_received),
            "oldest_age_s": glance.oldest_sent.map(|sent| now.millis_since(sent) / 1000),
            "dead_letter_queue": redrive.map(|redrive| redrive.target().name),
        })
    }
}

/// Where queues of a name are. With credentials, those of the caller's account only.
pub(super) async fn find_queues(
    shards: &Shards,
    caller: &Caller<'_>,
    body: &[u8],
) -> Result<Response, ApiError> {
    let Wanted { name } = parse(body)?;
    let may_know = |account: &str| !caller.principal.is_foreign_to(account);
    let mut found = Vec::new();
    for queues in shards.catalog().queues().chunks(QUEUES_PER_TURN) {
        let keys = queues.iter().map(|queue| queue.key());
        let named = keys.filter(|key| key.name == name && may_know(&key.account));
        found.extend(named.map(|key| json!({ "region": key.region, "account": key.account })));
        if found.len() >= FOUND_MAX {
            break;
        }
        tokio::task::yield_now().await;
    }
    found.truncate(FOUND_MAX);
    let (region, account) = (&caller.region, &caller.principal.account);
    Ok(json(json!({ "region": region, "account": account, "found": found }).to_string()))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::serialization(error.to_string()))
}
