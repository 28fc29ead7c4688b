//! The `millrace-bench` program, which `millrace bench` runs.

use std::process::ExitCode;

use millrace_bench::{Cli, UsageError};
use millrace_process::{answer_shell, follow_parent, parse_arguments, visible};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit codes: 0 done, 1 failed, 2 wrong flags.
fn main() -> ExitCode {
    follow_parent();
    answer_shell::<Cli>();
    match millrace_bench::run(parse_arguments::<Cli>().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("millrace-bench: {error:#}").replace('\n', "\n  ");
            // The text may quote a server. Nobody may be reading standard error.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{}\n", visible(&text)).as_bytes(),
            );
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}
