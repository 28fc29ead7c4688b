//! `targets`: measures Millrace and prints a table of goals, met or missed.
//!
//! Every rate is measured by turns with the ceiling's, in rounds whose medians count: on a busy
//! machine ratios hold still where rates do not. What the disk can do is measured beside it.

mod bench;
mod comparison;
mod depth;
mod faults;
mod held;
mod http2;
mod idle;
mod latency;
mod memory;
mod place;
mod probe;
mod protocols;
mod row;
mod space;
mod summary;
mod table;
mod throughput;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use clap::Args;

use bench::{Bench, Scale};
use place::{Need, Place};
use row::Row;
use table::Format;

use crate::{live::Interrupts, load::Percentiles, output, process, progress::Progress, server};

#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Seconds and small backlogs: shows that everything works, judges nothing
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also drain 10,000,000 messages, and judge the memory of as many (20 GB of disk)
    #[arg(long)]
    full: bool,
    /// Only these targets, such as 1,2,5
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=11))]
    only: Vec<u8>,
    /// The server [default: this program]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// A flag of the servers, such as --serve=--idle-poll; repeatable
    #[arg(long = "serve", value_name = "FLAG", allow_hyphen_values = true)]
    flags: Vec<String>,
    /// Where data is put while measuring: the disk in question [default: the system's directory
    /// for temporary files, unless that is in memory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print a Markdown table
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How much later than a server a signal may reach us.
const SIGNAL_LATE: Duration = Duration::from_millis(100);

type Measurement = fn(&mut Bench) -> Result<()>;

/// By number: what a target is about, and what measures it.
const TARGETS: [(&str, &str, Measurement); 11] = [
    ("1", "through the queue", |bench| throughput::many_connections(bench, "1")),
    ("2", "send, 64 connections", |bench| throughput::many_connections(bench, "2")),
    ("3", "send, few connections", throughput::few_connections),
    ("4", "drain", depth::drains),
    ("5", "latency", latency::latency),
    ("6", "protocols", protocols::protocols),
    ("7", "memory", memory::memory),
    ("8", "idle polls", idle::idle),
    ("9", "restart", space::restart),
    ("10", "disk", space::disk),
    ("11", "batches", throughput::batch_gain),
];

pub(crate) fn run_command(flags: Flags) -> Result<()> {
    let scale = match (flags.quick, flags.full) {
        (true, _) => Scale::Quick,
        (false, true) => Scale::Full,
        (false, false) => Scale::Usual,
    };
    let binary = flags.binary.clone().map_or_else(server::millrace, Ok)?;
    let progress = Progress::default();
    // Before there is anything that could be left behind.
    let _interrupts = Interrupts::start(progress.live())?;
    let place = Place::choose(flags.dir.as_deref(), Need::of(scale, &flags.only))?;
    let file_system = place.file_system;
    warn_if_busy();
    let mut bench = Bench::new(scale, binary, flags.flags.clone(), place.directory, progress)?;
    let before = bench.fdatasync()?;
    measure_all(&mut bench, &flags.only);
    let ended = bench.progress.go_on();
    let after = bench.fdatasync();
    bench.rows.sort_by_key(|row| row.target.parse::<u8>().unwrap_or(u8::MAX));

    let format = match (flags.markdown, flags.json) {
        (true, _) => Format::Markdown,
        (false, true) => Format::Json,
        (false, false) => Format::Text,
    };
    output::print(&table::print(&bench.rows, format))?;
    let summary = summary(&bench, &file_system, &before, after.as_ref().ok());
    match format {
        Format::Json => output::tell(&summary),
        Format::Text | Format::Markdown => output::print(&format!("\n{summary}\n"))?,
    }
    ended?;
    after?;
    match bench.faults.all() {
        [] => Ok(()),
        [first, ..] => bail!("{} faults, the first: {first}", bench.faults.all().len()),
    }
}

/// Measures the targets in `only`, or all, until the run is to end early. One that cannot be
/// measured has a row that says so.
fn measure_all(bench: &mut Bench, only: &[u8]) {
    let is_wanted =
        |target: &str| only.is_empty() || only.iter().any(|one| one.to_string() == target);
    for (target, what, measure) in TARGETS.into_iter().filter(|(target, ..)| is_wanted(target)) {
        bench.faults.begin();
        let measured = measure(bench);
        if measured.is_err() {
            // Ctrl-C ends our servers as well, which is no fault of theirs.
            std::thread::sleep(SIGNAL_LATE);
        }
        if bench.progress.go_on().is_err() {
            return;
        }
        if let Err(error) = measured {
            bench.faults.begin();
            bench.faults.note(&format!("not measured: {error:#}"));
            bench.add(Row { target, what: what.to_owned(), ..Row::default() });
        }
    }
    if is_wanted("5") {
        bench.faults.begin();
        latency::closes(bench);
    }
}

fn summary(
    bench: &Bench,
    file_system: &str,
    before: &Percentiles,
    after: Option<&Percentiles>,
) -> String {
    let (verdicts, cores, rounds) =
        (summary::verdicts(&bench.rows), process::cores(), bench.rounds());
    let quick = if bench.scale == Scale::Quick { " Quick: only shows that it works." } else { "" };
    let sync = |when: &str, found: &Percentiles| {
        format!("{when}: p50 {:.0} µs, p99 {:.0} µs", found.p50_us, found.p99_us)
    };
    let after = after.map(|found| sync("; after", found)).unwrap_or_default();
    let before = sync("Before it all", before);
    format!(
        "{verdicts} {cores} cores, {file_system}, rounds: {rounds}, messages of 1 KB; sync µs: the \
         median fdatasync of a 1 KB append beside each measurement. {before}{after}.{quick}"
    )
}

fn warn_if_busy() {
    let cores = process::cores();
    if let Some(load) = process::load_average().filter(|load| *load > cores as f64) {
        output::tell(&format!(
            "warning: load average {load:.1} on {cores} cores: rates and latencies are those of a \
             busy machine"
        ));
    }
}
