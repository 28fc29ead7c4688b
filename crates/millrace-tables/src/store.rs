//! The store: one writer, readers beside it, and the journal.
//!
//! ```text
//!  writes ──▶ waiting ──▶ writer: BEGIN, decide and apply each,      ──▶ Log: one record
//!             (bounded)           … the record is committed: COMMIT, answer
//!  reads  ──▶ jobs    ──▶ readers, each with a connection: what is committed
//!             (bounded, accounts take turns)
//! ```
//! SQLite never runs ahead of the journal: a change is in the journal, durably, before it is
//! committed here, together with the position of its record. So after a crash the records behind
//! that position are applied again, as they are: they say which rows changed, and need no
//! decisions. The writer alone decides. Whatever waits while it waits for the journal is its next
//! transaction.
//!
//! Once SQLite has synced what it holds (a checkpoint of its write-ahead file), the journal need
//! not keep it any more.
//!
//! Bounded: writes that wait, by count and bytes; reads that wait, by count; the time of each read;
//! rows of deleted domains that are removed at a time.

mod change;
mod clear;
mod database;
mod log;
mod open;
mod plan;
mod reader;
mod reads;
mod recovery;
mod rows;
mod tables;
mod transaction;
mod waiting;
mod writer;

#[cfg(test)]
mod tests;

pub use log::{Known, Log, LogError, Visit};
pub use open::{OpenError, Place, accept, check};
pub use reader::ReadError;
pub use tables::{Copy, Limits, Options, Tables};
