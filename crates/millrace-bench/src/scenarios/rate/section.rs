//! What latency at a rate is reported as.

use super::{Measured, Step, Steps};
use crate::{
    load::{Count, Verb},
    report::{Axis, Chart, Limit, Scale, Section, Series, Style, Table, microseconds, thousands},
    statistics::curve,
};

pub(super) fn section(all: &[Measured], found: Option<f64>, plan: &Steps) -> Section {
    let steps: Vec<&Step> = all.iter().flat_map(|measured| &measured.steps).collect();
    let mut charts = vec![chart(&steps)];
    charts.extend(all.iter().filter(|measured| measured.steps.len() > 1).map(by_second));
    let meanwhile = match plan.consumers {
        0 => String::new(),
        1 => ", and one consumer receives and deletes".to_owned(),
        many => format!(", and {many} consumers receive and delete"),
    };
    Section {
        id: "rate".to_owned(),
        title: "Latency at a rate".to_owned(),
        question: format!(
            "How long does a send of {} bytes take when requests come by a schedule that waits \
             for nobody{meanwhile}?",
            plan.size
        ),
        finding: found.map_or_else(|| finding(&steps), |rate| highest(rate, &plan.slo)),
        charts,
        tables: vec![table(&steps)],
        notes: vec![
            "From the plan to the answer is what a user waits; from the request to the answer is \
             what a closed loop would have reported. Unsent are messages that were due and could \
             not be sent in time. A timer's own lateness, up to a millisecond, is left out."
                .to_owned(),
        ],
        ..Section::default()
    }
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
        format!(
            "{}: median {}, 99.9 % within {}",
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
    let mut table = Table::new(
        "",
        &[
            "#planned",
            "#sent/s",
            "#unsent",
            "#p50",
            "#p90",
            "#p99",
            "#p99.9",
            "#p99.99",
            "#max",
            "#late p99",
            "#service p99",
            "#end to end p99",
        ],
    );
    for step in all {
        let planned = step.planned();
        let through = step.latencies.percentiles(Verb::EndToEnd);
        table.row([
            step.name.clone(),
            thousands(step.achieved()),
            thousands(step.unsent() as f64),
            microseconds(planned.p50_us),
            microseconds(planned.p90_us),
            microseconds(planned.p99_us),
            microseconds(planned.p999_us),
            microseconds(planned.p9999_us),
            microseconds(planned.max_us),
            microseconds(step.latencies.percentiles(Verb::Late).p99_us),
            microseconds(step.latencies.percentiles(Verb::Service).p99_us),
            if through.count > 0 { microseconds(through.p99_us) } else { "–".to_owned() },
        ]);
    }
    table
}
