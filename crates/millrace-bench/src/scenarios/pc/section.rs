//! What runs of producers and consumers are reported as.

use std::time::Duration;

use super::{Measured, Plan};
use crate::{
    load::{self, Count, Verb},
    report::{Axis, Bar, Better, Chart, Metric, Section, Series, Shape, Table, Unit, thousands},
};

pub(crate) fn metrics(front: &str, all: &[Measured], price: f64) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for Measured { id, report, .. } in all {
        let name = |rest: &str| format!("{front}.{id}.{rest}");
        metrics.push(Metric::rate(&name("rate"), report.rate()));
        let per_message = report.requests_per_message();
        let lower = |what, value, unit| Metric::new(&name(what), value, unit, Better::Lower);
        metrics.push(lower("requests_per_message", per_message, Unit::Ratio));
        metrics.push(lower("dollars_per_million", per_message * price, Unit::Dollars));
        for (verb, word) in [(Verb::Send, "send"), (Verb::EndToEnd, "end_to_end")] {
            let found = report.percentiles(verb);
            if found.count > 0 {
                metrics.push(Metric::latency(&name(&format!("{word}.p50")), found.p50_us));
                metrics.push(Metric::latency(&name(&format!("{word}.p99")), found.p99_us));
            }
        }
        for (word, cpu_us) in [
            ("client_cpu", report.own_cpu_us_per_message()),
            ("server_cpu", report.server_cpu_us_per_message()),
        ] {
            metrics.extend(cpu_us.map(|cpu_us| lower(word, cpu_us, Unit::Microseconds)));
        }
        let verdict = &report.verdict;
        metrics.push(Metric::faults(&name("lost"), report.lost()));
        metrics.push(Metric::faults(&name("duplicated"), verdict.duplicates));
        metrics.push(Metric::count(&name("reordered"), verdict.out_of_order));
        metrics.push(Metric::faults(&name("failed"), report.count_in_all(Count::FailedRequests)));
        metrics.push(Metric::count(&name("messages"), report.count(report.headline())));
    }
    metrics
}

/// The rates beside one another, what they cost, and the verdict on every message.
pub(crate) fn section(all: &[Measured], plan: &Plan) -> Section {
    let delay = match plan.delay {
        Duration::ZERO => String::new(),
        delay => format!(" over a round trip of {} ms", delay.as_millis()),
    };
    let runs = all.iter().map(|one| (one.name.as_str(), &one.report));
    Section {
        id: "pc".to_owned(),
        title: "Producers and consumers".to_owned(),
        question: format!(
            "How many messages of {} bytes go through one queue, with {} producers and {} \
             consumers a process{delay}, and what do they cost?",
            plan.size, plan.producers, plan.consumers
        ),
        finding: finding(all),
        charts: vec![rates_chart(all), seconds_chart(all)],
        tables: vec![rates_table(all, plan.price), verdict_table(all), seconds_table(runs)],
        notes: notes(all),
        ..Section::default()
    }
}

fn finding(all: &[Measured]) -> String {
    let parts: Vec<String> = all
        .iter()
        .map(|one| format!("{}: {} messages/s", one.name, thousands(one.report.rate())))
        .collect();
    let lost: u64 = all.iter().map(|one| one.report.lost()).sum();
    let lost = match lost {
        0 if all.iter().any(|one| one.report.ended_with_server()) => {
            "the server went away with what was in it".to_owned()
        }
        0 => "none was lost".to_owned(),
        lost => format!("{lost} were lost"),
    };
    format!("{}; {lost}.", parts.join("; "))
}

pub(super) fn batch_gain(all: &[Measured]) -> Vec<Shape> {
    let of = |id: &str| all.iter().find(|one| one.id == id).map(|one| one.report.rate());
    let (Some(single), Some(batch)) = (of("single"), of("batch")) else { return Vec::new() };
    vec![gain("batches of ten against singles: at least 3.5 times", batch / single.max(1e-9), 3.5)]
}

/// An expectation that a ratio reaches a least value.
pub(crate) fn gain(expected: &str, ratio: f64, least: f64) -> Shape {
    Shape::of_figure(expected, format!("{ratio:.2} times"), 1.0 - ratio / least)
}

fn rates_chart(all: &[Measured]) -> Chart {
    let bars = all.iter().map(|one| Bar {
        label: one.name.clone(),
        value: one.report.rate(),
        text: format!("{}/s", thousands(one.report.rate())),
        series: "through the queue".to_owned(),
    });
    Chart::Bars {
        title: "Messages through the queue".to_owned(),
        axis: Axis::linear("messages/s"),
        bars: bars.collect(),
    }
}

fn seconds_chart(all: &[Measured]) -> Chart {
    let series = all.iter().map(|one| {
        let seconds = one.report.seconds.iter().enumerate();
        let points = seconds
            .map(|(index, counts)| ((index + 1) as f64, counts[Count::Deleted as usize] as f64));
        Series::line(&one.name, points.collect())
    });
    Chart::Lines {
        title: "Second by second".to_owned(),
        x: Axis::linear("second"),
        y: Axis::linear("messages/s"),
        series: series.collect(),
        marks: Vec::new(),
    }
}

fn rates_table(all: &[Measured], price: f64) -> Table {
    let mut table = Table::new(
        "",
        &[
            "run",
            "#messages/s",
            "#requests/s",
            "#requests a message",
            "#$ a million",
            "#send p50",
            "#send p99",
            "#end to end p50",
            "#client CPU",
            "#server CPU",
        ],
    );
    for Measured { name, report, .. } in all {
        let per_message = report.requests_per_message();
        let send = report.percentiles(Verb::Send);
        let through = report.percentiles(Verb::EndToEnd);
        let [own_cpu, server_cpu] = report.shown_cpu();
        table.row([
            name.clone(),
            thousands(report.rate()),
            thousands(report.per_second(Count::Requests)),
            format!("{per_message:.2}"),
            format!("{:.2}", per_message * price),
            send.shown(send.p50_us),
            send.shown(send.p99_us),
            through.shown(through.p50_us),
            own_cpu,
            server_cpu,
        ]);
    }
    table
}

fn verdict_table(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "Every message",
        &[
            "run",
            "#acknowledged",
            "#received",
            "#deleted",
            "#lost",
            "#duplicated",
            "#reordered",
            "#failed requests",
        ],
    );
    for Measured { name, report, .. } in all {
        let verdict = &report.verdict;
        let counts = [
            verdict.acknowledged,
            verdict.received,
            verdict.deleted,
            report.lost(),
            verdict.duplicates,
            verdict.out_of_order,
            // As the verdict, of the whole run.
            report.count_in_all(Count::FailedRequests),
        ];
        let counts = counts.map(|count| thousands(count as f64));
        table.row(std::iter::once(name.clone()).chain(counts));
    }
    table
}

/// What each run counted, by whole second.
pub(in crate::scenarios) fn seconds_table<'a>(
    all: impl IntoIterator<Item = (&'a str, &'a load::Report)>,
) -> Table {
    let mut table = Table::new(
        "Second by second",
        &["run", "#second", "#sent", "#received", "#deleted", "#requests"],
    );
    table.is_long = true;
    for (name, report) in all {
        for (index, counts) in report.seconds.iter().enumerate() {
            let of = |count: Count| counts[count as usize].to_string();
            table.row([
                name.to_owned(),
                (index + 1).to_string(),
                of(Count::Sent),
                of(Count::Received),
                of(Count::Deleted),
                of(Count::Requests),
            ]);
        }
    }
    table
}

fn notes(all: &[Measured]) -> Vec<String> {
    let mut notes = vec![
        "Counted are messages that were received and deleted. Dollars are requests at a list \
         price. CPU is that of a message, user and system."
            .to_owned(),
    ];
    if all.iter().any(|one| !one.report.is_ordered() && one.report.verdict.out_of_order > 0) {
        notes.push("A standard queue promises no order: reordered is for information.".to_owned());
    }
    notes.extend(all.iter().filter_map(|one| one.report.note_on_given_out()));
    let first_error = all.iter().find_map(|one| one.report.first_error.clone());
    notes.extend(first_error.map(|error| format!("The first error: {error}")));
    notes
}
