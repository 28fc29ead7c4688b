//! HTTP/2, by hyper: the same service behind another framing.
//!
//! Streams are bounded in number and in body; each is a task that hyper drops when the client
//! resets it, which drops the service's future. An idle connection is told to go after the idle
//! timeout, all are told when we drain. hyper waits for the client's answer to that; those that
//! read only while they have a request under way give none.

mod convert;
mod ending;
mod header_table;
mod io;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{self, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context as Task, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::Reason;
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    header::{HeaderMap, HeaderName, HeaderValue, ORIGIN},
    http::request::Parts,
    server::conn::http2::Builder,
    service::service_fn,
};
use millrace_wire::{BodyStream, Header, Judgement, Request, Response, Service};
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
    budget::{self, Held},
    clock::{lock, millis},
    connection::{Context, LONG_WAIT, hold_answer, no_room},
    connection_memory::Part,
    http1::MAX_HEADERS,
    pace::Pace,
};

/// Bytes of a response that hyper is handed at a time: the next when the client has room for more.
const PIECE_BYTES: usize = 64 * 1024;
/// Roughly the memory that a header takes besides its text.
const HEADER_BYTES: usize = 100;
/// Responses up to this size are one piece.
const SMALL_BYTES: usize = 4 * 1024;
/// What a connection takes besides its streams, measured with a margin: buffers and tables of h2.
const CONNECTION_BYTES: usize = 32 * 1024;
/// What a stream takes besides its head and body, measured with a margin: its task.
const STREAM_BYTES: usize = 4 * 1024;
/// What h2 keeps of it until the connection ends, measured: its tables grow to as many entries as
/// there were streams at a time, and never shrink.
const ENTRY_BYTES: usize = 4 * 1024;
/// Streams that count with their connection: who was let in has these however many others there
/// are.
const COUNTED_STREAMS: usize = 4;

/// Answers requests until the connection ends. `unread` are bytes already taken from `io`.
pub(crate) async fn serve<T, S>(io: T, unread: Vec<u8>, context: Context<S>) -> Closed
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let streams = Arc::new(Streams {
        context,
        active: AtomicUsize::new(0),
        most_active: AtomicUsize::new(COUNTED_STREAMS),
        awaited: AtomicUsize::new(0),
        body_bytes: Arc::default(),
        answer_bytes: Arc::default(),
        untaken: Mutex::default(),
    });
    let context = &streams.context;
    let bytes = CONNECTION_BYTES + COUNTED_STREAMS * (STREAM_BYTES + ENTRY_BYTES);
    if !context.share.grow(bytes) {
        return Closed::NoMemory;
    }
    context.share.set_base();
    context.deadline.set_after(context.timeouts.first);
    let for_streams = Arc::clone(&streams);
    let service = service_fn(move |request| Arc::clone(&for_streams).begin(request));
    let has_begun = Arc::<AtomicBool>::default();
    let connection = Builder::new(Spawner)
        .max_concurrent_streams(context.limits.max_streams)
        .max_header_list_size(u32::try_from(context.limits.max_head_bytes).unwrap_or(u32::MAX))
        // See `header_table`.
        .header_table_size(0)
        .auto_date_header(false)
        .serve_connection(
            Io::new(io, unread, Arc::clone(&has_begun), Arc::clone(&context.share)),
            service,
        );
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
    /// The most that were active at a time.
    most_active: AtomicUsize,
    /// Those whose bodies are awaited.
    awaited: AtomicUsize,
    /// What their bodies hold, and the heads of those.
    body_bytes: Arc<AtomicUsize>,
    /// What their answers hold.
    answer_bytes: Arc<AtomicUsize>,
    /// Since when, in the worker's time, pieces have not been taken; by the number of the wait.
    untaken: Mutex<BTreeMap<u64, u64>>,
}

/// Counts a stream as active, and with what it takes, until it is dropped.
struct Active<S> {
    streams: Arc<Streams<S>>,
    part: Part,
}

/// Counts a stream whose body is awaited.
struct Awaited<'a>(&'a AtomicUsize);

/// A response's body, whole or made while it is sent.
struct Reply<S> {
    whole: Bytes,
    stream: Option<Box<dyn BodyStream>>,
    sending: Arc<Sending<S>>,
}

/// A response that the client has not taken yet. The stream is active until it has.
struct Sending<S> {
    /// The number of the wait for the client to take something.
    wait: Mutex<Option<u64>>,
    active: Active<S>,
    held: Option<Held>,
}

/// The last piece of a response, which h2 drops once it is written.
struct LastPiece<S> {
    bytes: Bytes,
    _sending: Arc<Sending<S>>,
}

impl<S> AsRef<[u8]> for LastPiece<S> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

type Answer<S> = Result<hyper::Response<Reply<S>>, h2::Error>;

impl<S: Service> Streams<S> {
    /// Runs while the connection is read: what is refused takes no task of the size that answers
    /// need.
    fn begin(
        self: Arc<Self>,
        mut request: hyper::Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Answer<S>> + Send>> {
        let refused = |reason: Reason| Box::pin(future::ready(Err(reason.into())));
        let is_head_fine = request.headers().len() <= MAX_HEADERS;
        if !is_head_fine {
            // Compressed ones may have taken a byte each.
            *request.headers_mut() = HeaderMap::new();
        }
        let Some(part) = self.room_for_stream(head_bytes(request.headers())) else {
            return refused(Reason::REFUSED_STREAM);
        };
        let active = Active::new(Arc::clone(&self), part);
        Box::pin(async move { Ok(self.answer(request, is_head_fine, active).await) })
    }

    fn room_for_stream(&self, head_bytes: usize) -> Option<Part> {
        let share = &self.context.share;
        // Answers that are not taken yet count, too.
        let active = self.active.load(Relaxed);
        if active >= 2 * self.context.limits.max_streams as usize {
            return None;
        }
        if active >= self.most_active.load(Relaxed) {
            if !share.grow(ENTRY_BYTES) {
                return None;
            }
            self.most_active.store(active + 1, Relaxed);
        }
        share.part(head_bytes + if active < COUNTED_STREAMS { 0 } else { STREAM_BYTES })
    }

    async fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
        is_head_fine: bool,
        mut active: Active<S>,
    ) -> hyper::Response<Reply<S>> {
        let context = &self.context;
        let share = &context.share;
        let (parts, body) = request.into_parts();
        let collected = match is_head_fine {
            true => self.collect(body, &parts, &mut active).await,
            false => Err(status_only(431)),
        };
        let (mut response, is_refused) = match collected {
            // Before the call, which may hand out what a small answer cannot take back.
            Ok(_) if !context.answers.has_room_beside(share, &self.answer_bytes) => {
                (no_room(), true)
            }
            Ok((body, _held)) => (self.call(&parts, &body).await, false),
            Err(response) => (*response, true),
        };
        if let Some(tenant) = response.admitted {
            share.let_in(tenant);
        }
        let length = response.body.len();
        let room = context.answers.hold_whole_beside(share, &self.answer_bytes, length);
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
        let sending = Sending { wait: Mutex::default(), active, held };
        response.map(|whole| Reply { whole, stream, sending: Arc::new(sending) })
    }

    async fn call(&self, parts: &Parts, body: &[u8]) -> Response {
        let context = &self.context;
        let headers = headers(parts);
        let request = self.request(parts, &headers, body);
        match context.policy.answer(&request) {
            Some(response) => response,
            None => {
                let let_in = || context.let_in_waiting(&request);
                with_turns(context.service.call(request), let_in).await
            }
        }
    }

    fn request<'a>(
        &self,
        parts: &'a Parts,
        headers: &'a [Header<'a>],
        body: &'a [u8],
    ) -> Request<'a> {
        Request {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or(""),
            headers,
            body,
            peer: self.context.peer,
            is_tls: self.context.is_tls,
        }
    }

    /// Lets the service judge the head before there is room for a large body, or for many streams
    /// of a stranger.
    fn judge(&self, parts: &Parts, held: &mut Held) -> Result<(), Box<Response>> {
        let context = &self.context;
        let headers = headers(parts);
        match context.service.judge(&self.request(parts, &headers, b"")) {
            Judgement::Admitted => {}
            Judgement::Claimed(tenant) if context.share.is_stranger() => {
                context.share.set_claimed();
                held.set_claimed(tenant);
            }
            Judgement::Claimed(_) => {}
            Judgement::Refused(response) => return Err(response),
        }
        Ok(())
    }

    /// The whole body and the room that it and its head take, or the refusal.
    async fn collect(
        &self,
        mut body: Incoming,
        parts: &Parts,
        active: &mut Active<S>,
    ) -> Result<(Vec<u8>, Held), Box<Response>> {
        let context = &self.context;
        let limit = context.limits.max_body_bytes;
        let announced = body.size_hint().lower();
        if announced > limit as u64 {
            return Err(status_only(413));
        }
        let mut collected = Vec::new();
        let mut held = context.bodies.hold_beside(&context.share, &self.body_bytes);
        if body.is_end_stream() {
            return Ok((collected, held));
        }
        if !held.grow(head_bytes(&parts.headers)) {
            return Err(status_only(503));
        }
        let awaited = Awaited::new(&self.awaited);
        let is_crowded = context.share.is_stranger()
            && awaited.count() > context.limits.max_strange_streams as usize;
        let mut is_judged = is_crowded || announced > budget::SMALL_BYTES as u64;
        if is_judged {
            self.judge(parts, &mut held)?;
        }
        let mut pace = Pace::new(context.deadline.now_ms(), context.body_timeout());
        loop {
            let left_ms = pace.deadline_ms().saturating_sub(context.deadline.now_ms());
            let frame = tokio::time::timeout(Duration::from_millis(left_ms), body.frame());
            let data = match frame.await {
                Err(_) => return Err(status_only(408)),
                Ok(None) => break,
                Ok(Some(Err(_))) => return Err(status_only(400)),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            if data.len() > limit - collected.len() {
                return Err(status_only(413));
            }
            let is_large = collected.len() + data.len() > budget::SMALL_BYTES;
            if is_large && !std::mem::replace(&mut is_judged, true) {
                self.judge(parts, &mut held)?;
            }
            let has_room = is_large || active.grow(data.len());
            if !has_room || !held.grow(data.len()) {
                return Err(status_only(503));
            }
            pace.received(context.deadline.now_ms(), data.len());
            collected.extend_from_slice(&data);
        }
        context.cell().bytes_in(collected.len());
        Ok((collected, held))
    }
}

fn status_only(status: u16) -> Box<Response> {
    Box::new(Response::new(status, "text/plain", ""))
}

fn head_bytes(headers: &HeaderMap) -> usize {
    let of_header = |(name, value): (&HeaderName, &HeaderValue)| {
        HEADER_BYTES + name.as_str().len() + value.len()
    };
    headers.iter().map(of_header).sum()
}

/// Runs a call. One that waited long, such as for a message, may hand out something that is lost if
/// the client has reset the stream. So before it goes on, the connection's task gets a turn to read
/// that, and hyper one to see it.
async fn with_turns(call: impl Future<Output = Response>, let_in: impl Fn()) -> Response {
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
        if polled.is_pending() && waits_since.is_none() {
            waits_since = Some(Instant::now());
            // Strangers would have been refused by now.
            let_in();
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

    fn end_wait(&self, wait: &Mutex<Option<u64>>) {
        if let Some(number) = lock(wait).take() {
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
    fn new(streams: Arc<Streams<S>>, part: Part) -> Active<S> {
        streams.active.fetch_add(1, Relaxed);
        Active { streams, part }
    }

    fn grow(&mut self, bytes: usize) -> bool {
        self.part.grow(bytes)
    }
}

impl Awaited<'_> {
    fn new(streams: &AtomicUsize) -> Awaited<'_> {
        streams.fetch_add(1, Relaxed);
        Awaited(streams)
    }

    /// This one and those beside it.
    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl<S: Service> Body for Reply<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The client has taken the piece before, but for its last window.
        let Reply { whole, stream, sending } = &mut *self;
        let streams = &sending.active.streams;
        streams.end_wait(&sending.wait);
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
        let Some(piece) = piece else { return Poll::Ready(None) };
        *lock(&sending.wait) = Some(streams.begin_wait());
        if let Some(held) = &sending.held {
            held.taken(piece.len());
        }
        let is_last = stream.is_none() && whole.is_empty();
        let piece = match is_last {
            true => Bytes::from_owner(LastPiece { bytes: piece, _sending: Arc::clone(sending) }),
            false => piece,
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
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

impl<S> Drop for Sending<S> {
    fn drop(&mut self) {
        self.active.streams.end_wait(&self.wait);
    }
}

impl<S> Drop for Active<S> {
    fn drop(&mut self) {
        let is_last = self.streams.active.fetch_sub(1, Relaxed) == 1;
        let context = &self.streams.context;
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
        let mut call = pin!(with_turns(async { answered.await.unwrap_or_default() }, || ()));
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
