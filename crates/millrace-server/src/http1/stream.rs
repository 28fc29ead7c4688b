//! Responses whose body is made while it is sent.
//!
//! The connection closes after such a response: it may last for hours, and nothing is gained by
//! keeping it. While the stream has nothing to say the client is watched, so that a stream is
//! dropped as soon as its client leaves.

use std::{future::poll_fn, io::Write, task::Poll};

use millrace_wire::{BodyStream, Response, Service};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Exchange,
    lookahead::read_ahead,
    response::{self, BodyEnd, Connection},
};
use crate::{Closed, policy::AllowedOrigin};

impl<T: AsyncRead + AsyncWrite + Unpin, S: Service> Exchange<'_, T, S> {
    /// Sends the head, then each piece as it comes.
    pub(super) async fn send_stream(
        &mut self,
        response: &Response,
        mut stream: Box<dyn BodyStream>,
        allowed_origin: Option<AllowedOrigin<'_>>,
        is_http_10: bool,
    ) -> Result<(), Closed> {
        let body = if is_http_10 { BodyEnd::Close } else { BodyEnd::Chunked };
        let framing = response::Framing { connection: Connection::Close, body, allowed_origin };
        self.out.clear();
        response::push_head(self.out, response, framing);
        self.wire.write(self.context, self.out, b"").await?;
        while let Some(piece) = self.next_piece(stream.as_mut()).await? {
            if piece.is_empty() {
                continue; // An empty chunk would end the body.
            }
            self.out.clear();
            if body == BodyEnd::Chunked {
                // Writing to memory cannot fail.
                let _ = write!(self.out, "{:x}\r\n", piece.len());
                self.out.extend_from_slice(&piece);
                self.out.extend_from_slice(b"\r\n");
                self.wire.write(self.context, self.out, b"").await?;
            } else {
                self.wire.write(self.context, &piece, b"").await?;
            }
        }
        if body == BodyEnd::Chunked {
            self.wire.write(self.context, b"0\r\n\r\n", b"").await?;
        }
        Ok(())
    }

    /// Waits for the next piece, or for the client to leave.
    async fn next_piece(&mut self, stream: &mut dyn BodyStream) -> Result<Option<Vec<u8>>, Closed> {
        self.context.deadline.clear();
        let context = self.context;
        poll_fn(|task| {
            if let Poll::Ready(piece) = stream.poll_next(task) {
                return Poll::Ready(Ok(piece));
            }
            let io = &mut self.wire.io;
            if let Err(closed) = read_ahead(io, self.lookahead, self.kept_bytes, context, task) {
                return Poll::Ready(Err(closed));
            }
            Poll::Pending
        })
        .await
    }
}
