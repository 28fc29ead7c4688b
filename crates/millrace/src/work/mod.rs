//! `millrace work`: a program or a URL as the handler of a queue's messages.
//!
//! `flags` says what can be asked, `queues` finds the queues. A `job` is what is done with a
//! message: `exec`, `lines` (a `line` for each message, and the places of its `commands`; both wait
//! for `room`), `post` and `lambda`, or `dry_run` in their stead. `notifications` unwraps what topics
//! sent. `environment` is what a command is
//! told, `sqs_event` what a function, `target` a URL, `trace` what goes with each; `spans` tells a
//! collector. `health` holds the start back, `metrics` shows the counters over HTTP.

mod commands;
mod dry_run;
mod environment;
mod exec;
mod flags;
mod health;
mod job;
mod lambda;
mod line;
mod lines;
mod metrics;
mod notifications;
mod post;
mod process_group;
mod queues;
mod room;
mod spans;
mod sqs_event;
mod target;
mod trace;
mod values;

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::bail;
use millrace_otel::{Options as TraceOptions, StartError, Tracer};
use millrace_worker::{Drain, Metrics, Slots, SnsEnvelope, Summary, Worker};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    task::JoinSet,
};

use crate::{config::UsageError, end_signals::EndSignals, end_soon::end_soon, limits, logging};
use commands::Commands;
pub(crate) use flags::WorkFlags;
use job::Job;
use notifications::Unwrapped;
use spans::Traced;

/// The worker ended before the work in hand was done; it was given back to the queue.
#[derive(Debug, thiserror::Error)]
#[error("ended with {messages} messages unfinished; other workers can receive them")]
pub(crate) struct Unfinished {
    messages: u64,
}

/// Runs until a signal asks to end, or until the flags say that it is done.
pub(crate) fn work(flags: &WorkFlags) -> anyhow::Result<()> {
    logging::start(&flags.log_level, flags.log_format)?;
    limits::raise_open_files();
    let tracer = start_tracing(flags)?;
    let summary = end_soon(run(flags, &tracer));
    tracer.close();
    let summary = summary?;
    tracing::info!(
        received = summary.received,
        succeeded = summary.succeeded,
        retried = summary.retried,
        released = summary.released,
        dead_lettered = summary.dead_lettered,
        abandoned = summary.abandoned,
        leases_lost = summary.leases_lost,
        cut_off = summary.cut_off,
        unsettled = summary.unsettled,
        "ended"
    );
    verdict(&summary)
}

/// Whether what was asked for is done.
fn verdict(summary: &Summary) -> anyhow::Result<()> {
    if summary.refused > 0 {
        bail!("ended because receives were refused three times in a row; the log says why");
    }
    match summary.cut_off + summary.unsettled {
        0 => Ok(()),
        messages => Err(Unfinished { messages }.into()),
    }
}

/// By OpenTelemetry's variables alone. What is only shown is not traced.
fn start_tracing(flags: &WorkFlags) -> anyhow::Result<Tracer> {
    if flags.dry_run {
        return Ok(Tracer::default());
    }
    let started = Tracer::start(&TraceOptions::default(), "millrace-work");
    started.map_err(|error| match error {
        StartError::Invalid { .. } | StartError::Url { .. } => UsageError(error.to_string()).into(),
        error => error.into(),
    })
}

async fn run(flags: &WorkFlags, tracer: &Tracer) -> anyhow::Result<Summary> {
    // Who starts us may ignore it, and we inherit that: how commands ended would be forgotten.
    drop(signal(SignalKind::child())?);
    let drain = Drain::new();
    let signals = tokio::spawn(end_on_signals(EndSignals::watch()?, drain.clone()));
    let summary = find_and_work(flags, drain, tracer).await;
    signals.abort();
    summary
}

async fn find_and_work(
    flags: &WorkFlags,
    drain: Drain,
    tracer: &Tracer,
) -> anyhow::Result<Summary> {
    let slots = Slots::new(flags.most_handlers());
    let commands = Arc::new(Commands::new(flags.most_handlers()));
    let mut workers = Vec::with_capacity(flags.queue.len());
    let mut metrics: Vec<Metrics> = Vec::with_capacity(flags.queue.len());
    let (mut urls, mut names) = (HashSet::new(), HashSet::new());
    for (queue, priority) in flags.queue.iter().zip(flags.priorities()?) {
        let found = tokio::select! {
            found = queues::find(&queue.queue, flags) => found?,
            () = drain.asked() => return Ok(Summary::default()),
        };
        let job = Arc::new(Job::new(&found, flags, &commands)?);
        if !urls.insert(found.url.clone()) {
            return Err(UsageError(format!("--queue {}: it is named twice", queue.queue)).into());
        }
        // Those of two accounts may have one name.
        let is_name_new = names.insert(found.name().to_owned());
        let label = if is_name_new { found.name() } else { &found.url };
        let counters = match metrics.first() {
            Some(first) => first.with_queue(label),
            None => Metrics::new(label),
        };
        tracing::info!(queue = found.url, "working");
        let options = flags.options(&queue.queue);
        let handler = Traced::new(Arc::clone(&job), tracer.clone(), found.name());
        // Around the span: a trace may have come with what was published.
        let handler = Unwrapped::new(handler, flags.unwrap_sns.then_some(SnsEnvelope));
        let mut worker = Worker::new(found.peer, handler, options)
            .with_share(slots.share(priority))
            .with_metrics(counters.clone())
            .with_drain(drain.clone());
        // What is only shown goes nowhere, however often it was received.
        if let Some(dead_letters) = found.dead_letters.filter(|_| !flags.dry_run) {
            worker = worker.with_dead_letter_queue(dead_letters);
        }
        metrics.push(counters);
        workers.push((worker, job));
    }
    if let Some(url) = &flags.health {
        health::wait(url, flags, &drain).await?;
    }
    // Serves until it is dropped.
    let _metrics = match flags.metrics_listen {
        Some(address) => Some(metrics::listen(address, metrics)?),
        None => None,
    };
    let mut running = JoinSet::new();
    for (worker, job) in workers {
        running.spawn(async move {
            let summary = worker.run().await;
            job.close().await;
            summary
        });
    }
    let done = Notify::new();
    let all = async {
        let summaries = running.join_all().await;
        done.notify_one();
        summaries
    };
    let surplus = lines::end_surplus(&commands, flags.kill_after, done.notified());
    let (summaries, ()) = tokio::join!(all, surplus);
    Ok(summaries.into_iter().sum())
}

/// The first signal drains, the second gives everything back at once.
async fn end_on_signals(mut signals: EndSignals, drain: Drain) {
    let signal = signals.next().await;
    tracing::info!(signal, "draining");
    drain.drain();
    loop {
        let signal = signals.next().await;
        tracing::warn!(signal, "releasing everything at once");
        drain.release_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_could_not_be_received_or_finished_is_a_failure() {
        let mut summary = Summary::default();
        assert!(verdict(&summary).is_ok());

        summary.cut_off = 1;
        assert!(verdict(&summary).unwrap_err().is::<Unfinished>());

        summary = Summary::default();
        summary.unsettled = 1;
        assert!(verdict(&summary).unwrap_err().is::<Unfinished>());

        // Nothing may be left to receive, or everything: that is no success and no "later".
        summary.refused = 1;
        assert!(!verdict(&summary).unwrap_err().is::<Unfinished>());
    }
}
