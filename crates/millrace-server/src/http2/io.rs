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

use super::header_table::HeaderTable;
use crate::{connection_memory::Share, scratch};

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
    share: Arc<Share>,
    /// What a stranger may have read before its streams are looked at.
    turn_bytes: usize,
    header_table: HeaderTable,
    /// Counted as held: what a stranger has sent, then what the header table keeps alive.
    pinned_bytes: usize,
}

/// Bound of what is counted of a stranger's past requests: what the header table may keep alive.
const PINNED_BYTES_MAX: usize = 4096 / 33 * (64 << 10);

/// What is read of a stranger until its streams are looked at, and counted: h2 takes all that it
/// can get before it hands out the first, and a stream may be 15 bytes.
const STRANGE_TURN_BYTES: usize = 512;

impl<T> Io<T> {
    pub(super) fn new(
        io: T,
        unread: Vec<u8>,
        has_begun: Arc<AtomicBool>,
        share: Arc<Share>,
    ) -> Io<T> {
        has_begun.store(!unread.is_empty(), Relaxed);
        Io {
            io,
            unread,
            used: 0,
            has_begun,
            share,
            turn_bytes: STRANGE_TURN_BYTES,
            header_table: HeaderTable::new(),
            pinned_bytes: 0,
        }
    }

    /// What may be read now; if nothing, the task has its turn again after the others.
    fn room(&mut self, task: &Task<'_>) -> Option<usize> {
        if !self.share.is_stranger() {
            return Some(usize::MAX);
        }
        if self.turn_bytes == 0 || self.share.is_held_back() {
            self.turn_bytes = STRANGE_TURN_BYTES;
            task.waker().wake_by_ref();
            return None;
        }
        Some(self.turn_bytes)
    }

    /// Counts all that a stranger has sent. Of a caller that was let in, what its header blocks
    /// keep alive.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        self.turn_bytes = self.turn_bytes.saturating_sub(bytes);
        let pinned_bytes = match self.share.is_stranger() {
            true => (self.pinned_bytes + bytes).min(PINNED_BYTES_MAX),
            false => self.header_table.pinned_bytes(),
        };
        if pinned_bytes <= self.pinned_bytes {
            self.share.shrink(self.pinned_bytes - pinned_bytes);
        } else if !self.share.grow(pinned_bytes - self.pinned_bytes) {
            return Err(io::Error::other("no memory for what the client sends"));
        }
        self.pinned_bytes = pinned_bytes;
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> Read for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(room) = self.room(task) else { return Poll::Pending };
        let room = room.min(buffer.remaining());
        let Io { io, unread, used, header_table, .. } = &mut *self;
        let before = &unread[*used..];
        if !before.is_empty() {
            let count = before.len().min(room);
            buffer.put_slice(&before[..count]);
            header_table.follow(&before[..count]);
            self.used += count;
            if self.used == self.unread.len() {
                self.unread = Vec::new();
                self.used = 0;
            }
            return Poll::Ready(self.count(count));
        }
        let count = ready!(scratch::poll_read(Pin::new(io), task, room, |bytes| {
            header_table.follow(bytes);
            buffer.put_slice(bytes);
        }))?;
        self.has_begun.store(true, Relaxed);
        Poll::Ready(self.count(count))
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
