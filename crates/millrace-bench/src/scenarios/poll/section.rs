//! What the models are reported as.

use std::time::Duration;

use super::{Measured, Model, Plan};
use crate::report::{
    Axis, Bar, Better, Chart, Metric, Section, Shape, Table, Unit, microseconds, thousands,
};

pub(super) fn name(model: Model, batch: Option<u64>) -> String {
    let model = match model {
        Model::Serial => "serial",
        Model::Timer => "timer",
        Model::Worker => "worker",
    };
    batch.map_or(model.to_owned(), |batch| format!("{model}, batch {batch}"))
}

impl Measured {
    fn name(&self) -> String {
        name(self.model, self.batch)
    }

    fn rate(&self) -> f64 {
        self.messages as f64 / self.taken.as_secs_f64().max(1e-9)
    }

    /// By Little's law: time in handlers over time passed.
    fn busy(&self) -> f64 {
        self.handled.as_secs_f64() / self.taken.as_secs_f64().max(1e-9)
    }

    /// Polls and deletes.
    fn requests_per_message(&self) -> Option<f64> {
        let requests = self.requests?;
        Some((requests.polls + requests.deletes) as f64 / self.messages.max(1) as f64)
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let front = front(self.model, self.batch);
        let seconds = self.taken.as_secs_f64();
        let count = |name: &str, value: f64| {
            Metric::new(&format!("{front}.{name}"), value, Unit::Count, Better::Neither)
        };
        let requests = self.requests_per_message().map(|it| count("requests_per_message", it));
        let mut metrics = vec![
            Metric::new(&format!("{front}.time"), seconds, Unit::Seconds, Better::Lower),
            Metric::rate(&format!("{front}.rate"), self.rate()),
            count("busy_handlers", self.busy()),
            count("peak_handlers", self.peak as f64),
            count("duplicates", self.duplicates as f64),
        ];
        metrics.extend(requests);
        metrics
    }
}

/// What names of its metrics begin with.
pub(super) fn front(model: Model, batch: Option<u64>) -> String {
    let model = name(model, None);
    match batch {
        Some(batch) => format!("poll.{model}.{batch}"),
        None => format!("poll.{model}"),
    }
}

pub(super) fn section(all: &[Measured], plan: &Plan, round_trip: Duration) -> Section {
    let best = all.iter().min_by_key(|measured| measured.taken);
    let far = match round_trip {
        Duration::ZERO => String::new(),
        far => format!(" over a round trip of {} ms", far.as_millis()),
    };
    let times = all.iter().map(|one| format!("{} {:.1} s", one.name(), one.taken.as_secs_f64()));
    Section {
        id: "poll".to_owned(),
        title: "Polling models".to_owned(),
        question: format!(
            "How soon are {} messages done whose handling takes {} each, with {} consumers that \
             poll every {} ms{far}, and with the worker?",
            all.first().map_or(0, |measured| measured.messages),
            microseconds(plan.handler.as_secs_f64() * 1e6),
            plan.consumers,
            plan.interval.as_millis()
        ),
        finding: best.map_or_else(String::new, |best| {
            let times = times.collect::<Vec<_>>().join("; ");
            format!("Soonest: {}. {times}.", best.name())
        }),
        shapes: shapes(all),
        charts: vec![chart(all)],
        tables: vec![table(all)],
        notes: vec![
            "Busy handlers is the mean number of handlers that ran at a time, and peak the \
             highest. It bounds the rate, not how often a consumer polls. A batch is never larger \
             than the peer allows (SQS: 10). Requests are polls and deletes; the worker's own are \
             not counted."
                .to_owned(),
        ],
        ..Section::default()
    }
}

fn shapes(all: &[Measured]) -> Vec<Shape> {
    let of = |model| all.iter().filter(move |one| one.model == model);
    let Some(worker) = of(Model::Worker).next() else { return Vec::new() };
    let others = [Model::Serial, Model::Timer].map(|model| of(model).min_by_key(|one| one.taken));
    let others = others.into_iter().flatten();
    others
        .map(|other| {
            let (worker, other_s) = (worker.taken.as_secs_f64(), other.taken.as_secs_f64());
            Shape::of_figure(
                &format!("the worker is sooner done than {}", other.name()),
                format!("{worker:.1} s against {other_s:.1} s"),
                worker / other_s.max(1e-9) - 1.0,
            )
        })
        .collect()
}

fn chart(all: &[Measured]) -> Chart {
    let bars = all.iter().map(|measured| Bar {
        label: measured.name(),
        value: measured.taken.as_secs_f64(),
        text: format!("{:.1} s", measured.taken.as_secs_f64()),
        series: name(measured.model, None),
    });
    Chart::Bars {
        title: "Time until all was handled".to_owned(),
        axis: Axis::linear("s"),
        bars: bars.collect(),
    }
}

fn table(all: &[Measured]) -> Table {
    let columns = [
        "model",
        "#time",
        "#messages/s",
        "#busy handlers",
        "#peak",
        "#polls",
        "#empty",
        "#requests/message",
        "#duplicates",
    ];
    let mut table = Table::new("", &columns);
    for measured in all {
        let shown =
            |count: Option<u64>| count.map_or("–".to_owned(), |count| thousands(count as f64));
        table.row([
            measured.name(),
            format!("{:.2} s", measured.taken.as_secs_f64()),
            format!("{:.1}", measured.rate()),
            format!("{:.1}", measured.busy()),
            thousands(measured.peak as f64),
            shown(measured.requests.map(|it| it.polls)),
            shown(measured.requests.map(|it| it.empty)),
            measured.requests_per_message().map_or("–".to_owned(), |it| format!("{it:.2}")),
            thousands(measured.duplicates as f64),
        ]);
    }
    table
}
