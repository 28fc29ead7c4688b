//! `sdb-csv`: writing a table of stock prices to SimpleDB, row by row and 25 rows at a time, and
//! finding a page of it.
//!
//! Each connection has one request under way: what counts is how often the round trip is paid, and
//! how many puts of several connections one sync makes durable.

mod rows;
mod section;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_process::parse_duration;
use tokio::task::{JoinSet, LocalSet};

use super::{
    Findings, Flags, Setting, clients, conduct,
    simpledb::{Item, SimpleDb},
    values::distinct,
};
use crate::{
    delay::Delay,
    latency::{Latencies, Verb},
    load::Endpoint,
    process,
    report::{Metric, Section},
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Rows, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 1137, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Rows to write instead of made-up ones: comma-separated, with a line of names
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// Connections that share the rows, one run of each way for each
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "1,8", value_parser = clients())]
    pub(crate) connections: Vec<usize>,
    /// Number of trials of each way
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) trials: u64,
    /// Add a round-trip time to every request
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub(crate) delay: Duration,
}

/// One trial of one way.
struct Trial {
    connections: usize,
    is_batch: bool,
    began: Duration,
    taken: Duration,
    puts: u64,
    /// Syncs of the server's journal during the trial; `None` if `/metrics` does not report them.
    syncs: Option<u64>,
    latencies: Latencies,
}

/// The measurements of a run.
struct Measured {
    rows: usize,
    trials: Vec<Trial>,
    /// Receives are queries.
    queries: Latencies,
}

const ID: &str = "sdb";
const TITLE: &str = "Rows into SimpleDB";
/// SimpleDB: 25 items a BatchPutAttributes.
const BATCH: usize = 25;
const ROWS_LEAST: u64 = 50;
/// Of a query's page.
const FOUND_MAX: usize = 100;
/// Queries after each batched trial, before scaling.
const QUERIES: u64 = 100;
const QUERIES_LEAST: u64 = 10;

pub(crate) fn run(flags: &Flags<Plan>) -> Result<()> {
    distinct("--connections", &flags.plan.connections)?;
    conduct("sdb-csv", &flags.options, |setting| findings(setting, &flags.plan))
}

/// The same as part of a suite: where there is no SimpleDB, the section says so.
pub(crate) fn findings_if_there(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let runtime = crate::runtime::current_thread()?;
    let domain = domain();
    let is_there = runtime.block_on(async {
        let mut endpoint = SimpleDb::new(&setting.endpoint, None)?;
        endpoint.create_domain(&domain).await?;
        endpoint.delete_domain(&domain).await
    });
    if let Err(error) = is_there {
        let section = Section {
            id: ID.to_owned(),
            title: TITLE.to_owned(),
            question: "How much quicker are 25 rows a request than one?".to_owned(),
            // Servers without SimpleDB answer in different ways, and wrong keys look the same.
            skipped: Some(format!("no SimpleDB here: {error:#}")),
            ..Section::default()
        };
        return Ok(Findings { sections: vec![section], ..Findings::default() });
    }
    findings(setting, plan)
}

pub(crate) fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let items: Arc<[Item]> = match &plan.table {
        Some(path) => rows::read(path)?.into(),
        None => rows::prices(setting.count(plan.rows, ROWS_LEAST)).into(),
    };
    let mut endpoint = setting.endpoint.clone();
    let _delay = Delay::put_before(&mut endpoint, plan.delay)?;
    let runtime = crate::runtime::current_thread()?;
    let mut measured = Measured { rows: items.len(), trials: vec![], queries: Latencies::new() };
    let mut recordings = Vec::new();
    for &connections in &plan.connections {
        for number in 1..=plan.trials {
            for is_batch in [false, true] {
                setting.progress.begin(&format!("sdb-csv, {connections} connections, {number}"));
                let run = Run { setting, endpoint: &endpoint, items: &items, domain: domain() };
                let mut control = run.database()?;
                let trial = run.trial(&mut control, connections, is_batch);
                let trial =
                    LocalSet::new().block_on(&runtime, setting.progress.unless_ended(trial));
                // Also if the trial failed or was ended, and that is what is reported.
                let deleted = runtime.block_on(control.delete_domain(&run.domain));
                let trial = trial?;
                deleted?;
                let front = format!("sdb.{connections}.{}.{number}", trial.way());
                recordings.extend(trial.latencies.recordings(&front, trial.began, trial.taken));
                measured.queries.merge(&control.latencies);
                measured.trials.push(trial);
            }
        }
    }
    let metrics = metrics(&plan.connections, &measured);
    Ok(Findings {
        title: TITLE.to_owned(),
        metrics,
        sections: vec![section::section(&plan.connections, &measured)],
        recordings,
        ..Findings::default()
    })
}

/// A domain of its own, and what is to be in it.
struct Run<'a> {
    setting: &'a Setting,
    endpoint: &'a Endpoint,
    items: &'a Arc<[Item]>,
    domain: String,
}

impl Run<'_> {
    fn database(&self) -> Result<SimpleDb> {
        SimpleDb::new(self.endpoint, self.setting.progress.live().if_watched())
    }

    async fn trial(
        &self,
        control: &mut SimpleDb,
        connections: usize,
        is_batch: bool,
    ) -> Result<Trial> {
        control.create_domain(&self.domain).await?;
        let mut databases = Vec::new();
        for _ in 0..connections {
            let mut database = self.database()?;
            // Warm-up: opening it is no part of a put.
            database.connect().await?;
            databases.push(database);
        }
        let syncs = control.journal_syncs().await;
        let (began, started) = (process::now(), Instant::now());
        let written = self.write(databases, is_batch).await?;
        let taken = started.elapsed();
        let syncs = control.journal_syncs().await.zip(syncs);
        if is_batch {
            self.query(control).await?;
        }
        let mut latencies = Latencies::new();
        written.iter().for_each(|database| latencies.merge(&database.latencies));
        Ok(Trial {
            connections,
            is_batch,
            began,
            taken,
            puts: written.iter().map(|database| database.requests).sum(),
            syncs: syncs.map(|(after, before)| after.saturating_sub(before)),
            latencies,
        })
    }

    /// Every connection takes the next rows as soon as it has an answer.
    async fn write(&self, databases: Vec<SimpleDb>, is_batch: bool) -> Result<Vec<SimpleDb>> {
        let next = Arc::new(AtomicUsize::new(0));
        let chunk = if is_batch { BATCH } else { 1 };
        let mut writers = JoinSet::new();
        for mut database in databases {
            let (items, next) = (Arc::clone(self.items), Arc::clone(&next));
            let (domain, progress) = (self.domain.clone(), self.setting.progress.clone());
            writers.spawn_local(async move {
                loop {
                    let first = next.fetch_add(chunk, Ordering::Relaxed);
                    let end = items.len().min(first.saturating_add(chunk));
                    match items.get(first..end) {
                        None | Some([]) => return anyhow::Ok(database),
                        Some([item]) if !is_batch => database.put(&domain, item).await?,
                        Some(several) => database.put_batch(&domain, several).await?,
                    }
                    progress.at(end as f64 / items.len() as f64, String::new);
                }
            });
        }
        let mut written = Vec::new();
        while let Some(outcome) = writers.join_next().await {
            written.push(outcome.context("a connection's task")??);
        }
        Ok(written)
    }

    /// Finds items by a value of their first attribute, a page each time.
    async fn query(&self, database: &mut SimpleDb) -> Result<()> {
        let first = self.items.first().and_then(|item| item.attributes.first());
        let Some((name, value)) = first else { return Ok(()) };
        let has_it = |item: &&Item| item.attributes.iter().any(|(n, v)| (n, v) == (name, value));
        let expected = self.items.iter().filter(has_it).take(FOUND_MAX).count();
        let (name, value) = (name.replace('`', "``"), value.replace('\'', "''"));
        let expression =
            format!("select * from `{}` where `{name}` = '{value}' limit {FOUND_MAX}", self.domain);
        for _ in 0..self.setting.count(QUERIES, QUERIES_LEAST) {
            let found = database.select(&expression).await?;
            if found != expected {
                bail!("{expression}: {found} items, not {expected}");
            }
        }
        Ok(())
    }
}

impl Trial {
    fn way(&self) -> &'static str {
        if self.is_batch { "batch" } else { "single" }
    }
}

impl Measured {
    fn of(&self, connections: usize, is_batch: bool) -> impl Iterator<Item = &Trial> {
        let is_it =
            move |trial: &&Trial| (trial.connections, trial.is_batch) == (connections, is_batch);
        self.trials.iter().filter(is_it)
    }
}

fn metrics(connections: &[usize], measured: &Measured) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for &connections in connections {
        for (is_batch, way) in [(false, "single"), (true, "batch")] {
            let figures = section::Figures::of(measured, connections, is_batch);
            metrics.extend(figures.metrics(&format!("sdb.{connections}.{way}")));
        }
        metrics.push(section::gain_metric(measured, connections));
    }
    let queries = measured.queries.percentiles(Verb::Receive);
    metrics.push(Metric::latency("sdb.select.p50", queries.p50_us));
    metrics.push(Metric::latency("sdb.select.p99", queries.p99_us));
    metrics
}

fn domain() -> String {
    let suffix: String = std::iter::repeat_with(fastrand::alphanumeric).take(12).collect();
    format!("bench-{suffix}")
}
