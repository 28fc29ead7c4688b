//! HTTP/1.1 connections to one endpoint, kept and counted.
//!
//! Two lanes share nothing: long polls wait on the [`Lane::Hold`] connections, everything else
//! goes over the [`Lane::Quick`] ones, so that a delete never waits for a poll. A connection that
//! the server closed without a word is noticed before use if the news has come by then, else under
//! the request, which is then repeated at once on a fresh connection if that is safe. One that no
//! longer answers, without having been closed, takes the idle ones of its lane along that were last
//! used before.
//!
//! A transport belongs to the runtime that it is first used on.

mod connection;
mod dial;
mod endpoint;
mod error;
mod http1;
mod ledger;
mod lifetime;
mod look_up;
mod pool;
mod race;
mod streamed;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::ClientConfig;

pub use dial::{ServerIdentity, TlsOptions};
pub use endpoint::Endpoint;
pub use error::TransportError;
pub use http1::{Answer, Head, HeadError};
pub use ledger::LedgerCounts;
pub use streamed::{Streamed, StreamedBody};

use dial::Dialer;
use pool::{Pool, Taken};

/// Connections to one endpoint.
#[derive(Debug)]
pub struct Transport {
    pool: Pool,
    answer_timeout: Duration,
}

/// How connections are made and kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportOptions {
    /// Keep connections, or open a new one for each request.
    pub reuse: Reuse,
    /// Whether a connection is opened ahead when another nears the end of its life.
    pub spares: Spares,
    /// Connections of each lane; further requests wait for one, at most `answer_timeout`.
    pub lane_connections: usize,
    /// After how many requests we close a connection ourselves; never unless given.
    pub requests_max: Option<u64>,
    /// An idle connection is not used after that long, for the server may be about to close it.
    pub idle_limit: Duration,
    /// Name look-up, TCP and TLS together.
    pub connect_timeout: Duration,
    /// From request to answer, besides the time that a long poll waits.
    pub answer_timeout: Duration,
    pub tls: TlsOptions,
    /// A configuration that many transports share, in place of one made from `tls`: each made one
    /// reads the system's authorities and holds them.
    pub shared_tls: Option<Arc<ClientConfig>>,
    /// Decides for each address that is about to be dialled; without it all are allowed.
    pub address_check: Option<AddressCheck>,
    /// Names that are looked up at a time, each on a thread.
    pub look_ups: usize,
    pub answer_limit: AnswerLimit,
    /// Connect to that address, such as a proxy's, instead of the endpoint's.
    pub connect_to: Option<SocketAddr>,
}

/// The longest body of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerLimit {
    /// A longer one is an error: [`TransportError::AnswerTooLarge`].
    Refuse { bytes: usize },
    /// A longer one is cut, possibly to nothing, and its connection closed: for callers that act
    /// on the status.
    Cut { bytes: usize },
}

/// A rule about the addresses that may be called. It sees the address that is dialled, not the
/// name, so that a name that changes its address does not get around it.
#[derive(Clone)]
pub struct AddressCheck(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl AddressCheck {
    /// `is_allowed` is called for each address before it is dialled.
    pub fn new(is_allowed: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> AddressCheck {
        AddressCheck(Arc::new(is_allowed))
    }

    fn allows(&self, address: IpAddr) -> bool {
        (self.0)(address)
    }
}

impl std::fmt::Debug for AddressCheck {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AddressCheck").finish_non_exhaustive()
    }
}

/// Whether connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    Keep,
    /// A new connection for each request, closed after it: how naive clients do it.
    Never,
}

/// Whether spare connections are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spares {
    /// Two requests before the end that was learned from earlier connections.
    Open,
    Never,
}

impl Default for TransportOptions {
    fn default() -> TransportOptions {
        TransportOptions {
            reuse: Reuse::Keep,
            spares: Spares::Open,
            lane_connections: 64,
            requests_max: None,
            idle_limit: Duration::from_secs(55),
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(15),
            tls: TlsOptions::default(),
            shared_tls: None,
            address_check: None,
            look_ups: look_up::AT_A_TIME,
            answer_limit: AnswerLimit::default(),
            connect_to: None,
        }
    }
}

impl TransportOptions {
    /// A new connection for each request and no spares.
    pub fn naive() -> TransportOptions {
        TransportOptions {
            reuse: Reuse::Never,
            spares: Spares::Never,
            ..TransportOptions::default()
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
    pub head: Head,
    pub body: Bytes,
    /// How long the server may wait on purpose before it answers.
    pub wait: Duration,
    pub repeat: Repeat,
}

/// Whether a request may be sent a second time when a kept connection ended before the first byte
/// of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Doing it twice does no harm: receives, deletes, visibility changes, sends that carry a
    /// deduplication id or may be duplicated.
    Safe,
    /// Only if the connection ends within 250 ms of the request: then it was about to end
    /// anyway. Later, it may be the request that the server died of.
    IfStale,
    Never,
}

/// A server that has closed a kept connection says so as soon as the next request comes, one
/// network round trip later.
const STALE_WITHIN: Duration = Duration::from_millis(250);

impl Repeat {
    fn may_follow(self, sent_for: Duration) -> bool {
        match self {
            Repeat::Safe => true,
            Repeat::IfStale => sent_for <= STALE_WITHIN,
            Repeat::Never => false,
        }
    }
}

impl Transport {
    /// No connection is opened before the first request.
    ///
    /// # Errors
    ///
    /// [`TransportError::Tls`] if the endpoint is `https` and no authority can be read.
    pub fn new(
        endpoint: Endpoint,
        options: &TransportOptions,
    ) -> Result<Transport, TransportError> {
        let dialer = Dialer::new(endpoint, options)?;
        let pool = Pool::new(dialer, options);
        Ok(Transport { pool, answer_timeout: options.answer_timeout })
    }

    /// Sends a request and returns its answer, whatever its status.
    ///
    /// Cancel safety: the server may still do what was asked; the connection is closed.
    ///
    /// # Errors
    ///
    /// If no whole answer came.
    pub async fn call(&self, call: Call) -> Result<Answer, TransportError> {
        let head = call.head.finish(call.body.len());
        let mut taken = self.pool.take(call.lane).await?;
        let began = Instant::now();
        let mut outcome = self.exchange(&mut taken, &head, &call.body, call.wait).await;

        if taken.is_reused() && matches!(outcome, Err(TransportError::NoAnswer(_))) {
            self.pool.stale(&taken);
            if !call.repeat.may_follow(began.elapsed()) {
                return outcome;
            }
            // The first request may have been carried out, whatever became of the second.
            taken = match self.pool.replace(taken).await {
                Ok(taken) => taken,
                Err(error) => return Err(TransportError::NotRepeated(Box::new(error))),
            };
            outcome = self.exchange(&mut taken, &head, &call.body, call.wait).await;
        }
        self.pool.settle(taken, &outcome);
        outcome
    }

    /// What happened to connections so far.
    pub fn ledger(&self) -> LedgerCounts {
        self.pool.ledger().counts()
    }

    /// After how many requests the server ends connections, as far as that was learned.
    pub fn learned_lifetime(&self) -> Option<u64> {
        self.pool.lifetime().learned()
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.pool.dialer().endpoint
    }

    async fn exchange(
        &self,
        taken: &mut Taken<'_>,
        head: &[u8],
        body: &[u8],
        wait: Duration,
    ) -> Result<Answer, TransportError> {
        let limit = self.answer_timeout.saturating_add(wait);
        let watch = self.pool.watch(taken, wait);
        let answered = tokio::time::timeout(limit, taken.connection.exchange(head, body)).await;
        let Ok(outcome) = answered else {
            return Err(TransportError::AnswerTimeout { limit });
        };
        if let Some(watch) = watch {
            watch.end();
        }
        outcome
    }
}
