//! The services floor: one folder a service, one file a group of actions. The table ([`table`]) lists
//! them. A request is found out ([`millrace_wire::protocol`]), authenticated ([`auth`]), read,
//! authorized ([`authorize`]), acted upon and answered, as [`dispatch`] says; services reach one
//! another only through the broker.

mod access_keys;
mod admin;
mod auth;
mod authorize;
mod cloudwatch;
mod dispatch;
mod gzip;
mod ironmq;
mod policy;
mod policy_text;
mod principal;
mod projects;
mod service;
mod simpledb;
mod sns;
mod sqs;
mod sts;
mod table;
mod telemetry;
#[cfg(test)]
mod toy;
mod turns;
mod welcome;

pub use access_keys::{AccessKey, AccessKeys, TurnsAuthentication};
pub use auth::is_region;
pub use cloudwatch::{AlarmBook, Minute, Monitor, QueueAccess, convert_alarms};
pub use dispatch::{Floors, Options, Services, Signer};
pub use ironmq::{IronMqAlert, IronMqQueue, IronMqSubscriber};
pub use principal::Principal;
pub use projects::{DeclaredProject, DeclaredToken, is_project_id};
pub use sns::{
    DeclaredSubscription, DeclaredTopic, DeliveryCounts, Sign, SignatureVersion, TopicSigner,
    delivery,
};
pub use sqs::{DeclaredQueue, SqsOptions};
pub use telemetry::{ActionCounts, MetricsOptions, Series, resident_bytes};
