//! `completions` and `man`: what a shell and a manual know of the commands, made from the same
//! definitions that parse them.

use std::path::PathBuf;

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
    /// Where to write them, one a command
    directory: PathBuf,
}

pub(super) fn completions(flags: &CompletionsFlags) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "millrace", &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(())
}

pub(super) fn man(flags: &ManFlags) -> Result<()> {
    let directory = &flags.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("writing to {}", directory.display()))
}
