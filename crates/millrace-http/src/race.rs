//! Several ways to the same end, of which some may lead nowhere: they are tried in order, the next
//! before the last has given up, and the first that succeeds counts.

use std::io;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

/// RFC 8305, section 5: the recommended delay between attempts to connect.
const HEAD_START: Duration = Duration::from_millis(250);

/// The outcome of the first attempt that succeeds, else the error of the last to fail. An attempt
/// begins when the one before it has failed or has had its head start; the others then go on.
///
/// Cancel safety: all attempts end.
pub(super) async fn first_of<T, F>(attempts: impl Iterator<Item = F>) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut attempts = attempts.fuse();
    let mut under_way = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        let next = attempts.next();
        let all_began = next.is_none();
        if let Some(attempt) = next {
            under_way.spawn(attempt);
        }
        last = tokio::select! {
            ended = under_way.join_next() => match ended {
                Some(Ok(Ok(value))) => return Ok(value),
                Some(Ok(Err(error))) => error,
                Some(Err(error)) => io::Error::other(error),
                None => return Err(last),
            },
            () = sleep(HEAD_START), if !all_began => continue,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    /// An attempt that ends after `after`, if it ever does.
    async fn attempt(number: u32, after: Option<Duration>, succeeds: bool) -> io::Result<u32> {
        match after {
            Some(after) => sleep(after).await,
            None => pending().await,
        }
        if succeeds { Ok(number) } else { Err(io::Error::other(number.to_string())) }
    }

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
    const SOON: Option<Duration> = Some(Duration::from_millis(100));
    const SLOWLY: Option<Duration> = Some(Duration::from_millis(300));

    #[tokio::test(start_paused = true)]
    async fn attempts_that_lead_nowhere_hold_the_others_up_by_their_head_start() {
        let started = Instant::now();
        let attempts = [attempt(1, None, true), attempt(2, None, true), attempt(3, SOON, true)];

        assert_eq!(first_of(attempts.into_iter()).await.unwrap(), 3);
        assert_eq!(started.elapsed(), 2 * HEAD_START + Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_failed_holds_nobody_up() {
        let started = Instant::now();
        let attempts = [attempt(1, AT_ONCE, false), attempt(2, AT_ONCE, true)];

        assert_eq!(first_of(attempts.into_iter()).await.unwrap(), 2);
        // tokio's timers have a resolution of a millisecond.
        assert!(started.elapsed() < Duration::from_millis(5), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_attempt_goes_on_beside_the_next() {
        let attempts = [attempt(1, SLOWLY, true), attempt(2, SOON, true)];

        assert_eq!(first_of(attempts.into_iter()).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_counts_if_none_succeeds() {
        let attempts = [attempt(1, SLOWLY, false), attempt(2, AT_ONCE, false)];
        let error = first_of(attempts.into_iter()).await.unwrap_err();
        assert_eq!(error.to_string(), "1");

        let error = first_of([].into_iter().map(|()| attempt(1, None, true))).await.unwrap_err();
        assert_eq!(error.to_string(), "the name has no address");
    }
}
