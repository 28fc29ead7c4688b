//! Builds what the server serves: journal, shard, services.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use millrace_broker::{OpenShard, Position, Shard, Shards};
use millrace_core::{Clock, ShardId, SystemClock};
use millrace_engine::{Finished, Replay};
use millrace_journal::{
    Durability, GroupCommit, GroupOptions, JournalStore, LocalOptions, LocalStore, MemoryStore,
    Owner, RealFileSystem,
};
use millrace_metrics::{MetricStore, StoreError};
use millrace_otel::Tracer;
use millrace_server::{BoxFuture, Drain, Hooks};
use millrace_services::{
    AccessKeys, DeclaredQueue, Floors, Monitor, Options, QueueAccess, SqsOptions, TopicSigner,
    convert_alarms,
};
use prometheus_client::collector::Collector;
use tokio::task::JoinSet;

use crate::{
    config::{Config, UsageError},
    figures::ServerFigures,
    logging,
    memory::Bounds,
    push, tables,
};

/// The only one.
const SHARD: ShardId = ShardId(0);

/// The services and what belongs to them.
pub(crate) struct Services {
    pub(crate) service: Arc<millrace_services::Services>,
    pub(crate) shards: Arc<Shards>,
    pub(crate) hooks: Hooks,
    /// To be called after the drain: makes everything durable and says if that failed.
    pub(crate) close: Box<dyn FnOnce() -> anyhow::Result<()>>,
}

/// Facts about the process around the services, which they show.
#[derive(Default)]
pub(crate) struct Surroundings {
    pub(crate) figures: Option<ServerFigures>,
    pub(crate) console_url: Option<String>,
    /// Where clients on this machine reach the server.
    pub(crate) endpoint: String,
}

/// Opens the data and the services on it. Held requests are answered when `drain` starts.
pub(crate) fn open_services(
    config: &Config,
    access_keys: &AccessKeys,
    drain: &Drain,
    tracer: &Tracer,
    surroundings: Surroundings,
) -> anyhow::Result<Services> {
    let clock = Arc::new(SystemClock::new());
    let (log, replayed, end) = open_log(config)?;
    clock.at_least(replayed.latest);
    log_replay(&replayed, &log);
    let committer = log.spawn_committer().context("starting the journal's threads")?;
    let options = millrace_broker::Options {
        in_flight_limit: config.limits.in_flight,
        purge_cool_down: config.limits.purge_cool_down,
        ..millrace_broker::Options::default()
    };
    let open =
        OpenShard { id: SHARD, log: log.clone(), options, replayed, random: Box::new(random_bits) };
    let shards = Shards::of_one(clock.clone(), open)?;
    let tables = tables::open(config, &*shards.home()?, end)?;
    shards.spawn_threads().context("starting the broker's threads")?;
    let monitor = start_monitor(config, &shards)?;
    let push = push::start(config, &shards)?;
    let signer = TopicSigner::open(shards.clone()).context("reading the key of signatures")?;
    let floors = Floors {
        shards: shards.clone(),
        monitor: monitor.clone(),
        tables: tables.tables().cloned(),
        push: Some(push.clone()),
    };
    let services = Arc::new(millrace_services::Services::new(
        floors,
        &Options {
            console_url: surroundings.console_url,
            endpoint: surroundings.endpoint,
            signer: millrace_services::Signer(Some(Arc::new(signer))),
            ..options_of(config, access_keys, tracer)
        },
        surroundings.figures.map(|figures| Box::new(figures) as Box<dyn Collector>),
    ));
    declare_queues(config, &services, &log)?;
    declare_topics(config, &services, &log)?;

    let hooks = hooks(&shards, clock, drain);
    let closing = shards.clone();
    let close = Box::new(move || {
        // Messages whose attempts are cut off go back, which the journal must still take.
        push.close();
        monitor.close();
        if let Some(tables) = tables.tables() {
            tables.close();
        }
        closing.close();
        committer.join().map_err(|_| anyhow!("the journal's thread panicked"))?;
        match log.ended() {
            None => Ok(()),
            Some(reason) => Err(anyhow!("journal: {reason}")),
        }
    });
    Ok(Services { service: services, shards, hooks, close })
}

fn log_replay(replayed: &Finished, log: &GroupCommit) {
    tracing::info!(
        queues = replayed.queues.len(),
        messages = replayed.queues.iter().map(|queue| queue.queue.counts().total()).sum::<u64>(),
        epoch = log.opened().epoch.0,
        "journal replayed"
    );
    for queue in replayed.queues.iter().filter(|queue| queue.position.is_none()) {
        let (name, messages) = (&queue.definition.name, queue.queue.counts().total());
        tracing::error!(
            queue = name,
            messages,
            "the journal has lost what queue these messages are of: they are in one of this name"
        );
    }
    if let Some(torn) = log.opened().torn_tail {
        tracing::warn!(
            segment = %torn.segment,
            offset = torn.offset,
            bytes = torn.bytes,
            "torn tail cut off: what was being written when the last run ended"
        );
    }
}

/// What the server's workers run beside their connections, and whether the journal takes changes.
fn hooks(shards: &Arc<Shards>, clock: Arc<SystemClock>, drain: &Drain) -> Hooks {
    let (shards, drain) = (shards.clone(), drain.clone());
    let ready = shards.clone();
    let per_worker = move |worker| -> BoxFuture {
        let driver = millrace_broker::commit_driver(tokio::task::yield_now);
        let waits = shards.clone();
        let (shards, drain, clock) = (shards.clone(), drain.clone(), clock.clone());
        Box::pin(async move {
            let drained = async {
                drain.started().await;
                shards.drain();
            };
            let watched = async {
                if worker == 0 {
                    watch_clock(&clock, &shards).await;
                }
            };
            // A task of its own: the driver is woken by each commit, and this need not be.
            let mut overdue = JoinSet::new();
            overdue.spawn(end_overdue_waits(waits));
            tokio::join!(driver, drained, watched);
        })
    };
    Hooks {
        per_worker: Some(Arc::new(per_worker)),
        is_ready: Arc::new(move || ready.take_changes()),
        ..Hooks::default()
    }
}

/// Answers requests whose commit takes too long. On every worker, for one may be held up by the
/// very disk that the others wait for.
async fn end_overdue_waits(shards: Arc<Shards>) {
    loop {
        tokio::time::sleep(shards.end_overdue_waits()).await;
    }
}

/// How often the wall's clock is looked at.
const CLOCK_PAUSE: Duration = Duration::from_secs(10);
/// The shortest suspend that counts.
const SUSPEND_LEAST: Duration = Duration::from_millis(500);
/// What it may be off by without a word.
const CLOCK_SLACK_MS: u64 = 5000;

/// Moves our clock on by the time that the machine was suspended: it passed for everybody else.
///
/// Tells when the wall's clock was set. Ours goes on as it did until the next start, which goes by
/// the wall's again: it is then that messages may be older, or timeouts over, all at once.
async fn watch_clock(clock: &SystemClock, shards: &Shards) {
    let mut suspended = suspended_so_far();
    let mut told_ms = 0;
    loop {
        let slept = suspended_so_far().saturating_sub(suspended);
        // Not what lies between two looks at two clocks.
        if slept > SUSPEND_LEAST {
            clock.advance(slept);
            shards.clock_leapt();
            suspended += slept;
        }
        let lag_ms = clock.lag_ms();
        if lag_ms.abs_diff(told_ms) > CLOCK_SLACK_MS {
            told_ms = lag_ms;
            let ahead_seconds = lag_ms as f64 / 1e3;
            tracing::warn!(ahead_seconds, "the system's clock is not the server's");
        }
        tokio::time::sleep(CLOCK_PAUSE).await;
    }
}

/// Since the machine was started.
fn suspended_so_far() -> Duration {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let time = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        time(ClockId::Boottime).saturating_sub(time(ClockId::Monotonic))
    }
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

/// From the system's generator: receipt handles are sealed with it.
fn random_bits() -> u128 {
    let mut bits = [0; 16];
    match getrandom::fill(&mut bits) {
        Ok(()) => u128::from_ne_bytes(bits),
        Err(error) => {
            tracing::error!(%error, "the system gives no random bits");
            logging::finish();
            std::process::abort()
        }
    }
}

/// Opens the history of metrics, gathers into it, and evaluates alarms.
fn start_monitor(config: &Config, shards: &Arc<Shards>) -> anyhow::Result<Arc<Monitor>> {
    let path = config.data.join("metrics");
    let dir = (config.durability != Durability::Memory).then_some(path.as_path());
    let now = shards.now();
    let store = match MetricStore::open(dir, now) {
        // On a full disk, say: queues matter more than their history.
        Err(StoreError::Io(error)) => {
            let dir = path.display();
            tracing::warn!(%dir, %error, "metrics of this run are kept in memory only");
            MetricStore::open(None, now)
        }
        opened => opened,
    };
    let home = shards.home()?;
    if let Some(dir) = dir {
        // As a whole before anybody changes an alarm, or later tries would undo that.
        convert_alarms(&home, dir).with_context(|| {
            let file = path.join("alarms.log");
            let file = file.display();
            format!("taking over alarms of an earlier version (without {file}, the server starts without them)")
        })?;
    }
    let store = store.context("opening the metrics")?;
    let memory_limits = Bounds::of(config.limits.memory_bytes).memory_limits();
    let store = Arc::new(store.with_memory_limits(memory_limits));
    let queue_access = match config.credentials.is_empty() {
        true => QueueAccess::Open,
        false => QueueAccess::ByPolicy,
    };
    let monitor = Monitor::start(shards.clone(), store, queue_access);
    Ok(Arc::new(monitor.context("starting the threads of metrics")?))
}

/// Opens the journal and rebuilds the queues from it. Returns also where it ended.
fn open_log(config: &Config) -> anyhow::Result<(Arc<GroupCommit>, Finished, Position)> {
    let mut replay = Replay::default();
    let mut failure = None;
    let recovered = journal_store(config).recover(&mut |record| {
        if failure.is_none() {
            let applied = replay.apply(record.index, record.position.0, record.record_len);
            failure = applied.err();
        }
    });
    let unowned = recovered.context("opening the journal")?;
    if let Some(failure) = failure {
        return Err(failure).context("replaying the journal");
    }
    let end = unowned.end().tail;
    let journal = unowned.start_epoch(&owner(config)).context("opening the journal")?;
    let bounds = Bounds::of(config.limits.memory_bytes).group_options();
    let options = GroupOptions { settle_limit: config.limits.commit_wait, ..bounds };
    let log = GroupCommit::new(journal, options);
    replay.recover_definitions(&config.region, &config.account);
    let first_seq = Shard::first_seq(SHARD, log.opened().epoch.0)?;
    Ok((log, replay.finish(first_seq), end))
}

/// Where the journal is kept. Nothing else asks of what kind it is.
fn journal_store(config: &Config) -> Box<dyn JournalStore> {
    let options = LocalOptions { durability: config.durability, ..LocalOptions::default() };
    match config.durability {
        Durability::Memory => Box::new(MemoryStore::new(options.segment_bytes)),
        Durability::Fsync | Durability::Os => {
            Box::new(LocalStore::new(RealFileSystem::new(), &config.journal_dir(), options))
        }
    }
}

/// This process, as the journal names it.
fn owner(config: &Config) -> Owner {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Owner {
        nonce: random_bits().to_ne_bytes(),
        node: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        url: config.public_url.clone().unwrap_or_default(),
        opened_at_ms: since_1970.as_millis() as u64,
    }
}

fn options_of(config: &Config, access_keys: &AccessKeys, tracer: &Tracer) -> Options {
    let public_host = config.public_url.as_deref().and_then(|url| url.split("://").nth(1));
    let public_host = public_host.map(|rest| rest.split('/').next().unwrap_or(rest).to_owned());
    Options {
        region: config.region.clone(),
        account: config.account.clone(),
        access_keys: access_keys.clone(),
        host_names: public_host.into_iter().collect(),
        is_test: config.is_test,
        metrics: config.metrics.clone(),
        projects: config.projects.clone(),
        tracer: tracer.clone(),
        sqs: SqsOptions {
            public_url: config.public_url.clone(),
            recreate_cool_down: config.limits.recreate_cool_down,
        },
        console_url: None,
        endpoint: String::new(),
        signer: millrace_services::Signer::default(),
        signs_in_queues: config.signs_in_queues,
    }
}

/// Creates the configured queues before anybody can ask for them.
fn declare_queues(
    config: &Config,
    services: &millrace_services::Services,
    log: &GroupCommit,
) -> anyhow::Result<()> {
    if config.queues.is_empty() {
        return Ok(());
    }
    let declared: Vec<DeclaredQueue> = config
        .queues
        .iter()
        .map(|queue| DeclaredQueue {
            region: queue.region.clone().unwrap_or_else(|| config.region.clone()),
            account: queue.account.clone().unwrap_or_else(|| config.account.clone()),
            name: queue.name.clone(),
            attributes: queue.attributes.clone(),
            tags: queue.tags.iter().cloned().collect(),
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for queue in &declared {
        let Err(error) = runtime.block_on(services.declare_queue(queue)) else { continue };
        if let Some(reason) = log.ended() {
            bail!("journal: {reason}");
        }
        let text = format!("queue {} cannot be as configured: {}", queue.name, error.message);
        if error.status < 500 {
            return Err(UsageError(text).into());
        }
        bail!(text);
    }
    tracing::info!(queues = declared.len(), "configured queues are there");
    Ok(())
}

/// Creates the configured topics and their subscriptions before anybody can ask for them.
fn declare_topics(
    config: &Config,
    services: &millrace_services::Services,
    log: &GroupCommit,
) -> anyhow::Result<()> {
    if config.topics.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for topic in &config.topics {
        let Err(error) = runtime.block_on(services.declare_topic(topic)) else { continue };
        if let Some(reason) = log.ended() {
            bail!("journal: {reason}");
        }
        let text = format!("topic {} cannot be as configured: {}", topic.name, error.message);
        if error.status < 500 {
            return Err(UsageError(text).into());
        }
        bail!(text);
    }
    tracing::info!(topics = config.topics.len(), "configured topics are there");
    Ok(())
}
