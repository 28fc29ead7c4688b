//! Metrics as CloudWatch keeps them: one data point a minute for 15 days, one per five minutes for
//! 63 days, one an hour for 455 days, on disk; statistics over periods, metric math and alarms.
//!
//! What it promises: what [`MetricStore::record`] took survives a crash once [`MetricStore::sync`]
//! returned; sums over periods are the sums of what was recorded, before and after roll-up, if data
//! points are kept that lie in one of them each. What it never does: look at a clock (time is an
//! argument), keep history in memory, or grow without bound.
//!
//! In reading order: `key` (what names a series), `summary` and `statistic` (a data point and what
//! is asked of it), `database`, `catalog`, `points` and `row` (what is in the database), `store`,
//! `old_files` (what versions up to 0.2 kept), `source` (the minute that has not ended), `math`
//! (expressions), `alarm`.

pub mod alarm;
mod catalog;
mod database;
mod directory;
mod interrupt;
mod key;
pub mod math;
mod memory_limits;
mod number;
mod old_files;
mod points;
mod resolution;
mod row;
mod source;
mod statistic;
mod store;
mod summary;
mod unit;

pub use interrupt::Interrupt;
pub use key::{Entity, Scope};
pub use memory_limits::MemoryLimits;
pub use source::{Sample, Source, Value};
pub use statistic::{Bounds, Statistic};
pub use store::{
    ListFilter, Listed, MetricStore, Periods, Point, Record, RemoveFilter, SeriesQuery, StoreError,
};
pub use summary::Summary;
pub use unit::Unit;

/// Seconds of the finest data points that are kept.
pub const BASE_PERIOD_S: u64 = 60;
/// CloudWatch: data points with a period of 60 seconds are kept for 15 days.
pub const MINUTES_KEPT_S: u64 = 15 * 86_400;
/// CloudWatch: data points with a period of 300 seconds are kept for 63 days.
pub const FIVE_MINUTES_KEPT_S: u64 = 63 * 86_400;
/// CloudWatch: data points with a period of 3,600 seconds are kept for 455 days.
pub const HOURS_KEPT_S: u64 = 455 * 86_400;
