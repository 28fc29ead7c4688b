//! What all connections of a worker thread share: a read buffer and today's date.
//!
//! An idle connection so owns no read buffer of useful size, and a request of up to
//! [`READ_BYTES`] is taken from the kernel in one call.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{SystemTime, UNIX_EPOCH},
};

use millrace_core::MessageId;
use millrace_wire::date;
use tokio::io::{AsyncRead, ReadBuf};

/// The most that one read takes.
const READ_BYTES: usize = 128 * 1024;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

thread_local! {
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: 0, text: [b' '; DATE_BYTES] }) };
}

struct Date {
    second: u64,
    text: [u8; DATE_BYTES],
}

/// Reads once, at most `limit` bytes, and hands them to `take`. 0 bytes mean the end.
pub(crate) fn poll_read<T: AsyncRead>(
    io: Pin<&mut T>,
    context: &mut Context<'_>,
    limit: usize,
    take: impl FnOnce(&[u8]),
) -> Poll<io::Result<usize>> {
    READ.with_borrow_mut(|bytes| {
        let limit = limit.min(bytes.len());
        let mut buffer = ReadBuf::new(&mut bytes[..limit]);
        ready!(io.poll_read(context, &mut buffer))?;
        let filled = buffer.filled();
        take(filled);
        Poll::Ready(Ok(filled.len()))
    })
}

/// Appends the id of a request whose service gave it none.
pub(crate) fn push_request_id(out: &mut Vec<u8>) {
    out.extend_from_slice(&MessageId::from_random(fastrand::u128(..)).text());
}

/// Appends the time as `Date` has it, formatted once a second.
pub(crate) fn push_date(out: &mut Vec<u8>) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    DATE.with_borrow_mut(|today| {
        if today.second != second
            && let Ok(text) = date::format_http(second).as_bytes().try_into()
        {
            *today = Date { second, text };
        }
        out.extend_from_slice(&today.text);
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn date_is_what_http_writes() {
        let mut out = Vec::new();

        push_date(&mut out);

        let text = String::from_utf8(out).unwrap();
        let written = UNIX_EPOCH + Duration::from_secs(date::parse_http(&text).unwrap());
        assert!(written.elapsed().unwrap() < Duration::from_secs(5));
    }
}
