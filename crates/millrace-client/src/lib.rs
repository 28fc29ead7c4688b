//! Queues over the network, whoever serves them: Millrace, Amazon SQS, IronMQ.
//!
//! A [`Peer`] is one queue at one endpoint. Everything else here either speaks a protocol and is a
//! peer ([`sqs`], [`iron`]) or uses any peer. Nothing here knows how Millrace stores a message, so
//! what works here works, and is measured, against every server alike.

mod batch;
mod credentials;
mod encoding;
mod error;
mod message;
mod peer;
mod queue_peer;
mod retry;

pub mod iron;
pub mod lines;
pub mod sdb;
mod signed_form;
pub mod sns;
pub mod sqs;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub use millrace_http as transport;

pub use batch::{BatchError, BatchOptions, Sender, Settler};
#[cfg(feature = "aws-config")]
pub use credentials::CredentialsChain;
pub use credentials::{AwsSettings, AwsSettingsError, Credentials, IndirectKeys};
pub use error::{CallError, CallErrorKind, EntryError};
pub use message::{
    AttributeValue, Delivery, MessageAttribute, Outgoing, ReceiptHandle, Sent, attribute,
};
pub use millrace_core::{Url, UrlError};
pub use peer::{Capabilities, Peer, ReceiveRequest, SystemAttributes, Visibility};
pub use queue_peer::QueuePeer;
pub use retry::{RetryOptions, Retrying};

/// The snippets of the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
struct Guide;
