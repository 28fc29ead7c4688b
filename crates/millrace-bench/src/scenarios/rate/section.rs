//! What latency at a rate is reported as.

use super::{super::pc::seconds_table, Measured, Step, Steps};
use crate::{
    load::{Count, Verb},
    report::{Axis, Chart, Limit, Scale, Section, Series, Style, Table, microseconds, thousands},
    statistics::curve,
};

const NONE: &str = "–";

pub(super) fn section(all: &[Measured], found: Option<f64>, plan: &Steps) -> Section {
    let steps: Vec<&Step> = all.iter().flat_map(|measured| &measured.steps).collect();
    let mut charts = vec![chart(&steps)];
    charts.extend(all.iter().filter(|measured| measured.steps.len() > 1).map(by_second));
    let meanwhile = match plan.consumers {
        0 => String::new(),
        1 => ", and one consumer receives and deletes".to_owned(),
        many => format!(", and {many} consumers receive and delete"),
    };
    let runs = all.iter().map(|measured| (measured.name(), &measured.report));
    let size = match plan.stage.as_slice() {
        [] => format!(" of {} bytes", plan.size),
        _ => String::new(),
    };
    Section {
        id: "rate".to_owned(),
        title: "Latency at a rate".to_owned(),
        question: format!(
            "How long does a send{size} take when requests come by a schedule that waits for \
             nobody{meanwhile}?"
        ),
        finding: found.map_or_else(|| finding(&steps), |rate| highest(rate, &plan.slo)),
        charts,
        tables: vec![table(&steps), seconds_table(runs)],
        notes: notes(all),
        ..Section::default()
    }
}

fn notes(all: &[Measured]) -> Vec<String> {
    let mut notes = vec![
        "From the plan to the answer is what a user waits; from the request to the answer is what a \
         closed loop would have reported. Unsent are messages that were due and could not be sent \
         in time, failed are those that were refused or not answered: both count as having waited \
         until the end. What is answered after the end counts as well. A timer's own lateness, up \
         to two milliseconds, is left out."
            .to_owned(),
    ];
    notes.extend(all.iter().filter_map(|measured| measured.report.note_on_given_out()));
    let first_error = all.iter().find_map(|measured| measured.report.first_error.as_ref());
    notes.extend(first_error.map(|error| format!("The first error: {error}")));
    notes
}

fn highest(rate: f64, slo: &Limit) -> String {
    match rate {
        0.0 => format!("No rate that was tried keeps {slo}."),
        rate => format!("Up to {} messages/s keep {slo}.", thousands(rate)),
    }
}

pub(in crate::scenarios) fn finding(all: &[&Step]) -> String {
    let parts = all.iter().map(|step| {
        let planned = step.planned();
        let failed = match step.failed() {
            0 => String::new(),
            failed => format!(", {} failed", thousands(failed as f64)),
        };
        format!(
            "{}: median {}, 99.9 % within {}{failed}",
            step.name,
            microseconds(planned.p50_us),
            microseconds(planned.p999_us)
        )
    });
    parts.collect::<Vec<_>>().join("; ") + "."
}

pub(in crate::scenarios) fn chart(all: &[&Step]) -> Chart {
    let points = |step: &Step, verb| -> Vec<(f64, f64)> {
        let curve = curve(step.latencies.histogram(verb)).into_iter();
        curve.map(|(quantile, ns)| (quantile, ns / 1e6)).collect()
    };
    let mut series: Vec<Series> =
        all.iter().map(|step| Series::line(&step.name, points(step, Verb::Send))).collect();
    if let Some(last) = all.last() {
        let name = format!("{}, from request to answer", last.name);
        let service = Series::line(&name, points(last, Verb::Service));
        series.push(Series { style: Style::Theory, ..service });
    }
    Chart::Lines {
        title: "From plan to answer, by share of requests".to_owned(),
        x: Axis { label: "share of requests".to_owned(), scale: Scale::Nines },
        y: Axis::logarithmic("ms"),
        series,
        marks: Vec::new(),
    }
}

fn by_second(measured: &Measured) -> Chart {
    let of = |count: Count| -> Vec<(f64, f64)> {
        let seconds = (1..).zip(&measured.report.seconds);
        seconds.map(|(second, counts)| (f64::from(second), counts[count as usize] as f64)).collect()
    };
    let mut series = vec![Series::line("sent", of(Count::Sent))];
    if measured.report.count(Count::Deleted) > 0 {
        series.push(Series::line("received and deleted", of(Count::Deleted)));
    }
    Chart::Lines {
        title: "Second by second".to_owned(),
        x: Axis::linear("second"),
        y: Axis::linear("messages/s"),
        series,
        marks: Vec::new(),
    }
}

pub(in crate::scenarios) fn table(all: &[&Step]) -> Table {
    let is_staged = all.iter().any(|step| step.stage.is_some());
    let mut columns = vec!["#planned"];
    if is_staged {
        columns.extend(["#size", "#handler"]);
    }
    columns.extend(["#sent/s", "#unsent"]);
    let has_failed = all.iter().any(|step| step.failed() > 0);
    if has_failed {
        columns.push("#failed");
    }
    columns.extend([
        "#p50",
        "#p90",
        "#p99",
        "#p99.9",
        "#p99.99",
        "#max",
        "#late p99",
        "#service p99",
        "#end to end p99",
    ]);
    let is_received = all.iter().any(|step| step.received().is_some());
    if is_received {
        columns.push("#received/s");
    }
    let mut table = Table::new("", &columns);
    for step in all {
        let planned = step.planned();
        let p99 = |verb| {
            let found = step.latencies.percentiles(verb);
            found.shown(found.p99_us)
        };
        let mut row = vec![step.name.clone()];
        if let Some(stage) = step.stage {
            let bytes = stage.size_bytes.unwrap_or_default();
            row.push(format!("{} bytes", thousands(bytes as f64)));
            row.push(microseconds(stage.handler.as_secs_f64() * 1e6));
        }
        row.extend([thousands(step.achieved()), thousands(step.unsent() as f64)]);
        if has_failed {
            row.push(thousands(step.failed() as f64));
        }
        row.extend([
            planned.shown(planned.p50_us),
            planned.shown(planned.p90_us),
            planned.shown(planned.p99_us),
            planned.shown(planned.p999_us),
            planned.shown(planned.p9999_us),
            planned.shown(planned.max_us),
            p99(Verb::Late),
            p99(Verb::Service),
            p99(Verb::EndToEnd),
        ]);
        if is_received {
            row.push(step.received().map_or(NONE.to_owned(), thousands));
        }
        table.row(row);
    }
    table
}
