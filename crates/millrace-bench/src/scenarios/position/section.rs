//! What latency by position is reported as.

use super::{CONTRAST_ROUND_TRIP, Measured, Runs};
use crate::{
    report::{
        Axis, Better, Chart, Mark, Metric, Section, Series, Shape, Table, Unit, microseconds,
    },
    statistics::{Period, find_period, median},
};

/// A pattern that the medians do not show must be as clear as that at the 75th percentile.
const CLEAR: f64 = 0.5;

impl Measured {
    /// A quantile at each position, in µs.
    fn at(&self, quantile: f64) -> Vec<f64> {
        self.positions.iter().map(|position| position.at_us(quantile)).collect()
    }

    /// A spike that comes again. The first position opens a connection, whoever the server. Who
    /// closes by count does so in every run, and medians are the last to be moved by noise.
    fn period(&self) -> Option<Period> {
        let high = || find_period(&self.at(0.75)).filter(|period| period.strength >= CLEAR);
        find_period(&self.at(0.5)).or_else(high)
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let front = format!("position.{}", self.id);
        let p75 = self.at(0.75);
        let rest = p75.iter().skip(1).copied();
        let mut metrics = vec![
            Metric::latency(&format!("{front}.first_p75"), p75.first().copied().unwrap_or(0.0)),
            Metric::latency(&format!("{front}.median_p75"), median(rest.clone())),
            Metric::latency(&format!("{front}.highest_p75"), rest.fold(0.0, f64::max)),
            Metric::new(
                &format!("{front}.period"),
                self.period().map_or(0.0, |period| period.length as f64),
                Unit::Count,
                Better::Neither,
            ),
        ];
        metrics.extend(self.connections.metrics(&front));
        metrics
    }

    /// What comes again, in words.
    fn pattern(&self) -> String {
        match self.period() {
            Some(period) => format!("slow every {} sends", period.length),
            None => "level".to_owned(),
        }
    }
}

pub(super) fn section(all: &[Measured], runs: &Runs) -> Section {
    let findings: Vec<String> =
        all.iter().map(|measured| format!("{}: {}", measured.name, measured.pattern())).collect();
    let mut section = Section {
        id: "position".to_owned(),
        title: "Latency by position in the connection".to_owned(),
        question: format!(
            "Is a send of {} bytes slow because of where it stands among {} serial sends that \
             begin with a fresh connection?",
            runs.size, runs.sends
        ),
        finding: format!("{}.", findings.join("; ")),
        shapes: shapes(all, runs),
        charts: all.iter().map(chart).collect(),
        tables: vec![summary(all)],
        notes: vec![format!(
            "{} runs at a time. Closed by header: the server said so in its last answer. Stale on \
             use: it had closed without a word. A spare is a connection opened before it is \
             needed.",
            runs.at_once
        )],
        ..Section::default()
    };
    if all.len() > 1 {
        section.notes.push(format!(
            "The server that closes is our own, over TLS and a round trip of {} ms.",
            CONTRAST_ROUND_TRIP.as_millis()
        ));
    }
    section.tables.extend(all.iter().map(by_position));
    section
}

fn shapes(all: &[Measured], runs: &Runs) -> Vec<Shape> {
    let of = |id: &str| all.iter().find(|measured| measured.id == id);
    let mut shapes = Vec::new();
    if let Some(endpoint) = of("endpoint") {
        let closed = endpoint.connections.closed_by_server();
        shapes.push(Shape {
            // Chance makes spikes, but closes no connection.
            shortfall: (closed > 0).then_some(f64::INFINITY),
            ..Shape::new(
                "the endpoint: no spike that comes again, and no connection closed",
                format!("{}, {closed} closed", endpoint.pattern()),
                endpoint.period().is_none() && closed == 0,
            )
        });
    }
    let Some(cap) = runs.contrast else { return shapes };
    if let Some(capped) = of("capped") {
        let period = capped.period().map(|period| period.length as u64);
        shapes.push(Shape::new(
            &format!("a server that closes after {cap}: slow every {cap} sends"),
            capped.pattern(),
            period == Some(cap),
        ));
    }
    if let Some(spares) = of("spares") {
        shapes.push(Shape::new(
            "the same with spare connections: the spike is gone",
            spares.pattern(),
            spares.period().is_none_or(|period| period.length as u64 != cap),
        ));
    }
    shapes
}

fn chart(measured: &Measured) -> Chart {
    let series = [(0.5, "p50"), (0.75, "p75"), (0.99, "p99")].map(|(quantile, name)| {
        let places = measured.at(quantile).into_iter().enumerate();
        Series::line(name, places.map(|(index, us)| ((index + 1) as f64, us / 1000.0)).collect())
    });
    let marks = measured.period().map(|period| {
        let places = (1..=measured.positions.len()).step_by(period.length);
        places.map(|x| Mark { x: x as f64, label: format!("send {x}") }).collect()
    });
    Chart::Lines {
        title: measured.name.clone(),
        x: Axis::linear("position"),
        y: Axis::logarithmic("ms"),
        series: series.into(),
        marks: marks.unwrap_or_default(),
    }
}

fn summary(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "server",
            "#first p75",
            "#median p75",
            "#highest p75",
            "at",
            "pattern",
            "#opened",
            "#spares",
            "#by header",
            "#while idle",
            "#stale on use",
            "#reset",
            "#to open",
        ],
    );
    for measured in all {
        let p75 = measured.at(0.75);
        let rest = || p75.iter().copied().enumerate().skip(1);
        let (at, highest) =
            rest().max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or((0, 0.0));
        let connections = &measured.connections;
        table.row([
            measured.name.clone(),
            microseconds(p75.first().copied().unwrap_or(0.0)),
            microseconds(median(rest().map(|(_, us)| us))),
            microseconds(highest),
            format!("send {}", at + 1),
            measured.pattern(),
            connections.opened.to_string(),
            connections.spares.to_string(),
            connections.closed_by_header.to_string(),
            connections.closed_while_idle.to_string(),
            connections.stale_on_use.to_string(),
            connections.reset.to_string(),
            connections.handshake(),
        ]);
    }
    table
}

fn by_position(measured: &Measured) -> Table {
    let title = format!("Position by position: {}", measured.name);
    let mut table = Table::new(
        &title,
        &["#position", "#p50 µs", "#p75 µs", "#p99 µs", "#max µs", "#connections opened"],
    );
    table.is_long = true;
    for (index, position) in measured.positions.iter().enumerate() {
        let at = |quantile| format!("{:.1}", position.at_us(quantile));
        table.row([
            (index + 1).to_string(),
            at(0.5),
            at(0.75),
            at(0.99),
            at(1.0),
            position.opened.to_string(),
        ]);
    }
    table
}
