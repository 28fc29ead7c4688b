//! The coordinator's side: gives jobs, starts everyone at one instant, joins what they found.

use std::{
    io::{BufRead, BufReader},
    net::{TcpStream, ToSocketAddrs},
    process::{Child, Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{Answer, Job, Line, Request, SILENCE_MAX, now_us};
use crate::{access::Access, leftovers::Registered, load::Report, progress::Progress};

/// From the order to the start: time for it to reach everyone.
const LEAD: Duration = Duration::from_millis(300);
const CLOCK_PROBES: usize = 5;
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Nodes that were connected to, and the local processes among them.
pub(crate) struct Nodes {
    addresses: Vec<String>,
    children: Vec<(Child, Registered)>,
}

/// What the threads that lead a node each have in common.
struct Together<'a> {
    ready: Barrier,
    sent: Barrier,
    /// A node failed: the others are of no use any more.
    has_failed: AtomicBool,
    progress: &'a Progress,
}

/// Why a node was left that had not failed.
#[derive(Debug, thiserror::Error)]
#[error("another node failed")]
struct OtherFailed;

/// Starts `count` processes of this program as nodes. They are let in as we are, by environment
/// variables, and take `trust_flags` as theirs.
pub(crate) fn local(count: usize, access: &Access, trust_flags: &[String]) -> Result<Nodes> {
    let this = std::env::current_exe().context("finding this program")?;
    let mut nodes = Nodes { addresses: Vec::new(), children: Vec::new() };
    for _ in 0..count {
        let mut command = Command::new(&this);
        command.args(["node", "--listen", "127.0.0.1:0", "--once"]).args(trust_flags);
        let (arguments, variables) = access.hand_over();
        command.args(arguments).envs(variables);
        command.stdout(Stdio::piped());
        let (mut child, registered) =
            Registered::spawn(&mut command).context("starting a process")?;
        let output = child.stdout.take().context("no standard output")?;
        nodes.children.push((child, registered));
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("reading a process's address")?;
        let address = line.trim().strip_prefix("node listens at ");
        nodes.addresses.push(address.context("a process ended before it listened")?.to_owned());
    }
    Ok(nodes)
}

impl Nodes {
    /// Nodes that run already, by `HOST:PORT`.
    pub(crate) fn remote(addresses: &[String]) -> Nodes {
        Nodes { addresses: addresses.to_vec(), children: Vec::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.addresses.len()
    }

    /// Runs one job on all of them at once. Once one has failed, or the run is to end early, all
    /// are left, and end it.
    pub(crate) fn run(&self, job: &Job, progress: &Progress) -> Result<Report> {
        let seed = now_us() as u32;
        let runs: Vec<u32> = (0..self.count() as u32).map(|node| seed.wrapping_add(node)).collect();
        let barrier = || Barrier::new(self.count());
        let has_failed = AtomicBool::new(false);
        let together = Together { ready: barrier(), sent: barrier(), has_failed, progress };
        let outcomes: Vec<Result<Report>> = thread::scope(|scope| {
            let threads: Vec<_> = self
                .addresses
                .iter()
                .enumerate()
                .map(|(index, address)| {
                    let others = runs.iter().copied().filter(|run| Some(run) != runs.get(index));
                    let mut job = Job { others: others.collect(), ..job.clone() };
                    job.run = runs.get(index).copied().unwrap_or_default();
                    if index > 0 {
                        job.server_pid = None;
                    }
                    let together = &together;
                    scope.spawn(move || {
                        together.lead(address, job).with_context(|| format!("node {address}"))
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|outcome| outcome.unwrap_or_else(|_| bail!("a thread panicked"))).collect()
        });
        progress.go_on()?;
        let (mut reports, mut errors) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome {
                Ok(report) => reports.push(report),
                Err(error) => errors.push(error),
            }
        }
        // The one that is the reason of the others.
        errors.sort_by_key(|error| error.is::<OtherFailed>());
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Report::join(reports).context("there are no nodes"),
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for (mut child, registered) in self.children.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
            drop(registered);
        }
    }
}

impl Together<'_> {
    /// Leads one node through a job. Each barrier is passed also after a failure: the others wait
    /// there.
    fn lead(&self, address: &str, job: Job) -> Result<Report> {
        let run_time = job.warm_up + job.duration;
        let prepared = self.noted(self.prepare(address, job));
        self.ready.wait();
        let started = self.noted(prepared.and_then(|(mut line, offset_us)| {
            self.go_on()?;
            let start_at = now_us().saturating_add(LEAD.as_micros() as u64);
            line.say(&Request::StartAtUs(start_at.saturating_add_signed(offset_us)))?;
            match line.hear(run_time + SILENCE_MAX, || self.go_on())? {
                Some(Answer::AllSent) => Ok(line),
                other => unexpected(other),
            }
        }));
        self.sent.wait();
        self.noted(started.and_then(|mut line| {
            self.go_on()?;
            line.say(&Request::Settle)?;
            match line.hear(SILENCE_MAX, || self.go_on())? {
                Some(Answer::Report(report)) => Ok(*report),
                other => unexpected(other),
            }
        }))
    }

    fn go_on(&self) -> Result<()> {
        self.progress.go_on()?;
        if self.has_failed.load(Relaxed) {
            bail!(OtherFailed);
        }
        Ok(())
    }

    /// The same; the others learn of a failure.
    fn noted<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.has_failed.store(true, Relaxed);
        }
        outcome
    }

    /// Gives the job and finds how far the node's clock is ahead of ours, in µs.
    fn prepare(&self, address: &str, job: Job) -> Result<(Line, i64)> {
        let mut line = Line::new(connect(address)?)?;
        line.say(&Request::Job(Box::new(job)))?;
        match line.hear(SILENCE_MAX, || self.go_on())? {
            Some(Answer::Ready { .. }) => {}
            other => return unexpected(other),
        }
        let mut best: Option<(Duration, i64)> = None;
        for _ in 0..CLOCK_PROBES {
            let (before_us, started) = (now_us(), Instant::now());
            line.say(&Request::Clock)?;
            let theirs_us = match line.hear(SILENCE_MAX, || self.go_on())? {
                Some(Answer::Clock(theirs_us)) => theirs_us,
                other => return unexpected(other),
            };
            let round_trip = started.elapsed();
            let ours_us = before_us.saturating_add(round_trip.as_micros() as u64 / 2);
            let offset_us = theirs_us.wrapping_sub(ours_us) as i64;
            if best.is_none_or(|(quickest, _)| round_trip < quickest) {
                best = Some((round_trip, offset_us));
            }
        }
        Ok((line, best.map_or(0, |(_, offset_us)| offset_us)))
    }
}

fn connect(address: &str) -> Result<TcpStream> {
    let found = address.to_socket_addrs().with_context(|| format!("resolving {address}"))?;
    let found = found.into_iter().next().with_context(|| format!("{address} is unknown"))?;
    TcpStream::connect_timeout(&found, CONNECT_MAX).context("connecting")
}

fn unexpected<T>(answer: Option<Answer>) -> Result<T> {
    match answer {
        None => bail!("it ended the connection"),
        Some(Answer::Failed(why)) => bail!("{why}"),
        Some(other) => bail!("it answered out of turn: {other:?}"),
    }
}
