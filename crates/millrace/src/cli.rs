//! The command line of `millrace`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{bench::BenchArguments, commands::ClientCommand, config::Config, work::WorkFlags};

/// A durable, fast message queue server that speaks Amazon SQS.
#[derive(Debug, Parser)]
#[command(name = "millrace", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    Serve(Box<Flags>),
    /// Run a command or call a URL for each message of a queue, at Millrace or any SQS
    Work(Box<WorkFlags>),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look after the journal while no server uses it
    #[command(subcommand)]
    Journal(JournalCommand),
    #[command(flatten)]
    Client(ClientCommand),
    /// Measure any endpoint: throughput, latency, connections, polling, scaling
    #[command(disable_help_flag = true)]
    Bench(BenchArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting, its value and where it comes from; secrets are masked
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Say what a server would refuse of it, queues and certificates included; touches no data
    Check {
        #[command(flatten)]
        flags: Box<Flags>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Read all of the journal and report damage: exits with 1 if there is any, 2 if unknown
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: DataFlags,
    },
    /// Make a damaged journal start again with all that is whole in it, keeping copies of what is
    /// changed
    Repair {
        #[command(flatten)]
        flags: DataFlags,
    },
    /// Make the next start take the domains of SimpleDB as they are on the disk, whatever the
    /// journal says; none, if their database cannot be read. The server must not run
    AcceptDomains {
        #[command(flatten)]
        flags: DataFlags,
    },
}

#[derive(Args, Debug)]
pub(crate) struct DataFlags {
    /// Directory of the data [default: millrace-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Configuration file (TOML) [environment: MILLRACE_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DataFlags {
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let flags =
            Flags { data: self.data.clone(), config: self.config.clone(), ..Flags::default() };
        Config::load_without_checks(&flags)
    }
}

/// Flags of `serve`. Every one but `--config` names a setting that the environment and the file
/// can give as well; flags win.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Configuration file (TOML) [environment: MILLRACE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on, such as 4566 (this machine only), localhost:4566 or 0.0.0.0:4566; may
    /// be repeated [default: 127.0.0.1:4566]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Address of the web console, or off [default: 127.0.0.1:4567]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) console_listen: Option<String>,
    /// Directory of the data [default: millrace-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// When a change is answered: fsync (on disk), os (in the page cache), memory [default: fsync]
    #[arg(long, value_name = "MODE")]
    pub(crate) durability: Option<String>,
    /// Base of the queue URLs given to clients [default: what the request was sent to]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Region of requests that name none [default: us-east-1]
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Account of requests that name none [default: 000000000000]
    #[arg(long, value_name = "DIGITS")]
    pub(crate) account: Option<String>,
    /// Serve the calls that tests need: advance the clock, remove all queues
    #[arg(long)]
    pub(crate) test: bool,
    /// Keep Amazon's limits too: a minute between two purges of a queue, and between deleting a queue
    /// and creating one of its name; at most 120,000 messages of a queue in flight, whatever the
    /// configuration says
    #[arg(long)]
    pub(crate) strict: bool,
    /// Listen beyond this machine although no credentials are configured
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Certificate chain (PEM); turns TLS on
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,
    /// Private key (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// Threads that answer requests; 0 means one per core [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) workers: Option<String>,
    /// Have cores without work poll instead of sleeping, while there are many requests
    #[arg(long)]
    pub(crate) idle_poll: bool,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// off, error, warn, info, debug, trace, or target=level pairs [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Open connections; 0 means 50000 or what the system allows [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections: Option<String>,
    /// Time that requests have to finish after SIGTERM [default: 20s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) drain_seconds: Option<String>,
    /// Web page origin whose scripts may call; may be repeated; * for all [default: auto]
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origins: Vec<String>,
}

impl Flags {
    /// The settings given, by key. Lists are joined by commas, as in the environment.
    pub(crate) fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        let truth = |is_set: bool| is_set.then(|| "true".to_owned());
        let list = |values: &[String]| (!values.is_empty()).then(|| values.join(","));
        let all = [
            ("listen", "--listen", list(&self.listen)),
            ("console_listen", "--console-listen", self.console_listen.clone()),
            ("data", "--data", self.data.clone()),
            ("durability", "--durability", self.durability.clone()),
            ("public_url", "--public-url", self.public_url.clone()),
            ("region", "--region", self.region.clone()),
            ("account", "--account", self.account.clone()),
            ("test", "--test", truth(self.test)),
            ("strict", "--strict", truth(self.strict)),
            ("insecure", "--insecure", truth(self.insecure)),
            ("tls_cert", "--tls-cert", self.tls_cert.clone()),
            ("tls_key", "--tls-key", self.tls_key.clone()),
            ("workers", "--workers", self.workers.clone()),
            ("idle_poll", "--idle-poll", truth(self.idle_poll)),
            ("log_format", "--log-format", self.log_format.clone()),
            ("log_level", "--log-level", self.log_level.clone()),
            ("limits.max_connections", "--max-connections", self.max_connections.clone()),
            ("drain_seconds", "--drain-seconds", self.drain_seconds.clone()),
            ("cors_origins", "--cors-origins", list(&self.cors_origins)),
        ];
        all.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use millrace_process::ambiguous_flags;

    use super::*;

    #[test]
    fn every_flag_can_stand_before_the_command() {
        Cli::command().debug_assert();
        assert_eq!(ambiguous_flags(&Cli::command()), Vec::<String>::new());
    }
}
