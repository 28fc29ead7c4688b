//! Reading on while a request is answered: what the client sends meanwhile is kept, and that it has
//! left is noticed.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use tokio::io::AsyncRead;

use crate::{Closed, connection::Context, scratch};

/// Bytes of later requests that are kept while one is being answered.
const MAX_LOOKAHEAD_BYTES: usize = 64 * 1024;

/// Takes what has come into `lookahead`; the task is woken when there is more. So many bytes of
/// later requests as `kept_bytes` are there already. The connection's share counts the memory of
/// `lookahead`.
pub(super) fn read_ahead<T: AsyncRead + Unpin, S>(
    io: &mut T,
    lookahead: &mut Vec<u8>,
    kept_bytes: usize,
    context: &Context<S>,
    task: &mut Task<'_>,
) -> Result<(), Closed> {
    let before = lookahead.capacity();
    while kept_bytes + lookahead.len() < MAX_LOOKAHEAD_BYTES {
        let room = MAX_LOOKAHEAD_BYTES - kept_bytes - lookahead.len();
        let keep = |bytes: &[u8]| lookahead.extend_from_slice(bytes);
        match scratch::poll_read(Pin::new(&mut *io), task, room, keep) {
            Poll::Pending => break,
            Poll::Ready(Ok(0) | Err(_)) => return Err(Closed::ByPeer),
            Poll::Ready(Ok(count)) => context.cell().bytes_in(count),
        }
    }
    let more = lookahead.capacity() - before;
    if more > 0 && !context.share.grow(more) {
        return Err(Closed::NoMemory);
    }
    Ok(())
}
