//! HTTP/2, by hyper: the same service behind another framing.
//!
//! Streams are bounded in number and in body; each is a task that hyper drops when the client
//! resets it, which drops the service's future. An idle connection is told to go after the idle
//! timeout, all are told when we drain. hyper waits for the client's answer to that; those that
//! read only while they have a request under way give none.

mod convert;
mod ending;
mod io;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context as Task, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    header::{HeaderName, HeaderValue, ORIGIN},
    http::request::Parts,
    server::conn::http2::Builder,
    service::service_fn,
};
use millrace_wire::{BodyStream, Request, Response, Service};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::yield_now,
};

use self::{
    convert::{BodyForm, headers, into_hyper},
    ending::{Activity, Ending, Next},
    io::{Io, Spawner},
};
use crate::{
    Closed, Timeouts,
    budget::Held,
    clock::{lock, millis},
    connection::{Context, LONG_WAIT, hold_answer, no_room},
    http1::MAX_HEADERS,
    pace::Pace,
};

/// Bytes of a response that hyper is handed at a time: the next when the client has room for more.
const PIECE_BYTES: usize = 64 * 1024;
/// Roughly the memory that a header takes besides its text.
const HEADER_BYTES: usize = 100;
/// Responses up to this size are one piece.
const SMALL_BYTES: usize = 4 * 1024;

/// Answers requests until the connection ends. `unread` are bytes already taken from `io`.
pub(crate) async fn serve<T, S>(io: T, unread: Vec<u8>, context: Context<S>) -> Closed
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let streams = Arc::new(Streams {
        context,
        active: AtomicUsize::new(0),
        body_bytes: Arc::default(),
        answer_bytes: Arc::default(),
        untaken: Mutex::default(),
    });
    let context = &streams.context;
    context.deadline.set_after(context.timeouts.first);
    let for_streams = Arc::clone(&streams);
    let service = service_fn(move |request| {
        let streams = Arc::clone(&for_streams);
        async move { Ok::<_, Infallible>(streams.answer(request).await) }
    });
    let has_begun = Arc::<AtomicBool>::default();
    let connection = Builder::new(Spawner)
        .max_concurrent_streams(context.limits.max_streams)
        .max_header_list_size(u32::try_from(context.limits.max_head_bytes).unwrap_or(u32::MAX))
        .auto_date_header(false)
        .serve_connection(Io::new(io, unread, Arc::clone(&has_begun)), service);
    let mut connection = pin!(connection);
    let mut ending = Ending::new(has_begun);
    poll_fn(|task| {
        loop {
            if connection.as_mut().poll(task).is_ready() {
                return Poll::Ready(ending.goodbye().unwrap_or(Closed::ByPeer));
            }
            match ending.next(context, streams.activity(), task) {
                Next::Wait => return Poll::Pending,
                Next::Close(reason) => return Poll::Ready(reason),
                Next::SayGoodbye => connection.as_mut().graceful_shutdown(),
            }
        }
    })
    .await
}

/// The streams of one connection.
struct Streams<S> {
    context: Context<S>,
    active: AtomicUsize,
    /// What their bodies hold, and the heads of those.
    body_bytes: Arc<AtomicUsize>,
    /// What their answers hold.
    answer_bytes: Arc<AtomicUsize>,
    /// Since when, in the worker's time, pieces have not been taken; by the number of the wait.
    untaken: Mutex<BTreeMap<u64, u64>>,
}

/// Counts a stream as active until it is dropped.
struct Active<S>(Arc<Streams<S>>);

/// A response's body, whole or made while it is sent. The stream is active until it is sent.
struct Reply<S> {
    whole: Bytes,
    stream: Option<Box<dyn BodyStream>>,
    /// The number of the wait for the client to take something.
    wait: Option<u64>,
    active: Active<S>,
    _held: Option<Held>,
}

impl<S: Service> Streams<S> {
    async fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
    ) -> hyper::Response<Reply<S>> {
        let active = Active::new(self.clone());
        let context = &self.context;
        let (parts, body) = request.into_parts();
        // Compressed ones may have taken a byte each, and stay for as long as the body is awaited.
        let collected = match parts.headers.len() {
            0..=MAX_HEADERS => self.collect(body, head_bytes(&parts)).await,
            _ => Err(431),
        };
        let (mut response, is_refused) = match collected {
            // Before the call, which may hand out what a small answer cannot take back.
            Ok(_) if !context.answers.has_room_beside(&self.answer_bytes) => (no_room(), true),
            Ok((body, _held)) => (self.call(&parts, &body).await, false),
            Err(status) => (Response::new(status, "text/plain", &b""[..]), true),
        };
        let room = context.answers.hold_whole_beside(&self.answer_bytes, response.body.len());
        let held = hold_answer(room, &mut response);
        context.worker.request();
        tracing::debug!(
            peer = %context.peer,
            method = %parts.method,
            path = parts.uri.path(),
            status = response.status,
            request_id = response.request_id,
            is_refused,
            "request answered"
        );
        let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let allowed = context.policy.allowed_origin(origin);
        let (form, stream) = match response.stream.take() {
            _ if parts.method == hyper::Method::HEAD => (BodyForm::Length, None),
            None => (BodyForm::Whole, None),
            stream => (BodyForm::Stream, stream),
        };
        let response = into_hyper(response, form, allowed);
        context.cell().bytes_out(response.body().len());
        response.map(|whole| Reply { whole, stream, wait: None, active, _held: held })
    }

    async fn call(&self, parts: &Parts, body: &[u8]) -> Response {
        let context = &self.context;
        let headers = headers(parts);
        let request = Request {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or(""),
            headers: &headers,
            body,
            peer: context.peer,
            is_tls: context.is_tls,
        };
        match context.policy.answer(&request) {
            Some(response) => response,
            None => with_turns(context.service.call(request)).await,
        }
    }

    /// The whole body and the room that it and its head take, or the status of the refusal.
    async fn collect(&self, mut body: Incoming, head_bytes: usize) -> Result<(Vec<u8>, Held), u16> {
        let context = &self.context;
        let limit = context.limits.max_body_bytes;
        if body.size_hint().lower() > limit as u64 {
            return Err(413);
        }
        let mut collected = Vec::new();
        let mut held = context.bodies.hold_beside(&self.body_bytes);
        if !held.grow(head_bytes) {
            return Err(503);
        }
        let mut pace = Pace::new(context.deadline.now_ms(), context.timeouts.body);
        loop {
            let left_ms = pace.deadline_ms().saturating_sub(context.deadline.now_ms());
            let frame = tokio::time::timeout(Duration::from_millis(left_ms), body.frame());
            let data = match frame.await {
                Err(_) => return Err(408),
                Ok(None) => break,
                Ok(Some(Err(_))) => return Err(400),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            if data.len() > limit - collected.len() {
                return Err(413);
            }
            if !held.grow(data.len()) {
                return Err(503);
            }
            pace.received(context.deadline.now_ms(), data.len());
            collected.extend_from_slice(&data);
        }
        context.cell().bytes_in(collected.len());
        Ok((collected, held))
    }
}

fn head_bytes(parts: &Parts) -> usize {
    let of_header = |(name, value): (&HeaderName, &HeaderValue)| {
        HEADER_BYTES + name.as_str().len() + value.len()
    };
    parts.headers.iter().map(of_header).sum()
}

/// Runs a call. One that waited long, such as for a message, may hand out something that is lost if
/// the client has reset the stream. So before it goes on, the connection's task gets a turn to read
/// that, and hyper one to see it.
async fn with_turns(call: impl Future<Output = Response>) -> Response {
    let mut call = pin!(call);
    let mut waits_since: Option<Instant> = None;
    let mut turns: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    poll_fn(|task| {
        if waits_since.is_some_and(|since| since.elapsed() >= LONG_WAIT) {
            let turns = turns.get_or_insert_with(|| {
                Box::pin(async {
                    yield_now().await;
                    yield_now().await;
                })
            });
            ready!(turns.as_mut().poll(task));
        }
        turns = None;
        let polled = call.as_mut().poll(task);
        if polled.is_pending() {
            waits_since.get_or_insert_with(Instant::now);
        }
        polled
    })
    .await
}

impl<S> Streams<S> {
    /// A piece is there for the client to take.
    fn begin_wait(&self) -> u64 {
        let context = &self.context;
        let mut untaken = lock(&self.untaken);
        let number = untaken.last_key_value().map_or(0, |(number, _)| number + 1);
        untaken.insert(number, context.deadline.now_ms());
        drop(untaken);
        if !context.drain.is_started() {
            context.deadline.set_after(context.timeouts.write);
        }
        number
    }

    fn end_wait(&self, wait: &mut Option<u64>) {
        if let Some(number) = wait.take() {
            lock(&self.untaken).remove(&number);
        }
    }

    fn activity(&self) -> Activity {
        let context = &self.context;
        let now_ms = context.deadline.now_ms();
        let timeout_ms = millis(context.timeouts.write);
        // Waits are numbered as they begin.
        let first = lock(&self.untaken).first_key_value().map(|(_, since_ms)| *since_ms);
        if first.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= timeout_ms) {
            Activity::Stalled
        } else if self.active.load(Relaxed) > 0 {
            Activity::Active
        } else {
            Activity::Idle
        }
    }
}

impl<S> Active<S> {
    fn new(streams: Arc<Streams<S>>) -> Active<S> {
        streams.active.fetch_add(1, Relaxed);
        Active(streams)
    }
}

impl<S> Body for Reply<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The client has taken the piece before, but for its last window.
        let Reply { whole, stream, wait, active: Active(streams), .. } = &mut *self;
        streams.end_wait(wait);
        let piece = match stream {
            None if whole.is_empty() => None,
            None if whole.len() <= SMALL_BYTES => Some(std::mem::take(whole)),
            // The last byte by itself: it waits for all before it to be taken.
            None => Some(whole.split_to(PIECE_BYTES.min(whole.len() - 1))),
            Some(stream) => loop {
                match ready!(stream.poll_next(task)) {
                    Some(piece) if piece.is_empty() => {}
                    piece => break piece.map(Bytes::from),
                }
            },
        };
        if piece.is_some() {
            *wait = Some(streams.begin_wait());
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none() && self.whole.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.stream {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.whole.len() as u64),
        }
    }
}

impl<S> Drop for Reply<S> {
    fn drop(&mut self) {
        self.active.0.end_wait(&mut self.wait);
    }
}

impl<S> Drop for Active<S> {
    fn drop(&mut self) {
        let is_last = self.0.active.fetch_sub(1, Relaxed) == 1;
        let context = &self.0.context;
        if !context.drain.is_started() {
            let Timeouts { idle, write, .. } = context.timeouts;
            context.deadline.set_after(if is_last { idle } else { write });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::oneshot;

    use super::*;

    /// How often the call is to be polled, once it has waited so long and is ready.
    fn polls_after(wait: Duration) -> usize {
        let (answer, answered) = oneshot::channel();
        let mut call = pin!(with_turns(async { answered.await.unwrap_or_default() }));
        let mut task = Task::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut task).is_pending());
        std::thread::sleep(wait);
        answer.send(Response::default()).unwrap();
        1 + (0..10).take_while(|_| call.as_mut().poll(&mut task).is_pending()).count()
    }

    #[test]
    fn a_call_that_waited_long_goes_on_after_two_turns_of_others() {
        assert_eq!(polls_after(LONG_WAIT), 3);
    }
}
