//! The experiments. Each has flags, measures, and returns [`Findings`]; what is common to all
//! (options, progress, outputs, limits) is `setting`.

pub(crate) mod ab;
mod connections;
pub(crate) mod drain;
pub(crate) mod fanout;
pub(crate) mod http;
mod names;
mod parts;
pub(crate) mod pc;
pub(crate) mod poll;
pub(crate) mod position;
mod queue;
pub(crate) mod rate;
pub(crate) mod sdb_csv;
mod setting;
mod simpledb;
mod sns;
pub(crate) mod suite;
pub(crate) mod sweep;
mod values;
mod watched;

pub(crate) use setting::{Findings, Flags, Options, Setting, conduct};
pub(crate) use values::clients;
