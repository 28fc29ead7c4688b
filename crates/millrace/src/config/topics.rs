//! Topics declared in the file: `[topics.NAME]`, with `[[topics.NAME.subscriptions]]`.

use std::collections::{BTreeSet, HashSet};

use millrace_core::{Arn, QueueKey, is_account};
use millrace_services::{DeclaredSubscription, DeclaredTopic, is_region};

use super::{
    UsageError,
    file::{File, Item},
    queues::{self, DeclaredQueue},
};

/// The keys of a table `[topics.NAME]`.
pub(super) const KEYS: [&str; 7] = [
    "region",
    "account",
    "fifo",
    "content_based_deduplication",
    "attributes",
    "tags",
    "subscriptions",
];

/// The keys of a table `[[topics.NAME.subscriptions]]`.
pub(super) const SUBSCRIPTION_KEYS: [&str; 7] =
    ["queue", "url", "raw", "filter", "filter_scope", "dead_letter_queue", "attributes"];

pub(crate) fn declared(
    file: &File,
    region: &str,
    account: &str,
) -> Result<Vec<DeclaredTopic>, UsageError> {
    file.topics().iter().map(|(name, item)| topic(name, item, region, account)).collect()
}

/// Queues that declared subscriptions name and that are not declared, each in a sentence. The data
/// may have them; messages for a queue that does not exist are lost.
pub(crate) fn undeclared_queues(
    topics: &[DeclaredTopic],
    queues: &[DeclaredQueue],
    region: &str,
    account: &str,
) -> Vec<String> {
    let declared = queues::declared_keys(queues, region, account);
    let mut found = BTreeSet::new();
    for topic in topics {
        for subscription in &topic.subscriptions {
            let endpoint = Arn::parse(&subscription.endpoint).and_then(|arn| arn.queue());
            let dead_letter_queue = queues::dead_letter_queue(&subscription.attributes);
            for (what, queue) in [("queue", endpoint), ("dead-letter queue", dead_letter_queue)] {
                if let Some(queue) = queue.filter(|queue| !declared.contains(queue)) {
                    found.insert(format!(
                        "the {what} {queue} of a subscription to {} is not in the configuration: \
                         unless the data have it, its messages are lost",
                        topic.name
                    ));
                }
            }
        }
    }
    found.into_iter().collect()
}

fn topic(
    name: &str,
    item: &Item,
    region: &str,
    account: &str,
) -> Result<DeclaredTopic, UsageError> {
    let region = item.text("region")?.unwrap_or_else(|| region.to_owned());
    if !is_region(&region) {
        return Err(item.place.wrong("region is not the name of a region"));
    }
    let account = item.text("account")?.unwrap_or_else(|| account.to_owned());
    if !is_account(&account) {
        return Err(item.place.wrong("account is not twelve digits"));
    }
    let mut attributes = item.table("attributes")?;
    let is_fifo = name.ends_with(".fifo");
    match item.truth("fifo")? {
        Some(true) if !is_fifo => {
            return Err(item.place.wrong(format_args!(
                "the name of a FIFO topic ends with .fifo: [topics.\"{name}.fifo\"]"
            )));
        }
        Some(false) if is_fifo => {
            return Err(item.place.wrong("only FIFO topics have names that end with .fifo"));
        }
        _ if is_fifo && !attributes.iter().any(|(name, _)| name == "FifoTopic") => {
            attributes.push(("FifoTopic".to_owned(), "true".to_owned()));
        }
        _ => {}
    }
    if let Some(truth) = item.truth("content_based_deduplication")? {
        attributes.push(("ContentBasedDeduplication".to_owned(), truth.to_string()));
    }
    let mut subscriptions: Vec<DeclaredSubscription> = Vec::new();
    let mut endpoints: HashSet<String> = HashSet::new();
    for item in item.items("subscriptions")? {
        let subscription = subscription(item, &region, &account)?;
        let endpoint = &subscription.endpoint;
        if !endpoints.insert(endpoint.clone()) {
            return Err(item
                .place
                .wrong(format_args!("{name} already has a subscription to {endpoint}")));
        }
        subscriptions.push(subscription);
    }
    Ok(DeclaredTopic {
        name: name.to_owned(),
        attributes: sorted(attributes, item)?,
        tags: item.table("tags")?,
        subscriptions,
        region,
        account,
    })
}

fn subscription(
    item: &Item,
    region: &str,
    account: &str,
) -> Result<DeclaredSubscription, UsageError> {
    let arn = |queue: String| match queue.starts_with("arn:") {
        true => queue,
        false => QueueKey::new(region, account, &queue).to_string(),
    };
    let (protocol, endpoint) = match (item.text("queue")?, item.text("url")?) {
        (Some(queue), None) => ("sqs", arn(queue)),
        (None, Some(url)) if url.starts_with("https:") => ("https", url),
        (None, Some(url)) => ("http", url),
        _ => return Err(item.place.wrong("a subscription has a queue or a url")),
    };
    if protocol == "sqs" && Arn::parse(&endpoint).and_then(|arn| arn.queue()).is_none() {
        return Err(item.place.wrong(format_args!("{endpoint} is not the ARN of a queue")));
    }
    let mut attributes = item.table("attributes")?;
    let mut add = |name: &str, value: String| attributes.push((name.to_owned(), value));
    if let Some(truth) = item.truth("raw")? {
        add("RawMessageDelivery", truth.to_string());
    }
    if let Some(filter) = item.text("filter")? {
        add("FilterPolicy", filter);
    }
    if let Some(scope) = item.text("filter_scope")? {
        add("FilterPolicyScope", scope);
    }
    if let Some(queue) = item.text("dead_letter_queue")? {
        let policy = serde_json::json!({ "deadLetterTargetArn": arn(queue) });
        add("RedrivePolicy", policy.to_string());
    }
    let protocol = protocol.to_owned();
    Ok(DeclaredSubscription { protocol, endpoint, attributes: sorted(attributes, item)? })
}

fn sorted(
    mut attributes: Vec<(String, String)>,
    item: &Item,
) -> Result<Vec<(String, String)>, UsageError> {
    attributes.sort();
    match attributes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(item.place.wrong(format_args!("{} is given twice", pair[0].0))),
        None => Ok(attributes),
    }
}
