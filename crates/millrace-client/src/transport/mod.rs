//! HTTP/1.1 connections to one endpoint, kept and counted.
//!
//! Two lanes share nothing: long polls wait on the [`Lane::Hold`] connections, everything else
//! goes over the [`Lane::Quick`] ones, so that a delete never waits for a poll. A connection that
//! the server closed without a word is noticed before use if the news has come by then, else under
//! the request, which is then repeated at once on a fresh connection if that is safe.
//!
//! A transport belongs to the runtime that it is first used on.

mod connection;
mod endpoint;
mod error;
mod ledger;
mod pool;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::http::{HeaderMap, Method, Request, Uri};

pub use connection::Answer;
pub use endpoint::{Endpoint, EndpointError};
pub use error::TransportError;
pub use ledger::LedgerCounts;

use pool::{Pool, Taken};

/// Connections to one endpoint.
#[derive(Debug)]
pub struct Transport {
    pool: Pool,
    answer_timeout: Duration,
}

/// How connections are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportOptions {
    /// Keep connections, or open a new one for each request.
    pub reuse: Reuse,
    /// Connections of each lane; further requests wait for one.
    pub lane_connections: usize,
    /// An idle connection is not used after that long, for the server may be about to close it.
    pub idle_limit: Duration,
    /// Name look-up, TCP and TLS together.
    pub connect_timeout: Duration,
    /// From request to answer, besides the time that a long poll waits.
    pub answer_timeout: Duration,
}

/// Whether connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    Keep,
    /// A new connection for each request, closed after it, and nothing is repeated: how naive
    /// clients do it.
    Never,
}

impl Default for TransportOptions {
    fn default() -> TransportOptions {
        TransportOptions {
            reuse: Reuse::Keep,
            lane_connections: 64,
            idle_limit: Duration::from_secs(55),
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(15),
        }
    }
}

/// What a request is sent over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// For answers that come at once.
    Quick,
    /// For long polls.
    Hold,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    pub lane: Lane,
    pub method: Method,
    /// Path and query only.
    pub path: Uri,
    /// All but `Content-Length`.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// How long the server may wait on purpose before it answers.
    pub wait: Duration,
    pub repeat: Repeat,
}

/// Whether a request may be sent a second time when a reused connection ended before the first
/// byte of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Doing it twice does no harm: receives, deletes, visibility changes, sends that carry a
    /// deduplication id or may be duplicated.
    Safe,
    Never,
}

impl Transport {
    /// No connection is opened before the first request.
    pub fn new(endpoint: Endpoint, options: &TransportOptions) -> Transport {
        Transport { pool: Pool::new(endpoint, options), answer_timeout: options.answer_timeout }
    }

    /// Sends a request and returns its answer, whatever its status.
    ///
    /// Cancel safety: the server may still do what was asked; the connection is closed.
    ///
    /// # Errors
    ///
    /// If no whole answer came.
    pub async fn call(&self, call: Call) -> Result<Answer, TransportError> {
        let mut taken = self.pool.take(call.lane).await?;
        let may_repeat = taken.is_reused() && call.repeat == Repeat::Safe;
        let again = may_repeat.then(|| call.clone());

        match self.exchange(&mut taken, call).await {
            Err(TransportError::NoAnswer(_)) if taken.is_reused() => match again {
                Some(call) => {
                    self.pool.stale(&taken);
                    let mut fresh = self.pool.replace(taken).await?;
                    let outcome = self.exchange(&mut fresh, call).await;
                    self.pool.settle(fresh, &outcome);
                    outcome
                }
                None => {
                    self.pool.stale(&taken);
                    Err(TransportError::NoAnswer("the kept connection was closed".into()))
                }
            },
            outcome => {
                self.pool.settle(taken, &outcome);
                outcome
            }
        }
    }

    /// What happened to connections so far.
    pub fn ledger(&self) -> LedgerCounts {
        self.pool.ledger()
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.pool.endpoint()
    }

    async fn exchange(&self, taken: &mut Taken<'_>, call: Call) -> Result<Answer, TransportError> {
        let limit = self.answer_timeout + call.wait;
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = call.path;
        *request.headers_mut() = call.headers;
        let exchange = taken.connection.exchange(request);
        match tokio::time::timeout(limit, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(TransportError::AnswerTimeout { limit }),
        }
    }
}
