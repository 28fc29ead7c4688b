//! `millrace bench`: runs the program `millrace-bench`, which is built and installed by itself so
//! that the server carries none of it.

use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

use anyhow::{Context, Result};
use clap::Args;

use millrace_process::find_program;

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Arguments of millrace-bench; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Becomes `millrace-bench`. Returns only if that fails.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let program = find_program("millrace-bench").context(
        "millrace-bench is neither beside millrace nor in PATH; \
         `cargo build --release -p millrace-bench` builds it beside millrace",
    )?;
    let error = Command::new(&program).args(&arguments.arguments).exec();
    Err(error).with_context(|| format!("running {}", program.display()))
}
