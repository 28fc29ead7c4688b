//! MD5 of single sends that come at about the same time, computed together.
//!
//! The digest is the dearest part of a single send, and several are hardly dearer than one
//! ([`md5_of_each`]). A thread that serves many connections finds several requests at each look at
//! its sockets: each lays its body beside the others' and lets them go first; the first to go on
//! computes the digests of all.

use std::cell::RefCell;

use millrace_core::{md5, md5_of_each};

/// Longer bodies are not copied.
const BODY_BYTES_MAX: usize = 4096;

/// Bodies of one round at most.
const BODIES_MAX: usize = 64;

/// Sends that do not wait for company after one that waited in vain.
const ALONE_SENDS: u32 = 32;

thread_local! {
    static ROUND: RefCell<Round> = RefCell::default();
}

/// Bodies that wait for their digests, and the digests of the round before.
#[derive(Default)]
struct Round {
    number: u64,
    bodies: Vec<u8>,
    ends: Vec<usize>,
    digests: Vec<[u8; 16]>,
    /// Sends until the next that waits.
    alone: u32,
}

/// MD5 of `body`.
pub(super) async fn md5_beside_others(body: &[u8]) -> [u8; 16] {
    let place = ROUND.with_borrow_mut(|round| round.join(body));
    let Some((number, index)) = place else { return md5(body) };
    tokio::task::yield_now().await;
    // Requests stay on their thread, whose rounds are numbered; long after there is no such round.
    let digest = ROUND.with_borrow_mut(|round| round.digest(number, index));
    digest.unwrap_or_else(|| md5(body))
}

impl Round {
    fn join(&mut self, body: &[u8]) -> Option<(u64, usize)> {
        if body.len() > BODY_BYTES_MAX {
            return None;
        }
        if self.ends.is_empty() && self.alone > 0 {
            self.alone -= 1;
            return None;
        }
        if self.ends.len() == BODIES_MAX {
            self.finish();
        }
        self.bodies.extend_from_slice(body);
        self.ends.push(self.bodies.len());
        Some((self.number, self.ends.len() - 1))
    }

    fn digest(&mut self, number: u64, index: usize) -> Option<[u8; 16]> {
        if number == self.number {
            self.finish();
        }
        if number + 1 != self.number {
            return None;
        }
        self.digests.get(index).copied()
    }

    fn finish(&mut self) {
        let mut rest = self.bodies.as_slice();
        let mut start = 0;
        let bodies = self.ends.iter().map(|end| {
            let (body, after) = rest.split_at(end - start);
            (rest, start) = (after, *end);
            body
        });
        self.digests = md5_of_each(&bodies.collect::<Vec<_>>());
        self.alone = if self.ends.len() == 1 { ALONE_SENDS } else { 0 };
        self.number += 1;
        self.bodies.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use super::*;

    fn bodies(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|i| vec![i as u8; i * 37 % 1500]).collect()
    }

    fn is_pending(future: Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn each_gets_the_digest_of_its_own_body() {
        for count in [1, 2, 3, 40, 150] {
            let sends = bodies(count).into_iter().map(|body| {
                tokio::spawn(async move { (md5_beside_others(&body).await, md5(&body)) })
            });
            for send in sends.collect::<Vec<_>>() {
                let (digest, expected) = send.await.unwrap();
                assert_eq!(digest, expected, "{count}");
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn those_that_are_dropped_or_late_disturb_nobody() {
        let mut dropped = Box::pin(md5_beside_others(b"dropped"));
        let mut late = pin!(md5_beside_others(b"late"));
        assert!(is_pending(dropped.as_mut()) && is_pending(late.as_mut()));
        drop(dropped);

        for _ in 0..3 {
            let both = tokio::join!(md5_beside_others(b"one"), md5_beside_others(b"other"));
            assert_eq!(both, (md5(b"one"), md5(b"other")));
        }
        assert_eq!(late.await, md5(b"late"));
    }

    #[test]
    fn who_was_alone_does_not_wait_the_next_time() {
        let mut round = Round::default();
        let (number, index) = round.join(b"a").unwrap();
        assert_eq!(round.digest(number, index), Some(md5(b"a")));
        for _ in 0..ALONE_SENDS {
            assert_eq!(round.join(b"b"), None);
        }
        assert!(round.join(b"c").is_some());
    }
}
