//! The web console's listener: beside the services', on a thread of its own.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use millrace_broker::Shards;
use millrace_console::{Console, Options};
use millrace_server::{BindError, Drain, Hooks, Limits, Server, Timeouts};
use millrace_services::AccessKeys;

use crate::config::Config;
use crate::figures::ServerFigures;
use crate::limits;
use crate::memory::Bounds;
use crate::serve::{durability, url};
use crate::start_errors;

/// A console that listens and does not answer yet.
pub(crate) struct Bound(Server);

/// A running console.
pub(crate) struct Running(JoinHandle<anyhow::Result<()>>);

/// Starts listening, if there is to be a console. If nobody asked for the address, that another
/// server has it is no reason not to start.
pub(crate) fn bind(
    config: &Config,
    inherited: &mut Vec<TcpListener>,
) -> anyhow::Result<Option<Bound>> {
    let Some(address) = config.console_listen else { return Ok(None) };
    let is_local = address.ip().is_loopback();
    let options = millrace_server::Options {
        listen: vec![address],
        workers: 1,
        // A certificate is for the name that others use.
        tls: config.tls.clone().filter(|_| !is_local),
        limits: Limits {
            max_connections: limits::console_connections(),
            ..Bounds::of(config.limits.memory_bytes).side_limits()
        },
        timeouts: Timeouts { drain: config.drain, ..Timeouts::default() },
        ..millrace_server::Options::default()
    };
    match Server::bind_inheriting(options, inherited) {
        Ok(server) => Ok(Some(Bound(server))),
        Err(BindError::Address(address, error)) if config.is_console_optional => {
            tracing::warn!(%address, %error, "there is no console: its address is taken");
            Ok(None)
        }
        Err(error) => Err(start_errors::of_console(error)),
    }
}

impl Bound {
    /// Where browsers find it.
    pub(crate) fn url(&self, config: &Config) -> Option<String> {
        let address = self.0.addresses().first()?;
        let is_tls = config.tls.is_some() && !address.ip().is_loopback();
        Some(url(if is_tls { "https" } else { "http" }, *address))
    }

    /// Serves until the drain. `endpoint` is where clients reach SQS.
    pub(crate) fn start(
        self,
        config: &Config,
        (shards, services): (Arc<Shards>, Arc<millrace_services::Services>),
        figures: ServerFigures,
        access_keys: AccessKeys,
        endpoint: String,
        drain: &Drain,
    ) -> anyhow::Result<Running> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).context("drawing random bits")?;
        let options = Options {
            access_keys,
            region: config.region.clone(),
            account: config.account.clone(),
            endpoint: endpoint.clone(),
            host_names: config.console_hosts.clone(),
            durability: durability(config.durability),
            figures: Arc::new(move || figures.of_process()),
            secret,
        };
        let console = Arc::new(Console::new(shards.clone(), services, options));
        let (companion, for_companion) = (console.clone(), drain.clone());
        let hooks = Hooks {
            per_worker: Some(Arc::new(move |_| {
                let (console, drain) = (companion.clone(), for_companion.clone());
                let driver = millrace_broker::commit_driver(tokio::task::yield_now);
                Box::pin(async move {
                    let drained = async {
                        drain.started().await;
                        console.close();
                    };
                    tokio::join!(driver, console.run(), drained);
                })
            })),
            companion_of: Some(endpoint),
            ..Hooks::default()
        };
        let drain = drain.clone();
        let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            self.0.run(console, drain, hooks).context("serving the console")?;
            Ok(())
        })?;
        Ok(Running(thread))
    }
}

impl Running {
    /// Waits for the end of the drain.
    pub(crate) fn join(self) -> anyhow::Result<()> {
        self.0.join().map_err(|_| anyhow::anyhow!("the console's thread panicked"))?
    }
}
