//! The section of the report: medians of the trials, and latencies.

use std::time::Duration;

use super::{BATCH, ID, Measured, Plan, TITLE, Trial, WAYS, Way};
use crate::{
    latency::{Latencies, Percentiles, Verb},
    report::{Axis, Bar, Better, Chart, Metric, Section, Table, Unit, thousands},
    statistics::median,
};

/// One way to so many queues.
struct Figures {
    publishes_per_s: f64,
    deliveries_per_s: f64,
    /// Of the server, for one delivery.
    cpu_us: Option<f64>,
    requests: Percentiles,
}

impl Figures {
    fn of(measured: &Measured, queues: u64, way: Way) -> Figures {
        let trials = || measured.of(queues, way);
        let seconds = |trial: &Trial| trial.taken.as_secs_f64().max(1e-9);
        let deliveries = |trial: &Trial| trial.deliveries(measured.messages) as f64;
        let mut latencies = Latencies::new();
        trials().for_each(|trial| latencies.merge(&trial.latencies));
        let cpu: Option<Duration> = trials().map(|trial| trial.server_cpu).sum();
        let all: f64 = trials().map(deliveries).sum();
        Figures {
            publishes_per_s: median(trials().map(|one| measured.messages as f64 / seconds(one))),
            deliveries_per_s: median(trials().map(|one| deliveries(one) / seconds(one))),
            cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / all.max(1.0)),
            requests: latencies.percentiles(Verb::Send),
        }
    }
}

pub(super) fn metrics(queues: &[u64], measured: &Measured) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for &count in queues {
        for way in WAYS {
            let Figures { publishes_per_s, deliveries_per_s, cpu_us, requests } =
                Figures::of(measured, count, way);
            let name = |end: &str| format!("fanout.{count}.{}.{end}", way.name());
            metrics.push(Metric::rate(&name("publishes"), publishes_per_s));
            metrics.push(Metric::rate(&name("deliveries"), deliveries_per_s));
            metrics.push(Metric::latency(&name("p50"), requests.p50_us));
            metrics.push(Metric::latency(&name("p99"), requests.p99_us));
            metrics.extend(
                cpu_us.map(|us| {
                    Metric::new(&name("server_cpu"), us, Unit::Microseconds, Better::Lower)
                }),
            );
        }
        for way in [Way::Single, Way::Batch] {
            let name = format!("fanout.{count}.{}.share", way.name());
            let share = share(measured, count, way);
            metrics.push(Metric::new(&name, share, Unit::Ratio, Better::Higher));
        }
    }
    for (name, latencies) in [("publish", &measured.publishes), ("send", &measured.sends)] {
        let found = latencies.percentiles(Verb::Send);
        metrics.push(Metric::latency(&format!("fanout.{name}.p50"), found.p50_us));
        metrics.push(Metric::latency(&format!("fanout.{name}.p99"), found.p99_us));
    }
    metrics
}

pub(super) fn section(plan: &Plan, measured: &Measured) -> Section {
    let ways = || plan.queues.iter().flat_map(|&count| WAYS.map(|way| (count, way)));
    let finding: Vec<String> = plan
        .queues
        .iter()
        .map(|&count| {
            let [single, batch] = [Way::Single, Way::Batch].map(|way| share(measured, count, way));
            format!("{single:.2} (Publish) and {batch:.2} (PublishBatch) to {count} queues")
        })
        .collect();
    let bars = ways().map(|(count, way)| {
        let rate = Figures::of(measured, count, way).deliveries_per_s;
        Bar {
            label: format!("{} to {count} queues", title(way)),
            value: rate,
            text: format!("{}/s", thousands(rate)),
            series: "deliveries".to_owned(),
        }
    });
    Section {
        id: ID.to_owned(),
        title: TITLE.to_owned(),
        question:
            "How quickly does a topic bring messages into many queues, compared with sending \
                   them to each?"
                .to_owned(),
        finding: format!(
            "Deliveries a second, as a share of those by SendMessageBatch: {}.",
            finding.join(", ")
        ),
        charts: vec![Chart::Bars {
            title: "Messages brought into queues".to_owned(),
            axis: Axis::linear("deliveries/s"),
            bars: bars.collect(),
        }],
        tables: vec![ways_table(measured, ways()), latency_table(measured)],
        notes: vec![format!(
            "{} messages of {} bytes a trial, {} trials, {} connections with one request under way \
             each, {BATCH} messages a batch. Every queue was emptied after each trial and had \
             every message once, unless `lost` or `duplicated` say otherwise.",
            thousands(measured.messages as f64),
            plan.size,
            plan.trials,
            plan.connections,
        )],
        ..Section::default()
    }
}

fn ways_table(measured: &Measured, ways: impl Iterator<Item = (u64, Way)>) -> Table {
    let heads =
        ["by", "#queues", "#messages/s", "#deliveries/s", "#p50", "#p99", "#server CPU/delivery"];
    let mut table = Table::new("", &heads);
    for (count, way) in ways {
        let figures = Figures::of(measured, count, way);
        table.row([
            title(way).to_owned(),
            count.to_string(),
            thousands(figures.publishes_per_s),
            thousands(figures.deliveries_per_s),
            figures.requests.shown(figures.requests.p50_us),
            figures.requests.shown(figures.requests.p99_us),
            figures.cpu_us.map_or("–".to_owned(), |us| format!("{us:.1} µs")),
        ]);
    }
    table
}

fn latency_table(measured: &Measured) -> Table {
    let title = "One request, in turns over one connection";
    let mut table = Table::new(title, &["request", "#requests", "#p50", "#p99"]);
    for (name, latencies) in
        [("Publish to 2 queues", &measured.publishes), ("SendMessage", &measured.sends)]
    {
        let found = latencies.percentiles(Verb::Send);
        let count = found.count.to_string();
        let row = [count, found.shown(found.p50_us), found.shown(found.p99_us)];
        table.row([name.to_owned()].into_iter().chain(row).collect::<Vec<_>>());
    }
    table
}

/// Deliveries a second, as a share of those that sending to each queue reached.
fn share(measured: &Measured, queues: u64, way: Way) -> f64 {
    let [of, direct] =
        [way, Way::Direct].map(|way| Figures::of(measured, queues, way).deliveries_per_s);
    of / direct.max(1e-9)
}

fn title(way: Way) -> &'static str {
    match way {
        Way::Direct => "SendMessageBatch to each",
        Way::Single => "Publish",
        Way::Batch => "PublishBatch",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let trial = |way, millis| Trial {
            queues: 10,
            way,
            began: Duration::ZERO,
            taken: Duration::from_millis(millis),
            server_cpu: Some(Duration::from_millis(100)),
            latencies: Latencies::new(),
            lost: 0,
            duplicated: 0,
        };
        let trials = [(Way::Direct, 1000), (Way::Single, 2000), (Way::Batch, 500)];
        Measured {
            messages: 1000,
            trials: trials.map(|(way, millis)| trial(way, millis)).into(),
            publishes: Latencies::new(),
            sends: Latencies::new(),
        }
    }

    #[test]
    fn a_way_is_compared_with_sending_to_each_queue() {
        let measured = measured();
        let figures = Figures::of(&measured, 10, Way::Single);

        assert_eq!((figures.publishes_per_s, figures.deliveries_per_s), (500.0, 5000.0));
        assert_eq!(figures.cpu_us, Some(10.0));
        assert_eq!(share(&measured, 10, Way::Single), 0.5);
        assert_eq!(share(&measured, 10, Way::Batch), 2.0);
    }
}
