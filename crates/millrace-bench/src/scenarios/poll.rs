//! `poll`: three ways to work off messages whose handlers take long.
//!
//! - `serial`: each consumer receives, handles what came one by one, pauses, receives again.
//! - `timer`: a timer fires for each consumer whatever else goes on, and takes a thread of a pool
//!   that grows slowly, as .NET's did: what is handled at a time is what the pool has, not what
//!   was asked for.
//! - `worker`: the worker library, which receives as handlers become free.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::{
    Peer, ReceiveRequest, SystemAttributes, sqs::SqsPeer, transport::TransportOptions,
};
use millrace_worker::{Concurrency, Outcome, Worker, each};
use tokio::{
    runtime,
    sync::Semaphore,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{Findings, Options, Setting, conduct, queue::Queue, setting::duration};
use crate::report::{
    Axis, Bar, Better, Chart, Metric, Section, Shape, Table, Unit, microseconds, thousands,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) plan: Plan,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Messages in the queue, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 2000)]
    pub(crate) messages: u64,
    /// Consumers of the models serial and timer
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) consumers: u64,
    /// How long a message is handled; never scaled
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) handler: Duration,
    /// Time between the polls of a consumer
    #[arg(long, default_value = "100ms", value_parser = duration)]
    pub(crate) interval: Duration,
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
    /// Polls, and those among them that brought nothing; the worker's are its own business.
    polls: Option<(u64, u64)>,
}

/// What the consumers of a run share.
#[derive(Default)]
struct Counters {
    done: AtomicU64,
    handled_us: AtomicU64,
    polls: AtomicU64,
    empty_polls: AtomicU64,
}

impl Default for Plan {
    /// The flags' defaults.
    fn default() -> Plan {
        Plan {
            messages: 2000,
            consumers: 8,
            handler: Duration::from_secs(1),
            interval: Duration::from_millis(100),
            batch: vec![1, 30],
            concurrency: 512,
            model: vec![Model::Serial, Model::Timer, Model::Worker],
        }
    }
}

const MESSAGES_LEAST: u64 = 20;
/// The pool begins with as many threads as there are consumers, and gets one more so often.
const POOL_GROWTH: Duration = Duration::from_millis(500);
/// Beyond what one consumer alone would take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(flags: &Flags) -> Result<()> {
    conduct("poll", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let mut all = Vec::new();
    for model in &plan.model {
        // How much the worker receives is not asked of us.
        let batches = match model {
            Model::Worker => vec![None],
            Model::Serial | Model::Timer => plan.batch.iter().copied().map(Some).collect(),
        };
        for batch in batches {
            all.push(measure(setting, plan, *model, batch)?);
        }
    }
    let mut findings =
        Findings { title: "Working off slow messages".to_owned(), ..Findings::default() };
    all.iter().for_each(|measured| findings.metrics.extend(measured.metrics()));
    findings.sections.push(section(&all, plan));
    Ok(findings)
}

fn measure(setting: &Setting, plan: &Plan, model: Model, batch: Option<u64>) -> Result<Measured> {
    setting.progress.begin(&format!("poll, {}", name(model, batch)));
    let messages = setting.count(plan.messages, MESSAGES_LEAST);
    let queue = Queue::create(setting)?;
    queue.fill(messages, crate::load::ID_BYTES)?;
    let mut transport = TransportOptions::default();
    transport.lane_connections = 128;
    let peer = queue.peer(transport)?;
    let counters = Arc::new(Counters::default());
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let longest = plan.handler.mul_f64(messages as f64) + PATIENCE;
    let started = Instant::now();
    let outcome = runtime.block_on(async {
        let run = async {
            match model {
                Model::Serial => serial(&peer, plan, batch.unwrap_or(1), messages, &counters).await,
                Model::Timer => timer(&peer, plan, batch.unwrap_or(1), messages, &counters).await,
                Model::Worker => worker(peer.clone(), plan, messages, &counters).await,
            }
        };
        let watch = async {
            loop {
                let done = counters.done.load(Relaxed);
                setting.progress.at(done as f64 / messages as f64, || format!("{done} handled"));
                sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            outcome = timeout(longest, run) => outcome.context("it took too long")?,
            () = watch => Ok(()),
        }
    });
    let taken = started.elapsed();
    let polls = match model {
        Model::Worker => None,
        Model::Serial | Model::Timer => {
            Some((counters.polls.load(Relaxed), counters.empty_polls.load(Relaxed)))
        }
    };
    queue.remove()?;
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
        polls,
    })
}

impl Counters {
    /// What every handler does: it takes its time.
    async fn handle(&self, taken: Duration) {
        let start = Instant::now();
        sleep(taken).await;
        self.handled_us.fetch_add(start.elapsed().as_micros() as u64, Relaxed);
    }

    /// One poll, and all that it brought handled one by one. Says whether anything came.
    async fn poll(&self, peer: &SqsPeer, handler: Duration, batch: u64) -> Result<bool> {
        let max = (batch as u32).min(peer.capabilities().max_receive);
        let request = ReceiveRequest {
            max,
            wait: Duration::ZERO,
            visibility: None,
            attributes: SystemAttributes::None,
        };
        let received = peer.receive(request).await.context("receiving")?;
        self.polls.fetch_add(1, Relaxed);
        if received.is_empty() {
            self.empty_polls.fetch_add(1, Relaxed);
            return Ok(false);
        }
        for delivery in received {
            self.handle(handler).await;
            let answers = peer.delete(&[delivery.handle]).await.context("deleting")?;
            answers.into_iter().next().context("no answer to the entry")?.context("deleting")?;
            self.done.fetch_add(1, Relaxed);
        }
        Ok(true)
    }
}

async fn serial(
    peer: &SqsPeer,
    plan: &Plan,
    batch: u64,
    messages: u64,
    counters: &Arc<Counters>,
) -> Result<()> {
    let mut consumers = JoinSet::new();
    for _ in 0..plan.consumers {
        let (peer, counters) = (peer.clone(), Arc::clone(counters));
        let (handler, pause) = (plan.handler, plan.interval);
        consumers.spawn(async move {
            while counters.done.load(Relaxed) < messages {
                counters.poll(&peer, handler, batch).await?;
                sleep(pause).await;
            }
            anyhow::Ok(())
        });
    }
    all_of(consumers).await
}

async fn timer(
    peer: &SqsPeer,
    plan: &Plan,
    batch: u64,
    messages: u64,
    counters: &Arc<Counters>,
) -> Result<()> {
    let pool = Arc::new(Semaphore::new(plan.consumers as usize));
    let mut consumers = JoinSet::new();
    for _ in 0..plan.consumers {
        let (peer, counters, pool) = (peer.clone(), Arc::clone(counters), Arc::clone(&pool));
        let (handler, every) = (plan.handler, plan.interval);
        consumers.spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut callbacks = JoinSet::new();
            while counters.done.load(Relaxed) < messages {
                ticks.tick().await;
                while let Some(joined) = callbacks.try_join_next() {
                    let _: bool = joined.context("a callback panicked")??;
                }
                // A tick that finds no thread is left out: callbacks would pile up without bound.
                let Ok(thread) = Arc::clone(&pool).try_acquire_owned() else { continue };
                let (peer, counters) = (peer.clone(), Arc::clone(&counters));
                callbacks.spawn(async move {
                    let outcome = counters.poll(&peer, handler, batch).await;
                    drop(thread);
                    outcome
                });
            }
            while let Some(joined) = callbacks.join_next().await {
                let _: bool = joined.context("a callback panicked")??;
            }
            anyhow::Ok(())
        });
    }
    let grow = async {
        loop {
            sleep(POOL_GROWTH).await;
            pool.add_permits(1);
        }
    };
    tokio::select! {
        outcome = all_of(consumers) => outcome,
        () = grow => Ok(()),
    }
}

async fn worker(peer: SqsPeer, plan: &Plan, messages: u64, counters: &Arc<Counters>) -> Result<()> {
    let taken = plan.handler;
    let counters = Arc::clone(counters);
    let handler = each(move |_| {
        let counters = Arc::clone(&counters);
        async move {
            counters.handle(taken).await;
            counters.done.fetch_add(1, Relaxed);
            Ok(Outcome::Ack)
        }
    });
    let options = millrace_worker::Options {
        concurrency: Concurrency::Auto { max: plan.concurrency },
        max_messages: Some(messages),
        ..millrace_worker::Options::default()
    };
    Worker::new(peer, handler, options).run().await;
    Ok(())
}

async fn all_of(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(joined) = tasks.join_next().await {
        joined.context("a consumer panicked")??;
    }
    Ok(())
}

fn name(model: Model, batch: Option<u64>) -> String {
    let model = match model {
        Model::Serial => "serial",
        Model::Timer => "timer",
        Model::Worker => "worker",
    };
    batch.map_or(model.to_owned(), |batch| format!("{model}, batch {batch}"))
}

impl Measured {
    fn name(&self) -> String {
        name(self.model, self.batch)
    }

    fn rate(&self) -> f64 {
        self.messages as f64 / self.taken.as_secs_f64().max(1e-9)
    }

    /// By Little's law: time in handlers over time passed.
    fn busy(&self) -> f64 {
        self.handled.as_secs_f64() / self.taken.as_secs_f64().max(1e-9)
    }

    fn metrics(&self) -> Vec<Metric> {
        let model = name(self.model, None);
        let front = match self.batch {
            Some(batch) => format!("poll.{model}.{batch}"),
            None => format!("poll.{model}"),
        };
        let seconds = self.taken.as_secs_f64();
        vec![
            Metric::new(&format!("{front}.time"), seconds, Unit::Seconds, Better::Lower),
            Metric::rate(&format!("{front}.rate"), self.rate()),
            Metric::new(
                &format!("{front}.busy_handlers"),
                self.busy(),
                Unit::Count,
                Better::Neither,
            ),
        ]
    }
}

fn section(all: &[Measured], plan: &Plan) -> Section {
    let best = all.iter().min_by_key(|measured| measured.taken);
    let times = all.iter().map(|one| format!("{} {:.1} s", one.name(), one.taken.as_secs_f64()));
    Section {
        id: "poll".to_owned(),
        title: "Polling models".to_owned(),
        question: format!(
            "How soon are {} messages done whose handling takes {} each, with {} consumers that \
             poll every {} ms, and with the worker?",
            all.first().map_or(0, |measured| measured.messages),
            microseconds(plan.handler.as_secs_f64() * 1e6),
            plan.consumers,
            plan.interval.as_millis()
        ),
        finding: best.map_or_else(String::new, |best| {
            let times = times.collect::<Vec<_>>().join("; ");
            format!("Soonest: {}. {times}.", best.name())
        }),
        shapes: shapes(all),
        charts: vec![chart(all)],
        tables: vec![table(all)],
        notes: vec![
            "Busy handlers is the mean of how many ran at a time: time in handlers over time \
             passed. It is what bounds the rate, not how often anybody polls. A batch is never \
             larger than the peer allows (SQS: 10)."
                .to_owned(),
        ],
        ..Section::default()
    }
}

fn shapes(all: &[Measured]) -> Vec<Shape> {
    let of = |model| all.iter().filter(move |one| one.model == model);
    let Some(worker) = of(Model::Worker).next() else { return Vec::new() };
    let others = [Model::Serial, Model::Timer].map(|model| of(model).min_by_key(|one| one.taken));
    let others = others.into_iter().flatten();
    others
        .map(|other| Shape {
            expected: format!("the worker is sooner done than {}", other.name()),
            measured: format!(
                "{:.1} s against {:.1} s",
                worker.taken.as_secs_f64(),
                other.taken.as_secs_f64()
            ),
            holds: worker.taken < other.taken,
        })
        .collect()
}

fn chart(all: &[Measured]) -> Chart {
    let bars = all.iter().map(|measured| Bar {
        label: measured.name(),
        value: measured.taken.as_secs_f64(),
        text: format!("{:.1} s", measured.taken.as_secs_f64()),
        series: name(measured.model, None),
    });
    Chart::Bars {
        title: "Time until all was handled".to_owned(),
        axis: Axis::linear("s"),
        bars: bars.collect(),
    }
}

fn table(all: &[Measured]) -> Table {
    let mut table =
        Table::new("", &["model", "#time", "#messages/s", "#busy handlers", "#polls", "#empty"]);
    for measured in all {
        let shown =
            |count: Option<u64>| count.map_or("–".to_owned(), |count| thousands(count as f64));
        table.row([
            measured.name(),
            format!("{:.2} s", measured.taken.as_secs_f64()),
            format!("{:.1}", measured.rate()),
            format!("{:.1}", measured.busy()),
            shown(measured.polls.map(|(polls, _)| polls)),
            shown(measured.polls.map(|(_, empty)| empty)),
        ]);
    }
    table
}
