//! `millrace bench`: the field's experiments against any endpoint, and Millrace's own targets.
//!
//! A scenario measures and fills in a [`report::Report`]; `report` shows it. `load` is the lean
//! generator below `pc`, `sweep`, `rate` and the targets; `node` lets several processes or hosts
//! run one scenario together; `ceiling` is the yardstick that answers as fast as answering can be.
//! Nothing here knows the server's insides: requests go over the network like any client's.

mod access;
mod ceiling;
mod certificate;
mod cli;
mod delay;
mod latency;
mod leftovers;
mod live;
mod load;
mod micro;
mod node;
mod output;
mod process;
mod progress;
mod report;
mod runtime;
mod scenarios;
mod server;
mod statistics;
mod targets;
mod tls;
mod watcher;

pub use cli::{Cli, Command, UsageError, run};
