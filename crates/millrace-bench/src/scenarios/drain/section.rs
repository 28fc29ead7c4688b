//! What draining is reported as.

use std::time::Duration;

use super::{Measured, Pool, Scheme};
use crate::{
    report::{
        Axis, Bar, Better, Chart, Metric, Section, Shape, Table, Unit, microseconds, thousands,
    },
    scenarios::pc::gain,
};

pub(super) fn section(all: &[Measured], notes: Vec<String>) -> Section {
    Section {
        id: "drain".to_owned(),
        title: "Kept connections".to_owned(),
        question: format!(
            "How long does it take to empty a queue of {} messages, and what does a message cost, \
             when connections are kept and when each request opens its own?",
            thousands(all.first().map_or(0.0, |measured| measured.messages as f64))
        ),
        finding: finding(all),
        shapes: shapes(all),
        charts: charts(all),
        tables: vec![table(all)],
        notes,
        ..Section::default()
    }
}

impl Pool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pool::On => "kept",
            Pool::Off => "new each time",
        }
    }
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "HTTP",
            Scheme::Https => "HTTPS",
        }
    }
}

impl Measured {
    fn rate(&self) -> f64 {
        self.messages as f64 / self.taken.as_secs_f64().max(1e-9)
    }

    fn each_us(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.messages as f64
    }

    fn name(&self) -> String {
        let Measured { workers, pool, scheme, .. } = self;
        format!("{}, {workers} workers, {}", scheme.name(), pool.name())
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let front = front(self.scheme, self.pool, self.workers);
        let cpu = |who: &str, cpu| {
            let name = format!("{front}.{who}_cpu");
            Metric::new(&name, self.each_us(cpu), Unit::Microseconds, Better::Lower)
        };
        let seconds = self.taken.as_secs_f64();
        let mut metrics = vec![
            Metric::rate(&format!("{front}.rate"), self.rate()),
            Metric::new(&format!("{front}.time"), seconds, Unit::Seconds, Better::Lower),
            cpu("client", self.own_cpu),
        ];
        metrics.extend(self.server_cpu.map(|server| cpu("server", server)));
        metrics.extend(self.connections.metrics(&front));
        metrics
    }
}

/// What names of its metrics begin with.
pub(super) fn front(scheme: Scheme, pool: Pool, workers: u64) -> String {
    let pool = if pool == Pool::On { "kept" } else { "new" };
    format!("drain.{}.{pool}.{workers}", scheme.name().to_lowercase())
}

/// The few workers with kept connections and the many without, over HTTPS if it was measured.
fn extremes(all: &[Measured]) -> Option<(&Measured, &Measured)> {
    let is_tls = |measured: &&Measured| measured.scheme == Scheme::Https;
    let has_tls = all.iter().any(|measured| is_tls(&measured));
    let of = |pool| all.iter().filter(move |one| one.pool == pool && (!has_tls || is_tls(one)));
    let few = of(Pool::On).min_by_key(|measured| measured.workers)?;
    let many = of(Pool::Off).max_by_key(|measured| measured.workers)?;
    Some((few, many))
}

fn finding(all: &[Measured]) -> String {
    let Some((few, many)) = extremes(all) else {
        let parts = all.iter().map(|one| format!("{}: {}/s", one.name(), thousands(one.rate())));
        return format!("{}.", parts.collect::<Vec<_>>().join("; "));
    };
    format!(
        "Over {}, {} workers that keep their connections take {} messages a second through at {} \
         of client CPU each; {} workers that do not, {} at {}.",
        few.scheme.name(),
        few.workers,
        thousands(few.rate()),
        microseconds(few.each_us(few.own_cpu)),
        many.workers,
        thousands(many.rate()),
        microseconds(many.each_us(many.own_cpu)),
    )
}

fn shapes(all: &[Measured]) -> Vec<Shape> {
    let Some((few, many)) = extremes(all) else { return Vec::new() };
    let expected = format!(
        "{}: {} workers with kept connections beat {} without",
        few.scheme.name(),
        few.workers,
        many.workers
    );
    vec![gain(&expected, few.rate() / many.rate().max(1e-9), 1.0)]
}

fn charts(all: &[Measured]) -> Vec<Chart> {
    let bars = |value: &dyn Fn(&Measured) -> f64, text: &dyn Fn(f64) -> String| {
        let bars = all.iter().map(|measured| Bar {
            label: measured.name(),
            value: value(measured),
            text: text(value(measured)),
            series: measured.pool.name().to_owned(),
        });
        bars.collect()
    };
    vec![
        Chart::Bars {
            title: "Messages a second".to_owned(),
            axis: Axis::linear("messages/s"),
            bars: bars(&Measured::rate, &|rate| format!("{}/s", thousands(rate))),
        },
        Chart::Bars {
            title: "CPU of a message, client and server".to_owned(),
            axis: Axis::linear("µs"),
            bars: bars(
                &|one| one.each_us(one.own_cpu + one.server_cpu.unwrap_or_default()),
                &microseconds,
            ),
        },
    ]
}

fn table(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "scheme",
            "#workers",
            "connections",
            "#time",
            "#messages/s",
            "#client CPU",
            "#server CPU",
            "#opened",
            "#to open",
        ],
    );
    for measured in all {
        let server = measured.server_cpu.map(|cpu| measured.each_us(cpu));
        table.row([
            measured.scheme.name().to_owned(),
            measured.workers.to_string(),
            measured.pool.name().to_owned(),
            microseconds(measured.taken.as_secs_f64() * 1e6),
            thousands(measured.rate()),
            microseconds(measured.each_us(measured.own_cpu)),
            server.map_or("–".to_owned(), microseconds),
            thousands(measured.connections.opened as f64),
            measured.connections.handshake(),
        ]);
    }
    table
}
