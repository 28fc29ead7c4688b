//! Room for a command to start in.
//!
//! Where the system has no descriptors, processes or memory left, no command can be started, which
//! says nothing about the message. It stays in hand until there is room: giving it back would cost it
//! one of its receives, and in the end take it to the dead-letter queue though it never was handled.

use std::{io, time::Duration};

use rustix::io::Errno;
use tokio::time::{Instant, sleep};

/// Between two attempts: nobody tells when there is room again.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for room on behalf of one message.
#[derive(Debug)]
pub(super) struct Room {
    patience: Duration,
    /// Set by the first attempt that failed.
    until: Option<Instant>,
}

impl Room {
    /// Waits for `patience` at most.
    pub(super) fn new(patience: Duration) -> Room {
        Room { patience, until: None }
    }

    /// Waits a moment after an attempt to start a command that failed with `error`. `true` if another
    /// one is to follow, `false` once it has been too long, or the message is `cancelled`.
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
        if now >= *self.until.get_or_insert(now + self.patience) {
            return Ok(false);
        }
        tokio::select! {
            () = sleep(PAUSE) => Ok(true),
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
    use std::future::{pending, ready};

    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn lack_of_room_is_waited_out_for_as_long_as_patience_lasts() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM] {
            let (mut patient, mut impatient) = (Room::new(LONG), Room::new(Duration::ZERO));

            let waits = patient.may_come(errno.into(), pending());
            assert!(timeout(Duration::ZERO, waits).await.is_err(), "{errno}");
            assert!(!impatient.may_come(errno.into(), pending()).await.unwrap(), "{errno}");
        }
    }

    #[tokio::test]
    async fn message_that_is_cancelled_waits_no_longer() {
        assert!(!Room::new(LONG).may_come(Errno::MFILE.into(), ready(())).await.unwrap());
    }

    #[tokio::test]
    async fn other_errors_are_failures() {
        let outcome = Room::new(LONG).may_come(Errno::NOENT.into(), pending()).await;

        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
