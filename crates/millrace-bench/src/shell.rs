//! `completions` and `man`, made from the definitions that parse the command line.

use std::{io::Write, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

#[derive(Args, Debug)]
pub(crate) struct CompletionsFlags {
    shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ManFlags {
    /// Directory that gets one page a command
    directory: PathBuf,
}

pub(crate) fn completions(flags: &CompletionsFlags) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "millrace-bench", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}

pub(crate) fn man(flags: &ManFlags) -> Result<()> {
    let directory = &flags.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("writing to {}", directory.display()))
}
