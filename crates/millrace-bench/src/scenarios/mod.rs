//! The experiments. Each has flags, measures, and returns [`Findings`]; what is common to all
//! (options, progress, outputs, limits) is `setting`.

mod ab;
mod connections;
mod drain;
mod http;
mod names;
mod parts;
mod pc;
mod poll;
mod position;
mod queue;
mod rate;
mod sdb_csv;
mod setting;
mod simpledb;
mod suite;
mod sweep;
mod values;
mod watched;

pub(crate) use setting::{Findings, Flags, Options, Setting, conduct};
pub(crate) use values::{clients, duration};

pub(crate) use ab::Flags as AbFlags;
pub(crate) use ab::run as ab;
pub(crate) use drain::Plan as DrainPlan;
pub(crate) use drain::run as drain;
pub(crate) use http::Plan as HttpPlan;
pub(crate) use http::run as http;
pub(crate) use pc::Flags as PcFlags;
pub(crate) use pc::run as pc;
pub(crate) use poll::Plan as PollPlan;
pub(crate) use poll::run as poll;
pub(crate) use position::Runs as PositionRuns;
pub(crate) use position::run as position;
pub(crate) use rate::Steps as RateSteps;
pub(crate) use rate::run as rate;
pub(crate) use sdb_csv::Plan as SdbCsvPlan;
pub(crate) use sdb_csv::run as sdb_csv;
pub(crate) use suite::Flags as SuiteFlags;
pub(crate) use suite::run as suite;
pub(crate) use sweep::Steps as SweepSteps;
pub(crate) use sweep::run as sweep;
