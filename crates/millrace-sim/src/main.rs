//! Runs seeds: `cargo run -p millrace-sim -- --seed 42`.

use std::process::ExitCode;

use millrace_sim::{Output, Report, run};

const USAGE: &str = "\
usage: millrace-sim (--seed N | --seeds A..B) [--steps M] [--twice] [--trace]
  --seed N      one seed
  --seeds A..B  many, B excluded; goes on after failures
  --steps M     steps of each run, default 800
  --twice       runs each seed twice and demands identical traces
  --trace       prints every step";

struct Arguments {
    seeds: std::ops::Range<u64>,
    steps: u64,
    runs: u32,
    output: Output,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut failures, mut restarts, mut commits, mut truncations) = (0_u64, 0, 0, 0);
    let count = arguments.seeds.end - arguments.seeds.start;
    for seed in arguments.seeds.clone() {
        match run_one(seed, &arguments) {
            Ok(report) => {
                restarts += report.restarts;
                commits += report.commits;
                truncations += report.truncations;
                if count == 1 {
                    eprintln!("seed {seed}: trace {:016x}", report.hash);
                }
            }
            Err(text) => {
                failures += 1;
                eprintln!("FAILED {text}\n");
            }
        }
    }
    eprintln!(
        "{count} seeds of {} steps, {failures} failed; {restarts} restarts, {commits} commits, \
         {truncations} truncations",
        arguments.steps
    );
    ExitCode::from(u8::from(failures > 0))
}

fn run_one(seed: u64, arguments: &Arguments) -> Result<Report, String> {
    let first = run(seed, arguments.steps, arguments.output).map_err(|error| error.to_string())?;
    for _ in 1..arguments.runs {
        let again = run(seed, arguments.steps, arguments.output).map_err(|e| e.to_string())?;
        if again != first {
            return Err(format!("seed {seed}: {first:?}, then {again:?}"));
        }
    }
    Ok(first)
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { seeds: 0..0, steps: 800, runs: 1, output: Output::Silent };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => {
                let seed: u64 = words.next()?.parse().ok()?;
                arguments.seeds = seed..seed.checked_add(1)?;
            }
            "--seeds" => {
                let range = words.next()?;
                let (first, end) = range.split_once("..")?;
                arguments.seeds = first.parse().ok()?..end.parse().ok()?;
            }
            "--steps" => arguments.steps = words.next()?.parse().ok()?,
            "--twice" => arguments.runs = 2,
            "--trace" => arguments.output = Output::Stderr,
            _ => return None,
        }
    }
    (!arguments.seeds.is_empty()).then_some(arguments)
}
