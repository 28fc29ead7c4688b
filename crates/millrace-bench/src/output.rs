//! Standard output and standard error, which may lose their readers.

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Prints text as it is, at once. That nobody reads it any more is no failure: what a run found is
/// told by its exit code and its files as well.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("printing"),
    }
}

/// A line for people on standard error. That it cannot be written is no reason to end.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
