//! HTTP/2, by hyper: the same service behind another framing.
//!
//! Streams are bounded in number and in body; each is a task that hyper drops when the client
//! resets it, which drops the service's future. An idle connection is told to go after the idle
//! timeout, all are told when we drain.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context as Task, Poll, ready},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    header::{HeaderName, HeaderValue},
    rt::{Executor, Read, ReadBufCursor, Write},
    server::conn::http2::Builder,
    service::service_fn,
};
use millrace_wire::{BodyStream, Header, Request, Response, Service};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Closed,
    connection::Context,
    http1::{has_length, is_value},
    policy::{AllowedOrigin, EXPOSED_HEADERS},
    scratch,
};

/// Answers requests until the connection ends. `unread` are bytes already taken from `io`.
pub(crate) async fn serve<T, S>(io: T, unread: Vec<u8>, context: Context<S>) -> Closed
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let streams = Arc::new(Streams { context, active: AtomicUsize::new(0) });
    let context = &streams.context;
    context.deadline.set_after(context.timeouts.idle);
    let for_streams = Arc::clone(&streams);
    let service = service_fn(move |request| {
        let streams = Arc::clone(&for_streams);
        async move { Ok::<_, Infallible>(streams.answer(request).await) }
    });
    let connection = Builder::new(Spawner)
        .max_concurrent_streams(context.limits.max_streams)
        .max_header_list_size(u32::try_from(context.limits.max_head_bytes).unwrap_or(u32::MAX))
        .auto_date_header(false)
        .serve_connection(Io { io, unread, used: 0 }, service);
    let mut connection = pin!(connection);
    let mut goodbye: Option<Closed> = None;
    poll_fn(|task| {
        loop {
            if connection.as_mut().poll(task).is_ready() {
                return Poll::Ready(goodbye.unwrap_or(Closed::ByPeer));
            }
            let is_late = context.deadline.has_passed() && streams.active.load(Relaxed) == 0;
            let reason = match goodbye {
                None if context.drain.is_started() => Closed::Drain,
                None if is_late => Closed::Idle,
                // Told to go, and still there after the same time again.
                Some(reason) if is_late => return Poll::Ready(reason),
                _ => {
                    context.deadline.register(task.waker());
                    return Poll::Pending;
                }
            };
            connection.as_mut().graceful_shutdown();
            goodbye = Some(reason);
            context.deadline.set_after(context.timeouts.write);
        }
    })
    .await
}

/// The streams of one connection.
struct Streams<S> {
    context: Context<S>,
    active: AtomicUsize,
}

/// Counts a stream as active until it is dropped.
struct Active<S>(Arc<Streams<S>>);

/// A response's body, whole or made while it is sent. The stream is active until it is sent.
struct Reply<S> {
    whole: Bytes,
    stream: Option<Box<dyn BodyStream>>,
    _active: Active<S>,
}

impl<S: Service> Streams<S> {
    async fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
    ) -> hyper::Response<Reply<S>> {
        let active = Active::new(self.clone());
        let context = &self.context;
        let (parts, body) = request.into_parts();
        let head = Parts { parts: &parts };
        let (mut response, is_refused) = match self.collect(body).await {
            Ok(body) => (self.call(&head, &body).await, false),
            Err(status) => (Response::new(status, "text/plain", &b""[..]), true),
        };
        context.cell().request();
        tracing::debug!(
            peer = %context.peer,
            method = %parts.method,
            path = parts.uri.path(),
            status = response.status,
            request_id = response.request_id,
            is_refused,
            "request answered"
        );
        let allowed = context.policy.allowed_origin(head.origin());
        let is_head = parts.method == hyper::Method::HEAD;
        let body_bytes = response.body.len();
        let stream = response.stream.take().filter(|_| !is_head);
        let response = into_hyper(response, stream.is_none(), allowed, is_head);
        context.cell().bytes_out(if is_head { 0 } else { body_bytes });
        response.map(|whole| Reply { whole, stream, _active: active })
    }

    async fn call(&self, head: &Parts<'_>, body: &[u8]) -> Response {
        let context = &self.context;
        let headers = head.headers();
        let request = Request {
            method: head.parts.method.as_str(),
            path: head.parts.uri.path(),
            query: head.parts.uri.query().unwrap_or(""),
            headers: &headers,
            body,
            peer: context.peer,
            is_tls: context.is_tls,
        };
        match context.policy.answer(&request) {
            Some(response) => response,
            None => context.service.call(request).await,
        }
    }

    /// The whole body, or the status of the refusal.
    async fn collect(&self, mut body: Incoming) -> Result<Vec<u8>, u16> {
        let limit = self.context.limits.max_body_bytes;
        if body.size_hint().lower() > limit as u64 {
            return Err(413);
        }
        let mut collected = Vec::new();
        let mut held = self.context.bodies.hold();
        loop {
            let frame = tokio::time::timeout(self.context.timeouts.body, body.frame());
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
            collected.extend_from_slice(&data);
        }
        self.context.cell().bytes_in(collected.len());
        Ok(collected)
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
        let Some(stream) = &mut self.stream else {
            let whole = std::mem::take(&mut self.whole);
            return Poll::Ready((!whole.is_empty()).then(|| Ok(Frame::data(whole))));
        };
        loop {
            match ready!(stream.poll_next(task)) {
                Some(piece) if piece.is_empty() => {}
                piece => return Poll::Ready(piece.map(|piece| Ok(Frame::data(piece.into())))),
            }
        }
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

impl<S> Drop for Active<S> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
        let context = &self.0.context;
        if !context.drain.is_started() {
            context.deadline.set_after(context.timeouts.idle);
        }
    }
}

/// A request's head as hyper gives it.
struct Parts<'a> {
    parts: &'a hyper::http::request::Parts,
}

impl Parts<'_> {
    fn headers(&self) -> Vec<Header<'_>> {
        let host = self.parts.uri.authority().filter(|_| !self.parts.headers.contains_key("host"));
        let host = host.map(|host| Header { name: "host", value: host.as_str().as_bytes() });
        let others = self
            .parts
            .headers
            .iter()
            .map(|(name, value)| Header { name: name.as_str(), value: value.as_bytes() });
        host.into_iter().chain(others).collect()
    }

    fn origin(&self) -> Option<&str> {
        self.parts.headers.get("origin")?.to_str().ok()
    }
}

fn into_hyper(
    response: Response,
    is_whole: bool,
    allowed: Option<AllowedOrigin<'_>>,
    is_head: bool,
) -> hyper::Response<Bytes> {
    let has_length = is_whole && has_length(response.status);
    let length = response.body.len();
    let body = if is_head || !has_length { Vec::new() } else { response.body };
    let mut out = hyper::Response::new(Bytes::from(body));
    *out.status_mut() = hyper::StatusCode::from_u16(response.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = out.headers_mut();
    let mut push = |name: &'static str, value: &[u8]| {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    };
    if !response.content_type.is_empty() {
        push("content-type", response.content_type.as_bytes());
    }
    let mut text = Vec::with_capacity(40);
    scratch::push_date(&mut text);
    push("date", &text);
    text.clear();
    if response.request_id.is_empty() {
        scratch::push_uuid(&mut text);
    } else {
        text.extend_from_slice(response.request_id.as_bytes());
    }
    push("x-amzn-requestid", &text);
    for (name, value) in response.headers.iter().filter(|(_, value)| is_value(value)) {
        push(name, value.as_bytes());
    }
    match allowed {
        None => {}
        Some(AllowedOrigin::Any) => push("access-control-allow-origin", b"*"),
        Some(AllowedOrigin::Only(origin)) => {
            push("access-control-allow-origin", origin.as_bytes());
            push("vary", b"origin");
        }
    }
    if allowed.is_some() {
        push("access-control-expose-headers", EXPOSED_HEADERS.as_bytes());
    }
    if has_length {
        push("content-length", itoa::Buffer::new().format(length).as_bytes());
    }
    out
}

/// Runs hyper's streams as tasks of the worker's runtime, which drops those that are left.
#[derive(Clone, Copy)]
struct Spawner;

impl<F> Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(future);
    }
}

/// Tokio's traits as hyper's, with the bytes that came before.
struct Io<T> {
    io: T,
    unread: Vec<u8>,
    used: usize,
}

impl<T: AsyncRead + Unpin> Read for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let before = &self.unread[self.used..];
        if !before.is_empty() {
            let count = before.len().min(buffer.remaining());
            buffer.put_slice(&before[..count]);
            self.used += count;
            if self.used == self.unread.len() {
                self.unread = Vec::new();
                self.used = 0;
            }
            return Poll::Ready(Ok(()));
        }
        let room = buffer.remaining();
        let io = Pin::new(&mut self.io);
        ready!(scratch::poll_read(io, task, room, |bytes| buffer.put_slice(bytes)))?;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> Write for Io<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(task)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(task, parts)
    }
}
