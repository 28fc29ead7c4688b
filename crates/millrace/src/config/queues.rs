//! Queues declared in the file: `[queues.NAME]`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use millrace_core::{Arn, QueueKey, is_account, limits};
use millrace_services::is_region;

use super::{
    UsageError,
    file::{File, Item},
};

/// A queue that is to exist when the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredQueue {
    pub(crate) name: String,
    /// `None` means the configured region.
    pub(crate) region: Option<String>,
    /// `None` means the configured account.
    pub(crate) account: Option<String>,
    /// AWS names and values, sorted by name.
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) tags: Vec<(String, String)>,
}

/// Our names of attributes that are durations, those of AWS, and what they may be.
const SECONDS: [(&str, &str, RangeInclusive<u64>); 4] = [
    ("visibility_timeout", "VisibilityTimeout", limits::VISIBILITY_TIMEOUT_S),
    ("delay_seconds", "DelaySeconds", limits::DELAY_S),
    ("retention_seconds", "MessageRetentionPeriod", limits::RETENTION_S),
    ("wait_seconds", "ReceiveMessageWaitTimeSeconds", limits::WAIT_TIME_S),
];

const OTHERS: [&str; 9] = [
    "max_message_bytes",
    "region",
    "account",
    "fifo",
    "content_based_deduplication",
    "dead_letter_queue",
    "max_receive_count",
    "attributes",
    "tags",
];

/// The keys of a table `[queues.NAME]`.
pub(super) fn keys() -> Vec<&'static str> {
    SECONDS.iter().map(|(ours, ..)| *ours).chain(OTHERS).collect()
}

/// A queue and the queue it needs, declared or not.
struct Declared<'a> {
    queue: DeclaredQueue,
    item: &'a Item,
    key: QueueKey,
    needs: Option<QueueKey>,
}

/// All queues, each after its dead-letter queue.
pub(crate) fn declared(
    file: &File,
    region: &str,
    account: &str,
) -> Result<Vec<DeclaredQueue>, UsageError> {
    let mut all = Vec::with_capacity(file.queues().len());
    for (name, item) in file.queues() {
        let queue = queue(name, item, region, account)?;
        let region = queue.region.as_deref().unwrap_or(region);
        let account = queue.account.as_deref().unwrap_or(account);
        let needs = dead_letter_arn(item, region, account)?;
        let needs = needs.and_then(|arn| Arn::parse(&arn)?.queue());
        let key = QueueKey::new(region, account, name);
        all.push(Declared { queue, item, key, needs });
    }
    in_order(all)
}

/// Queues without settings in place of the dead-letter queues that nothing declares: data may have
/// them already.
pub(crate) fn undeclared_targets(
    queues: &[DeclaredQueue],
    region: &str,
    account: &str,
) -> Vec<DeclaredQueue> {
    let declared = declared_keys(queues, region, account);
    let targets: BTreeSet<QueueKey> = queues.iter().filter_map(target_of).collect();
    targets
        .difference(&declared)
        .map(|key| DeclaredQueue {
            name: key.name.clone(),
            region: Some(key.region.clone()),
            account: Some(key.account.clone()),
            attributes: match key.name.ends_with(".fifo") {
                true => vec![("FifoQueue".to_owned(), "true".to_owned())],
                false => Vec::new(),
            },
            tags: Vec::new(),
        })
        .collect()
}

/// The keys of declared queues.
pub(super) fn declared_keys(
    queues: &[DeclaredQueue],
    region: &str,
    account: &str,
) -> BTreeSet<QueueKey> {
    let key_of = |queue: &DeclaredQueue| {
        let region = queue.region.as_deref().unwrap_or(region);
        QueueKey::new(region, queue.account.as_deref().unwrap_or(account), &queue.name)
    };
    queues.iter().map(key_of).collect()
}

fn target_of(queue: &DeclaredQueue) -> Option<QueueKey> {
    dead_letter_queue(&queue.attributes)
}

/// The dead-letter queue that the attributes of a queue or a subscription name.
pub(super) fn dead_letter_queue(attributes: &[(String, String)]) -> Option<QueueKey> {
    let (_, policy) = attributes.iter().find(|(name, _)| name == "RedrivePolicy")?;
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    Arn::parse(policy.get("deadLetterTargetArn")?.as_str()?)?.queue()
}

fn queue(
    name: &str,
    item: &Item,
    region: &str,
    account: &str,
) -> Result<DeclaredQueue, UsageError> {
    let own_region = item.text("region")?;
    if own_region.as_deref().is_some_and(|region| !is_region(region)) {
        return Err(item.place.wrong("region is not the name of a region"));
    }
    let own_account = item.text("account")?;
    if own_account.as_deref().is_some_and(|account| !is_account(account)) {
        return Err(item.place.wrong("account is not twelve digits"));
    }
    let mut attributes = item.table("attributes")?;
    for (ours, theirs, bounds) in SECONDS {
        if let Some(seconds) = item.seconds_within(ours, &bounds)? {
            attributes.push((theirs.to_owned(), seconds.to_string()));
        }
    }
    let bounds = limits::MAXIMUM_MESSAGE_SIZE_BYTES;
    if let Some(bytes) = item.number_within("max_message_bytes", &bounds)? {
        attributes.push(("MaximumMessageSize".to_owned(), bytes.to_string()));
    }
    let is_fifo = name.ends_with(".fifo");
    match item.truth("fifo")? {
        Some(true) if !is_fifo => {
            return Err(item.place.wrong(format_args!(
                "the name of a FIFO queue ends with .fifo: [queues.\"{name}.fifo\"]"
            )));
        }
        Some(false) if is_fifo => {
            return Err(item.place.wrong("only FIFO queues have names that end with .fifo"));
        }
        _ if is_fifo && !attributes.iter().any(|(name, _)| name == "FifoQueue") => {
            attributes.push(("FifoQueue".to_owned(), "true".to_owned()));
        }
        _ => {}
    }
    if let Some(truth) = item.truth("content_based_deduplication")? {
        attributes.push(("ContentBasedDeduplication".to_owned(), truth.to_string()));
    }
    let region = own_region.as_deref().unwrap_or(region);
    let account = own_account.as_deref().unwrap_or(account);
    attributes.extend(redrive_policy(item, region, account)?);
    attributes.sort();
    if let Some(pair) = attributes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(item.place.wrong(format_args!("{} is given twice", pair[0].0)));
    }
    Ok(DeclaredQueue {
        name: name.to_owned(),
        region: own_region,
        account: own_account,
        attributes,
        tags: item.table("tags")?,
    })
}

fn redrive_policy(
    item: &Item,
    region: &str,
    account: &str,
) -> Result<Option<(String, String)>, UsageError> {
    let target = dead_letter_arn(item, region, account)?;
    let receives = item.number_within("max_receive_count", &limits::MAX_RECEIVE_COUNT)?;
    match (target, receives) {
        (None, None) => Ok(None),
        (Some(target), Some(receives)) => {
            let policy = serde_json::json!({
                "deadLetterTargetArn": target,
                "maxReceiveCount": receives,
            });
            Ok(Some(("RedrivePolicy".to_owned(), policy.to_string())))
        }
        _ => Err(item.place.wrong("dead_letter_queue and max_receive_count need each other")),
    }
}

/// The dead-letter queue's ARN: as it is given, or made of its name.
fn dead_letter_arn(item: &Item, region: &str, account: &str) -> Result<Option<String>, UsageError> {
    let target = item.text("dead_letter_queue")?;
    Ok(target.map(|target| match target.starts_with("arn:") {
        true => target,
        false => QueueKey::new(region, account, &target).to_string(),
    }))
}

/// Takes what needs nothing that is left, until nothing is left.
fn in_order(all: Vec<Declared<'_>>) -> Result<Vec<DeclaredQueue>, UsageError> {
    let position = |key: &QueueKey| all.iter().position(|declared| declared.key == *key);
    let needs: Vec<Option<usize>> =
        all.iter().map(|declared| declared.needs.as_ref().and_then(position)).collect();
    let mut is_done = vec![false; all.len()];
    let mut ordered = Vec::with_capacity(all.len());
    while ordered.len() < all.len() {
        let before = ordered.len();
        for (index, declared) in all.iter().enumerate() {
            let is_free = needs[index].is_none_or(|needs| is_done[needs]);
            if !is_done[index] && is_free {
                is_done[index] = true;
                ordered.push(declared.queue.clone());
            }
        }
        if ordered.len() == before {
            let stuck = all.iter().zip(&is_done).find(|(_, is_done)| !**is_done);
            let place = stuck.map(|(declared, _)| &declared.item.place);
            return Err(place.map_or_else(
                || UsageError("dead-letter queues form a circle".to_owned()),
                |place| place.wrong("dead-letter queues form a circle"),
            ));
        }
    }
    Ok(ordered)
}
