//! The HTTP/1.1 loop of one connection.
//!
//! ```text
//! wait for a head ─► parse ─► body there? ─no─► read it, parse again
//!       ▲                          │ yes
//!       │                          ▼
//!       └── write the response ◄── call the service; while it waits, watch the client
//! ```
//!
//! A request that arrives in one piece costs one read and one write; nothing is copied out of the
//! read buffer and no task, timer or channel is involved. Requests are answered in order; what
//! arrives during a call is kept (up to a bound) for the next turn.
//!
//! The service's future is dropped as soon as the client closes or resets its side. A client that
//! only shuts down its sending side counts as gone, too, unless the answer is there at once.

mod body;
mod buffer;
mod exchange;
pub mod fuzz;
mod head;
mod io;
mod lookahead;
mod response;
mod stream;

use std::{future::poll_fn, task::Poll};

use millrace_wire::{Judgement, Request, Response, Service};
use tokio::io::{AsyncRead, AsyncWrite};

use self::{
    body::Chunked,
    exchange::Exchange,
    head::{BodyLength, Framing, Headers, Refusal},
    response::{BodyEnd, Connection},
};
pub(crate) use self::{
    buffer::ReadBuffer,
    head::MAX_HEADERS,
    io::Wire,
    response::{has_length, is_value},
};
use crate::{
    Closed, Timeouts,
    budget::{Held, SMALL_BYTES},
    connection::Context,
    pace::Pace,
};

/// What HTTP/2 clients with prior knowledge begin with (RFC 9113 section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Beyond, what a request takes counts as a large body: one read takes as much at most.
const MAX_COUNTED_BYTES: usize = 128 * 1024;

/// What a refused client may still send before we stop listening to it.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;

/// One HTTP/1.1 connection.
pub(crate) struct Http1<T, S> {
    wire: Wire<T>,
    context: Context<S>,
    buffer: ReadBuffer,
    lookahead: Vec<u8>,
    out: Vec<u8>,
    /// Of `buffer` and `out`, what the connection's share counts.
    counted_bytes: usize,
}

/// How the loop ended.
pub(crate) enum End {
    Closed(Closed),
    /// The client speaks HTTP/2; nothing was consumed.
    Http2,
    /// The last request is answered, and another worker is to serve the next.
    Moves,
}

/// A refusal to go on, as a `Result`'s error.
enum Stop {
    Closed(Closed),
    Refused(Refusal),
    /// By the service, which has seen only the head.
    Judged(Box<Judged>),
}

/// The service's answer to a head whose body is not wanted.
struct Judged {
    response: Box<Response>,
    origin: Option<String>,
}

impl<T: AsyncRead + AsyncWrite + Unpin, S: Service> Http1<T, S> {
    /// `unread` was read from the connection before.
    pub(crate) fn new(io: T, unread: Vec<u8>, context: Context<S>) -> Http1<T, S> {
        Http1 {
            wire: Wire::new(io),
            context,
            buffer: ReadBuffer::new(unread),
            lookahead: Vec::new(),
            out: Vec::new(),
            counted_bytes: 0,
        }
    }

    /// The connection, and the bytes that were read and not used.
    pub(crate) fn into_parts(mut self) -> (T, Vec<u8>, Context<S>) {
        self.context.share.shrink(self.counted_bytes);
        (self.wire.io, self.buffer.take(), self.context)
    }

    /// Answers requests until the connection ends. Not cancel safe: dropping it ends the
    /// connection.
    pub(crate) async fn run(&mut self) -> End {
        if !self.context.is_tls {
            match self.is_http2().await {
                Ok(true) => return End::Http2,
                Ok(false) => {}
                Err(closed) => return End::Closed(closed),
            }
        }
        let stop = loop {
            if let Err(stop) = self.turn().await {
                break stop;
            }
            self.context.has_asked = true;
            if !self.context.is_tls && self.context.worker.sends_away() {
                return End::Moves;
            }
        };
        let closed = match stop {
            Stop::Closed(closed) => closed,
            Stop::Refused(refusal) => {
                tracing::debug!(peer = %self.context.peer, reason = refusal.text(), "request refused");
                let mut response = Response::new(refusal.status(), "text/plain", refusal.text());
                response.body.push(b'\n');
                self.refuse(response, None).await
            }
            Stop::Judged(judged) => {
                let Judged { response, origin } = *judged;
                tracing::debug!(
                    peer = %self.context.peer,
                    status = response.status,
                    request_id = response.request_id,
                    "request refused by its head"
                );
                self.refuse(*response, origin).await
            }
        };
        if self.context.is_tls && matches!(closed, Closed::Requested | Closed::Idle | Closed::Drain)
        {
            // TLS clients take an end without its goodbye for an attack.
            self.wire.shutdown(&self.context).await;
        }
        End::Closed(closed)
    }

    /// Reads as much as tells HTTP/2 from HTTP/1.
    async fn is_http2(&mut self) -> Result<bool, Closed> {
        if self.buffer.unread().is_empty() {
            self.wait_for_request().await?;
        } else {
            self.context.deadline.set_after(self.context.head_timeout());
        }
        loop {
            let unread = self.buffer.unread();
            if unread.len() >= HTTP2_PREFACE.len() {
                return Ok(unread.starts_with(HTTP2_PREFACE));
            }
            if !HTTP2_PREFACE.starts_with(unread) {
                return Ok(false);
            }
            self.read_more(Closed::SlowRequest).await?;
        }
    }

    /// Reads and answers one request.
    async fn turn(&mut self) -> Result<(), Stop> {
        let mut decoded: Option<Vec<u8>> = None;
        // What the body holds, it holds until the request is answered.
        let mut _held = None;
        let mut seen_bytes = 0;
        loop {
            if self.buffer.unread().is_empty() {
                self.wait_for_request().await?;
            }
            self.count(decoded.as_ref().map_or(0, Vec::capacity))?;
            let mut headers = Headers::new();
            let Some(head) = head::parse(self.buffer.unread(), &mut headers)? else {
                drop(headers);
                seen_bytes = self.read_head(seen_bytes).await?;
                continue;
            };
            let Framing { head_bytes, body, .. } = head.framing;
            let behind = &self.buffer.unread()[head_bytes..];
            let (body, in_buffer) = match (&decoded, body) {
                (Some(body), _) => (Some(body.as_slice()), 0),
                (None, BodyLength::Chunked) => (None, 0),
                (None, BodyLength::Bytes(length)) => (behind.get(..length), length),
            };
            let Some(body) = body else {
                let framing = head.framing;
                drop(headers);
                let held = _held.insert(self.context.bodies.hold(&self.context.share));
                decoded = self.read_body(framing, held).await?;
                continue;
            };
            let used_bytes = head_bytes + in_buffer;
            let kept_bytes = self.buffer.unread().len() - used_bytes;
            let exchange = Exchange {
                wire: &mut self.wire,
                context: &self.context,
                lookahead: &mut self.lookahead,
                kept_bytes,
                out: &mut self.out,
            };
            let answered = exchange.answer(head, &headers, body).await;
            drop(headers);
            if matches!(answered, Err(Stop::Closed(Closed::Drain | Closed::Requested)))
                && self.has_more(kept_bytes).await
            {
                // Who sends on would have its answer reset on the way.
                self.wire.linger(&self.context, MAX_DISCARDED_BYTES).await;
            }
            answered?;
            self.buffer.consume(used_bytes);
            if !self.lookahead.is_empty() {
                let lookahead = std::mem::take(&mut self.lookahead);
                self.buffer.append(&lookahead);
                self.context.share.shrink(lookahead.capacity());
            }
            self.count(0)?;
            return Ok(());
        }
    }

    /// Whether the client has sent more than the request that was answered, so many bytes of which
    /// the read buffer holds.
    async fn has_more(&mut self, kept_bytes: usize) -> bool {
        if kept_bytes + self.lookahead.len() > 0 {
            return true;
        }
        // The runtime has to learn of what came meanwhile.
        tokio::task::yield_now().await;
        let (io, context) = (&mut self.wire.io, &self.context);
        poll_fn(|task| {
            // Its failure, or the client's end, means that there is nothing.
            let _ = lookahead::read_ahead(io, &mut self.lookahead, kept_bytes, context, task);
            Poll::Ready(!self.lookahead.is_empty())
        })
        .await
    }

    /// Waits for the first byte of a request.
    async fn wait_for_request(&mut self) -> Result<(), Closed> {
        let context = &self.context;
        let Timeouts { first, idle, .. } = context.timeouts;
        // A stranger that asked and was refused is as one that has not asked.
        let has_asked = context.has_asked && !context.share.is_stranger();
        context.deadline.set_after(if has_asked { idle } else { first });
        let buffer = &mut self.buffer;
        let read = self.wire.read(context, Some(Closed::Drain), Closed::Idle, |bytes| {
            buffer.append(bytes);
        });
        read.await?;
        context.deadline.set_after(context.head_timeout());
        Ok(())
    }

    /// Reads until the head may be complete. The deadline was set with its first byte.
    async fn read_head(&mut self, mut seen_bytes: usize) -> Result<usize, Stop> {
        loop {
            if self.buffer.unread().len() > self.context.limits.max_head_bytes {
                return Err(Stop::Refused(Refusal::HeadTooLarge));
            }
            let before = self.buffer.unread().len();
            if seen_bytes == 0 {
                // Perhaps left over by the previous request: its time begins now.
                self.context.deadline.set_after(self.context.head_timeout());
            }
            self.count(0)?;
            self.read_more(Closed::SlowRequest).await?;
            seen_bytes = before;
            if head::may_end(self.buffer.unread(), seen_bytes) {
                return Ok(self.buffer.unread().len());
            }
        }
    }

    /// Reads the rest of a body. A chunked one is returned decoded; another stays in the buffer.
    async fn read_body(
        &mut self,
        framing: Framing,
        held: &mut Held,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let limits = &self.context.limits;
        if framing.head_bytes > limits.max_head_bytes {
            return Err(Stop::Refused(Refusal::HeadTooLarge));
        }
        let mut chunked = match framing.body {
            BodyLength::Bytes(length) if length > limits.max_body_bytes => {
                return Err(Stop::Refused(Refusal::BodyTooLarge));
            }
            BodyLength::Bytes(_) => None,
            BodyLength::Chunked => Some(Chunked::new(limits.max_body_bytes, limits.max_head_bytes)),
        };
        let mut is_judged = false;
        let mut pace = Pace::new(self.context.deadline.now_ms(), self.context.body_timeout());
        let mut owes_continue = framing.expects_continue;
        let whole_bytes = match framing.body {
            BodyLength::Bytes(length) => framing.head_bytes + length,
            BodyLength::Chunked => usize::MAX,
        };
        loop {
            let is_complete = match (&mut chunked, framing.body) {
                (Some(chunked), _) => chunked.decode(&mut self.buffer, framing.head_bytes)?,
                (None, BodyLength::Bytes(length)) => {
                    self.buffer.unread().len() - framing.head_bytes >= length
                }
                (None, BodyLength::Chunked) => true,
            };
            if is_complete {
                return Ok(chunked.map(|chunked| chunked.body));
            }
            let at_least = match (&chunked, framing.body) {
                (Some(chunked), _) => chunked.body.len(),
                (None, BodyLength::Bytes(length)) => length,
                (None, BodyLength::Chunked) => 0,
            };
            if at_least > SMALL_BYTES && !std::mem::replace(&mut is_judged, true) {
                self.judge(held)?;
            }
            if std::mem::take(&mut owes_continue) {
                self.wire.write(&self.context, b"HTTP/1.1 100 Continue\r\n\r\n", b"").await?;
            }
            self.context.deadline.set_at_ms(pace.deadline_ms());
            self.count(chunked.as_ref().map_or(0, |chunked| chunked.body.capacity()))?;
            let read = self.read_more_of(whole_bytes, Closed::SlowRequest).await;
            let count = read.map_err(|closed| match closed {
                Closed::NoMemory => Stop::Refused(Refusal::Busy),
                closed => Stop::Closed(closed),
            })?;
            pace.received(self.context.deadline.now_ms(), count);
            if !held.grow(count) {
                return Err(Stop::Refused(Refusal::Busy));
            }
        }
    }

    /// Lets the service judge the head before there is room for a large body.
    fn judge(&self, held: &mut Held) -> Result<(), Stop> {
        let context = &self.context;
        let mut headers = Headers::new();
        let Some(head) = head::parse(self.buffer.unread(), &mut headers)? else { return Ok(()) };
        let request = Request {
            method: head.method,
            path: head.path,
            query: head.query,
            headers: &headers,
            body: &[],
            peer: context.peer,
            is_tls: context.is_tls,
        };
        match context.service.judge(&request) {
            Judgement::Admitted => {}
            Judgement::Claimed(tenant) if context.share.is_stranger() => {
                context.share.set_claimed();
                held.set_claimed(tenant);
            }
            Judgement::Claimed(_) => {}
            Judgement::Refused(response) => {
                let origin = head.origin.map(str::to_owned);
                return Err(Stop::Judged(Box::new(Judged { response, origin })));
            }
        }
        Ok(())
    }

    /// Counts what the buffers and a decoded body take, as far as that does not count as a large
    /// body.
    fn count(&mut self, decoded_bytes: usize) -> Result<(), Stop> {
        let holds = self.buffer.capacity() + self.out.capacity() + decoded_bytes;
        let holds = holds.min(MAX_COUNTED_BYTES);
        let share = &self.context.share;
        if holds > self.counted_bytes {
            if !share.grow(holds - self.counted_bytes) {
                return Err(match share.is_cut() {
                    true => Stop::Closed(Closed::NoMemory),
                    false => Stop::Refused(Refusal::Busy),
                });
            }
            self.counted_bytes = holds;
        } else if holds < self.counted_bytes {
            share.shrink(self.counted_bytes - holds);
            self.counted_bytes = holds;
        }
        Ok(())
    }

    async fn read_more(&mut self, late: Closed) -> Result<usize, Closed> {
        self.read_more_of(usize::MAX, late).await
    }

    /// As [`Http1::read_more`], for a request of `request_bytes`.
    async fn read_more_of(&mut self, request_bytes: usize, late: Closed) -> Result<usize, Closed> {
        let buffer = &mut self.buffer;
        let append = |bytes: &[u8]| buffer.append_of(bytes, request_bytes);
        self.wire.read(&self.context, None, late, append).await
    }

    /// Says why, then lets the client finish sending: closing at once would reset the connection
    /// and could take the answer with it.
    async fn refuse(&mut self, response: Response, origin: Option<String>) -> Closed {
        self.context.worker.request();
        self.out.clear();
        let framing = response::Framing {
            connection: Connection::Close,
            body: BodyEnd::Length,
            allowed_origin: self.context.policy.allowed_origin(origin.as_deref()),
        };
        response::push_head(&mut self.out, &response, framing);
        self.out.extend_from_slice(&response.body);
        // It may be most of a large body, which counts no more.
        self.buffer = ReadBuffer::default();
        if self.wire.write(&self.context, &self.out, b"").await.is_ok() {
            self.wire.linger(&self.context, MAX_DISCARDED_BYTES).await;
        }
        Closed::BadRequest
    }
}

impl From<Closed> for Stop {
    fn from(closed: Closed) -> Stop {
        Stop::Closed(closed)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::{Timeouts, connection::tests::context};

    #[tokio::test]
    async fn a_refused_request_holds_no_memory_until_its_client_has_left() {
        let (ours, mut client) = tokio::io::duplex(1 << 20);
        client.write_all(&[b'x'; 200_000]).await.unwrap();
        drop(client);
        let mut http1 = Http1::new(ours, Vec::new(), context(Timeouts::default()));

        let end = http1.run().await;

        assert!(matches!(end, End::Closed(Closed::BadRequest)));
        assert!(http1.buffer.unread().is_empty());
    }
}
