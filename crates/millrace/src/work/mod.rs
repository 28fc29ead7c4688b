//! `millrace work`: a program or a URL as the handler of a queue's messages.
//!
//! `flags` says what can be asked; `exec`, `lines` and `post` are the handlers, `environment` is what
//! a command is told, `dry_run` stands in for them, `metrics` shows the counters over HTTP.

mod dry_run;
mod environment;
mod exec;
mod flags;
mod lines;
mod metrics;
mod post;
mod process_group;

use std::{io, sync::Arc};

use anyhow::Context;
use millrace_client::sqs::SqsPeer;
use millrace_worker::{Drain, Handler, Summary, Worker};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{config::UsageError, limits, logging};
use dry_run::DryRun;
use exec::Exec;
use flags::ExecMode;
pub(crate) use flags::WorkFlags;
use lines::Lines;
use post::Post;

/// The worker ended before the work in hand was done; it was given back to the queue.
#[derive(Debug, thiserror::Error)]
#[error("ended with {messages} messages unfinished; other workers can receive them")]
pub(crate) struct Unfinished {
    messages: u64,
}

/// Runs until a signal asks to end, or until the flags say that it is done.
pub(crate) fn work(flags: &WorkFlags) -> anyhow::Result<()> {
    logging::start(&flags.log_level, flags.log_format.into())?;
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let summary = runtime.block_on(run(flags))?;
    tracing::info!(
        received = summary.received,
        succeeded = summary.succeeded,
        retried = summary.retried,
        released = summary.released,
        dead_lettered = summary.dead_lettered,
        abandoned = summary.abandoned,
        leases_lost = summary.leases_lost,
        cut_off = summary.cut_off,
        "ended"
    );
    match summary.cut_off + summary.unsettled {
        0 => Ok(()),
        messages => Err(Unfinished { messages }.into()),
    }
}

async fn run(flags: &WorkFlags) -> anyhow::Result<Summary> {
    let drain = Drain::new();
    let signals = tokio::spawn(end_on_signals(Signals::watch()?, drain.clone()));
    let summary = find_and_work(flags, drain).await;
    signals.abort();
    summary
}

async fn find_and_work(flags: &WorkFlags, drain: Drain) -> anyhow::Result<Summary> {
    let client = flags.connection.client_of(&flags.queue)?;
    let open = async |name: &str| {
        let peer = SqsPeer::open(client.clone(), name).await;
        peer.with_context(|| format!("finding the queue {name}"))
    };
    let peer = open(&flags.queue).await?;
    let dead_letters = match &flags.dead_letter_queue {
        Some(name) => Some(open(name).await?),
        None => None,
    };
    let url = peer.queue_url().to_owned();
    tracing::info!(queue = url, "working");
    let run = Run { flags, peer, dead_letters, drain };
    match (&flags.handler.exec, &flags.handler.post) {
        _ if flags.dry_run => run.with(DryRun::new(flags)).await,
        (Some(command), _) if flags.exec_mode == ExecMode::Lines => {
            let lines = Arc::new(Lines::new(command, url, flags));
            let summary = run.with(Arc::clone(&lines)).await;
            lines.close().await;
            summary
        }
        (Some(command), _) => run.with(Exec::new(command, url, flags)).await,
        (None, Some(target)) => run.with(Post::new(target, &url, flags)?).await,
        (None, None) => Err(UsageError("give --exec or --post".to_owned()).into()),
    }
}

/// All of a worker but its handler.
struct Run<'a> {
    flags: &'a WorkFlags,
    peer: SqsPeer,
    dead_letters: Option<SqsPeer>,
    drain: Drain,
}

impl Run<'_> {
    async fn with(self, handler: impl Handler) -> anyhow::Result<Summary> {
        let options = self.flags.options();
        let mut worker = Worker::new(self.peer, handler, options).with_drain(self.drain);
        if let Some(dead_letters) = self.dead_letters {
            worker = worker.with_dead_letter_queue(dead_letters);
        }
        // Serves until it is dropped.
        let _metrics = match self.flags.metrics_listen {
            Some(address) => Some(metrics::listen(address, &worker.metrics())?),
            None => None,
        };
        Ok(worker.run().await)
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From here on these signals no longer end the process.
    fn watch() -> io::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { terminate, interrupt })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The first signal drains, the second gives everything back at once.
async fn end_on_signals(mut signals: Signals, drain: Drain) {
    let signal = signals.next().await;
    tracing::info!(signal, "draining");
    drain.drain();
    loop {
        let signal = signals.next().await;
        tracing::warn!(signal, "releasing everything at once");
        drain.release_now();
    }
}
