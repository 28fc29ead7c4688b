//! `sdb-csv`: writing a table of stock prices to SimpleDB, row by row and 25 rows at a time.
//!
//! One connection, one request at a time: what counts is how often the round trip is paid.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_client::lines::{LineError, Lines};
use millrace_process::parse_duration;

use super::{
    Findings, Flags, Setting, conduct,
    pc::gain,
    simpledb::{Item, SimpleDb},
};
use crate::{
    delay::Delay,
    process,
    report::{Axis, Bar, Better, Chart, Metric, Section, Table, Unit, thousands},
    statistics::median,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Rows, before scaling
    #[arg(long, value_name = "NUMBER", default_value_t = 1137, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Rows to write instead of made-up ones: comma-separated, with a line of names
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// How often each way is tried
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) trials: u64,
    /// Add a round-trip time to every request
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub(crate) delay: Duration,
}

/// One trial of one way.
struct Trial {
    is_batch: bool,
    taken: Duration,
    requests: u64,
}

const ID: &str = "sdb";
const TITLE: &str = "Rows into SimpleDB";
/// SimpleDB: 25 items a BatchPutAttributes.
const BATCH: usize = 25;
const ROWS_LEAST: u64 = 50;
/// SimpleDB: 256 attributes an item, of 1,024 bytes each.
const LINE_BYTES_MAX: usize = 1 << 20;

pub(crate) fn run(flags: &Flags<Plan>) -> Result<()> {
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
            // What an endpoint without it answers differs; wrong keys look the same.
            skipped: Some(format!("no SimpleDB here: {error:#}")),
            ..Section::default()
        };
        return Ok(Findings { sections: vec![section], ..Findings::default() });
    }
    findings(setting, plan)
}

pub(crate) fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let items = match &plan.table {
        Some(path) => {
            let reading = || format!("reading {}", path.display());
            let file = File::open(path).with_context(reading)?;
            parse(BufReader::new(file)).with_context(reading)?
        }
        None => prices(setting.count(plan.rows, ROWS_LEAST)),
    };
    let mut endpoint = setting.endpoint.clone();
    let _delay = Delay::put_before(&mut endpoint, plan.delay)?;
    let runtime = crate::runtime::current_thread()?;
    let (mut trials, mut recordings) = (Vec::new(), Vec::new());
    for trial in 0..plan.trials {
        for is_batch in [false, true] {
            setting.progress.begin(&format!("sdb-csv, trial {}", trial + 1));
            let live = setting.progress.live().if_watched();
            let mut database = SimpleDb::new(&endpoint, live)?;
            let began = process::now();
            let domain = domain();
            let trial = write(setting, &mut database, &domain, &items, is_batch);
            let trial = runtime.block_on(setting.progress.unless_ended(trial));
            // Also if the trial failed or was ended, and that is what is reported.
            let deleted = runtime.block_on(database.delete_domain(&domain));
            let trial = trial?;
            deleted?;
            let way = if is_batch { "batch" } else { "single" };
            let front = format!("sdb.{way}.{}", trials.len() / 2 + 1);
            recordings.extend(database.latencies.recordings(&front, began, trial.taken));
            trials.push(trial);
        }
    }
    let time = |is_batch| median(seconds(&trials, is_batch));
    let lower = |name, value| Metric::new(name, value, Unit::Seconds, Better::Lower);
    Ok(Findings {
        title: TITLE.to_owned(),
        metrics: vec![
            lower("sdb.single.time", time(false)),
            lower("sdb.batch.time", time(true)),
            Metric::new(
                "sdb.gain",
                time(false) / time(true).max(1e-9),
                Unit::Ratio,
                Better::Higher,
            ),
        ],
        sections: vec![section(&items, &trials)],
        recordings,
        ..Findings::default()
    })
}

async fn write(
    setting: &Setting,
    database: &mut SimpleDb,
    domain: &str,
    items: &[Item],
    is_batch: bool,
) -> Result<Trial> {
    // Warm-up: opens the connection.
    database.create_domain(domain).await?;
    let (before, started) = (database.requests, Instant::now());
    let chunk = if is_batch { BATCH } else { 1 };
    for (index, items_of_request) in items.chunks(chunk).enumerate() {
        match items_of_request {
            [item] if !is_batch => database.put(domain, item).await?,
            several => database.put_batch(domain, several).await?,
        }
        setting.progress.at((index * chunk) as f64 / items.len() as f64, String::new);
    }
    let (taken, requests) = (started.elapsed(), database.requests - before);
    Ok(Trial { is_batch, taken, requests })
}

fn domain() -> String {
    let suffix: String = std::iter::repeat_with(fastrand::alphanumeric).take(12).collect();
    format!("bench-{suffix}")
}

/// Made-up prices of one share, the same every time: eight attributes a row.
fn prices(rows: u64) -> Vec<Item> {
    let mut random = fastrand::Rng::with_seed(1137);
    let mut close = 25.0;
    (0..rows)
        .map(|day| {
            let open: f64 = close + random.f64() - 0.5;
            close = (open + random.f64() * 2.0 - 1.0).max(1.0);
            let (high, low) =
                (open.max(close) + random.f64(), open.min(close) - random.f64() / 2.0);
            // Working days only matter to brokers: 12 months of 28 days.
            let (year, month) = (2005 + day / 336, day / 28 % 12 + 1);
            let date = format!("{year}-{month:02}-{:02}", day % 28 + 1);
            let price = |value: f64| format!("{value:.2}");
            let values = [
                ("Ticker", "MILL".to_owned()),
                ("Date", date.clone()),
                ("Open", price(open)),
                ("High", price(high)),
                ("Low", price(low)),
                ("Close", price(close)),
                ("Volume", random.u64(1_000_000..90_000_000).to_string()),
                ("AdjustedClose", price(close * 4.0)),
            ];
            Item {
                name: format!("{date}_MILL"),
                attributes: values.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            }
        })
        .collect()
}

/// A table without quotes; each row is named by its number and its first value.
fn parse(table: impl BufRead) -> Result<Vec<Item>> {
    let is_blank = |line: &Result<(u64, String), LineError>| {
        line.as_ref().is_ok_and(|(_, text)| text.trim().is_empty())
    };
    let mut lines = Lines::new(table, LINE_BYTES_MAX).filter(|line| !is_blank(line));
    let (_, head) = lines.next().context("the table is empty")??;
    let head = head.strip_prefix('\u{feff}').unwrap_or(&head);
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let mut items = Vec::new();
    for (number, line) in lines.enumerate() {
        let (_, line) = line?;
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        if values.len() != names.len() {
            bail!("row {} has {} values, the first line {}", number + 1, values.len(), names.len());
        }
        let first = values.first().copied().unwrap_or_default();
        let pairs = names.iter().zip(&values);
        items.push(Item {
            name: format!("{:06}_{first}", number + 1),
            attributes: pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        });
    }
    if items.is_empty() {
        bail!("the table has no rows");
    }
    Ok(items)
}

fn seconds(trials: &[Trial], is_batch: bool) -> impl Iterator<Item = f64> {
    let of = trials.iter().filter(move |trial| trial.is_batch == is_batch);
    of.map(|trial| trial.taken.as_secs_f64())
}

fn way(is_batch: bool) -> &'static str {
    if is_batch { "25 a request" } else { "one by one" }
}

fn section(items: &[Item], trials: &[Trial]) -> Section {
    let (single, batch) = (median(seconds(trials, false)), median(seconds(trials, true)));
    let ratio = single / batch.max(1e-9);
    let mut table = Table::new("", &["#trial", "rows", "#time", "#rows/s", "#requests"]);
    for (index, trial) in trials.iter().enumerate() {
        let seconds = trial.taken.as_secs_f64();
        table.row([
            (index / 2 + 1).to_string(),
            way(trial.is_batch).to_owned(),
            format!("{seconds:.3} s"),
            thousands(items.len() as f64 / seconds.max(1e-9)),
            trial.requests.to_string(),
        ]);
    }
    let bars = [(false, single), (true, batch)].map(|(is_batch, seconds)| Bar {
        label: way(is_batch).to_owned(),
        value: seconds,
        text: format!("{seconds:.3} s"),
        series: "time".to_owned(),
    });
    Section {
        id: ID.to_owned(),
        title: TITLE.to_owned(),
        question: format!(
            "How long do {} rows take, one by one and 25 a request, one request after the other?",
            items.len()
        ),
        finding: format!("One by one {single:.3} s, 25 a request {batch:.3} s."),
        shapes: vec![gain("25 rows a request are quicker", ratio, 1.0)],
        charts: vec![Chart::Bars {
            title: "Median time".to_owned(),
            axis: Axis::linear("s"),
            bars: bars.into(),
        }],
        tables: vec![table],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_made_up_table_has_the_original_size_and_unique_names() {
        let items = prices(1137);
        let mut names: Vec<_> = items.iter().map(|item| &item.name).collect();
        names.dedup();

        assert_eq!((items.len(), names.len(), items[0].attributes.len()), (1137, 1137, 8));
        assert_eq!(items.chunks(BATCH).count(), 46);
        assert_eq!(prices(10), items[..10]);
    }

    #[test]
    fn tables_from_files_have_names_in_their_first_line() {
        let parse = |text: &str| parse(text.as_bytes());
        let items = parse("Date,Close\n2005-01-03, 9.20\n\n2005-01-04,9.30\n").unwrap();

        assert_eq!(items[1].name, "000002_2005-01-04");
        assert_eq!(items[0].attributes[1], ("Close".to_owned(), "9.20".to_owned()));
        assert!(parse("Date,Close\n2005-01-03\n").is_err());
        assert!(parse("Date\n").is_err() && parse("").is_err());
        let long = format!("a\n{}", "x".repeat(LINE_BYTES_MAX + 1));
        let error = parse(&long).unwrap_err().to_string();
        assert_eq!(error, "line 2 is longer than 1048576 bytes");
    }
}
