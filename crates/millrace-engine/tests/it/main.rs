//! The engine as its users see it: scripts, a model, replays and costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod cost;
mod harness;
mod losses;
mod model;
mod props;
mod raw;
mod replay;
mod scripts;
mod turns;
