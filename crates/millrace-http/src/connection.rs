//! One connection with one request under way at most: one write, and as a rule one read. The task
//! that uses it drives it; there is no other.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::http1::{Answer, AnswerReader};
use super::{AnswerLimit, TransportError};

/// Holds a receive of ten messages of 1 KB.
const INPUT_BYTES: usize = 16 << 10;
/// Of a long answer, read at once.
const STREAMED_BYTES: usize = 128 << 10;

/// A connection that is ready for a request.
pub(super) struct Connection {
    stream: Stream,
    input: BytesMut,
    answer_limit: AnswerLimit,
    /// Answers received whole.
    pub(super) served: u64,
    /// When it was opened or last used.
    pub(super) idle_since: Instant,
}

/// With or without TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub(super) fn over(stream: Stream, answer_limit: AnswerLimit) -> Connection {
        let (input, idle_since) = (BytesMut::new(), Instant::now());
        Connection { stream, input, answer_limit, served: 0, idle_since }
    }

    /// Whether the server has ended the connection since it was used last; asks without waiting.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        // Bytes that nobody asked for make a connection as useless as its end: they would be taken
        // for the next answer. Some may have come with the last one.
        !self.input.is_empty() || self.stream.poll_read(&mut context, &mut buffer).is_ready()
    }

    /// Sends a request whose answer is taken as it comes, with [`Connection::read_some`].
    pub(super) async fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => write(stream, head, body).await,
            Stream::Tls(stream) => write(&mut **stream, head, body).await,
        }
    }

    /// Adds what comes next to what has come. The end of the connection is an error.
    pub(super) async fn read_some(&mut self) -> io::Result<&mut BytesMut> {
        self.input.reserve(STREAMED_BYTES);
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read_buf(&mut self.input).await?,
            Stream::Tls(stream) => stream.read_buf(&mut self.input).await?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(&mut self.input)
    }

    /// What has come and was not taken.
    pub(super) fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Sends a request and returns its answer.
    ///
    /// Cancel safety: a connection whose exchange was dropped must not be used again.
    pub(super) async fn exchange(
        &mut self,
        head: &[u8],
        body: &[u8],
    ) -> Result<Answer, TransportError> {
        let input = &mut self.input;
        let written = match &mut self.stream {
            Stream::Plain(stream) => write(UntilAnswered { stream, input }, head, body).await,
            Stream::Tls(stream) => {
                write(UntilAnswered { stream: &mut **stream, input }, head, body).await
            }
        };
        let reader = AnswerReader::new(self.answer_limit);
        let answer = match &mut self.stream {
            Stream::Plain(stream) => read(stream, &mut self.input, reader).await,
            Stream::Tls(stream) => read(&mut **stream, &mut self.input, reader).await,
        };
        // A server may refuse a request before it has read all of it; its answer then counts.
        match (written, answer) {
            (Ok(()), answer) => {
                let answer = answer?;
                self.served += 1;
                if answer.body.len() > INPUT_BYTES && self.input.is_empty() {
                    // What is left of its memory: small answers to come would keep all of it.
                    self.input = BytesMut::new();
                }
                Ok(answer)
            }
            (Err(_), Ok(answer)) => Ok(Answer { closes: true, ..answer }),
            (Err(_), Err(error)) => Err(error),
        }
    }
}

impl Stream {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

async fn write(mut stream: impl AsyncWrite + Unpin, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut both = Buf::chain(head, body);
    stream.write_all_buf(&mut both).await?;
    stream.flush().await
}

/// The way of a request: an error once the server answers before it has taken all of it. It might
/// never take the rest, and wait for us to take the answer.
struct UntilAnswered<'c, S> {
    stream: &'c mut S,
    /// Where an answer goes.
    input: &'c mut BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> UntilAnswered<'_, S> {
    /// Instead of a write that has to wait.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut bytes = [0; 512];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut *self.stream).poll_read(context, &mut buffer));
        self.input.extend_from_slice(buffer.filled());
        Poll::Ready(read.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for UntilAnswered<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut *self.stream).poll_write(context, bytes) {
            Poll::Pending => self.poll_answer(context).map(Err),
            written => written,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut *self.stream).poll_write_vectored(context, slices) {
            Poll::Pending => self.poll_answer(context).map(Err),
            written => written,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut *self.stream).poll_flush(context) {
            Poll::Pending => self.poll_answer(context).map(Err),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }
}

async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    mut reader: AnswerReader,
) -> Result<Answer, TransportError> {
    // It may have come while the request was written.
    let mut is_begun = !input.is_empty();
    if is_begun && let Some(answer) = reader.advance(input)? {
        return Ok(answer);
    }
    loop {
        input.reserve(INPUT_BYTES / 2);
        let end = match stream.read_buf(input).await {
            Ok(0) => io::Error::from(io::ErrorKind::UnexpectedEof),
            Ok(_) => {
                is_begun = true;
                match reader.advance(input)? {
                    Some(answer) => return Ok(answer),
                    None => continue,
                }
            }
            Err(error) => error,
        };
        // TLS reports an end without a farewell as an error; for answers that end with the
        // connection only the orderly end counts.
        if end.get_ref().is_none()
            && end.kind() == io::ErrorKind::UnexpectedEof
            && let Some(answer) = reader.end(input)
        {
            return Ok(answer);
        }
        return Err(if is_begun {
            TransportError::BrokenAnswer(end)
        } else {
            TransportError::NoAnswer(end)
        });
    }
}
