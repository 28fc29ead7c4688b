//! What the process is told to do: flags over `MILLRACE_*` variables over a TOML file over
//! defaults.
//!
//! `settings` lists every setting once; `layers` finds each one's value and origin; `file` reads
//! the TOML file; `queues` and `topics` read what is declared in it. This file turns the result into the
//! types that the rest of the program uses, and refuses what cannot be.

mod exposure;
mod file;
mod layers;
mod queues;
mod settings;
mod topics;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use anyhow::anyhow;
use millrace_journal::Durability;
use millrace_process::{AddressError, listen_address};
use millrace_push::network::{NetworkError, NetworkPolicy, Private, parse_network};
use millrace_server::{Cors, TlsFiles};
use millrace_services::{AccessKey, DeclaredTopic, MetricsOptions, is_region};

use self::{file::File, layers::Layers};
pub(crate) use self::{
    layers::{Resolved, Value},
    queues::{DeclaredQueue, undeclared_targets},
    topics::undeclared_queues,
};
use crate::{cli::Flags, logging};

/// Something that cannot be asked for. The process ends with 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Everything that can be set.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) listen: Vec<SocketAddr>,
    /// None: no console.
    pub(crate) console_listen: Option<SocketAddr>,
    /// Nobody gave the console's address, so another server may have taken it.
    pub(crate) is_console_optional: bool,
    /// Names by which browsers may address the console, besides IP addresses and `localhost`.
    pub(crate) console_hosts: Vec<String>,
    pub(crate) data: PathBuf,
    pub(crate) durability: Durability,
    /// Without a slash at its end.
    pub(crate) public_url: Option<String>,
    pub(crate) region: String,
    /// Twelve digits.
    pub(crate) account: String,
    pub(crate) is_test: bool,
    pub(crate) is_insecure: bool,
    pub(crate) credentials: Vec<AccessKey>,
    pub(crate) tls: Option<TlsFiles>,
    /// 0 means one per core.
    pub(crate) workers: usize,
    pub(crate) has_idle_cores_poll: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: String,
    pub(crate) drain: Duration,
    pub(crate) cors: Cors,
    pub(crate) limits: Limits,
    pub(crate) push: PushSettings,
    /// Notifications of topics in queues are signed.
    pub(crate) signs_in_queues: bool,
    pub(crate) metrics: MetricsOptions,
    pub(crate) traces: millrace_otel::Options,
    /// Dead-letter queues before the queues that use them.
    pub(crate) queues: Vec<DeclaredQueue>,
    pub(crate) topics: Vec<DeclaredTopic>,
    /// Warnings about the file: other users who can read or change its secrets.
    pub(crate) warnings: Vec<String>,
    /// Settings that `strict` gives another value than the configuration, one sentence each.
    pub(crate) overruled: Vec<String>,
    resolved: Vec<Resolved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// 0 means the default, or what the system allows.
    pub(crate) max_connections: usize,
    pub(crate) max_body_bytes: usize,
    /// 0 means what the machine or the container has.
    pub(crate) memory_bytes: u64,
    /// Messages of one queue that may be in flight.
    pub(crate) in_flight: u64,
    /// Domains of an account.
    pub(crate) domains: u64,
    /// Names and values of one domain.
    pub(crate) domain_bytes: u64,
    /// How long a request waits for its change to be stored.
    pub(crate) commit_wait: Duration,
    /// True if a deleted queue's name rests for 60 seconds.
    pub(crate) recreate_cool_down: bool,
    /// True if a queue may be purged only once in 60 seconds.
    pub(crate) purge_cool_down: bool,
}

/// Outbound deliveries over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushSettings {
    pub(crate) connections: usize,
    pub(crate) connections_per_endpoint: usize,
    pub(crate) network: NetworkPolicy,
    /// Certificates of authorities (PEM) to believe beside those of the system.
    pub(crate) authorities: Option<PathBuf>,
}

impl Config {
    /// The configuration of a process about to serve.
    pub(crate) fn load(flags: &Flags) -> anyhow::Result<Config> {
        let config = Config::load_without_checks(flags)?;
        config.check()?;
        Ok(config)
    }

    /// The configuration of a process that does not listen.
    pub(crate) fn load_without_checks(flags: &Flags) -> anyhow::Result<Config> {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .collect();
        let named =
            environment.iter().find(|(name, path)| name == "MILLRACE_CONFIG" && !path.is_empty());
        let path = flags.config.clone().or_else(|| named.map(|(_, path)| PathBuf::from(path)));
        let file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let warnings = match &path {
            Some(path) if file.has_secrets() => exposure::exposures(path),
            _ => Vec::new(),
        };
        Ok(Config { file: path, warnings, ..Config::from_layers(flags, &environment, &file)? })
    }

    fn from_layers(
        flags: &Flags,
        environment: &[(String, String)],
        file: &File,
    ) -> anyhow::Result<Config> {
        let layers = Layers::resolve(flags, environment, file)?;
        let account = layers.account("account")?;
        let region = layers.text("region");
        if !is_region(&region) {
            let what = format_args!("{region:?} is not the name of a region");
            return Err(layers.wrong("region", what).into());
        }
        let credentials = credentials(&layers, file, &account)?;
        let listen = layers.list("listen");
        let listen = listen.iter().map(|text| address(&layers, "listen", text));
        let listen = listen.collect::<Result<Vec<_>, _>>()?;
        let console_listen = match &*layers.text("console_listen") {
            "off" => None,
            text => Some(address(&layers, "console_listen", text)?),
        };
        Ok(Config {
            file: None,
            console_listen,
            is_console_optional: layers.is_default("console_listen"),
            console_hosts: console_hosts(&layers)?,
            data: layers.directory("data")?,
            durability: layers.choice(
                "durability",
                &[
                    ("fsync", Durability::Fsync),
                    ("os", Durability::Os),
                    ("memory", Durability::Memory),
                ],
            )?,
            public_url: layers.base_url("public_url")?,
            is_test: layers.truth("test"),
            is_insecure: layers.truth("insecure"),
            credentials,
            tls: layers.tls()?,
            workers: layers.number("workers"),
            has_idle_cores_poll: layers.truth("idle_poll"),
            log_format: layers
                .choice("log_format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])?,
            log_level: log_level(&layers)?,
            drain: Duration::from_secs(layers.number("drain_seconds") as u64),
            cors: cors(&layers, &listen)?,
            limits: Limits {
                max_connections: layers.number("limits.max_connections"),
                max_body_bytes: layers.number("limits.max_body_bytes"),
                memory_bytes: layers.number("limits.memory_bytes") as u64,
                in_flight: layers.number("limits.in_flight") as u64,
                domains: layers.number("limits.domains") as u64,
                domain_bytes: layers.number("limits.domain_bytes") as u64,
                commit_wait: Duration::from_secs(layers.number("limits.commit_wait_seconds") as u64),
                recreate_cool_down: layers.truth("limits.recreate_cool_down"),
                purge_cool_down: layers.truth("limits.purge_cool_down"),
            },
            push: push(&layers, &listen)?,
            signs_in_queues: layers.truth("sns.sign_in_queues"),
            metrics: MetricsOptions {
                top_queues: layers.number("metrics.top_queues"),
                queues: measured_queues(&layers)?,
                token: layers.secret("metrics.token")?,
            },
            traces: traces(&layers)?,
            queues: queues::declared(file, &region, &account)?,
            topics: topics::declared(file, &region, &account)?,
            warnings: Vec::new(),
            overruled: layers.overruled().to_vec(),
            listen,
            region,
            account,
            resolved: layers.into_resolved(),
        })
    }

    /// Every setting with its value and origin, for `config show`.
    pub(crate) fn resolved(&self) -> &[Resolved] {
        &self.resolved
    }

    /// Where the journal's files are.
    pub(crate) fn journal_dir(&self) -> PathBuf {
        self.data.join("journal")
    }

    fn check(&self) -> Result<(), UsageError> {
        if self.listen.is_empty() {
            return Err(UsageError("listen: no address is given".to_owned()));
        }
        let mut known: Vec<&SocketAddr> = Vec::new();
        for address in self.listen.iter().chain(&self.console_listen) {
            // Port 0 is another one each time.
            if address.port() > 0 && known.contains(&address) {
                return Err(UsageError(format!(
                    "{address} is listened on already: each of listen and console_listen needs an \
                     address of its own"
                )));
            }
            known.push(address);
        }
        let mut all = self.listen.iter().chain(&self.console_listen);
        let open = all.find(|address| !address.ip().is_loopback());
        if let Some(address) = open
            && self.credentials.is_empty()
            && !self.is_insecure
        {
            return Err(UsageError(format!(
                "listening on {address} lets everybody who reaches it use the queues: configure \
                 credentials (MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY, or [[credentials]] in \
                 the file), or say --insecure"
            )));
        }
        Ok(())
    }
}

fn push(layers: &Layers, listen: &[SocketAddr]) -> Result<PushSettings, UsageError> {
    let private = match layers.choice(
        "push.private_networks",
        &[("auto", None), ("allow", Some(Private::Allowed)), ("refuse", Some(Private::Refused))],
    )? {
        Some(private) => private,
        // Whoever can subscribe an endpoint is on this machine, and can call what it can reach.
        None if listen.iter().all(|address| address.ip().is_loopback()) => Private::Allowed,
        None => Private::Refused,
    };
    let key = "push.allowed_networks";
    let network = |text: &String| {
        let wrong = |error: NetworkError| layers.wrong(key, format_args!("{text:?} is {error}"));
        parse_network(text).map_err(wrong)
    };
    let allowed = layers.list(key).iter().map(network).collect::<Result<Vec<_>, _>>()?;
    let authorities = layers.text("push.authorities");
    Ok(PushSettings {
        connections: layers.number("push.connections"),
        connections_per_endpoint: layers.number("push.connections_per_endpoint"),
        network: NetworkPolicy::new(private, allowed),
        authorities: (!authorities.is_empty()).then(|| authorities.into()),
    })
}

/// A key that is given again, for instance with another secret, takes the file's place.
fn credentials(layers: &Layers, file: &File, account: &str) -> Result<Vec<AccessKey>, UsageError> {
    let mut credentials = file.credentials(account)?;
    let single = layers.single_credential(account)?;
    credentials.retain(|known| single.as_ref().is_none_or(|s| s.access_key != known.access_key));
    credentials.extend(single);
    Ok(credentials)
}

/// Returns the fault of a key, secret or token: characters that somebody has copied along, or that
/// no client can send. The text does not repeat it.
fn fault_of_secret(text: &str) -> Option<&'static str> {
    match () {
        () if text.chars().any(char::is_control) => Some("contains a control character"),
        () if text.trim() != text => Some("begins or ends with a blank"),
        () => None,
    }
}

/// Only what cannot be an address is a [`UsageError`]: a name may get its address later.
fn address(layers: &Layers, key: &str, text: &str) -> anyhow::Result<SocketAddr> {
    listen_address(text).map_err(|error| match error {
        AddressError::Malformed(_) => {
            let off = if key == "console_listen" { "; off means no console" } else { "" };
            layers.wrong(key, format_args!("{error}{off}")).into()
        }
        AddressError::Unresolved(..) => anyhow!("{}", layers.wrong(key, format_args!("{error}"))),
    })
}

/// Host names as browsers send them, without a port. Addresses are answered anyway.
fn console_hosts(layers: &Layers) -> Result<Vec<String>, UsageError> {
    let hosts = layers.list("console_hosts");
    if let Some(wrong) = hosts.iter().find(|host| !is_host_name(host) && !is_address(host)) {
        let what = format_args!("{wrong:?} is not a host name like console.example, without port");
        return Err(layers.wrong("console_hosts", what));
    }
    Ok(hosts)
}

/// Letters beyond ASCII come as `xn--…`.
fn is_host_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// An IPv6 address may be in brackets, as in URLs.
fn is_address(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(text).parse::<IpAddr>().is_ok()
}

fn traces(layers: &Layers) -> Result<millrace_otel::Options, UsageError> {
    let text = |key| Some(layers.text(key)).filter(|text| !text.is_empty());
    Ok(millrace_otel::Options {
        endpoint: layers.url("traces.endpoint")?,
        service_name: text("traces.service_name"),
        sampler: text("traces.sampler"),
        sampler_arg: text("traces.sampler_arg"),
    })
}

/// Text that logging can be started with.
fn log_level(layers: &Layers) -> Result<String, UsageError> {
    let text = layers.text("log_level");
    match logging::levels(&text) {
        Ok(_) => Ok(text),
        Err(what) => Err(layers.wrong("log_level", format_args!("{text:?}: {what}"))),
    }
}

/// Patterns of queues with series of their own. One that can match nothing is a mistake.
fn measured_queues(layers: &Layers) -> Result<Vec<String>, UsageError> {
    let patterns = layers.list("metrics.queues");
    for pattern in &patterns {
        let name = pattern.strip_suffix('*').unwrap_or(pattern);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let what = match () {
            () if name.contains('*') => "has a * that is not at its end",
            () if pattern.is_empty() || !name.bytes().all(is_allowed) => {
                "is neither the name of a queue nor the beginning of one and a *"
            }
            () => continue,
        };
        return Err(layers.wrong("metrics.queues", format_args!("{pattern:?} {what}")));
    }
    Ok(patterns)
}

/// `auto`: pages of this machine when nobody else can reach us, else none.
fn cors(layers: &Layers, listen: &[SocketAddr]) -> Result<Cors, UsageError> {
    let origins = layers.list("cors_origins");
    let is_local = listen.iter().all(|address| address.ip().is_loopback());
    Ok(match origins.as_slice() {
        [] => Cors::Off,
        [auto] if auto == "auto" && is_local => Cors::Local,
        [auto] if auto == "auto" => Cors::Off,
        origins if origins.iter().any(|origin| origin == "auto") => {
            return Err(layers.wrong("cors_origins", format_args!("auto stands alone")));
        }
        origins if origins.iter().any(|origin| origin == "*") => Cors::Any,
        origins => {
            // As browsers write them: compared as text.
            let origin = |text: &String| text.strip_suffix('/').unwrap_or(text).to_owned();
            let origins: Vec<String> = origins.iter().map(origin).collect();
            // `null` is what pages without an origin send.
            let is_wrong = |text: &&String| {
                let host = text.split_once("://").map_or("", |(_, host)| host);
                *text != "null" && (host.is_empty() || host.contains(['/', '?', '#']))
            };
            if let Some(wrong) = origins.iter().find(is_wrong) {
                let what = format_args!("{wrong:?} is not an origin like https://app.example");
                return Err(layers.wrong("cors_origins", what));
            }
            Cors::Origins(origins)
        }
    })
}

#[cfg(test)]
mod tests;
