//! The node's side: takes a job, runs it when told, reports.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_process::listen_address;

use super::{Answer, Job, Line, PROTOCOL, Request, SIGN_OF_LIFE, SILENCE_MAX, TURN, now_us};
use crate::{
    access::{AccessFlags, given_url},
    delay::Delay,
    load::{self, Endpoint, Scenario, Together, is_nothing_yet},
    output,
    progress::Progress,
    tls::Trust,
    watcher::Watcher,
};

#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Address to listen on. Whoever can connect can have load made, so keep to trusted networks
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7345", value_parser = listen_address)]
    listen: SocketAddr,
    /// End after one run
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    trust: Trust,
}

/// A coordinator that says so much late is not waited for.
const START_MAX: Duration = Duration::from_secs(60);
/// How often a node that runs says so.
const SIGN_PAUSE: Duration = Duration::from_secs(SILENCE_MAX.as_secs() / 8);

/// Serves one coordinator after the other; prints the address first.
pub(crate) fn serve(flags: &Flags) -> Result<()> {
    let listener = TcpListener::bind(flags.listen)
        .with_context(|| format!("listening on {}", flags.listen))?;
    let address = listener.local_addr().context("local address")?;
    // Who started it reads the address from there.
    output::print(&format!("node listens at {address}\n"))?;
    loop {
        let (socket, from) = listener.accept().context("accepting")?;
        let outcome = converse(socket, flags);
        if flags.once {
            return outcome;
        }
        match outcome {
            Ok(()) => output::tell(&format!("run for {from} done")),
            Err(error) => output::tell(&format!("run for {from} failed: {error:#}")),
        }
    }
}

fn converse(socket: TcpStream, flags: &Flags) -> Result<()> {
    let mut line = Line::new(socket)?;
    let outcome = prepare_and_run(&mut line, flags);
    if let Err(error) = &outcome {
        // It may be the connection that broke.
        let _ = line.say(&Answer::Failed(format!("{error:#}")));
    }
    outcome
}

fn prepare_and_run(line: &mut Line, flags: &Flags) -> Result<()> {
    let Some(Request::Job(job)) = line.hear(SILENCE_MAX, || Ok(()))? else { bail!("no job came") };
    if job.protocol != PROTOCOL {
        bail!("the coordinator speaks version {}, this node {PROTOCOL}", job.protocol);
    }
    let access = flags.access.access(job.interface, job.sqs_protocol)?;
    let url = given_url("the job's endpoint", &job.endpoint)?;
    let mut endpoint = Endpoint::new(&url, &access, &flags.trust)?;
    let _delay = Delay::put_before(&mut endpoint, job.delay)?;
    line.say(&Answer::Ready { version: env!("CARGO_PKG_VERSION").to_owned() })?;
    let start_at_us = loop {
        match line.hear(SILENCE_MAX, || Ok(()))? {
            Some(Request::Clock) => line.say(&Answer::Clock(now_us()))?,
            Some(Request::StartAtUs(at)) => break at,
            _ => bail!("no start came"),
        }
    };
    let wait = Duration::from_micros(start_at_us.saturating_sub(now_us()));
    if wait > START_MAX {
        bail!("the start is {wait:?} away");
    }
    thread::sleep(wait);
    run(&job, endpoint, line)
}

fn run(job: &Job, endpoint: Endpoint, line: &mut Line) -> Result<()> {
    let progress = Progress::default();
    let departure = watch_departure(&line.writer, &progress)?;
    let writer = line.writer.try_clone().context("sharing the connection")?;
    let shared = Arc::new(Mutex::new(Line::new(writer)?));
    let all_sent = {
        let (shared, progress) = (Arc::clone(&shared), progress.clone());
        move || {
            // A lock, for the run's thread talks while we wait for the run.
            let mut line = shared.lock().unwrap_or_else(PoisonError::into_inner);
            line.say(&Answer::AllSent)?;
            match line.hear(SILENCE_MAX, || progress.go_on())? {
                Some(Request::Settle) => Ok(()),
                _ => bail!("the coordinator left"),
            }
        }
    };
    let together =
        Together { run: job.run, others: job.others.clone(), all_sent: Arc::new(all_sent) };
    let scenario = Scenario { together: Some(together), progress, ..job.scenario(endpoint) };
    let report = load::run_on(&scenario, &job.queue)?;
    // From here on nothing else is said.
    drop(departure);
    line.say(&Answer::Report(Box::new(report)))
}

/// Ends a run early when its coordinator ends the connection: nobody would hear the report. Lets it
/// know from time to time that the run goes on: consumers may have a long backlog.
fn watch_departure(socket: &TcpStream, progress: &Progress) -> Result<Watcher> {
    let socket = socket.try_clone().context("sharing the connection")?;
    let progress = progress.clone();
    Watcher::start("departure", move |is_over| {
        let mut told = Instant::now();
        while !is_over.load(Relaxed) {
            if told.elapsed() > SIGN_PAUSE {
                told = Instant::now();
                // If the connection is broken, the look at it shows that.
                let _ = (&socket).write_all(SIGN_OF_LIFE);
            }
            // Waits for a turn; what is said is left to who listens.
            match socket.peek(&mut [0]) {
                Ok(1..) => thread::sleep(TURN),
                Err(error) if is_nothing_yet(&error) => {}
                Ok(0) | Err(_) => return progress.live().end_early(),
            }
        }
    })
}
