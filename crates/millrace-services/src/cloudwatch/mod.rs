//! Amazon CloudWatch, as far as it is about metrics and alarms.

#[expect(dead_code, reason = "the actions that store custom metrics use them")]
mod monitor;
mod queues;

pub use monitor::Monitor;
