//! `drain`: what keeping connections is worth.
//!
//! Workers empty a queue: receive one, delete it, again. Once over kept connections and once with
//! a new one for each request, over HTTP and HTTPS, with many workers and with few. Time tells
//! only half of it: where the network is what is waited for, the cost shows in CPU alone.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use millrace_client::{
    Peer, ReceiveRequest, SystemAttributes, sqs::SqsPeer, transport::TransportOptions,
};
use tokio::{runtime, task::JoinSet};

use super::{
    Findings, Options, Setting, conduct, connections::Connections, pc::gain, queue::Queue,
};
use crate::{
    certificate::Certificate,
    process,
    report::{
        Axis, Bar, Better, Chart, Metric, Section, Shape, Table, Unit, microseconds, thousands,
    },
    server::{Server, Settings},
    tls::Trust,
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
    /// Messages to fill in before each run, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000)]
    pub(crate) backlog: u64,
    /// Workers of each run
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "10,2", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) workers: Vec<u64>,
    /// Whether connections are kept
    #[arg(long, value_enum, value_delimiter = ',', default_value = "on,off")]
    pub(crate) pool: Vec<Pool>,
    /// How the endpoint is spoken to
    #[arg(long, value_enum, value_delimiter = ',', default_value = "http,https")]
    pub(crate) scheme: Vec<Scheme>,
    /// The endpoint's TLS side [default: a server of our own, started for this run]
    #[arg(long, value_name = "URL")]
    pub(crate) https_endpoint: Option<String>,
    /// Messages of a request
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10))]
    pub(crate) batch: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pool {
    /// Connections are kept
    On,
    /// Each request opens its own
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// One way to empty the queue, measured.
struct Measured {
    workers: u64,
    pool: Pool,
    scheme: Scheme,
    messages: u64,
    taken: Duration,
    own_cpu: Duration,
    server_cpu: Option<Duration>,
    connections: Connections,
}

impl Default for Plan {
    /// The flags' defaults.
    fn default() -> Plan {
        Plan {
            backlog: 20_000,
            workers: vec![10, 2],
            pool: vec![Pool::On, Pool::Off],
            scheme: vec![Scheme::Http, Scheme::Https],
            https_endpoint: None,
            batch: 1,
            size: 1024,
        }
    }
}

/// Fewer take too little time to be measured.
const BACKLOG_LEAST: u64 = 1000;

/// A TLS endpoint: somebody's, or a server of our own that ends with it.
struct Secure {
    setting: Setting,
    own: Option<(Server, tempfile::TempDir)>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    conduct("drain", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let mut all = Vec::new();
    let mut notes = vec![
        "CPU is that of a message, user and system: of this process, and of the server's if it \
         runs here. Filling the queue is not counted."
            .to_owned(),
    ];
    for scheme in &plan.scheme {
        let secure = match scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Secure::find(setting, plan)?),
        };
        if secure.as_ref().is_some_and(|secure| secure.own.is_some()) {
            notes
                .push("HTTPS was measured against a server of our own, started for it.".to_owned());
        }
        let setting = secure.as_ref().map_or(setting, |secure| &secure.setting);
        for pool in &plan.pool {
            for workers in &plan.workers {
                all.push(measure(setting, plan, *workers, *pool, *scheme)?);
            }
        }
    }
    let mut findings = Findings { title: "Draining a queue".to_owned(), ..Findings::default() };
    all.iter().for_each(|measured| findings.metrics.extend(measured.metrics()));
    findings.sections.push(Section {
        id: "drain".to_owned(),
        title: "Kept connections".to_owned(),
        question: format!(
            "How long does it take to empty a queue of {} messages, and what does a message cost, \
             when connections are kept and when each request opens its own?",
            thousands(all.first().map_or(0.0, |measured| measured.messages as f64))
        ),
        finding: finding(&all),
        shapes: shapes(&all),
        charts: charts(&all),
        tables: vec![table(&all)],
        notes,
        ..Section::default()
    });
    Ok(findings)
}

impl Secure {
    fn find(setting: &Setting, plan: &Plan) -> Result<Secure> {
        let at = |url: &str, keys, trust: &Trust, pid| {
            let secure = Setting::new(url, keys, trust, pid, setting.scale)?;
            anyhow::Ok(Setting { progress: setting.progress.clone(), ..secure })
        };
        if let Some(url) = &plan.https_endpoint {
            let setting = at(url, setting.keys.clone(), &setting.trust, None)?;
            return Ok(Secure { setting, own: None });
        }
        if setting.endpoint.tls.is_some() {
            return Ok(Secure { setting: setting.clone(), own: None });
        }
        let directory = tempfile::tempdir().context("making a directory")?;
        let server = Server::start(&Settings {
            binary: std::env::current_exe().context("finding this program")?,
            data: PathBuf::from(directory.path()).join("data"),
            durability: "fsync",
            keys: None,
            certificate: Some(Arc::new(Certificate::new()?)),
        })?;
        let setting = at(server.url(), None, &Trust::anyone(), Some(server.pid()))?;
        Ok(Secure { setting, own: Some((server, directory)) })
    }
}

fn measure(
    setting: &Setting,
    plan: &Plan,
    workers: u64,
    pool: Pool,
    scheme: Scheme,
) -> Result<Measured> {
    let name = format!("{} {workers} {}", scheme.name(), pool.name());
    setting.progress.begin(&format!("drain, {name}"));
    let messages = setting.count(plan.backlog, BACKLOG_LEAST);
    let queue = Queue::create(setting)?;
    queue.fill(messages, plan.size)?;
    let mut transport = match pool {
        Pool::On => TransportOptions::default(),
        Pool::Off => TransportOptions::naive(),
    };
    transport.lane_connections = workers as usize;
    let peer = queue.peer(transport)?;
    let left = Arc::new(AtomicU64::new(messages));
    let server_cpu = || setting.server_pid.and_then(|pid| process::cpu_time(pid).ok());
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let before = (Instant::now(), process::own_cpu_time(), server_cpu());
    let outcome = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(work(peer.clone(), Arc::clone(&left), plan.batch as u32));
        }
        while let Some(joined) = tasks.join_next().await {
            joined.context("a worker panicked")??;
        }
        anyhow::Ok(())
    });
    let (taken, own_cpu) = (before.0.elapsed(), process::own_cpu_time() - before.1);
    let server_cpu = server_cpu().zip(before.2).map(|(after, before)| after - before);
    queue.remove()?;
    outcome?;
    let ledger = peer.client().transport().ledger();
    let connections = Connections::between(&Default::default(), &ledger);
    Ok(Measured { workers, pool, scheme, messages, taken, own_cpu, server_cpu, connections })
}

/// Receives and deletes until all have been deleted by somebody.
async fn work(peer: SqsPeer, left: Arc<AtomicU64>, max: u32) -> Result<()> {
    let request = ReceiveRequest {
        max,
        wait: Duration::ZERO,
        visibility: None,
        attributes: SystemAttributes::None,
    };
    while left.load(Relaxed) > 0 {
        let received = peer.receive(request).await.context("receiving")?;
        if received.is_empty() {
            // The others hold what is left.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let handles: Vec<_> = received.into_iter().map(|delivery| delivery.handle).collect();
        let answers = peer.delete(&handles).await.context("deleting")?;
        for answer in answers {
            answer.context("deleting")?;
            left.fetch_sub(1, Relaxed);
        }
    }
    Ok(())
}

impl Pool {
    fn name(self) -> &'static str {
        match self {
            Pool::On => "kept",
            Pool::Off => "new each time",
        }
    }
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "HTTP",
            Scheme::Https => "HTTPS",
        }
    }
}

impl Measured {
    fn rate(&self) -> f64 {
        self.messages as f64 / self.taken.as_secs_f64().max(1e-9)
    }

    fn each_us(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.messages as f64
    }

    fn name(&self) -> String {
        let Measured { workers, pool, scheme, .. } = self;
        format!("{}, {workers} workers, {}", scheme.name(), pool.name())
    }

    fn metrics(&self) -> Vec<Metric> {
        let pool = if self.pool == Pool::On { "kept" } else { "new" };
        let scheme = self.scheme.name().to_lowercase();
        let front = format!("drain.{scheme}.{pool}.{}", self.workers);
        let cpu = |who: &str, cpu| {
            let name = format!("{front}.{who}_cpu");
            Metric::new(&name, self.each_us(cpu), Unit::Microseconds, Better::Lower)
        };
        let seconds = self.taken.as_secs_f64();
        let mut metrics = vec![
            Metric::rate(&format!("{front}.rate"), self.rate()),
            Metric::new(&format!("{front}.time"), seconds, Unit::Seconds, Better::Lower),
            cpu("client", self.own_cpu),
        ];
        metrics.extend(self.server_cpu.map(|server| cpu("server", server)));
        metrics.extend(self.connections.metrics(&front));
        metrics
    }
}

/// The few workers with kept connections and the many without, over HTTPS if it was measured.
fn extremes(all: &[Measured]) -> Option<(&Measured, &Measured)> {
    let is_tls = |measured: &&Measured| measured.scheme == Scheme::Https;
    let has_tls = all.iter().any(|measured| is_tls(&measured));
    let of = |pool| all.iter().filter(move |one| one.pool == pool && (!has_tls || is_tls(one)));
    let few = of(Pool::On).min_by_key(|measured| measured.workers)?;
    let many = of(Pool::Off).max_by_key(|measured| measured.workers)?;
    Some((few, many))
}

fn finding(all: &[Measured]) -> String {
    let Some((few, many)) = extremes(all) else {
        let parts = all.iter().map(|one| format!("{}: {}/s", one.name(), thousands(one.rate())));
        return format!("{}.", parts.collect::<Vec<_>>().join("; "));
    };
    format!(
        "Over {}, {} workers that keep their connections take {} messages a second through at {} \
         of client CPU each; {} workers that do not, {} at {}.",
        few.scheme.name(),
        few.workers,
        thousands(few.rate()),
        microseconds(few.each_us(few.own_cpu)),
        many.workers,
        thousands(many.rate()),
        microseconds(many.each_us(many.own_cpu)),
    )
}

fn shapes(all: &[Measured]) -> Vec<Shape> {
    let Some((few, many)) = extremes(all) else { return Vec::new() };
    let expected = format!(
        "{}: {} workers with kept connections beat {} without",
        few.scheme.name(),
        few.workers,
        many.workers
    );
    vec![gain(&expected, few.rate() / many.rate().max(1e-9), 1.0)]
}

fn charts(all: &[Measured]) -> Vec<Chart> {
    let bars = |value: &dyn Fn(&Measured) -> f64, text: &dyn Fn(f64) -> String| {
        let bars = all.iter().map(|measured| Bar {
            label: measured.name(),
            value: value(measured),
            text: text(value(measured)),
            series: measured.pool.name().to_owned(),
        });
        bars.collect()
    };
    vec![
        Chart::Bars {
            title: "Messages a second".to_owned(),
            axis: Axis::linear("messages/s"),
            bars: bars(&Measured::rate, &|rate| format!("{}/s", thousands(rate))),
        },
        Chart::Bars {
            title: "CPU of a message, client and server".to_owned(),
            axis: Axis::linear("µs"),
            bars: bars(
                &|one| one.each_us(one.own_cpu + one.server_cpu.unwrap_or_default()),
                &microseconds,
            ),
        },
    ]
}

fn table(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "scheme",
            "#workers",
            "connections",
            "#time",
            "#messages/s",
            "#client CPU",
            "#server CPU",
            "#opened",
            "#to open",
        ],
    );
    for measured in all {
        let server = measured.server_cpu.map(|cpu| measured.each_us(cpu));
        table.row([
            measured.scheme.name().to_owned(),
            measured.workers.to_string(),
            measured.pool.name().to_owned(),
            microseconds(measured.taken.as_secs_f64() * 1e6),
            thousands(measured.rate()),
            microseconds(measured.each_us(measured.own_cpu)),
            server.map_or("–".to_owned(), microseconds),
            thousands(measured.connections.opened as f64),
            measured.connections.handshake(),
        ]);
    }
    table
}
