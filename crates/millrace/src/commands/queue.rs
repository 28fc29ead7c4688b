//! `queue list|create|set|show|purge|delete`.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use millrace_client::CallErrorKind;
use millrace_client::sqs::Action;
use millrace_process::parse_whole_seconds;
use millrace_wire::date::format_iso8601;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::activity::{Activity, activity, rate};
use super::connection::{ConnectionFlags, name_of, text};
use super::names::queue_names;
use super::values::{give, pair};
use super::{Sqs, output};
use crate::config::UsageError;
use crate::logging::tell;
use crate::show::Format;

/// Queues whose attributes are asked for at a time.
const ASKED_AT_A_TIME: usize = 16;

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues and what they hold
    List {
        /// Only queues whose names begin so
        #[arg(default_value = "", add = queue_names())]
        prefix: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Create a queue and print its URL
    Create(Box<CreateFlags>),
    /// Change attributes and tags of a queue; what is not named stays
    Set(Box<SetFlags>),
    /// Show attributes, tags and dead-letter sources of a queue
    Show {
        /// Name, URL or ARN
        #[arg(add = queue_names())]
        queue: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Drop all messages of queues
    Purge(ForGoodFlags),
    /// Delete queues with all their messages
    Delete(ForGoodFlags),
}

#[derive(Args, Debug)]
pub(crate) struct CreateFlags {
    /// Name; that of a FIFO queue ends in .fifo
    name: String,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Args, Debug)]
pub(crate) struct SetFlags {
    /// Name, URL or ARN
    #[arg(add = queue_names())]
    queue: String,
    #[command(flatten)]
    settings: SettingFlags,
    /// A tag to take away; may be repeated
    #[arg(long = "untag", value_name = "NAME")]
    untag: Vec<String>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Settings that a queue may be given when it is created or later.
#[derive(Args, Debug)]
struct SettingFlags {
    /// How long a receive hides a message
    #[arg(long, value_name = "DURATION", value_parser = parse_whole_seconds)]
    visibility: Option<u64>,
    /// How long a message is kept that nobody deletes
    #[arg(long, value_name = "DURATION", value_parser = parse_whole_seconds)]
    retention: Option<u64>,
    /// How long a message is held back after the send
    #[arg(long, value_name = "DURATION", value_parser = parse_whole_seconds)]
    delay: Option<u64>,
    /// Where messages go that were received too often: name or ARN
    #[arg(long, value_name = "QUEUE", requires = "max_receives", add = queue_names())]
    dead_letters: Option<String>,
    /// After how many receives
    #[arg(long, value_name = "NUMBER", requires = "dead_letters")]
    max_receives: Option<u32>,
    /// Any attribute by its name in SQS; an empty value takes a policy away; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE")]
    attributes: Vec<String>,
    /// A tag; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ForGoodFlags {
    /// Names, URLs or ARNs
    #[arg(required = true, add = queue_names())]
    queues: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// The truth about encryption attributes, which are answered as Amazon answers them.
const NOT_ENCRYPTED: &str = "Millrace only keeps it: bodies are not encrypted yet";

/// A queue's URL and attributes.
pub(super) type Listed = (String, Map<String, Value>);

pub(super) async fn run(command: &QueueCommand) -> Result<()> {
    match command {
        QueueCommand::List { prefix, json, connection } => {
            list_queues(&connection.connect()?, prefix, Format::new(*json)).await
        }
        QueueCommand::Create(flags) => create(flags).await,
        QueueCommand::Set(flags) => set(flags).await,
        QueueCommand::Show { queue, json, connection } => {
            show(&connection.connect_to(queue)?, queue, Format::new(*json)).await
        }
        QueueCommand::Purge(flags) => for_good(flags, Action::PURGE_QUEUE, "Purge").await,
        QueueCommand::Delete(flags) => for_good(flags, Action::DELETE_QUEUE, "Delete").await,
    }
}

/// All queues whose names begin so, in no order. Those deleted meanwhile are left out.
pub(super) async fn with_attributes(sqs: &Sqs, prefix: &str) -> Result<Vec<Listed>> {
    let mut queues = Vec::new();
    let mut asked = JoinSet::new();
    for url in sqs.list(prefix).await? {
        if asked.len() == ASKED_AT_A_TIME {
            queues.extend(next(&mut asked).await?);
        }
        let sqs = sqs.clone();
        asked.spawn(async move {
            match sqs.attributes(&url).await {
                Ok(attributes) => Ok(Some((url, attributes))),
                Err(error) if error.kind == CallErrorKind::NoSuchQueue => Ok(None),
                Err(error) => Err(error),
            }
        });
    }
    while !asked.is_empty() {
        queues.extend(next(&mut asked).await?);
    }
    Ok(queues)
}

async fn next(
    asked: &mut JoinSet<Result<Option<Listed>, millrace_client::CallError>>,
) -> Result<Option<Listed>> {
    match asked.join_next().await {
        Some(answered) => Ok(answered??),
        None => Ok(None),
    }
}

/// An attribute that is a number; 0 if it is missing.
pub(super) fn number(attributes: &Map<String, Value>, name: &str) -> u64 {
    let value = attributes.get(name).and_then(Value::as_str);
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Messages in every state.
pub(super) fn messages_held(attributes: &Map<String, Value>) -> u64 {
    [AVAILABLE, IN_FLIGHT, DELAYED].map(|name| number(attributes, name)).iter().sum()
}

pub(super) const AVAILABLE: &str = "ApproximateNumberOfMessages";
pub(super) const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";
pub(super) const DELAYED: &str = "ApproximateNumberOfMessagesDelayed";

async fn list_queues(sqs: &Sqs, prefix: &str, format: Format) -> Result<()> {
    if format == Format::Json {
        let mut queues = with_attributes(sqs, prefix).await?;
        queues.sort_by(|(one, _), (other, _)| one.cmp(other));
        let all: Vec<Value> = queues
            .iter()
            .map(|(url, attributes)| json!({ "QueueUrl": url, "Attributes": attributes }))
            .collect();
        return output::line(&format!("{:#}", Value::Array(all)));
    }
    let queues = activity(sqs, prefix).await?;
    let row = |queue: &Activity| {
        let kind = if queue.name.ends_with(".fifo") { "FIFO" } else { "standard" };
        let mut row = vec![queue.name.clone()];
        row.extend(queue.counts());
        row.extend([
            rate(queue.sent_per_second),
            rate(queue.received_per_second),
            queue.oldest(),
            kind.to_owned(),
            queue.dead_letter_queue.clone().unwrap_or_default(),
        ]);
        row
    };
    let rows: Vec<_> = queues.iter().map(row).collect();
    let heads = [
        "NAME",
        "AVAILABLE",
        "IN FLIGHT",
        "DELAYED",
        "SENT/S",
        "RECEIVED/S",
        "OLDEST",
        "TYPE",
        "DEAD LETTERS TO",
    ];
    output::line(output::table(&heads, &rows).trim_end())
}

/// The name of the dead-letter queue.
pub(super) fn redrive_target(attributes: &Map<String, Value>) -> Option<String> {
    let policy = attributes.get("RedrivePolicy")?.as_str()?;
    let policy: Value = serde_json::from_str(policy).ok()?;
    text(&policy, "deadLetterTargetArn").rsplit(':').next().map(str::to_owned)
}

impl SettingFlags {
    /// By the names of SQS.
    async fn attributes(&self, sqs: &Sqs) -> Result<Map<String, Value>> {
        let mut attributes = Map::new();
        let numbers = [
            ("VisibilityTimeout", self.visibility),
            ("MessageRetentionPeriod", self.retention),
            ("DelaySeconds", self.delay),
        ];
        for (name, value) in numbers {
            attributes.extend(value.map(|value| (name.to_owned(), value.to_string().into())));
        }
        if let (Some(target), Some(max)) = (&self.dead_letters, self.max_receives) {
            let target = sqs.arn(target).await.context("the dead-letter queue")?;
            let policy = json!({ "deadLetterTargetArn": target, "maxReceiveCount": max });
            attributes.insert("RedrivePolicy".to_owned(), policy.to_string().into());
        }
        for given in &self.attributes {
            let (name, value) = pair(given, "--attribute")?;
            give(&mut attributes, "--attribute", name, value.into())?;
        }
        Ok(attributes)
    }

    fn tags(&self) -> Result<Map<String, Value>> {
        let mut tags = Map::new();
        for given in &self.tags {
            let (name, value) = pair(given, "--tag")?;
            give(&mut tags, "--tag", name, value.into())?;
        }
        Ok(tags)
    }
}

async fn create(flags: &CreateFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    let mut attributes = flags.settings.attributes(&sqs).await?;
    if flags.name.ends_with(".fifo") {
        attributes.entry("FifoQueue").or_insert_with(|| "true".into());
    }
    let tags = flags.settings.tags()?;
    let mut asked = json!({ "QueueName": flags.name, "Attributes": attributes });
    if !tags.is_empty() {
        asked["tags"] = Value::Object(tags);
    }
    let created = sqs.call(Action::CREATE_QUEUE, &asked).await;
    let created = created.with_context(|| format!("creating {}", flags.name))?;
    output::line(text(&created, "QueueUrl"))
}

/// Attributes first: they are what may be refused.
async fn set(flags: &SetFlags) -> Result<()> {
    let sqs = flags.connection.connect_to(&flags.queue)?;
    let url = sqs.url(&flags.queue).await?;
    let attributes = flags.settings.attributes(&sqs).await?;
    let tags = flags.settings.tags()?;
    let mut calls = Vec::new();
    if !attributes.is_empty() {
        let asked = json!({ "QueueUrl": url, "Attributes": attributes });
        calls.push((Action::SET_QUEUE_ATTRIBUTES, asked));
    }
    if !tags.is_empty() {
        calls.push((Action::TAG_QUEUE, json!({ "QueueUrl": url, "Tags": tags })));
    }
    if !flags.untag.is_empty() {
        calls.push((Action::UNTAG_QUEUE, json!({ "QueueUrl": url, "TagKeys": flags.untag })));
    }
    if calls.is_empty() {
        return Err(UsageError("nothing to set is given".to_owned()).into());
    }
    for (action, asked) in &calls {
        let done = sqs.call(*action, asked).await;
        done.with_context(|| format!("queue {}", flags.queue))?;
    }
    tell(&format!("{}: set", name_of(&url)));
    Ok(())
}

async fn show(sqs: &Sqs, queue: &str, format: Format) -> Result<()> {
    let url = sqs.url(queue).await?;
    let attributes = sqs.attributes(&url).await.with_context(|| format!("queue {queue}"))?;
    let asked = json!({ "QueueUrl": url });
    let tags = sqs.call(Action::LIST_QUEUE_TAGS, &asked).await?;
    let tags = tags.get("Tags").and_then(Value::as_object).cloned().unwrap_or_default();
    let sources = sqs.dead_letter_sources(&url).await?;
    if format == Format::Json {
        let all = json!({
            "QueueUrl": url, "Attributes": attributes, "Tags": tags,
            "DeadLetterSourceQueues": sources,
        });
        return output::line(&format!("{all:#}"));
    }
    let mut rows = vec![vec!["QueueUrl".to_owned(), url]];
    for (name, value) in &attributes {
        let value = value.as_str().unwrap_or_default();
        let shown = match (name.as_str(), value.parse::<u64>()) {
            ("VisibilityTimeout" | "MessageRetentionPeriod" | "DelaySeconds", Ok(number))
            | ("ReceiveMessageWaitTimeSeconds", Ok(number)) => {
                format!("{value} ({})", output::seconds(number))
            }
            ("CreatedTimestamp" | "LastModifiedTimestamp", Ok(at)) => {
                format!("{value} ({})", format_iso8601(at))
            }
            ("SqsManagedSseEnabled", _) if value == "true" && !sqs.is_amazon() => {
                format!("{value} ({NOT_ENCRYPTED})")
            }
            ("KmsMasterKeyId", _) if !sqs.is_amazon() => format!("{value} ({NOT_ENCRYPTED})"),
            _ => value.to_owned(),
        };
        rows.push(vec![name.clone(), shown]);
    }
    for (name, value) in &tags {
        rows.push(vec![format!("tag {name}"), value.as_str().unwrap_or_default().to_owned()]);
    }
    for source in &sources {
        rows.push(vec!["dead letters from".to_owned(), name_of(source).to_owned()]);
    }
    let width = rows.iter().filter_map(|row| row.first()).map(String::len).max().unwrap_or(0);
    for row in &rows {
        let [name, value] = row.as_slice() else { continue };
        output::line(&format!("{name:<width$}  {value}"))?;
    }
    Ok(())
}

/// Purges or deletes after asking once for all. Each queue is on the server that its URL says.
async fn for_good(flags: &ForGoodFlags, action: Action, verb: &str) -> Result<()> {
    let mut queues = Vec::new();
    let (mut held, mut names) = (0, Vec::new());
    let mut losing = Vec::new();
    for queue in &flags.queues {
        let sqs = flags.connection.connect_to(queue)?;
        let url = sqs.url(queue).await?;
        let attributes = sqs.attributes(&url).await.with_context(|| format!("queue {queue}"))?;
        held += messages_held(&attributes);
        if action == Action::DELETE_QUEUE {
            let sources = sqs.dead_letter_sources(&url).await?;
            losing.extend(sources.iter().map(|source| (source.clone(), name_of(&url).to_owned())));
        }
        names.push(format!("{} at {}", name_of(&url), sqs.endpoint()));
        queues.push((sqs, url));
    }
    for (source, queue) in &losing {
        // One that is deleted with it loses nothing.
        if !queues.iter().any(|(_, url)| url == source) {
            let source = name_of(source);
            tell(&format!(
                "warning: {queue} is the dead-letter queue of {source}, whose failing messages then \
                 stay in it; millrace queue set {source} --attribute RedrivePolicy= ends that"
            ));
        }
    }
    let (names, held) = (names.join(", "), output::counted(held, "message"));
    if !flags.yes && !output::confirm(&format!("{verb} {names}, {held}?"))? {
        bail!("nothing was changed");
    }
    for (sqs, url) in &queues {
        let done = sqs.call(action, &json!({ "QueueUrl": url })).await;
        done.with_context(|| format!("queue {}", name_of(url)))?;
        tell(&format!("{}: {}d", name_of(url), verb.to_lowercase()));
    }
    Ok(())
}
