//! Parts that the programs `millrace` and `millrace-bench` share: children that end with
//! their parent, where to find each other, ignored signals, arguments, durations, addresses,
//! completions, and text that cannot steer a terminal.

mod address;
mod arguments;
mod duration;
mod parent;
mod program;
mod shell;
mod signals;
mod visible;

pub use address::{AddressError, listen_address};
pub use arguments::{ambiguous_flags, parse_arguments, value_of_flag};
pub use duration::{DurationError, parse_duration, parse_whole_seconds};
pub use parent::{end_with_parent, follow_parent};
pub use program::find_program;
pub use shell::{
    CompletionsFlags, ManFlags, answer_shell, completed_line, print_completions, write_manual,
};
pub use signals::ignores_hang_up;
pub use visible::visible;
