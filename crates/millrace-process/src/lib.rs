//! What the programs `millrace` and `millrace-bench` share as processes: children that end with
//! their parent, where to find each other, ignored signals, arguments, and text that cannot steer a
//! terminal.

mod arguments;
mod parent;
mod program;
mod signals;
mod visible;

pub use arguments::parse_arguments;
pub use parent::{end_with_parent, follow_parent};
pub use program::find_program;
pub use signals::ignores_hang_up;
pub use visible::visible;
