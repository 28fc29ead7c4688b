//! One HTTP/1.1 connection. It is driven by the task that uses it and by no other, so that a
//! request costs no hand-over between tasks.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::http::{HeaderMap, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::TransportError;

/// Ten messages of 1 MiB, each byte of which JSON escapes with six.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>,
    /// Answers received whole.
    pub(super) served: u64,
    /// When it was opened or last used.
    pub(super) idle_since: Instant,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Connection {
    pub(super) async fn over(stream: Box<dyn Stream>) -> Result<Connection, TransportError> {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driver) = handshake.map_err(|error| TransportError::Connect(error.into()))?;
        Ok(Connection { sender, driver, served: 0, idle_since: Instant::now() })
    }

    /// Whether the server has ended the connection since it was used last; asks without waiting.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(&mut self.driver).poll(&mut context).is_ready() || self.sender.is_closed()
    }

    /// Sends a request and returns its answer.
    ///
    /// Cancel safety: a connection whose exchange was dropped must not be used again.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, TransportError> {
        let sender = &mut self.sender;
        let work = async {
            sender.ready().await.map_err(TransportError::no_answer)?;
            let response = sender.send_request(request).await;
            let (parts, body) = response.map_err(TransportError::no_answer)?.into_parts();
            let body = whole(body).await?;
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        let answer = driven(&mut self.driver, work).await?;
        self.served += 1;
        Ok(answer)
    }
}

impl Answer {
    /// Whether the server says that this is the connection's last answer.
    pub(super) fn closes(&self) -> bool {
        let value = self.headers.get(header::CONNECTION);
        value.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
    }

    /// `Retry-After` in seconds; the form with a date is not read.
    pub fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

/// Runs `work` to its end and `driver` beside it.
async fn driven<T>(
    driver: &mut http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>,
    work: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        // What the driver reads or ends shows in `work`.
        let _ended = Pin::new(&mut *driver).poll(context);
        work.as_mut().poll(context)
    })
    .await
}

/// The body; without a copy if it came in one piece.
async fn whole(mut body: Incoming) -> Result<Bytes, TransportError> {
    let mut single = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(TransportError::broken_answer)?.into_data() else { continue };
        let length = single.len() + joined.len() + data.len();
        if length > ANSWER_BYTES_MAX {
            return Err(TransportError::AnswerTooLarge { limit_bytes: ANSWER_BYTES_MAX });
        }
        if length == data.len() {
            single = data;
            continue;
        }
        if !single.is_empty() {
            let missing = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
            joined.reserve((length.saturating_add(missing)).min(ANSWER_BYTES_MAX));
            joined.extend_from_slice(&std::mem::take(&mut single));
        }
        joined.extend_from_slice(&data);
    }
    Ok(if joined.is_empty() { single } else { joined.freeze() })
}
