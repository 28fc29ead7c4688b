//! The baseline: a file of counts by processor, and how far a count may be above its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Result;

/// Instructions per operation by workload.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Compilers of one month to the next differ by less; a lost optimisation does not.
const TOLERANCE: f64 = 0.05;

const UPDATE: &str =
    "cargo bench -p millrace-services --bench instructions --profile fast -- --update";

/// What was counted on one kind of processor.
pub(crate) struct Baseline {
    pub(crate) processor: String,
    pub(crate) compiler: String,
    pub(crate) counts: Counts,
}

/// One processor's part of the file.
#[derive(Deserialize, Serialize)]
struct Section {
    compiler: String,
    instructions: Counts,
}

type File = BTreeMap<String, Section>;

impl Baseline {
    /// Puts these counts in the place of those of the same processor.
    pub(crate) fn save(self) -> Result<()> {
        self.print(&Counts::new());
        let mut file = read().unwrap_or_default();
        let section = Section { compiler: self.compiler, instructions: self.counts };
        file.insert(self.processor, section);
        std::fs::write(path(), serde_json::to_string_pretty(&file)? + "\n")?;
        println!("\nwritten to {}", path().display());
        Ok(())
    }

    /// Fails if a count is more than the tolerance above the file's.
    pub(crate) fn compare(self) -> Result<()> {
        let file = read()?;
        let Some(known) = file.get(&self.processor) else {
            self.print(&Counts::new());
            println!(
                "\nNOT COMPARED: no baseline for this processor ({}), only for: {}",
                self.processor,
                file.keys().cloned().collect::<Vec<_>>().join("; ")
            );
            return Ok(());
        };
        self.print(&known.instructions);
        if self.compiler != known.compiler {
            println!("\nbaseline by {}, this is {}", known.compiler, self.compiler);
        }
        let above: Vec<_> = self
            .counts
            .iter()
            .filter(|(name, now)| {
                known.instructions.get(*name).is_none_or(|then| change(*then, **now) > TOLERANCE)
            })
            .map(|(name, _)| name.as_str())
            .collect();
        if above.is_empty() {
            return Ok(());
        }
        Err(format!(
            "more than {:.0} % above the baseline, or not in it: {}\nfind the cause; if the cost \
             is wanted, say why in the commit that contains the new baseline, made by\n  {UPDATE}",
            TOLERANCE * 100.0,
            above.join("; ")
        )
        .into())
    }

    fn print(&self, known: &Counts) {
        println!("{}\n{:<46}{:>12}{:>12}{:>9}", self.processor, "", "baseline", "now", "change");
        for (name, now) in &self.counts {
            match known.get(name) {
                Some(then) => {
                    println!("{name:<46}{then:>12}{now:>12}{:>8.1}%", change(*then, *now) * 100.0);
                }
                None => println!("{name:<46}{:>12}{now:>12}{:>9}", "-", ""),
            }
        }
    }
}

fn change(then: u64, now: u64) -> f64 {
    now as f64 / then.max(1) as f64 - 1.0
}

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "benches", "instructions", "baseline.json"].iter().collect()
}

fn read() -> Result<File> {
    let text = std::fs::read_to_string(path())
        .map_err(|error| format!("reading {}: {error}", path().display()))?;
    Ok(serde_json::from_str(&text)?)
}
