//! Completions for shells and manual pages, made from the definitions that parse a program's
//! commands.
//!
//! The script for a shell asks the program for candidates each time, so that it knows what only a
//! server knows, such as names of queues.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Args, CommandFactory};
use clap_complete::{
    CompleteEnv, Shell,
    env::{EnvCompleter, Shells},
};

/// Names the shell that asks for candidates. Not `MILLRACE_…`: a server refuses unknown variables
/// with that prefix.
const VARIABLE: &str = "_MILLRACE_COMPLETE";

/// Where the script for bash asks the program.
const BASH_ASKS: &str = "    COMPREPLY=( $( \\\n";
/// Bash splits words at colons and equal signs, so that a URL is several: they are joined again.
const BASH_JOINS: &str = r#"    local joined=() at last
    for at in "${!words[@]}"; do
        last=$(( ${#joined[@]} - 1 ))
        if (( at > 0 )) && [[ ${words[at]} =~ ^[:=]+$ || ${words[at - 1]} =~ ^[:=]+$ ]]; then
            joined[last]+=${words[at]}
            if (( at <= COMP_CWORD )); then (( _CLAP_COMPLETE_INDEX -= 1 )); fi
        else
            joined+=("${words[at]}")
        fi
    done
    words=("${joined[@]}")
"#;

/// Flags of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsFlags {
    shell: Shell,
}

/// Flags of `man`.
#[derive(Args, Debug)]
pub struct ManFlags {
    /// Directory that gets one page a command
    directory: PathBuf,
}

/// Answers a shell that completes a line, and ends the process; returns if no shell asks. Call it
/// before arguments are parsed.
pub fn answer_shell<T: CommandFactory>() {
    CompleteEnv::with_factory(T::command).var(VARIABLE).complete();
}

/// Returns the words of the line that a shell completes.
pub fn completed_line() -> Vec<OsString> {
    std::env::args_os().skip_while(|argument| argument != "--").skip(2).collect()
}

/// Prints the script that makes a shell ask the program for candidates.
pub fn print_completions(program: &str, flags: &CompletionsFlags) -> io::Result<()> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell: &dyn EnvCompleter = shells
        .completer(&flags.shell.to_string())
        .ok_or_else(|| io::Error::other("there are no completions for this shell"))?;
    shell.write_registration(VARIABLE, program, program, program, &mut script)?;
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if flags.shell == Shell::Bash {
        script = script.replacen(BASH_ASKS, &format!("{BASH_JOINS}{BASH_ASKS}"), 1);
    }
    io::stdout().lock().write_all(script.as_bytes())
}

/// Writes the manual pages of a program.
pub fn write_manual<T: CommandFactory>(flags: &ManFlags) -> anyhow::Result<()> {
    use anyhow::Context;
    let directory: &Path = &flags.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(T::command(), directory))
        .with_context(|| format!("writing to {}", directory.display()))
}
