//! Reading from and writing to a connection within its deadline.

use std::{
    future::poll_fn,
    io::IoSlice,
    pin::Pin,
    task::{Context as Task, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Closed, budget::Held, connection::Context, connection_memory::Part, pace::Pace, scratch,
};

/// How long a refused client may go on sending.
const LINGER: Duration = Duration::from_secs(2);

/// One connection's two directions.
pub(crate) struct Wire<T> {
    pub(crate) io: T,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire<T> {
    pub(crate) fn new(io: T) -> Wire<T> {
        Wire { io }
    }

    /// Reads once. Fails with `late` when the connection's deadline passes, and with `drained`, if
    /// given, when nothing is there to be read and the server drains.
    pub(crate) async fn read<S>(
        &mut self,
        context: &Context<S>,
        drained: Option<Closed>,
        late: Closed,
        mut take: impl FnMut(&[u8]),
    ) -> Result<usize, Closed> {
        let count = poll_fn(|task| {
            if context.share.is_held_back() {
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            match scratch::poll_read(Pin::new(&mut self.io), task, usize::MAX, &mut take) {
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Closed::ByPeer)),
                Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
                Poll::Pending => {
                    if let Some(drained) = drained
                        && context.drain.is_started()
                    {
                        return Poll::Ready(Err(drained));
                    }
                    context.until_deadline(task, late)
                }
            }
        })
        .await?;
        context.cell().bytes_in(count);
        Ok(count)
    }

    /// Writes both parts, if possible with one call to the kernel.
    pub(crate) async fn write<S>(
        &mut self,
        context: &Context<S>,
        first: &[u8],
        second: &[u8],
    ) -> Result<(), Closed> {
        self.write_held(context, first, second, None).await
    }

    /// The same for an answer that counts as `held`. One that does not is counted as soon as the
    /// client does not take it at once.
    pub(crate) async fn write_held<S>(
        &mut self,
        context: &Context<S>,
        first: &[u8],
        second: &[u8],
        held: Option<&Held>,
    ) -> Result<(), Closed> {
        let mut part: Option<Part> = None;
        let mut wait = |task: &mut Task<'_>, pace: &mut Option<Pace>| {
            if held.is_none() && part.is_none() {
                part = context.share.part(first.len() + second.len());
                if part.is_none() {
                    return Poll::Ready(Err(Closed::NoMemory));
                }
            }
            wait_to_write(context, task, pace)
        };
        let total = first.len() + second.len();
        let mut written = 0;
        // From when the client first does not take what is there.
        let mut pace: Option<Pace> = None;
        poll_fn(|task| {
            while written < total {
                let io = Pin::new(&mut self.io);
                let poll = match written.checked_sub(first.len()) {
                    Some(at) => io.poll_write(task, &second[at..]),
                    None if second.is_empty() => io.poll_write(task, &first[written..]),
                    None => {
                        let parts = [IoSlice::new(&first[written..]), IoSlice::new(second)];
                        io.poll_write_vectored(task, &parts)
                    }
                };
                match poll {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Closed::ByPeer)),
                    Poll::Ready(Ok(count)) => {
                        written += count;
                        if let Some(held) = held {
                            held.taken(count);
                        }
                        if let Some(pace) = &mut pace {
                            pace.received(context.deadline.now_ms(), count);
                        }
                    }
                    Poll::Pending => return wait(task, &mut pace),
                }
            }
            match Pin::new(&mut self.io).poll_flush(task) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Closed::ByPeer)),
                Poll::Pending => wait(task, &mut pace),
            }
        })
        .await?;
        context.cell().bytes_out(total);
        Ok(())
    }

    /// Says that nothing more comes, then reads and forgets until the client closes, too.
    pub(crate) async fn linger<S>(&mut self, context: &Context<S>, max_bytes: usize) {
        self.shutdown(context).await;
        context.deadline.set_after(LINGER);
        let mut discarded = 0;
        while discarded < max_bytes {
            match self.read(context, None, Closed::ByPeer, |_| {}).await {
                Ok(count) => discarded += count,
                Err(_) => return,
            }
        }
    }

    /// Ends our direction, with TLS's own goodbye where there is one.
    pub(crate) async fn shutdown<S>(&mut self, context: &Context<S>) {
        context.deadline.set_after(LINGER);
        let _ = poll_fn(|task| match Pin::new(&mut self.io).poll_shutdown(task) {
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => context.until_deadline(task, Closed::SlowReader),
        })
        .await;
    }
}

/// Until the client takes more: a byte a millisecond on average, with pauses up to the timeout.
fn wait_to_write<S>(
    context: &Context<S>,
    task: &mut Task<'_>,
    pace: &mut Option<Pace>,
) -> Poll<Result<(), Closed>> {
    let deadline = &context.deadline;
    let pace = pace.get_or_insert_with(|| Pace::new(deadline.now_ms(), context.timeouts.write));
    deadline.set_at_ms(pace.deadline_ms());
    context.until_deadline(task, Closed::SlowReader)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::{Timeouts, connection::tests::context};

    /// How the write of an answer ends whose reader takes so many bytes every five milliseconds.
    async fn written_to(bytes: usize) -> Result<(), Closed> {
        let write = Duration::from_millis(100);
        let context = context(Timeouts { write, ..Timeouts::default() });
        let (ours, mut client) = tokio::io::duplex(1000);
        let clock = context.worker.clock.clone();
        let reads = async {
            let mut taken = vec![0; bytes];
            while client.read(&mut taken).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                clock.sweep();
            }
        };
        let answer = [0; 25_000];
        let mut wire = Wire::new(ours);
        tokio::select! {
            written = wire.write(&context, &answer, &[]) => written,
            () = reads => panic!("the answer has an end"),
        }
    }

    #[tokio::test]
    async fn a_reader_that_trickles_is_cut_off_and_one_that_goes_on_is_not() {
        assert_eq!(written_to(1).await, Err(Closed::SlowReader));
        assert_eq!(written_to(1000).await, Ok(()));
    }
}
