//! `millrace serve`: open, listen, serve, drain, close.

use std::{
    io::{self, IsTerminal},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use millrace_journal::Durability;
use millrace_otel::Tracer;
use millrace_server::{Drain, Limits, Options, Server, Timeouts};
use millrace_services::AccessKeys;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    assemble::{self, Surroundings},
    cli::Flags,
    config::{Config, DeclaredQueue, LogFormat, UsageError, undeclared_queues, undeclared_targets},
    console, copy, credentials,
    end_signals::EndSignals,
    figures::ServerFigures,
    inherited, limits,
    logging::{self, tell},
    memory::Bounds,
    notify,
    show::print,
    start_errors,
};

/// Signals so soon after the first are taken for the same one: `timeout` and terminals send theirs
/// to the process and to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Runs until a signal asks to stop, then drains.
pub(crate) fn serve(flags: Flags) -> anyhow::Result<()> {
    let config = Config::load(&flags)?;
    let mut inherited = inherited::sockets(&config)?;
    logging::start(&config.log_level, config.log_format)?;
    log_warnings(&config);
    limits::raise_open_files();
    limits::use_small_pages();
    Bounds::of(config.limits.memory_bytes).log();
    let is_first_start = !config.data.exists();
    if config.durability != Durability::Memory {
        copy::refuse_unfinished(&config.data)?;
    }
    // Before the data is opened: a second server finds the address taken, not the data locked.
    let server = Server::bind_inheriting(options(&config), &mut inherited)
        .map_err(start_errors::of_listening)?;
    let console = console::bind(&config, &mut inherited)?;
    let drain = Drain::new();
    start_on_signals(drain.clone()).context("watching for signals")?;
    let tracer = start_tracing(&config)?;
    let keys = AccessKeys::new(config.credentials.clone());
    let data = (config.durability != Durability::Memory).then(|| config.data.clone());
    let figures = ServerFigures { counters: server.counters(), data };
    let console_url = console.as_ref().and_then(|console| console.url(&config));
    let addresses = server.addresses().to_vec();
    let surroundings = Surroundings {
        figures: Some(figures.clone()),
        console_url: console_url.clone(),
        endpoint: addresses.first().map_or_else(String::new, |it| endpoint(&config, *it)),
    };
    let services = assemble::open_services(&config, &keys, &drain, &tracer, surroundings)
        .map_err(|error| start_errors::of_data(error, &config))?;

    // A reader of JSON lines must find no others, and `serving` says where we are.
    let is_for_people =
        io::stderr().is_terminal() || is_first_start || config.durability == Durability::Memory;
    if config.log_format == LogFormat::Text && is_for_people {
        greet(&config, &addresses, console_url.as_deref());
    }
    log_start(&config, &server);
    let console = match (console, addresses.first()) {
        (Some(console), Some(address)) => {
            tracing::info!(url = console_url, "console");
            let parts = (services.shards, services.service.clone());
            Some(console.start(
                &config,
                parts,
                figures,
                keys.clone(),
                endpoint(&config, *address),
                &drain,
            )?)
        }
        _ => None,
    };
    credentials::follow(flags, &config, &keys).context("watching the access keys")?;
    // What connects meanwhile waits in the sockets.
    notify::ready();
    let ran = server.run(services.service, drain, services.hooks);
    let console_ran = console.map_or(Ok(()), console::Running::join);
    // Also after a failure: what was acknowledged is to be durable.
    let closed = (services.close)().context("closing the data");
    tracer.close();
    let drained = ran.context("serving")?;
    console_ran?;
    closed?;
    tracing::info!(cut_off = drained.cut_off, "stopped");
    Ok(())
}

/// Refuses what a start would refuse, without data and without listening: on a journal in memory.
pub(crate) fn check(mut config: Config) -> anyhow::Result<()> {
    config.durability = Durability::Memory;
    let assumed = undeclared_targets(&config.queues, &config.region, &config.account);
    let mut assumptions: Vec<String> = assumed.iter().map(assumption).collect();
    let Config { topics, queues, region, account, .. } = &config;
    assumptions.extend(undeclared_queues(topics, queues, region, account));
    config.queues.splice(0..0, assumed);
    if let Some(tls) = &config.tls {
        tls.check()?;
    }
    let keys = AccessKeys::new(config.credentials.clone());
    let tracer = start_tracing(&config)?;
    let services =
        assemble::open_services(&config, &keys, &Drain::new(), &tracer, Surroundings::default())?;
    (services.close)()?;
    for warning in config.warnings.iter().chain(&config.overruled).chain(&assumptions) {
        tell(&format!("warning: {warning}"));
    }
    print("a server can start with it\n")
}

/// Says what the data must have.
fn assumption(queue: &DeclaredQueue) -> String {
    let DeclaredQueue { name, region, account, .. } = queue;
    let (region, account) = (region.as_deref().unwrap_or(""), account.as_deref().unwrap_or(""));
    format!(
        "the dead-letter queue {name} (region {region}, account {account}) is not in the \
         configuration: a server starts only if its data have it"
    )
}

fn start_tracing(config: &Config) -> anyhow::Result<Tracer> {
    use millrace_otel::StartError;
    Tracer::start(&config.traces, "millrace").map_err(|error| match error {
        StartError::NotBuilt => UsageError(format!("traces.endpoint: {error}")).into(),
        StartError::Invalid { .. } | StartError::Url { .. } => UsageError(error.to_string()).into(),
        error => error.into(),
    })
}

fn options(config: &Config) -> Options {
    Options {
        listen: config.listen.clone(),
        workers: config.workers,
        has_idle_cores_poll: config.has_idle_cores_poll,
        tls: config.tls.clone(),
        limits: Limits {
            max_connections: limits::max_connections(config.limits.max_connections),
            max_body_bytes: config.limits.max_body_bytes,
            ..Bounds::of(config.limits.memory_bytes).limits()
        },
        timeouts: Timeouts { drain: config.drain, ..Timeouts::default() },
        cors: config.cors.clone(),
        refuses_other_pages: config.credentials.is_empty(),
    }
}

/// The first signal starts the drain, a later one ends the process at once. The thread that takes
/// them does not wait for whoever reads the log.
fn start_on_signals(drain: Drain) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _guard = runtime.enter();
        // A limit of files' sizes is a full disk, and no reason to be killed.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        EndSignals::watch()?
    };
    // Ends with the process.
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let mut first: Option<Instant> = None;
            loop {
                let name = signals.next().await;
                match first {
                    None => {
                        first = Some(Instant::now());
                        // Before an idle server has logged that it stopped.
                        tracing::info!(signal = name, "draining");
                        notify::stopping();
                        drain.start();
                    }
                    Some(at) if at.elapsed() < SAME_SIGNAL => {}
                    Some(_) => {
                        tracing::warn!(signal = name, "ending at once");
                        logging::finish();
                        std::process::exit(1);
                    }
                }
            }
        });
    })?;
    Ok(())
}

fn log_start(config: &Config, server: &Server) {
    for address in server.addresses() {
        tracing::info!(
            endpoint = endpoint(config, *address),
            // With `public_url` the endpoint does not tell.
            %address,
            access_keys = config.credentials.len(),
            data = %absolute(&config.data).display(),
            durability = durability(config.durability),
            workers = server.workers(),
            version = env!("CARGO_PKG_VERSION"),
            "serving"
        );
    }
    let loss = match config.durability {
        Durability::Fsync => return,
        Durability::Os => "they are not synced to disk",
        Durability::Memory => "nothing is written to disk",
    };
    let durability = durability(config.durability);
    tracing::warn!(durability, "acknowledged messages can be lost: {loss}");
}

/// Logs what the configuration allows and somebody should know.
pub(crate) fn log_warnings(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!(warning, "secrets of the configuration are not safe");
    }
    for setting in &config.overruled {
        tracing::warn!(setting, "strict overrules the configuration");
    }
    let all = config.listen.iter().chain(&config.console_listen);
    let open = all.filter(|address| !address.ip().is_loopback() && config.credentials.is_empty());
    for address in open {
        tracing::warn!(
            %address,
            "insecure: everybody who can reach this address can read, send and delete, as no \
             access keys are configured"
        );
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints where the server is and what clients need, for people.
fn greet(config: &Config, addresses: &[SocketAddr], console: Option<&str>) {
    let Some(address) = addresses.first() else { return };
    let endpoint = endpoint(config, *address);
    tell(&format!("Millrace {} serves Amazon SQS at {endpoint}\n", env!("CARGO_PKG_VERSION")));
    tell(&format!("    export AWS_ENDPOINT_URL={endpoint}"));
    tell(&format!("    export AWS_REGION={0} AWS_DEFAULT_REGION={0}", config.region));
    match config.credentials.is_empty() {
        true => tell("    export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any"),
        false => tell("\nRequests must be signed with an access key of the configuration"),
    }
    if let Some(console) = console {
        tell(&format!("\nConsole: {console}"));
    }
    match config.durability {
        Durability::Memory => tell("\nData: in memory, gone when the process ends"),
        _ => tell(&format!("\nData: {}", absolute(&config.data).display())),
    }
    let durability = match config.durability {
        Durability::Fsync => "fsync (a change is answered once it is on disk)",
        Durability::Os => "os (a change is answered once the system has it; for tests)",
        Durability::Memory => "memory (for tests)",
    };
    tell(&format!("Durability: {durability}\n"));
}

fn endpoint(config: &Config, address: SocketAddr) -> String {
    if let Some(url) = &config.public_url {
        return url.clone();
    }
    url(if config.tls.is_some() { "https" } else { "http" }, address)
}

/// The address as a client on this machine can use it.
pub(crate) fn url(scheme: &str, address: SocketAddr) -> String {
    // Nobody can connect to "all addresses".
    let ip = match address {
        SocketAddr::V4(address) if address.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(address) if address.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address.ip(),
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

pub(crate) fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Fsync => "fsync",
        Durability::Os => "os",
        Durability::Memory => "memory",
    }
}
