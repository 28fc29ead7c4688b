//! The broker as a whole: over a real directory, and over a journal in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod behind;
mod browse;
mod crowded;
mod damage;
mod drivers;
mod due;
mod earlier;
mod fan_out;
mod fifo;
mod full_disk;
mod hidden;
mod holds;
mod kept;
mod moved;
mod overdue;
mod poison;
mod polls;
mod shards;
mod sources;
mod support;
mod tasks;
mod views;
