//! Arguments of the command line: flags may come before or after the subcommand, and no error
//! quotes a URL.

use std::ffi::OsString;

use clap::{
    Arg, Command, Parser,
    error::{ContextKind, ContextValue},
};

/// Parses the arguments of this process; ends it if they are wrong or ask for help.
pub fn parse_arguments<T: Parser>() -> T {
    let arguments = flags_last(&T::command(), std::env::args_os().collect());
    T::try_parse_from(arguments).unwrap_or_else(|mut error| {
        hide_urls(&mut error);
        error.exit()
    })
}

/// Moves flags that stand before the subcommand to behind it, where they are defined:
/// `--endpoint URL queue list` becomes `queue list --endpoint URL`.
///
/// What is not understood stays as it is, so that the parser's error is about what was written.
fn flags_last(command: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut current = command;
    let (mut path, mut flags) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().skip(1);
    while current.has_subcommands() {
        let Some(argument) = rest.next() else { return arguments };
        let text = argument.to_string_lossy();
        if let Some(subcommand) = current.find_subcommand(&*text) {
            path.push(argument.clone());
            current = subcommand;
            continue;
        }
        let is_flag = text.starts_with('-') && text != "-" && text != "--";
        let is_answered_here = ["-h", "--help", "-V", "--version"].contains(&&*text);
        if !is_flag || is_answered_here {
            return arguments;
        }
        flags.push(argument.clone());
        if takes_next(current, &text) {
            flags.extend(rest.next().cloned());
        }
    }
    let program = arguments.first().cloned().into_iter();
    program.chain(path).chain(flags).chain(rest.cloned()).collect()
}

/// Returns whether the value of a flag of some subcommand is the next argument.
fn takes_next(command: &Command, flag: &str) -> bool {
    let is_flag = |argument: &&Arg| match flag.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        // `-oFILE` holds its value.
        None => flag.chars().count() == 2 && flag.chars().nth(1) == argument.get_short(),
    };
    let of_this = command.get_arguments().filter(is_flag);
    of_this.into_iter().any(|argument| argument.get_action().takes_values())
        || command.get_subcommands().any(|subcommand| takes_next(subcommand, flag))
}

/// Returns the value of a flag in arguments that need not be complete, as a shell has them that
/// completes the last one.
pub fn value_of_flag(arguments: &[OsString], flag: &str) -> Option<String> {
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(flag) {
            Some("") => return arguments.next().map(|value| value.into_owned()),
            Some(rest) => {
                if let Some(value) = rest.strip_prefix('=') {
                    return Some(value.to_owned());
                }
            }
            None => {}
        }
    }
    None
}

/// Returns the flags that take a value in one subcommand and none in another, which could not stand
/// before the subcommand. A program's tests assert that there are none.
pub fn ambiguous_flags(command: &Command) -> Vec<String> {
    fn collect<'a>(command: &'a Command, all: &mut Vec<(&'a str, bool)>) {
        for argument in command.get_arguments() {
            let takes_values = argument.get_action().takes_values();
            all.extend(argument.get_long().map(|long| (long, takes_values)));
        }
        command.get_subcommands().for_each(|subcommand| collect(subcommand, all));
    }
    let mut all = Vec::new();
    collect(command, &mut all);
    let differs = |(long, takes): &&(&str, bool)| !takes && all.contains(&(*long, true));
    all.iter().filter(differs).map(|(long, _)| format!("--{long}")).collect()
}

/// Replaces URLs in the values that an error quotes: a URL may hold a password.
fn hide_urls(error: &mut clap::Error) {
    let is_url = |value: &ContextValue| value.to_string().contains("://");
    let urls = error.context().filter(|(_, value)| is_url(value)).map(|(kind, _)| kind);
    // The usage line holds no values.
    let urls: Vec<ContextKind> = urls.filter(|kind| *kind != ContextKind::Usage).collect();
    for kind in urls {
        error.insert(kind, ContextValue::String("a URL".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::ArgAction;

    use super::*;

    fn program() -> Command {
        let endpoint = || Arg::new("endpoint").long("endpoint");
        let json = || Arg::new("json").long("json").action(ArgAction::SetTrue);
        let output = Arg::new("output").short('o');
        let list = Command::new("list").arg(endpoint()).arg(json());
        let queue = Command::new("queue").subcommand(list);
        Command::new("p").subcommand(queue).subcommand(Command::new("send").arg(output))
    }

    fn moved(line: &str) -> String {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        let moved = flags_last(&program(), arguments);
        moved.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn flags_before_the_subcommand_are_those_of_the_subcommand() {
        for (line, expected) in [
            ("p --endpoint x queue list a", "p queue list --endpoint x a"),
            ("p --endpoint=x queue --json list", "p queue list --endpoint=x --json"),
            ("p -o f send q", "p send -o f q"),
            ("p queue list --json a", "p queue list --json a"),
            // Not understood, or answered where it stands.
            ("p --json", "p --json"),
            ("p --json quue list", "p --json quue list"),
            ("p --help queue", "p --help queue"),
            ("p -- queue list", "p -- queue list"),
        ] {
            assert_eq!(moved(line), expected, "{line}");
        }
    }

    #[test]
    fn value_of_a_flag_is_found_in_an_unfinished_line() {
        let words: Vec<OsString> =
            ["queue", "show", "--endpoint", "x", "--region=y", "--profile"].map(Into::into).into();

        assert_eq!(value_of_flag(&words, "--endpoint"), Some("x".to_owned()));
        assert_eq!(value_of_flag(&words, "--region"), Some("y".to_owned()));
        assert_eq!(value_of_flag(&words, "--profile"), None);
    }

    #[test]
    fn flag_with_a_value_only_here_and_there_is_ambiguous() {
        assert_eq!(ambiguous_flags(&program()), Vec::<String>::new());
        let other = Command::new("other").arg(Arg::new("json").long("json"));
        assert_eq!(ambiguous_flags(&program().subcommand(other)), ["--json"]);
    }
}
