//! The section of the report: medians of the trials, and latencies over all trials.

use super::{super::pc::gain, ID, Measured, TITLE, Trial};
use crate::{
    latency::{Latencies, Percentiles, Verb},
    report::{Axis, Bar, Better, Chart, Metric, Section, Table, Unit, microseconds, thousands},
    statistics::median,
};

/// One way over so many connections.
pub(super) struct Figures {
    time_s: f64,
    rows_per_s: f64,
    puts_per_s: f64,
    puts: Percentiles,
    syncs_per_put: Option<f64>,
}

/// The experiment: 1137 rows at Amazon took 53.3 s one by one and 6.3 s in batches from a PC,
/// 32.6 s and 6 s from a machine of EC2.
const AT_AMAZON: [(&str, f64); 2] = [("at Amazon, from a PC", 8.4), ("at Amazon, from EC2", 5.4)];

impl Figures {
    pub(super) fn of(measured: &Measured, connections: usize, is_batch: bool) -> Figures {
        let trials = || measured.of(connections, is_batch);
        let seconds = |trial: &Trial| trial.taken.as_secs_f64().max(1e-9);
        let per_second = |count: f64, trial: &Trial| count / seconds(trial);
        let mut latencies = Latencies::new();
        trials().for_each(|trial| latencies.merge(&trial.latencies));
        let puts: u64 = trials().map(|trial| trial.puts).sum();
        let syncs: Option<u64> = trials().map(|trial| trial.syncs).sum();
        Figures {
            time_s: median(trials().map(seconds)),
            rows_per_s: median(trials().map(|trial| per_second(measured.rows as f64, trial))),
            puts_per_s: median(trials().map(|trial| per_second(trial.puts as f64, trial))),
            puts: latencies.percentiles(Verb::Send),
            syncs_per_put: syncs.map(|syncs| syncs as f64 / puts.max(1) as f64),
        }
    }

    pub(super) fn metrics(&self, front: &str) -> Vec<Metric> {
        let name = |end: &str| format!("{front}.{end}");
        let mut metrics = vec![
            Metric::new(&name("time"), self.time_s, Unit::Seconds, Better::Lower),
            Metric::rate(&name("rate"), self.rows_per_s),
            Metric::rate(&name("puts"), self.puts_per_s),
            Metric::latency(&name("p50"), self.puts.p50_us),
            Metric::latency(&name("p99"), self.puts.p99_us),
        ];
        metrics.extend(
            self.syncs_per_put.map(|syncs| {
                Metric::new(&name("syncs_per_put"), syncs, Unit::Ratio, Better::Lower)
            }),
        );
        metrics
    }
}

pub(super) fn gain_metric(measured: &Measured, connections: usize) -> Metric {
    let name = format!("sdb.{connections}.gain");
    Metric::new(&name, ratio(measured, connections), Unit::Ratio, Better::Higher)
}

pub(super) fn section(connections: &[usize], measured: &Measured) -> Section {
    let ways = || connections.iter().flat_map(|&count| [(count, false), (count, true)]);
    let figures = |(count, is_batch)| Figures::of(measured, count, is_batch);
    let (mut finding, mut shapes) = (Vec::new(), Vec::new());
    let mut ratios =
        Table::new("25 rows a request, compared with one by one", &["", "#times as quick"]);
    for &count in connections {
        let ratio = ratio(measured, count);
        let over = over(count);
        finding.push(format!("{ratio:.1} times as quick {over}"));
        shapes.push(gain(&format!("25 rows a request are quicker {over}"), ratio, 1.0));
        ratios.row([over, format!("{ratio:.1}")]);
    }
    for (name, ratio) in AT_AMAZON {
        ratios.row([name.to_owned(), format!("{ratio:.1}")]);
    }
    let bars = ways().map(|way| {
        let rate = figures(way).rows_per_s;
        let label = format!("{} {}", name(way.1), over(way.0));
        Bar {
            label,
            value: rate,
            text: format!("{}/s", thousands(rate)),
            series: "rows".to_owned(),
        }
    });
    Section {
        id: ID.to_owned(),
        title: TITLE.to_owned(),
        question: format!(
            "How quickly are {} rows written, one by one and 25 a request?",
            measured.rows
        ),
        finding: format!("25 rows a request are {}.", finding.join(", ")),
        shapes,
        charts: vec![Chart::Bars {
            title: "Rows written".to_owned(),
            axis: Axis::linear("rows/s"),
            bars: bars.collect(),
        }],
        tables: vec![
            summary(ways().map(|way| (way, figures(way)))),
            ratios,
            trials(measured),
            queries(measured),
        ],
        ..Section::default()
    }
}

fn summary(all: impl Iterator<Item = ((usize, bool), Figures)>) -> Table {
    let heads =
        ["rows", "#connections", "#time", "#rows/s", "#puts/s", "#p50", "#p99", "#syncs/put"];
    let mut table = Table::new("", &heads);
    for ((connections, is_batch), figures) in all {
        let Figures { time_s, rows_per_s, puts_per_s, puts, syncs_per_put } = figures;
        table.row([
            name(is_batch).to_owned(),
            connections.to_string(),
            format!("{time_s:.3} s"),
            thousands(rows_per_s),
            thousands(puts_per_s),
            puts.shown(puts.p50_us),
            puts.shown(puts.p99_us),
            syncs_per_put.map_or("–".to_owned(), |syncs| format!("{syncs:.2}")),
        ]);
    }
    table
}

fn trials(measured: &Measured) -> Table {
    let mut table = Table::new("Trials", &["rows", "#connections", "#time", "#requests"]);
    for trial in &measured.trials {
        table.row([
            name(trial.is_batch).to_owned(),
            trial.connections.to_string(),
            format!("{:.3} s", trial.taken.as_secs_f64()),
            trial.puts.to_string(),
        ]);
    }
    table
}

fn queries(measured: &Measured) -> Table {
    let found = measured.queries.percentiles(Verb::Receive);
    let title = "Select of up to 100 items by one value, over 1 connection";
    let mut table = Table::new(title, &["#queries", "#p50", "#p99"]);
    table.row([found.count.to_string(), microseconds(found.p50_us), microseconds(found.p99_us)]);
    table
}

fn ratio(measured: &Measured, connections: usize) -> f64 {
    let [single, batch] =
        [false, true].map(|is_batch| Figures::of(measured, connections, is_batch).time_s);
    single / batch.max(1e-9)
}

fn name(is_batch: bool) -> &'static str {
    if is_batch { "25 a request" } else { "one by one" }
}

fn over(connections: usize) -> String {
    match connections {
        1 => "over 1 connection".to_owned(),
        several => format!("over {several} connections"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenarios::sdb_csv::BATCH;

    fn measured(syncs: Option<u64>) -> Measured {
        let trial = |is_batch, taken| Trial {
            connections: 8,
            is_batch,
            began: Duration::ZERO,
            taken: Duration::from_secs(taken),
            puts: if is_batch { 1000 / BATCH as u64 } else { 1000 },
            syncs,
            latencies: Latencies::new(),
        };
        let singles = [10, 8, 30].map(|taken| trial(false, taken));
        let batches = [2, 1, 2].map(|taken| trial(true, taken));
        let trials = singles.into_iter().chain(batches).collect();
        Measured { rows: 1000, trials, queries: Latencies::new() }
    }

    #[test]
    fn medians_of_the_trials_count() {
        let figures = Figures::of(&measured(Some(250)), 8, false);

        assert_eq!((figures.time_s, figures.rows_per_s), (10.0, 100.0));
        assert_eq!(figures.syncs_per_put, Some(0.25));
        assert_eq!(Figures::of(&measured(None), 8, true).syncs_per_put, None);
        assert_eq!(Figures::of(&measured(None), 8, true).puts_per_s, 20.0);
        assert_eq!(gain_metric(&measured(None), 8).value, 5.0);
    }

    #[test]
    fn the_ratio_is_shown_beside_that_of_the_experiment() {
        let section = section(&[8], &measured(None));

        assert_eq!(section.finding, "25 rows a request are 5.0 times as quick over 8 connections.");
        assert_eq!(section.tables[1].rows[0], ["over 8 connections", "5.0"]);
        assert_eq!(section.tables[1].rows[2], ["at Amazon, from EC2", "5.4"]);
    }
}
