//! What hyper runs on: the worker's runtime and the connection.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context as Task, Poll, ready},
};

use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::scratch;

/// Runs hyper's streams as tasks of the worker's runtime, which drops those that are left.
#[derive(Clone, Copy)]
pub(super) struct Spawner;

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
pub(super) struct Io<T> {
    io: T,
    unread: Vec<u8>,
    used: usize,
    /// Something was read.
    has_begun: Arc<AtomicBool>,
}

impl<T> Io<T> {
    pub(super) fn new(io: T, unread: Vec<u8>, has_begun: Arc<AtomicBool>) -> Io<T> {
        has_begun.store(!unread.is_empty(), Relaxed);
        Io { io, unread, used: 0, has_begun }
    }
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
        self.has_begun.store(true, Relaxed);
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
