//! Topics declared in the file: `[topics.NAME]`, with `[[topics.NAME.subscriptions]]`.

use millrace_core::{Arn, QueueKey, is_account};
use millrace_services::{DeclaredSubscription, DeclaredTopic, is_region};

use super::{
    UsageError,
    file::{File, Item},
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
    let subscriptions = item.items("subscriptions")?.iter();
    let subscriptions = subscriptions.map(|it| subscription(it, &region, &account));
    Ok(DeclaredTopic {
        name: name.to_owned(),
        attributes: sorted(attributes, item)?,
        tags: item.table("tags")?,
        subscriptions: subscriptions.collect::<Result<_, _>>()?,
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
