//! A small report with everything in it, for tests.

use super::*;

pub(crate) fn report() -> Report {
    let mut summary = Table::new("", &["mode", "#messages/s"]);
    summary.row(["single".to_owned(), "1,000".to_owned()]);
    let mut seconds = Table::new("second by second", &["#second", "#messages"]);
    seconds.row(["1".to_owned(), "500".to_owned()]);
    seconds.is_long = true;
    let series = Series::line("single <one>", vec![(1.0, 500.0), (2.0, 510.0), (3.0, 490.0)]);
    let theory = Series { name: "theory".to_owned(), style: Style::Theory, ..series.clone() };
    let batches = Section {
        id: "batches".to_owned(),
        title: "Batches".to_owned(),
        question: "Do batches pay?".to_owned(),
        finding: "They do.".to_owned(),
        shapes: vec![
            shape("batch is 3.5 × single", "6.1", true),
            shape("two are 2 × one", "1.1", false),
        ],
        charts: vec![
            Chart::Lines {
                title: "Rate".to_owned(),
                x: Axis::linear("second"),
                y: Axis::linear("messages/s"),
                series: vec![series, theory],
                marks: vec![Mark { x: 2.0, label: "here".to_owned() }],
            },
            Chart::Bars {
                title: "Rates".to_owned(),
                axis: Axis::linear("messages/s"),
                bars: vec![bar("single", 1000.0), bar("batch", 6100.0)],
            },
        ],
        tables: vec![summary, seconds],
        ..Section::default()
    };
    let skipped = Section {
        id: "sdb".to_owned(),
        title: "SimpleDB".to_owned(),
        skipped: Some("no SimpleDB here".to_owned()),
        ..Section::default()
    };
    Report {
        schema: SCHEMA,
        scenario: "pc",
        title: "An example".to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        command: "millrace bench pc".to_owned(),
        scale: 1.0,
        environment: Environment {
            version: "0".to_owned(),
            kernel: "6.1".to_owned(),
            cpu: "one & only".to_owned(),
            cores: 2,
            load_average_before: Some(0.5),
            load_average_after: None,
            endpoint: "http://h".to_owned(),
            is_tls: false,
            server_pid: None,
            server: None,
        },
        warnings: vec!["busy".to_owned()],
        metrics: vec![
            Metric::rate("pc.rate", 1000.0),
            Metric::latency("pc.send.p99", 200.0),
            Metric::faults("pc.lost", 0),
        ],
        sections: vec![batches, skipped],
    }
}

fn shape(expected: &str, measured: &str, holds: bool) -> Shape {
    Shape::new(expected, measured.to_owned(), holds)
}

fn bar(label: &str, value: f64) -> Bar {
    Bar {
        label: label.to_owned(),
        value,
        text: format!("{value}"),
        series: "messages/s".to_owned(),
    }
}
