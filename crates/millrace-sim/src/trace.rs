//! What happened, one line a step: hashed whole, the last lines kept for the report of a failure.

use std::collections::VecDeque;
use std::fmt::Write as _;

const KEPT_LINES: usize = 60;

/// Whether lines are printed as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Silent,
    Stderr,
}

/// The record of a run.
#[derive(Debug)]
pub struct Trace {
    output: Output,
    hash: u64,
    last: VecDeque<String>,
}

impl Trace {
    pub fn new(output: Output) -> Trace {
        Trace { output, hash: 0xcbf2_9ce4_8422_2325, last: VecDeque::new() }
    }

    pub fn line(&mut self, line: String) {
        // FNV-1a.
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.output == Output::Stderr {
            eprintln!("{line}");
        }
        if self.last.len() == KEPT_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Equal for equal runs.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn last_lines(&self) -> String {
        self.last.iter().fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "  {line}");
            all
        })
    }
}
