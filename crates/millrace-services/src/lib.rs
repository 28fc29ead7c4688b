//! The services floor: one folder a service, one file a group of actions. A request is found out
//! ([`millrace_wire::protocol`]), authenticated ([`auth`]), dispatched ([`dispatch`]) and acted
//! upon; services reach one another only through the broker.

mod access_keys;
mod admin;
mod auth;
mod cloudwatch;
mod dispatch;
mod sqs;
mod sts;
mod telemetry;
mod turns;
mod welcome;

pub use access_keys::{AccessKey, AccessKeys, TurnsAuthentication};
pub use auth::is_region;
pub use cloudwatch::{AlarmBook, Minute, Monitor, QueueAccess, convert_alarms};
pub use dispatch::{Options, Principal, Services};
pub use sqs::{DeclaredQueue, SqsOptions};
pub use telemetry::{ActionCounts, MetricsOptions, Series, resident_bytes};
