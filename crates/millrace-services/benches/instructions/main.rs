//! Instructions per operation on the hot paths, against a baseline: times are noisy on a shared
//! machine, these counts are not.
//!
//! ```text
//! cargo bench -p millrace-services --bench instructions --profile fast               compare
//! cargo bench -p millrace-services --bench instructions --profile fast -- --update   new baseline
//! ```
//!
//! Each workload runs twice in a process of its own under `valgrind --tool=callgrind`, with more
//! and with fewer operations; the difference of the two counts is free of start-up. Digests,
//! searches and checksums choose their code by the processor, so a baseline belongs to the features
//! that valgrind shows; on a processor without a baseline the counts are printed, not compared.

#![expect(clippy::print_stdout, reason = "the result")]

mod baseline;
mod codecs;
mod engine;
mod journal;
mod requests;

use std::process::{Command, ExitCode};

use baseline::{Baseline, Counts};

// As in the server, and the same on every machine, unlike the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Error = Box<dyn std::error::Error>;
type Result<T> = std::result::Result<T, Error>;

/// Runs so many operations.
type Workload = fn(operations: u32) -> Result<()>;

const WORKLOADS: [(&str, Workload); 15] = [
    ("decode SendMessage, JSON, 1 KB", codecs::decode_send),
    ("decode SendMessageBatch, JSON, 10 x 1 KB", codecs::decode_send_batch),
    ("decode SendMessage, Query, 1 KB", codecs::decode_send_query),
    ("encode SendMessageBatch, JSON, 10 entries", codecs::encode_sent_batch),
    ("encode ReceiveMessage, JSON, 10 x 1 KB", codecs::encode_received),
    ("MD5 of 1 KB", codecs::md5_of_one),
    ("MD5 of each of 10 x 1 KB", codecs::md5_of_ten),
    ("verify Signature Version 4, 1 KB", codecs::verify_signature),
    ("engine: send, receive, delete 10, standard", engine::standard),
    ("engine: send, receive, delete 10, FIFO", engine::fifo),
    ("journal: append and commit 10 x 1 KB, memory", journal::memory),
    ("journal: append and commit 10 x 1 KB, file", journal::file),
    ("request: SendMessage, 1 KB", requests::send),
    ("request: SendMessageBatch, 10 x 1 KB", requests::send_batch),
    ("request: send, receive, delete 10 x 1 KB", requests::through),
];

/// Operations of the shorter and of the longer run: what they leave behind (grown tables, filled
/// caches) is the same in both.
const FEWER: u32 = 40;
const MORE: u32 = 160;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["--workload", name, operations] => run_workload(name, operations),
        // cargo adds `--bench`.
        given if given.contains(&"--update") => measure().and_then(|found| found.save()),
        _ => measure().and_then(|found| found.compare()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// In the process that is counted.
fn run_workload(name: &str, operations: &str) -> Result<()> {
    let found = WORKLOADS.iter().find(|(known, _)| *known == name);
    let (_, workload) = found.ok_or_else(|| format!("no workload {name:?}"))?;
    println!("{}", processor());
    workload(operations.parse()?)
}

fn measure() -> Result<Baseline> {
    let (mut counts, mut processor) = (Counts::new(), String::new());
    for (name, _) in WORKLOADS {
        let (fewer, _) = count(name, FEWER)?;
        let (more, shown) = count(name, MORE)?;
        processor = shown;
        counts.insert(name.to_owned(), more.saturating_sub(fewer) / u64::from(MORE - FEWER));
    }
    Ok(Baseline { processor, compiler: compiler()?, counts })
}

/// Instructions of a whole run, and the processor that it saw.
fn count(name: &str, operations: u32) -> Result<(u64, String)> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe()?).args(["--workload", name, &operations.to_string()]);
    let output = valgrind.output().map_err(|error| format!("starting valgrind: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name}: {}: {log}", output.status).into());
    }
    let collected = log.lines().find_map(|line| line.split_once("Collected :"));
    let (_, instructions) = collected.ok_or_else(|| format!("{name}: no count in: {log}"))?;
    let processor = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((instructions.trim().parse()?, processor))
}

/// What decides which code runs where several versions of it exist.
fn processor() -> String {
    let words = std::iter::once(std::env::consts::ARCH);
    #[cfg(target_arch = "x86_64")]
    let words = words.chain(
        [
            ("sse4.2", std::is_x86_feature_detected!("sse4.2")),
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
            ("bmi2", std::is_x86_feature_detected!("bmi2")),
            ("pclmulqdq", std::is_x86_feature_detected!("pclmulqdq")),
            ("sha", std::is_x86_feature_detected!("sha")),
        ]
        .into_iter()
        .filter_map(|(name, is_there)| is_there.then_some(name)),
    );
    words.collect::<Vec<_>>().join(" ")
}

fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
