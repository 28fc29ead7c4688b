//! `drain`: what keeping connections is worth.
//!
//! Workers empty a queue: receive one, delete it, again. Once over kept connections and once with
//! a new one for each request, over HTTP and HTTPS, with many workers and with few. Time tells
//! only half of it: where the network is what is waited for, the cost shows in CPU alone.

mod section;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::{Peer, ReceiveRequest, SystemAttributes, transport::TransportOptions};
use tokio::{task::JoinSet, time};

use super::{
    Findings, Flags, Setting, conduct,
    connections::Connections,
    parts::Parts,
    queue::Queue,
    values::{body_size, distinct},
};
use crate::{
    access::{Access, Interface, given_url},
    certificate::Certificate,
    leftovers::Directory,
    process,
    progress::Progress,
    report::Recording,
    server::{self, Server, Settings},
    tls::Trust,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Messages to fill in before each run, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
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
    /// Messages of a request. SQS takes 10, IronMQ 100
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) batch: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = body_size)]
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
    recordings: Vec<Recording>,
}

/// Fewer take too little time to be measured.
const BACKLOG_LEAST: u64 = 1000;
/// After an empty receive: the others hold what is left.
const PAUSE: Duration = Duration::from_millis(1);
/// What has not come after receives were empty for so long, and nobody deleted anything, is not
/// waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// As so much of that a receive counts at most: a server that stalls has not said that it is empty.
const EMPTY_MAX: Duration = Duration::from_millis(100);

/// A TLS endpoint: somebody's, or a server of our own that ends with it.
struct Secure {
    setting: Setting,
    own: Option<Server>,
}

pub(crate) fn run(flags: &Flags<Plan>) -> Result<()> {
    let plan = &flags.plan;
    flags.options.peer.check(plan.batch, false)?;
    distinct("--workers", &plan.workers)?;
    distinct("--pool", &plan.pool)?;
    distinct("--scheme", &plan.scheme)?;
    conduct("drain", &flags.options, |setting| findings(setting, &flags.plan))
}

pub(crate) fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let mut parts = Parts::new();
    let mut notes = vec![
        "CPU is that of a message, user and system: of this process, and of the server's if it \
         runs here. Filling the queue is not counted."
            .to_owned(),
    ];
    'plan: for scheme in &plan.scheme {
        let secure = match scheme {
            Scheme::Http if setting.endpoint.tls.is_some() => {
                notes.push("HTTP was left out: the endpoint speaks HTTPS.".to_owned());
                continue;
            }
            Scheme::Http => None,
            Scheme::Https => match Secure::find(setting, plan) {
                Err(error) => {
                    parts.add(&setting.progress, Err(error))?;
                    break 'plan;
                }
                Ok(None) => {
                    notes.push(
                        "HTTPS was left out: for this interface, name one with --https-endpoint."
                            .to_owned(),
                    );
                    continue;
                }
                Ok(found) => found,
            },
        };
        if secure.as_ref().is_some_and(|secure| secure.own.is_some()) {
            notes
                .push("HTTPS was measured against a server of our own, started for it.".to_owned());
        }
        let setting = secure.as_ref().map_or(setting, |secure| &secure.setting);
        for pool in &plan.pool {
            for workers in &plan.workers {
                let measured = measure(setting, plan, *workers, *pool, *scheme);
                if !parts.add(&setting.progress, measured)? {
                    break 'plan;
                }
            }
        }
    }
    if parts.all.is_empty() {
        bail!("there is nothing to measure: {}", notes.join(" "));
    }
    let mut findings = Findings {
        title: "Draining a queue".to_owned(),
        metrics: parts.all.iter().flat_map(Measured::metrics).collect(),
        sections: vec![section::section(&parts.all, notes)],
        ..Findings::default()
    };
    findings.note_failure(&parts);
    findings.recordings = parts.all.into_iter().flat_map(|one| one.recordings).collect();
    Ok(findings)
}

impl Secure {
    /// `None` where there is no TLS to measure: a server of our own speaks SQS only.
    fn find(setting: &Setting, plan: &Plan) -> Result<Option<Secure>> {
        if let Some(url) = &plan.https_endpoint {
            let url = given_url("--https-endpoint", url)?;
            let access = setting.access.clone();
            let setting = setting.elsewhere(url, access, &setting.trust, None)?;
            return Ok(Some(Secure { setting, own: None }));
        }
        if setting.endpoint.tls.is_some() {
            return Ok(Some(Secure { setting: setting.clone(), own: None }));
        }
        if setting.access.interface() != Interface::Sqs {
            return Ok(None);
        }
        let directory = Directory::new().context("making a directory")?;
        let settings = Settings {
            binary: server::millrace()?,
            flags: Vec::new(),
            data: PathBuf::from(directory.path()).join("data"),
            durability: "fsync",
            keys: None,
            certificate: Some(Arc::new(Certificate::new()?)),
        };
        let server = Server::start(&settings)?.with_data(directory);
        let access = Access::Sqs { protocol: setting.access.protocol(), keys: None };
        let (trust, pid) = (Trust::anyone(), Some(server.pid()));
        let setting = setting.elsewhere(server.url()?, access, &trust, pid)?;
        Ok(Some(Secure { setting, own: Some(server) }))
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
    let queue = Queue::create(setting, plan.batch)?;
    queue.fill(messages, plan.size)?;
    let mut transport = match pool {
        Pool::On => TransportOptions::default(),
        Pool::Off => TransportOptions::naive(),
    };
    transport.lane_connections = workers as usize;
    let peer = queue.peer(transport)?;
    let left = Arc::new(AtomicU64::new(messages));
    let server_cpu = || setting.server_pid.and_then(|pid| process::cpu_time(pid).ok());
    let runtime = crate::runtime::current_thread()?;
    let before = (Instant::now(), process::own_cpu_time(), server_cpu());
    let outcome = runtime.block_on(setting.progress.unless_ended(async {
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(work(peer.clone(), Arc::clone(&left), plan.batch as u32));
        }
        let show = |progress: &Progress| {
            let done = messages.saturating_sub(left.load(Relaxed));
            progress.at(done as f64 / messages as f64, String::new);
        };
        let join = async {
            while let Some(joined) = tasks.join_next().await {
                joined.context("a worker panicked")??;
            }
            anyhow::Ok(())
        };
        setting.progress.shown(show, join).await
    }));
    let (taken, own_cpu) = (before.0.elapsed(), process::own_cpu_time().saturating_sub(before.1));
    let server_cpu = server_cpu().zip(before.2).map(|(after, before)| after.saturating_sub(before));
    let recordings = queue.remove(&section::front(scheme, pool, workers));
    outcome?;
    let ledger = peer.transport().ledger();
    let connections = Connections::between(&Default::default(), &ledger);
    Ok(Measured {
        workers,
        pool,
        scheme,
        messages,
        taken,
        own_cpu,
        server_cpu,
        connections,
        recordings,
    })
}

/// Receives and deletes until all have been deleted by somebody.
async fn work(peer: impl Peer, left: Arc<AtomicU64>, max: u32) -> Result<()> {
    let request = ReceiveRequest {
        max,
        wait: Duration::ZERO,
        visibility: None,
        attributes: SystemAttributes::None,
    };
    let (mut last, mut waited) = (left.load(Relaxed), Duration::ZERO);
    while left.load(Relaxed) > 0 {
        let asked = time::Instant::now();
        let received = peer.receive(request).await.context("receiving")?;
        if received.is_empty() {
            let missing = left.load(Relaxed);
            if missing != last {
                (last, waited) = (missing, Duration::ZERO);
            } else if waited > PATIENCE {
                bail!("{missing} messages did not come, and receives find nothing any more");
            }
            waited += PAUSE + asked.elapsed().min(EMPTY_MAX);
            time::sleep(PAUSE).await;
            continue;
        }
        let handles: Vec<_> = received.into_iter().map(|delivery| delivery.handle).collect();
        let answers = peer.delete(&handles).await.context("deleting")?;
        for answer in answers {
            answer.context("deleting")?;
            // A message that came twice is deleted twice.
            let _ = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::MemoryPeer;
    use millrace_core::Url;

    use super::*;
    use crate::scenarios::setting::defaults;

    /// A queue of so many messages, drained as if there were more.
    async fn drained(messages: usize, planned: u64, latency: Duration) -> (Result<()>, Duration) {
        let peer = MemoryPeer::standard();
        peer.put((0..messages).map(|number| number.to_string()));
        peer.set_visibility(Duration::from_secs(3600));
        peer.set_latency(latency);
        let start = time::Instant::now();
        let outcome = work(peer, Arc::new(AtomicU64::new(planned)), 1).await;
        (outcome, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_given_up() {
        let (all, _) = drained(3, 3, Duration::from_millis(1)).await;
        assert!(all.is_ok());

        let (missing, taken) = drained(3, 5, Duration::from_millis(1)).await;
        assert!(missing.unwrap_err().to_string().starts_with("2 messages did not come"));
        assert!(taken < PATIENCE * 2, "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_is_not_taken_for_an_empty_queue() {
        let (_, taken) = drained(0, 1, Duration::from_secs(15)).await;

        assert!(taken > PATIENCE * 10, "{taken:?}");
    }

    #[test]
    fn what_speaks_tls_is_not_measured_as_http() {
        let trust = Trust::default();
        let setting = Setting::new(
            Url::parse("https://192.0.2.1:1").unwrap(),
            Access::open(),
            &trust,
            None,
            1.0,
        )
        .unwrap();
        let plan = Plan { scheme: vec![Scheme::Http], ..defaults().unwrap() };

        let error = findings(&setting, &plan).unwrap_err();

        assert!(error.to_string().contains("HTTP was left out"), "{error:#}");
    }
}
