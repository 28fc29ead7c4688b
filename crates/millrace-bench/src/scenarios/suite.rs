//! `suite field`: every experiment, one report.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::{
    Findings, Options, Setting, conduct, drain,
    pc::{self, Cast, Measured, gain},
    poll, position, rate, sdb_csv,
    setting::defaults,
    sweep,
};
use crate::{
    progress::Progress,
    report::{Section, Shape},
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Clone, Debug, Subcommand)]
enum Suite {
    /// The field's experiments with their original parameters
    Field {
        #[command(flatten)]
        options: Box<Options>,
        /// The endpoint's TLS side [default: a server of our own, started for this run]
        #[arg(long, value_name = "URL")]
        https_endpoint: Option<String>,
    },
}

type Part<'a> = Box<dyn FnOnce() -> Result<Findings> + 'a>;

/// The sample ran where an answer took so long to come.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// And was counted over five minutes.
const COUNTED: Duration = Duration::from_secs(300);

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let Suite::Field { options, https_endpoint } = &flags.suite;
    conduct("suite field", options, |setting| field(setting, https_endpoint.clone()))
}

fn field(setting: &Setting, https_endpoint: Option<String>) -> Result<Findings> {
    let drains = drain::Plan { https_endpoint, ..defaults()? };
    let runs = position::Runs { contrast: Some(80), ..defaults()? };
    let parts: [(&str, Part<'_>); 8] = [
        ("pc", Box::new(|| producers_and_consumers(setting))),
        ("full", Box::new(|| through_the_machine(setting))),
        ("position", Box::new(|| position::findings(setting, &runs))),
        ("drain", Box::new(|| drain::findings(setting, &drains))),
        ("poll", Box::new(|| poll::findings(setting, &defaults()?))),
        ("sdb", Box::new(|| sdb_csv::findings_if_there(setting, &defaults()?))),
        ("sweep", Box::new(|| sweep::findings(setting, &defaults()?))),
        ("rate", Box::new(|| rate::findings(setting, &defaults()?))),
    ];
    Ok(Findings {
        title: "What batches, processes, connections and workers are worth".to_owned(),
        ..together(&setting.progress, parts)
    })
}

/// What the parts found. One that failed is a section that says so and makes the run fail, and
/// takes nothing from the others; after an early end no other begins.
fn together<'a>(
    progress: &Progress,
    parts: impl IntoIterator<Item = (&'static str, Part<'a>)>,
) -> Findings {
    let mut all = Findings::default();
    for (id, part) in parts {
        match progress.go_on().and_then(|()| part()) {
            Ok(part) => {
                all.metrics.extend(part.metrics);
                all.sections.extend(part.sections);
                all.recordings.extend(part.recordings);
                all.warnings.extend(part.warnings);
                all.violations.extend(part.violations);
                all.faults.extend(part.faults);
            }
            Err(error) => {
                all.sections.push(Section {
                    id: id.to_owned(),
                    title: id.to_owned(),
                    skipped: Some(format!("{error:#}")),
                    ..Section::default()
                });
                // An early end makes the run fail by itself.
                if progress.go_on().is_ok() {
                    all.violations.push(format!("{id}: {error:#}"));
                }
            }
        }
    }
    all
}

/// The sample's three runs, over a round trip like its own: there, waiting is what bounds a
/// process, and another process waits for itself.
fn producers_and_consumers(setting: &Setting) -> Result<Findings> {
    let plan = pc::Plan { duration: COUNTED, delay: ROUND_TRIP, ..defaults()? };
    let runs = [
        ("single", "single, 1 process", 1, 1),
        ("two", "single, 2 processes", 1, 2),
        ("batch", "batches of 10, 1 process", 10, 1),
    ];
    let mut all = Vec::new();
    for (id, name, batch, processes) in runs {
        setting.progress.begin(&format!("pc, {name}"));
        // Even one runs as a process of its own, so that they are alike.
        let report = pc::measure(setting, &plan, batch, &Cast::Processes(processes))?;
        all.push(Measured { name: name.to_owned(), id: id.to_owned(), report });
    }
    let of = |id: &str| all.iter().find(|one| one.id == id).map_or(0.0, |one| one.report.rate());
    let (single, two, batch) = (of("single").max(1e-9), of("two"), of("batch"));
    let doubled = two / single;
    let shapes = vec![
        Shape::of_figure(
            "two processes do twice what one does, within 15 %",
            format!("{doubled:.2} times"),
            (1.0 - doubled / 1.7).max(doubled / 2.3 - 1.0),
        ),
        gain("batches of ten against singles: at least 3.5 times", batch / single, 3.5),
    ];
    Ok(findings("pc", "Producers and consumers over a network", &all, &plan, shapes))
}

/// The same without the round trip: what the machine gives.
fn through_the_machine(setting: &Setting) -> Result<Findings> {
    let plan = pc::Plan { producers: 32, consumers: 32, duration: COUNTED / 3, ..defaults()? };
    let mut all = Vec::new();
    for (id, name, batch) in [("single", "single", 1), ("batch", "batches of 10", 10)] {
        setting.progress.begin(&format!("pc at full speed, {name}"));
        let report = pc::measure(setting, &plan, batch, &Cast::Alone)?;
        all.push(Measured { name: name.to_owned(), id: id.to_owned(), report });
    }
    Ok(findings("full", "Producers and consumers at full speed", &all, &plan, Vec::new()))
}

fn findings(
    id: &str,
    title: &str,
    all: &[Measured],
    plan: &pc::Plan,
    shapes: Vec<Shape>,
) -> Findings {
    let section = pc::section(all, plan);
    Findings {
        metrics: pc::metrics(id, all, plan.price),
        recordings: pc::recordings(id, all),
        sections: vec![Section { id: id.to_owned(), title: title.to_owned(), shapes, ..section }],
        violations: all.iter().flat_map(|one| pc::violations(&one.report)).collect(),
        ..Findings::default()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn part(id: &str) -> Result<Findings> {
        let section = Section { id: id.to_owned(), ..Section::default() };
        Ok(Findings { sections: vec![section], ..Findings::default() })
    }

    fn skipped(all: &Findings) -> Vec<(&str, Option<&str>)> {
        let sections = all.sections.iter();
        sections.map(|section| (section.id.as_str(), section.skipped.as_deref())).collect()
    }

    #[test]
    fn a_part_that_fails_takes_nothing_from_the_others() {
        let parts: [(&str, Part<'_>); 3] = [
            ("one", Box::new(|| part("one"))),
            ("two", Box::new(|| bail!("no luck"))),
            ("three", Box::new(|| part("three"))),
        ];

        let all = together(&Progress::default(), parts);

        assert_eq!(skipped(&all), [("one", None), ("two", Some("no luck")), ("three", None)]);
        assert_eq!(all.violations, ["two: no luck"]);
    }

    #[test]
    fn after_an_early_end_no_part_begins() {
        let progress = Progress::default();
        let parts: [(&str, Part<'_>); 2] = [
            (
                "one",
                Box::new(|| {
                    progress.live().end_early();
                    part("one")
                }),
            ),
            ("two", Box::new(|| unreachable!("nobody waits for it"))),
        ];

        let all = together(&progress, parts);

        assert_eq!(skipped(&all), [("one", None), ("two", Some("the run was ended early"))]);
        assert!(all.violations.is_empty());
    }
}
