//! `poll`: three ways to work off messages whose handlers take long.
//!
//! - `serial`: each consumer receives, handles what came one by one, pauses, receives again.
//! - `timer`: a timer fires for each consumer whatever else goes on, and takes a thread of a pool
//!   that grows slowly, as .NET's did: what is handled at a time is what the pool has, not what
//!   was asked for.
//! - `worker`: the worker library, which receives as handlers become free.

mod models;
mod section;

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use millrace_client::transport::TransportOptions;
use millrace_process::parse_duration;
use models::{Consumer, Counters};
use section::{front, name};
use tokio::time::{self, sleep};

use super::{Findings, Flags, Setting, conduct, parts::Parts, queue::Queue, values::distinct};
use crate::{delay::Delay, progress::Progress, report::Recording};

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Messages in the queue, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: u64,
    /// Consumers of the models serial and timer
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) consumers: u64,
    /// How long a message is handled; never scaled
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub(crate) handler: Duration,
    /// Time between the polls of a consumer
    #[arg(long, default_value = "100ms", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Threads that the pool of the model timer begins with
    #[arg(long, value_name = "NUMBER", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) threads: u64,
    /// Add a round-trip time to every request [default: 70ms if the endpoint is on this machine]
    #[arg(long, value_parser = parse_duration)]
    pub(crate) delay: Option<Duration>,
    /// Messages to ask for at a time; no peer gives more than it can
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "1,30", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) batch: Vec<u64>,
    /// Handlers that the worker may run at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 512)]
    pub(crate) concurrency: usize,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "serial,timer,worker")]
    pub(crate) model: Vec<Model>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Model {
    /// Receive, handle one by one, pause
    Serial,
    /// A timer for each consumer, handlers on a pool that grows slowly
    Timer,
    /// The worker library
    Worker,
}

/// One model, measured.
struct Measured {
    model: Model,
    /// Messages asked for at a time; the worker decides for itself.
    batch: Option<u64>,
    messages: u64,
    taken: Duration,
    /// Time spent in handlers, all of them together.
    handled: Duration,
    /// The most handlers at a time.
    peak: u64,
    duplicates: u64,
    /// Requests; the worker's are its own business.
    requests: Option<Requests>,
    recordings: Vec<Recording>,
}

/// The requests of a run.
#[derive(Clone, Copy)]
struct Requests {
    polls: u64,
    /// Polls that brought nothing.
    empty: u64,
    deletes: u64,
}

const MESSAGES_LEAST: u64 = 20;
/// More than any model has requests under way.
const LANE_CONNECTIONS: usize = 128;
/// How far the experiment's queue was is not known. With this and twelve threads to begin with the
/// timer model takes about as long as it did there.
const ROUND_TRIP: Duration = Duration::from_millis(70);
/// Beyond what a handler takes, nothing is done for so long at most.
const PATIENCE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(100);

pub(crate) fn run(flags: &Flags<Plan>) -> Result<()> {
    distinct("--batch", &flags.plan.batch)?;
    distinct("--model", &flags.plan.model)?;
    conduct("poll", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let round_trip = plan.round_trip(setting);
    let delay = Delay::put_before(&mut setting.endpoint.clone(), round_trip)?;
    let connect_to = delay.as_ref().map(|delay| delay.address);
    let runs = plan.model.iter().flat_map(|model| plan.batches(*model));
    let parts = Parts::measure(&setting.progress, runs, |(model, batch)| {
        measure(setting, connect_to, plan, model, batch)
    })?;
    let mut findings = Findings {
        title: "Working off slow messages".to_owned(),
        metrics: parts.all.iter().flat_map(Measured::metrics).collect(),
        sections: vec![section::section(&parts.all, plan, round_trip)],
        ..Findings::default()
    };
    findings.note_failure(&parts);
    findings.recordings = parts.all.into_iter().flat_map(|one| one.recordings).collect();
    Ok(findings)
}

impl Plan {
    /// What a model is to be measured with; how much the worker receives is not asked of us.
    fn batches(&self, model: Model) -> Vec<(Model, Option<u64>)> {
        match model {
            Model::Worker => vec![(model, None)],
            Model::Serial | Model::Timer => {
                self.batch.iter().map(|batch| (model, Some(*batch))).collect()
            }
        }
    }

    fn round_trip(&self, setting: &Setting) -> Duration {
        let is_here = setting.endpoint.address.ip().is_loopback();
        self.delay.unwrap_or(if is_here { ROUND_TRIP } else { Duration::ZERO })
    }
}

fn measure(
    setting: &Setting,
    connect_to: Option<SocketAddr>,
    plan: &Plan,
    model: Model,
    batch: Option<u64>,
) -> Result<Measured> {
    setting.progress.begin(&format!("poll, {}", name(model, batch)));
    let messages = setting.count(plan.messages, MESSAGES_LEAST);
    let queue = Queue::create(setting, 1)?;
    queue.fill(messages, crate::load::ID_BYTES)?;
    let mut transport = TransportOptions::default();
    transport.lane_connections = LANE_CONNECTIONS;
    transport.connect_to = connect_to;
    let counters = Arc::new(Counters::default());
    let consumer = Consumer {
        peer: queue.peer(transport)?,
        handler: plan.handler,
        batch: batch.unwrap_or(1) as u32,
        messages,
        counters: Arc::clone(&counters),
    };
    let runtime = crate::runtime::current_thread()?;
    let started = Instant::now();
    let outcome = runtime.block_on(async {
        let run = async {
            match model {
                Model::Serial => models::serial(&consumer, plan).await,
                Model::Timer => models::timer(&consumer, plan).await,
                Model::Worker => models::worker(&consumer, plan).await,
            }
        };
        let show = |progress: &Progress| {
            let done = counters.done.load(Relaxed);
            progress.at(done as f64 / messages as f64, || format!("{done} handled"));
        };
        tokio::select! {
            outcome = setting.progress.unless_ended(setting.progress.shown(show, run)) => outcome,
            error = stands_still(&counters, plan.handler.saturating_add(PATIENCE)) => Err(error),
        }
    });
    let taken = started.elapsed();
    let recordings = queue.remove(&front(model, batch));
    outcome?;
    let done = counters.done.load(Relaxed);
    if done != messages {
        bail!("{}: {done} of {messages} messages were handled", name(model, batch));
    }
    Ok(Measured {
        model,
        batch,
        messages,
        taken,
        handled: Duration::from_micros(counters.handled_us.load(Relaxed)),
        peak: counters.peak.load(Relaxed),
        duplicates: counters.duplicates.load(Relaxed),
        requests: (model != Model::Worker).then(|| Requests {
            polls: counters.polls.load(Relaxed),
            empty: counters.empty_polls.load(Relaxed),
            deletes: counters.deletes.load(Relaxed),
        }),
        recordings,
    })
}

/// Returns once no message was done for so long.
async fn stands_still(counters: &Counters, longest: Duration) -> anyhow::Error {
    let (mut last, mut since) = (0, time::Instant::now());
    while since.elapsed() <= longest {
        sleep(TURN).await;
        let done = counters.done.load(Relaxed);
        if done != last {
            (last, since) = (done, time::Instant::now());
        }
    }
    anyhow!("{last} messages were handled, and then none for {longest:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_is_not_standing_still() {
        let (counters, longest) = (Counters::default(), Duration::from_secs(61));
        let start = time::Instant::now();
        let work = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(60)).await;
                counters.done.fetch_add(1, Relaxed);
            }
        };

        let (error, ()) = tokio::join!(stands_still(&counters, longest), work);

        assert!(error.to_string().starts_with("10 messages were handled"), "{error}");
        let still = start.elapsed() - Duration::from_secs(600);
        assert!(still >= longest && still < longest + TURN * 3, "{still:?}");
    }
}
