//! What a scenario found, in one form for all: a table, JSON, CSV or an HTML page.
//!
//! Scenarios fill in a [`Report`]; nothing here measures. The JSON form is versioned
//! ([`SCHEMA`]) and described by `docs/bench-report.schema.json`. Metrics have names, units and a
//! direction, so that limits and baselines need to know nothing of scenarios.

mod baseline;
mod csv;
mod environment;
mod hdr;
mod html;
mod limit;
mod number;
mod table;

use serde::Serialize;

pub(crate) use baseline::{Baseline, Share};
pub(crate) use csv::csv;
pub(crate) use environment::Environment;
pub(crate) use hdr::{Recording, interval_log};
pub(crate) use html::page;
pub(crate) use limit::Limit;
pub(crate) use number::{microseconds, thousands};
pub(crate) use table::{Table, aligned, text};

/// Name and version of the JSON form. The version grows when a reader would break.
pub(crate) const SCHEMA: &str = "millrace-bench-report/1";

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) title: String,
    /// When it was started, RFC 3339.
    pub(crate) started_at: String,
    /// The command line, keys masked.
    pub(crate) command: String,
    pub(crate) scale: f64,
    pub(crate) environment: Environment,
    pub(crate) warnings: Vec<String>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) sections: Vec<Section>,
}

/// One experiment of a report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Section {
    /// Lower case, unique in the report.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What the experiment asks.
    pub(crate) question: String,
    /// The answer in a sentence or two, with its figures.
    pub(crate) finding: String,
    /// Why it was not run.
    pub(crate) skipped: Option<String>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) tables: Vec<Table>,
    pub(crate) notes: Vec<String>,
}

/// What is expected of an experiment whatever the machine, and whether it showed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shape {
    pub(crate) expected: String,
    pub(crate) measured: String,
    pub(crate) holds: bool,
    /// Returns true if a miss is larger than the difference between two runs of this length.
    pub(crate) is_judged: bool,
    /// By which share of what is expected it was missed; infinite where chance makes no miss, none
    /// where it is no number.
    #[serde(skip)]
    pub(crate) shortfall: Option<f64>,
}

/// The outcome of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    /// Missed by less than the noise.
    Noise,
    Missed,
}

/// Share by which two runs at scale 1 differ by chance. Shorter ones differ more, as means of fewer
/// samples do: by the root of the scale.
const NOISE: f64 = 0.05;
/// However short the runs.
const NOISE_MAX: f64 = 0.5;

/// A number that can be limited and compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Metric {
    /// Dotted, lower case: `pc.batch.rate`. Limits may leave the front out.
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    PerSecond,
    Microseconds,
    Seconds,
    Ratio,
    Count,
    Dollars,
}

/// Which way a metric is better, which decides what a regression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Higher,
    Lower,
    Neither,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Chart {
    Lines { title: String, x: Axis, y: Axis, series: Vec<Series>, marks: Vec<Mark> },
    Bars { title: String, axis: Axis, bars: Vec<Bar> },
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    /// From zero.
    Linear,
    /// Powers of ten; what is not positive is left out.
    Logarithmic,
    /// Shares of 1 as they near 1: 0.9, 0.99, 0.999 stand equally far apart.
    Nines,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    Line,
    /// Dashed: what theory says.
    Theory,
    /// A dot at each point, joined by a line.
    Dots,
}

/// A place on the x axis worth pointing at.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mark {
    pub(crate) x: f64,
    pub(crate) label: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// What is written at its end.
    pub(crate) text: String,
    /// Bars of one series have one colour.
    pub(crate) series: String,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "per second",
            Unit::Microseconds => "µs",
            Unit::Seconds => "s",
            Unit::Ratio => "ratio",
            Unit::Count => "",
            Unit::Dollars => "US dollars",
        }
    }
}

impl Metric {
    pub(crate) fn new(name: &str, value: f64, unit: Unit, better: Better) -> Metric {
        Metric { name: name.to_owned(), value, unit, better }
    }

    pub(crate) fn rate(name: &str, value: f64) -> Metric {
        Metric::new(name, value, Unit::PerSecond, Better::Higher)
    }

    pub(crate) fn latency(name: &str, value_us: f64) -> Metric {
        Metric::new(name, value_us, Unit::Microseconds, Better::Lower)
    }

    /// A number of things that should not be.
    pub(crate) fn faults(name: &str, value: u64) -> Metric {
        Metric::new(name, value as f64, Unit::Count, Better::Lower)
    }

    /// A number that says what happened, neither good nor bad.
    pub(crate) fn count(name: &str, value: u64) -> Metric {
        Metric::new(name, value as f64, Unit::Count, Better::Neither)
    }

    /// Whether `name` means this metric: its whole name, or its last parts.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        ends_with(&self.name, name)
    }
}

/// Whether a dotted name is this one, or its last parts are.
fn ends_with(name: &str, end: &str) -> bool {
    let front = name.strip_suffix(end);
    front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

impl Axis {
    pub(crate) fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: Scale::Linear }
    }

    pub(crate) fn logarithmic(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: Scale::Logarithmic }
    }
}

impl Series {
    pub(crate) fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_owned(), points, style: Style::Line }
    }
}

impl Shape {
    /// Something showed that is no number.
    pub(crate) fn new(expected: &str, measured: String, holds: bool) -> Shape {
        let expected = expected.to_owned();
        Shape { expected, measured, holds, is_judged: true, shortfall: None }
    }

    /// A figure came to what is expected, or not; `shortfall` is the share that it lacks, zero or
    /// less if it does not.
    pub(crate) fn of_figure(expected: &str, measured: String, shortfall: f64) -> Shape {
        let shape = Shape::new(expected, measured, shortfall <= 0.0);
        Shape { shortfall: Some(shortfall), ..shape }
    }

    /// Decides whether a miss of a run of this scale is more than noise.
    pub(crate) fn judge(&mut self, scale: f64) {
        let noise = (NOISE / scale.min(1.0).sqrt()).min(NOISE_MAX);
        self.is_judged = match self.shortfall {
            Some(shortfall) => self.holds || shortfall > noise,
            None => self.holds || scale >= 1.0,
        };
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match (self.holds, self.is_judged) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::Missed,
            (false, false) => Verdict::Noise,
        }
    }
}

impl Section {
    /// Expectations that did not show, by more than the noise.
    pub(crate) fn missed_shapes(&self) -> usize {
        self.shapes_of(Verdict::Missed)
    }

    pub(crate) fn shapes_of(&self, verdict: Verdict) -> usize {
        self.shapes.iter().filter(|shape| shape.verdict() == verdict).count()
    }
}

impl Report {
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

#[cfg(test)]
mod example;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_in_full_or_by_their_end() {
        let metric = Metric::latency("pc.batch.send.p99", 1.0);

        assert!(metric.is_named("pc.batch.send.p99") && metric.is_named("send.p99"));
        assert!(metric.is_named("p99") && !metric.is_named("99") && !metric.is_named("batch"));
    }

    #[test]
    fn json_names_its_schema_and_units() {
        let json: serde_json::Value =
            serde_json::from_str(&example::report().json().unwrap()).unwrap();

        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["metrics"][0]["unit"], "per_second");
        assert_eq!(json["sections"][0]["charts"][0]["kind"], "lines");
        assert_eq!(json["environment"]["cores"], 2);
    }

    #[test]
    fn a_small_miss_of_a_short_run_is_noise_and_a_large_one_is_not() {
        let verdict = |shortfall, scale| {
            let mut shape = Shape::of_figure("x", String::new(), shortfall);
            shape.judge(scale);
            shape.verdict()
        };

        assert_eq!(verdict(-0.1, 0.01), Verdict::Holds);
        assert_eq!([verdict(0.03, 1.0), verdict(0.1, 1.0)], [Verdict::Noise, Verdict::Missed]);
        assert_eq!([verdict(0.2, 0.05), verdict(0.3, 0.05)], [Verdict::Noise, Verdict::Missed]);
        assert_eq!([verdict(0.3, 4.0), verdict(0.03, 4.0)], [Verdict::Missed, Verdict::Noise]);
        assert_eq!(verdict(0.6, 0.000_1), Verdict::Missed);
        assert_eq!(verdict(f64::INFINITY, 0.01), Verdict::Missed);
    }

    #[test]
    fn a_pattern_that_is_no_number_is_judged_at_full_scale_only() {
        let verdict = |scale| {
            let mut shape = Shape::new("no spikes", "one".to_owned(), false);
            shape.judge(scale);
            shape.verdict()
        };

        assert_eq!([verdict(0.1), verdict(1.0)], [Verdict::Noise, Verdict::Missed]);
    }

    #[test]
    fn missed_shapes_are_counted() {
        assert_eq!(example::report().sections[0].missed_shapes(), 1);
    }
}
