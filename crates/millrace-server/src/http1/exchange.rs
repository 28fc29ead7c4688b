//! Answering one request.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use millrace_wire::{Request, Response, Service};
use tokio::io::{AsyncRead, AsyncWrite};

use super::head::{Head, Headers, Refusal};
use super::io::Wire;
use super::response::{self, BodyEnd, Connection, has_length};
use super::{Stop, lookahead};
use crate::{
    Closed,
    budget::Held,
    connection::{Context, LONG_WAIT, hold_answer},
};

/// Bodies up to this size are sent in one piece with their head.
const JOINED_BODY_BYTES: usize = 4 * 1024;

/// What answering one request needs, while the request borrows the read buffer.
pub(super) struct Exchange<'a, T, S> {
    pub wire: &'a mut Wire<T>,
    pub context: &'a Context<S>,
    pub lookahead: &'a mut Vec<u8>,
    /// Bytes of later requests that the read buffer holds already.
    pub kept_bytes: usize,
    pub out: &'a mut Vec<u8>,
}

impl<T: AsyncRead + AsyncWrite + Unpin, S: Service> Exchange<'_, T, S> {
    pub(super) async fn answer(
        mut self,
        head: Head<'_>,
        headers: &Headers<'_>,
        body: &[u8],
    ) -> Result<(), Stop> {
        let context = self.context;
        if head.framing.head_bytes > context.limits.max_head_bytes {
            return Err(Stop::Refused(Refusal::HeadTooLarge));
        }
        if body.len() > context.limits.max_body_bytes {
            return Err(Stop::Refused(Refusal::BodyTooLarge));
        }
        context.deadline.clear();
        let request = Request {
            method: head.method,
            path: head.path,
            query: head.query,
            headers,
            body,
            peer: context.peer,
            is_tls: context.is_tls,
        };
        let mut response = match context.policy.answer(&request) {
            Some(response) => response,
            None => self.call(request).await?,
        };
        if let Some(tenant) = response.admitted {
            context.share.let_in(tenant);
        }
        let room = context.answers.hold_whole(&context.share, response.body.len());
        let held = hold_answer(room, &mut response);
        context.worker.request();
        // Not the query: it may hold a signature.
        tracing::debug!(
            peer = %context.peer,
            method = head.method,
            path = head.path,
            status = response.status,
            request_id = response.request_id,
            "request answered"
        );
        let allowed_origin = context.policy.allowed_origin(head.origin);
        if head.method != "HEAD"
            && let Some(stream) = response.stream.take()
        {
            self.send_stream(&response, stream, allowed_origin, head.is_http_10).await?;
            return Err(Stop::Closed(Closed::Requested));
        }
        let is_draining = context.drain.is_started();
        let connection = match (head.is_kept_alive && !is_draining, head.is_http_10) {
            (false, _) => Connection::Close,
            (true, true) => Connection::KeptAloud,
            (true, false) => Connection::Kept,
        };
        let framing = response::Framing { connection, body: BodyEnd::Length, allowed_origin };
        let has_body = head.method != "HEAD" && has_length(response.status);
        let body = if has_body { response.body.as_slice() } else { &[] };
        self.send(&response, framing, body, held.as_ref()).await?;
        match connection {
            Connection::Kept | Connection::KeptAloud => Ok(()),
            Connection::Close if head.is_kept_alive => Err(Stop::Closed(Closed::Drain)),
            Connection::Close => Err(Stop::Closed(Closed::Requested)),
        }
    }

    /// Runs the service, watching the client whenever the service waits.
    ///
    /// A service that waited long, such as for a message, may hand out something that is lost if
    /// the client has left. So after a long wait the socket is looked at first, and before that the
    /// runtime gets a turn to learn what happened to it.
    async fn call(&mut self, request: Request<'_>) -> Result<Response, Closed> {
        let mut call = pin!(self.context.service.call(request));
        let context = self.context;
        let mut waits_since: Option<Instant> = None;
        let mut turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        poll_fn(|task| {
            let mut read_ahead = |task: &mut TaskContext<'_>| {
                let (io, kept_bytes) = (&mut self.wire.io, self.kept_bytes);
                lookahead::read_ahead(io, self.lookahead, kept_bytes, context, task)
            };
            if waits_since.is_some_and(|since| since.elapsed() >= LONG_WAIT) {
                let turn = turn.get_or_insert_with(|| Box::pin(tokio::task::yield_now()));
                if turn.as_mut().poll(task).is_pending() {
                    return Poll::Pending;
                }
                if let Err(closed) = read_ahead(task) {
                    return Poll::Ready(Err(closed));
                }
            }
            turn = None;
            if let Poll::Ready(response) = call.as_mut().poll(task) {
                return Poll::Ready(Ok(response));
            }
            if waits_since.is_none() {
                waits_since = Some(Instant::now());
                // Strangers would have been refused by now.
                context.let_in_waiting(&request);
            }
            // Where its tenant has its share, it stays a stranger's, and may have to go.
            if context.share.is_stranger() {
                context.deadline.register(task.waker());
                if context.share.is_cut() {
                    return Poll::Ready(Err(Closed::NoMemory));
                }
            }
            match read_ahead(task) {
                Ok(()) => Poll::Pending,
                Err(closed) => Poll::Ready(Err(closed)),
            }
        })
        .await
    }

    async fn send(
        &mut self,
        response: &Response,
        framing: response::Framing<'_>,
        body: &[u8],
        held: Option<&Held>,
    ) -> Result<(), Closed> {
        self.out.clear();
        response::push_head(self.out, response, framing);
        if body.len() <= JOINED_BODY_BYTES {
            self.out.extend_from_slice(body);
            return self.wire.write(self.context, self.out, b"").await;
        }
        self.wire.write_held(self.context, self.out, body, held).await
    }
}
