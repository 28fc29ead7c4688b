//! Room for a command to start in.
//!
//! Where the system has no descriptors, processes or memory left, no command can be started, which
//! says nothing about the message. It stays in hand until there is room: giving it back would cost
//! it one of its receives, and in the end take it to the dead-letter queue though it never was
//! handled.
//!
//! Of those that wait one tries, and the next when that one has found room or given up. Hundreds
//! that all try take a core by themselves, and whatever becomes free before a connection can have
//! it that has leases to extend.

use std::{io, time::Duration};

use rustix::io::Errno;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep, sleep_until},
};

/// Between two attempts: nobody tells when there is room again.
const PAUSE: Duration = Duration::from_millis(20);

/// Whose turn it is among those that wait. Tokio's lock, because it is fair and held while waiting.
pub(super) type Turns = Mutex<()>;

/// Waits for room on behalf of one message. Others wait until it is dropped.
#[derive(Debug)]
pub(super) struct Room<'t> {
    turns: &'t Turns,
    turn: Option<MutexGuard<'t, ()>>,
    patience: Duration,
    /// Set by the first attempt that failed.
    until: Option<Instant>,
}

impl<'t> Room<'t> {
    /// Waits for `patience` at most.
    pub(super) fn new(turns: &'t Turns, patience: Duration) -> Room<'t> {
        Room { turns, turn: None, patience, until: None }
    }

    /// Waits a moment after an attempt to start a command that failed with `error`. `true` if
    /// another one is to follow, `false` once it has been too long, or the message is `cancelled`.
    ///
    /// # Errors
    ///
    /// `error` itself if it is not for lack of room.
    pub(super) async fn may_come(
        &mut self,
        error: io::Error,
        cancelled: impl Future<Output = ()>,
    ) -> io::Result<bool> {
        if !is_lacking(&error) {
            return Err(error);
        }
        let now = Instant::now();
        if self.until.is_none() {
            tracing::warn!(%error, "no room to start a command; waiting for some");
        }
        let until = *self.until.get_or_insert(now + self.patience);
        if now >= until {
            return Ok(false);
        }
        let has_turn = self.turn.is_some();
        let next = async {
            match has_turn {
                true => sleep(PAUSE).await,
                // There may be more room than who came before has taken: tried at once.
                false => self.turn = Some(self.turns.lock().await),
            }
        };
        tokio::select! {
            () = next => Ok(true),
            () = sleep_until(until) => Ok(false),
            () = cancelled => Ok(false),
        }
    }
}

/// Whether that is why something could not be started.
pub(super) fn is_lacking(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        future::{pending, ready},
    };

    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn lack_of_room_is_waited_out_for_as_long_as_patience_lasts() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM] {
            let turns = Turns::default();
            let (mut patient, mut impatient) =
                (Room::new(&turns, LONG), Room::new(&turns, Duration::ZERO));

            assert!(patient.may_come(errno.into(), pending()).await.unwrap(), "its turn at once");
            let waits = patient.may_come(errno.into(), pending());
            assert!(timeout(Duration::ZERO, waits).await.is_err(), "{errno}");
            assert!(!impatient.may_come(errno.into(), pending()).await.unwrap(), "{errno}");
        }
    }

    #[tokio::test]
    async fn message_that_is_cancelled_waits_no_longer() {
        let turns = Turns::default();
        let _turn = turns.lock().await;

        let mut room = Room::new(&turns, LONG);

        assert!(!room.may_come(Errno::MFILE.into(), ready(())).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn one_tries_for_all_that_wait() {
        let turns = Turns::default();
        let (tries, free) = (Cell::new(0), Cell::new(0));
        let start = async || {
            let mut room = Room::new(&turns, LONG);
            loop {
                tries.set(tries.get() + 1);
                if free.get() > 0 {
                    return free.set(free.get() - 1);
                }
                assert!(room.may_come(Errno::MFILE.into(), pending()).await.unwrap());
            }
        };
        let watch = async {
            sleep(PAUSE * 100).await;
            let tried = tries.get();
            assert!(tried <= 110, "{tried} attempts of three in the time of a hundred");
            free.set(3);
            sleep(PAUSE).await;
        };

        tokio::join!(start(), start(), start(), watch);

        assert_eq!(free.get(), 0);
    }

    #[tokio::test]
    async fn other_errors_are_failures() {
        let outcome =
            Room::new(&Turns::default(), LONG).may_come(Errno::NOENT.into(), pending()).await;

        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
