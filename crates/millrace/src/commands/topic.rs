//! `topic …` and `publish`: topics of SNS, their subscriptions, and messages for them.

use std::io::{self, Read};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use millrace_client::CallError;
use millrace_client::sns::{Answer, SnsClient, Texts, text};
use millrace_core::limits;
use serde_json::Value;

use super::connection::ConnectionFlags;
use super::names::queue_names;
use super::values::pair;
use super::{output, topic_advice};
use crate::config::UsageError;

/// What a server may answer for a list that never ends.
const PAGES_MAX: usize = 10_000;

#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// List topics
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Create a topic; one that exists stays as it is
    Create {
        /// The name; one that ends with .fifo is a FIFO topic's
        name: String,
        /// Such as ContentBasedDeduplication=true; may be repeated
        #[arg(long = "attribute", value_name = "NAME=VALUE")]
        attributes: Vec<String>,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Show the attributes of a topic
    Show {
        /// Name or ARN
        topic: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Delete a topic with all its subscriptions
    Delete {
        /// Name or ARN
        topic: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// Subscribe a queue or a URL to a topic
    Subscribe(SubscribeFlags),
    /// Confirm the subscription of a URL with the token that it was sent
    Confirm {
        /// Name or ARN
        topic: String,
        token: String,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// End a subscription
    Unsubscribe {
        /// ARN of the subscription
        subscription: String,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
    /// List subscriptions
    Subscriptions {
        /// Name or ARN of a topic [default: those of all topics]
        topic: Option<String>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: ConnectionFlags,
    },
}

#[derive(Args, Debug)]
pub(crate) struct SubscribeFlags {
    /// Name or ARN
    topic: String,
    #[command(flatten)]
    subscriber: Subscriber,
    /// Deliver the bare message, not the document around it
    #[arg(long)]
    raw: bool,
    /// Deliver only messages that this filter policy (JSON) matches
    #[arg(long, value_name = "POLICY")]
    filter: Option<String>,
    /// Match the filter with the message's body, not with its attributes
    #[arg(long, requires = "filter")]
    filter_body: bool,
    /// The queue for messages that cannot be delivered: name, URL or ARN
    #[arg(long, value_name = "QUEUE", add = queue_names())]
    dead_letter_queue: Option<String>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Where the messages go.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Subscriber {
    /// The queue: name, URL or ARN
    #[arg(long, add = queue_names())]
    queue: Option<String>,
    /// Where messages are posted to, http or https; it has to confirm first
    #[arg(long, value_parser = http_url)]
    url: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct PublishFlags {
    /// Name or ARN
    topic: String,
    /// The message; without one, or with -, it is read from standard input
    message: Option<String>,
    /// Subject of the message, at most 99 characters; raw subscriptions do not get it
    #[arg(long)]
    subject: Option<String>,
    /// The message is JSON with a text for each protocol and one as `default`
    #[arg(long)]
    by_protocol: bool,
    /// Message group (FIFO topics; standard ones pass it on to fair queues)
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Deduplication id (FIFO topics)
    #[arg(long, value_name = "ID")]
    deduplication: Option<String>,
    /// A message attribute, of type String unless told; may be repeated
    #[arg(long = "attribute", value_name = "NAME[:TYPE]=VALUE")]
    attributes: Vec<String>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn run(command: &TopicCommand) -> Result<()> {
    match command {
        TopicCommand::List { json, connection } => {
            let topics = pages(&connection.connect_to_topics()?, "ListTopics", vec![]).await?;
            if *json {
                return print_json(&Value::Array(topics.into_iter().map(object).collect()));
            }
            topics.iter().try_for_each(|topic| output::line(text(topic, "TopicArn")))
        }
        TopicCommand::Create { name, attributes, connection } => {
            let mut parameters = vec![param("Name", name)];
            let fifo = name.ends_with(".fifo").then_some("FifoTopic=true");
            let given = attributes.iter().map(String::as_str).chain(fifo);
            for (number, attribute) in (1..).zip(given) {
                let (name, value) = pair(attribute, "--attribute")?;
                add_entry(&mut parameters, "Attributes", number, name, value);
            }
            let answer =
                advised(&connection.connect_to_topics()?, "CreateTopic", parameters).await?;
            output::line(answer.text("TopicArn"))
        }
        TopicCommand::Show { topic, json, connection } => {
            let sns = connection.connect_to_topics()?;
            let parameters = vec![param("TopicArn", &arn(&sns, topic).await?)];
            let found = advised(&sns, "GetTopicAttributes", parameters).await?.attributes;
            if *json {
                return print_json(&object(found));
            }
            let rows: Vec<_> = found.into_iter().map(|(name, value)| vec![name, value]).collect();
            print_table(&["ATTRIBUTE", "VALUE"], &rows)
        }
        TopicCommand::Delete { topic, yes, connection } => {
            let sns = connection.connect_to_topics()?;
            let topic = arn(&sns, topic).await?;
            let question = format!("Delete {topic} with all its subscriptions?");
            if !yes && !output::confirm(&question)? {
                bail!("nothing was deleted");
            }
            advised(&sns, "DeleteTopic", vec![param("TopicArn", &topic)]).await?;
            Ok(())
        }
        TopicCommand::Subscribe(flags) => subscribe(flags).await,
        TopicCommand::Confirm { topic, token, connection } => {
            let sns = connection.connect_to_topics()?;
            let parameters =
                vec![param("TopicArn", &arn(&sns, topic).await?), param("Token", token)];
            let answer = advised(&sns, "ConfirmSubscription", parameters).await?;
            output::line(answer.text("SubscriptionArn"))
        }
        TopicCommand::Unsubscribe { subscription, connection } => {
            let parameters = vec![param("SubscriptionArn", subscription)];
            advised(&connection.connect_to_topics()?, "Unsubscribe", parameters).await?;
            Ok(())
        }
        TopicCommand::Subscriptions { topic, json, connection } => {
            let mut found =
                subscriptions(&connection.connect_to_topics()?, topic.as_deref()).await?;
            let place = |it: &Texts| ["TopicArn", "Endpoint"].map(|name| text(it, name).to_owned());
            found.sort_by_cached_key(place);
            if *json {
                return print_json(&Value::Array(found.into_iter().map(object).collect()));
            }
            let columns = ["SubscriptionArn", "Protocol", "Endpoint"];
            let row = |it: &Texts| columns.map(|name| text(it, name).to_owned()).to_vec();
            let rows: Vec<_> = found.iter().map(row).collect();
            print_table(&["SUBSCRIPTION", "PROTOCOL", "ENDPOINT"], &rows)
        }
    }
}

pub(super) async fn publish(flags: &PublishFlags) -> Result<()> {
    let sns = flags.connection.connect_to_topics()?;
    let message = match flags.message.as_deref() {
        Some(message) if message != "-" => message.to_owned(),
        _ => {
            let mut message = String::new();
            let most = limits::MESSAGE_SIZE_BYTES;
            let mut input = io::stdin().lock().take(most as u64 + 1);
            input.read_to_string(&mut message).context("reading the message")?;
            ensure!(message.len() <= most, "the message is longer than {most} bytes");
            message
        }
    };
    let mut parameters =
        vec![param("TopicArn", &arn(&sns, &flags.topic).await?), param("Message", &message)];
    let given = [
        ("Subject", flags.subject.as_deref()),
        ("MessageStructure", flags.by_protocol.then_some("json")),
        ("MessageGroupId", flags.group.as_deref()),
        ("MessageDeduplicationId", flags.deduplication.as_deref()),
    ];
    parameters.extend(given.iter().filter_map(|(name, value)| Some(param(name, (*value)?))));
    for (number, attribute) in (1..).zip(&flags.attributes) {
        let (name, value) = pair(attribute, "--attribute")?;
        let (name, data_type) = name.split_once(':').unwrap_or((name, "String"));
        if data_type.starts_with("Binary") {
            let text = format!("--attribute {attribute}: binary values cannot be given here");
            return Err(UsageError(text).into());
        }
        let front = format!("MessageAttributes.entry.{number}");
        parameters.push((format!("{front}.Name"), name.to_owned()));
        parameters.push((format!("{front}.Value.DataType"), data_type.to_owned()));
        parameters.push((format!("{front}.Value.StringValue"), value.to_owned()));
    }
    let answer = advised(&sns, "Publish", parameters).await.context("the message")?;
    output::line(answer.text("MessageId"))
}

async fn subscribe(flags: &SubscribeFlags) -> Result<()> {
    let sns = flags.connection.connect_to_topics()?;
    let queue_arn = async |queue: &str| flags.connection.connect_to(queue)?.arn(queue).await;
    let (protocol, endpoint) = match (&flags.subscriber.queue, &flags.subscriber.url) {
        (Some(queue), _) => ("sqs", queue_arn(queue).await.context("the queue")?),
        (None, url) => {
            let url = url.as_deref().unwrap_or_default();
            (if url.starts_with("https:") { "https" } else { "http" }, url.to_owned())
        }
    };
    let mut parameters = vec![
        param("TopicArn", &arn(&sns, &flags.topic).await?),
        param("Protocol", protocol),
        param("Endpoint", &endpoint),
        param("ReturnSubscriptionArn", "true"),
    ];
    let redrive = match &flags.dead_letter_queue {
        Some(queue) => {
            let arn = queue_arn(queue).await.context("the dead-letter queue")?;
            Some(serde_json::json!({ "deadLetterTargetArn": arn }).to_string())
        }
        None => None,
    };
    let attributes = [
        ("RawMessageDelivery", flags.raw.then_some("true")),
        ("FilterPolicy", flags.filter.as_deref()),
        ("FilterPolicyScope", flags.filter_body.then_some("MessageBody")),
        ("RedrivePolicy", redrive.as_deref()),
    ];
    let given = attributes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    for (number, (name, value)) in (1..).zip(given) {
        add_entry(&mut parameters, "Attributes", number, name, value);
    }
    let answer = advised(&sns, "Subscribe", parameters).await?;
    output::line(answer.text("SubscriptionArn"))
}

/// The subscriptions of a topic, or all.
async fn subscriptions(sns: &SnsClient, topic: Option<&str>) -> Result<Vec<Texts>> {
    match topic {
        Some(topic) => {
            let parameters = vec![param("TopicArn", &arn(sns, topic).await?)];
            pages(sns, "ListSubscriptionsByTopic", parameters).await
        }
        None => pages(sns, "ListSubscriptions", vec![]).await,
    }
}

/// The ARN of a topic that is given by it or by its name.
async fn arn(sns: &SnsClient, topic: &str) -> Result<String> {
    if topic.starts_with("arn:") {
        return Ok(topic.to_owned());
    }
    let is_it = |arn: &&str| arn.rsplit(':').next() == Some(topic);
    let topics = pages(sns, "ListTopics", vec![]).await?;
    let mut arns = topics.iter().map(|it| text(it, "TopicArn"));
    match arns.clone().find(is_it) {
        Some(arn) => Ok(arn.to_owned()),
        None => bail!(topic_advice::of_missing_topic(topic, sns.region(), &mut arns)),
    }
}

/// Calls an action; its error says what to change.
async fn advised(sns: &SnsClient, action: &str, parameters: Texts) -> Result<Answer, CallError> {
    let answer = sns.call(action, parameters).await;
    answer.map_err(|error| topic_advice::of_call(error, action, sns.access_key()))
}

/// The members of a list, over all its pages.
async fn pages(sns: &SnsClient, action: &str, parameters: Texts) -> Result<Vec<Texts>> {
    let mut members = Vec::new();
    let mut token = None;
    for _ in 0..PAGES_MAX {
        let asked =
            parameters.iter().cloned().chain(token.map(|token| ("NextToken".to_owned(), token)));
        let Answer { members: more, next_token, .. } =
            advised(sns, action, asked.collect()).await?;
        members.extend(more);
        token = next_token;
        if token.is_none() {
            return Ok(members);
        }
    }
    bail!("{action} has more than {PAGES_MAX} pages")
}

fn param(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn add_entry(parameters: &mut Texts, map: &str, number: usize, name: &str, value: &str) {
    parameters.push((format!("{map}.entry.{number}.key"), name.to_owned()));
    parameters.push((format!("{map}.entry.{number}.value"), value.to_owned()));
}

fn object(texts: Texts) -> Value {
    Value::Object(texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect())
}

fn print_json(document: &Value) -> Result<()> {
    output::line(&format!("{document:#}"))
}

fn http_url(text: &str) -> Result<String, String> {
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text.to_owned()),
        false => Err("it must begin with http:// or https://".to_owned()),
    }
}

fn print_table(heads: &[&str], rows: &[Vec<String>]) -> Result<()> {
    output::table(heads, rows).lines().try_for_each(output::line)
}
