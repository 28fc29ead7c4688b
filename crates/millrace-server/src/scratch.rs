//! What all connections of a worker thread share: a read buffer, a random source, today's date.
//!
//! An idle connection so owns no read buffer of useful size, and a request of up to
//! [`READ_BYTES`] is taken from the kernel in one call.

use std::{
    cell::RefCell,
    hash::{BuildHasher, RandomState},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::io::{AsyncRead, ReadBuf};

/// The most that one read takes.
const READ_BYTES: usize = 128 * 1024;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

thread_local! {
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
    static RANDOM: RefCell<Random> = RefCell::new(Random::new());
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: 0, text: [b' '; DATE_BYTES] }) };
}

/// SplitMix64, seeded from the system. Good enough for names, never for secrets.
struct Random {
    state: u64,
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

/// Appends a random (version 4) UUID.
pub(crate) fn push_uuid(out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let (high, low) = RANDOM.with_borrow_mut(|random| (random.draw(), random.draw()));
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in high.to_be_bytes().into_iter().chain(low.to_be_bytes()) {
        if matches!(at, 8 | 13 | 18 | 23) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    out.extend_from_slice(&text);
}

/// Appends the time as `Date` has it, formatted once a second.
pub(crate) fn push_date(out: &mut Vec<u8>) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    DATE.with_borrow_mut(|date| {
        if date.second != second {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(second));
            if let Ok(text) = text.as_bytes().try_into() {
                *date = Date { second, text };
            }
        }
        out.extend_from_slice(&date.text);
    });
}

impl Random {
    fn new() -> Random {
        // The standard library keys its hashers from the system's random source.
        Random { state: RandomState::new().hash_one(std::thread::current().id()) }
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_and_variant_and_differ() {
        let mut first = Vec::new();
        let mut second = Vec::new();

        push_uuid(&mut first);
        push_uuid(&mut second);

        assert_eq!(first.len(), 36);
        assert_eq!(first[14], b'4');
        assert!(b"89ab".contains(&first[19]));
        assert_ne!(first, second);
    }

    #[test]
    fn date_is_what_http_writes() {
        let mut out = Vec::new();

        push_date(&mut out);

        let text = String::from_utf8(out).unwrap();
        let parsed = httpdate::parse_http_date(&text).unwrap();
        assert!(parsed.elapsed().unwrap().as_secs() < 5);
    }
}
