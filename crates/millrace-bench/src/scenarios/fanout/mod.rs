//! `fanout`: one topic and N queues. Publishing to the topic beside sending the same messages to
//! each queue: deliveries a second, what one costs, and what a subscriber more does to latency.

mod section;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::{Peer, ReceiveRequest, SystemAttributes, transport::TransportOptions};
use tokio::{
    task::{JoinSet, LocalSet},
    time,
};

use super::{
    Findings, Flags, Setting, clients, conduct,
    queue::Queue,
    sns::Publisher,
    values::{body_size, distinct},
};
use crate::{
    latency::{Latencies, Verb},
    process,
    report::Metric,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Queues that are subscribed to the topic, one run of each way for each
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "2,10", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) queues: Vec<u64>,
    /// Messages of each trial, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: u64,
    /// Connections that share the messages
    #[arg(long, value_name = "NUMBER", default_value = "8", value_parser = clients())]
    pub(crate) connections: usize,
    /// Number of trials of each way
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) trials: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = body_size)]
    pub(crate) size: usize,
    /// Deliver the notification document around each message, as subscriptions do by default
    #[arg(long)]
    pub(crate) envelope: bool,
}

/// A way to bring messages into N queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// SendMessageBatch to each queue in turn
    Direct,
    /// Publish, one message a request
    Single,
    /// PublishBatch, ten messages a request
    Batch,
}

/// One trial of one way.
struct Trial {
    queues: u64,
    way: Way,
    began: Duration,
    taken: Duration,
    server_cpu: Option<Duration>,
    latencies: Latencies,
    lost: u64,
    duplicated: u64,
}

/// The measurements of a run.
struct Measured {
    messages: u64,
    trials: Vec<Trial>,
    /// In turns over one connection: publishes to two queues, and sends to one.
    publishes: Latencies,
    sends: Latencies,
}

/// Queues with a topic in front of them.
struct Run<'a> {
    setting: &'a Setting,
    plan: &'a Plan,
    topic: String,
    queues: Vec<Queue<'a>>,
}

const ID: &str = "fanout";
const TITLE: &str = "One topic, many queues";
const WAYS: [Way; 3] = [Way::Direct, Way::Single, Way::Batch];
/// A request of SQS or SNS takes so many messages.
const BATCH: u64 = 10;
const MESSAGES_LEAST: u64 = 100;
/// Requests of each kind whose latency is compared, before scaling.
const COMPARED: u64 = 2000;
const COMPARED_LEAST: u64 = 50;
/// Time of empty receives after which a message that has not come counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);
/// Digits of a message's number, which its body begins with.
const NUMBER_DIGITS: usize = 20;

pub(crate) fn run(flags: &Flags<Plan>) -> Result<()> {
    distinct("--queues", &flags.plan.queues)?;
    conduct("fanout", &flags.options, |setting| findings(setting, &flags.plan))
}

fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let runtime = crate::runtime::current_thread()?;
    let local = LocalSet::new();
    let messages = setting.count(plan.messages, MESSAGES_LEAST);
    let mut measured = Measured {
        messages,
        trials: Vec::new(),
        publishes: Latencies::new(),
        sends: Latencies::new(),
    };
    for &queues in &plan.queues {
        for number in 1..=plan.trials {
            for way in WAYS {
                setting.progress.begin(&format!("fanout, {queues} queues, {number}"));
                let run = Run::new(setting, plan, queues)?;
                let work = setting.progress.unless_ended(run.trial(way, messages));
                let trial = local.block_on(&runtime, run.and_remove(work));
                measured.trials.push(trial?);
            }
        }
    }
    setting.progress.begin("fanout, latency");
    let run = Run::new(setting, plan, 2)?;
    let work = setting.progress.unless_ended(run.compare_latency(&mut measured));
    local.block_on(&runtime, run.and_remove(work))?;
    let recordings = measured.trials.iter().flat_map(|trial| {
        let front = format!("fanout.{}.{}", trial.queues, trial.way.name());
        trial.latencies.recordings(&front, trial.began, trial.taken)
    });
    let count = |of: fn(&Trial) -> u64| measured.trials.iter().map(of).sum();
    let faults = vec![
        Metric::faults("fanout.lost", count(|trial| trial.lost)),
        Metric::faults("fanout.duplicated", count(|trial| trial.duplicated)),
    ];
    let mut metrics = section::metrics(&plan.queues, &measured);
    metrics.extend(faults.clone());
    Ok(Findings {
        title: TITLE.to_owned(),
        metrics,
        sections: vec![section::section(plan, &measured)],
        recordings: recordings.collect(),
        faults,
        ..Findings::default()
    })
}

impl<'a> Run<'a> {
    fn new(setting: &'a Setting, plan: &'a Plan, queues: u64) -> Result<Run<'a>> {
        let suffix: String = std::iter::repeat_with(fastrand::alphanumeric).take(12).collect();
        let queues = (0..queues).map(|_| Queue::create(setting, BATCH));
        let queues = queues.collect::<Result<Vec<_>>>()?;
        let topic = format!("bench-{suffix}");
        let mut run = Run { setting, plan, topic, queues };
        let runtime = crate::runtime::current_thread()?;
        run.topic = runtime.block_on(run.subscribed())?;
        Ok(run)
    }

    /// Creates the topic with its subscriptions, and returns its ARN.
    async fn subscribed(&self) -> Result<String> {
        let mut publisher = Publisher::new(&self.setting.endpoint)?;
        let topic = publisher.create_topic(&self.topic).await?;
        for queue in &self.queues {
            let subscribed = publisher.subscribe(&topic, &queue.arn()?, !self.plan.envelope).await;
            if let Err(error) = subscribed {
                // The first error is what is reported.
                let _ = publisher.delete_topic(&topic).await;
                return Err(error);
            }
        }
        Ok(topic)
    }

    /// Does the work and deletes the topic, also if it failed or was ended.
    async fn and_remove<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let outcome = work.await;
        let deleted = Publisher::new(&self.setting.endpoint)?.delete_topic(&self.topic).await;
        let done = outcome?;
        deleted?;
        Ok(done)
    }

    async fn trial(&self, way: Way, messages: u64) -> Result<Trial> {
        let mut publishers = Vec::new();
        for _ in 0..self.plan.connections {
            let mut publisher = Publisher::new(&self.setting.endpoint)?;
            publisher.connect().await?;
            publishers.push(publisher);
        }
        let server_cpu = || self.setting.server_pid.and_then(|pid| process::cpu_time(pid).ok());
        let (began, started, cpu) = (process::now(), Instant::now(), server_cpu());
        let latencies = self.publish(publishers, way, messages).await?;
        let taken = started.elapsed();
        let server_cpu = server_cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
        let (lost, duplicated) = self.verify(messages).await?;
        let queues = self.queues.len() as u64;
        Ok(Trial { queues, way, began, taken, server_cpu, latencies, lost, duplicated })
    }

    /// Every connection takes the next messages as soon as it has an answer.
    async fn publish(
        &self,
        publishers: Vec<Publisher>,
        way: Way,
        messages: u64,
    ) -> Result<Latencies> {
        let next = Arc::new(AtomicU64::new(0));
        let urls: Arc<[String]> = self.queues.iter().map(|queue| queue.url().to_owned()).collect();
        let mut tasks = JoinSet::new();
        for mut publisher in publishers {
            let (next, urls, topic) = (Arc::clone(&next), Arc::clone(&urls), self.topic.clone());
            let (size, progress) = (self.plan.size, self.setting.progress.clone());
            let chunk = if way == Way::Single { 1 } else { BATCH };
            tasks.spawn_local(async move {
                let mut latencies = Latencies::new();
                loop {
                    let first = next.fetch_add(chunk, Relaxed);
                    let bodies: Vec<String> =
                        (first..messages.min(first + chunk)).map(|n| body(n, size)).collect();
                    if bodies.is_empty() {
                        return anyhow::Ok(latencies);
                    }
                    if way == Way::Direct {
                        for url in urls.iter() {
                            latencies.record(Verb::Send, publisher.send(url, &bodies).await?);
                        }
                    } else {
                        latencies.record(Verb::Send, publisher.publish(&topic, &bodies).await?);
                    }
                    progress.at(first as f64 / messages as f64, String::new);
                }
            });
        }
        let mut latencies = Latencies::new();
        while let Some(joined) = tasks.join_next().await {
            latencies.merge(&joined.context("a connection's task")??);
        }
        Ok(latencies)
    }

    /// Receives all messages of every queue: how many are missing, and how many came twice.
    async fn verify(&self, messages: u64) -> Result<(u64, u64)> {
        let mut tasks = JoinSet::new();
        for queue in &self.queues {
            tasks.spawn(missing(queue.peer(TransportOptions::default())?, messages));
        }
        let (mut lost, mut duplicated) = (0, 0);
        while let Some(joined) = tasks.join_next().await {
            let found = joined.context("a queue's task")??;
            (lost, duplicated) = (lost + found.0, duplicated + found.1);
        }
        Ok((lost, duplicated))
    }

    /// Publishes to the topic and sends to a queue of it in turns, over one connection.
    async fn compare_latency(&self, measured: &mut Measured) -> Result<()> {
        let mut publisher = Publisher::new(&self.setting.endpoint)?;
        publisher.connect().await?;
        let url = self.queues.first().context("no queue")?.url().to_owned();
        for number in 0..self.setting.count(COMPARED, COMPARED_LEAST) {
            let bodies = [body(number, self.plan.size)];
            let taken = publisher.publish(&self.topic, &bodies).await?;
            measured.publishes.record(Verb::Send, taken);
            measured.sends.record(Verb::Send, publisher.send(&url, &bodies).await?);
        }
        Ok(())
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Single => "single",
            Way::Batch => "batch",
        }
    }
}

impl Trial {
    fn deliveries(&self, messages: u64) -> u64 {
        messages * self.queues
    }
}

impl Measured {
    fn of(&self, queues: u64, way: Way) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| (trial.queues, trial.way) == (queues, way))
    }
}

/// A body of so many bytes, which begins with the message's number.
fn body(number: u64, size_bytes: usize) -> String {
    let mut body = format!("{number:0NUMBER_DIGITS$}");
    body.extend(std::iter::repeat_n('x', size_bytes.saturating_sub(NUMBER_DIGITS)));
    body
}

/// The number that a body begins with, whether it is the bare message or in a document.
fn number_of(body: &str) -> Option<u64> {
    const MEMBER: &str = "\"Message\":\"";
    let start = if body.starts_with('{') { body.find(MEMBER)? + MEMBER.len() } else { 0 };
    body.get(start..start + NUMBER_DIGITS)?.parse().ok()
}

/// Receives messages numbered from 0 until all have come, or nothing comes any more. Returns how
/// many are missing, and how many came twice.
async fn missing(peer: impl Peer, messages: u64) -> Result<(u64, u64)> {
    let request = ReceiveRequest {
        max: BATCH as u32,
        wait: Duration::ZERO,
        visibility: None,
        attributes: SystemAttributes::None,
    };
    let mut has_come = vec![false; usize::try_from(messages)?];
    let (mut left, mut duplicated, mut last) = (messages, 0, time::Instant::now());
    loop {
        let received = peer.receive(request).await.context("receiving")?;
        if received.is_empty() {
            if left == 0 || last.elapsed() > PATIENCE {
                return Ok((left, duplicated));
            }
            time::sleep(PAUSE).await;
            continue;
        }
        last = time::Instant::now();
        for delivery in &received {
            let number = number_of(&delivery.body).and_then(|number| usize::try_from(number).ok());
            match number.and_then(|number| has_come.get_mut(number)) {
                None => bail!("a message came that nobody sent: {}", delivery.body),
                Some(true) => duplicated += 1,
                Some(seen) => {
                    *seen = true;
                    left -= 1;
                }
            }
        }
        let handles: Vec<_> = received.into_iter().map(|delivery| delivery.handle).collect();
        for answer in peer.delete(&handles).await.context("deleting")? {
            answer.context("deleting")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::MemoryPeer;

    use super::*;

    #[test]
    fn the_number_is_found_in_a_bare_message_and_in_a_document() {
        let bare = body(7, 100);
        let document = format!("{{\"Type\":\"Notification\",\"Message\":\"{bare}\"}}");

        assert_eq!((bare.len(), number_of(&bare), number_of(&document)), (100, Some(7), Some(7)));
        assert_eq!((number_of("x"), number_of("{}")), (None, None));
    }

    async fn checked(numbers: &[u64], messages: u64) -> Result<(u64, u64)> {
        let peer = MemoryPeer::standard();
        peer.put(numbers.iter().map(|number| body(*number, 32)));
        peer.set_visibility(Duration::from_secs(3600));
        missing(peer, messages).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_or_came_twice_is_counted() {
        assert_eq!(checked(&[0, 1, 2], 3).await.unwrap(), (0, 0));
        assert_eq!(checked(&[0, 2, 2], 4).await.unwrap(), (2, 1));
        assert!(checked(&[5], 3).await.is_err());
    }
}
