//! `maxReceivesPerSecond`: attempts of one endpoint, evenly spread over time.

use std::time::Duration;

use tokio::time::Instant;

/// Attempts may be that much ahead of their time: a timer is not exact, and many attempts a second
/// come in small groups.
const TOLERANCE: Duration = Duration::from_millis(10);

/// When the next attempt may begin.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    next: Option<Instant>,
}

impl Throttle {
    /// When the next attempt may begin, and how many at that moment.
    pub(crate) fn next(&self, now: Instant, per_second: u32) -> (Instant, usize) {
        let interval = interval(per_second);
        let due = self.next.filter(|next| *next > now).unwrap_or(now);
        let begins = due.checked_sub(TOLERANCE).unwrap_or(due).max(now);
        let ahead = (begins + TOLERANCE).saturating_duration_since(due);
        let more = ahead.as_nanos() / interval.as_nanos().max(1);
        (begins, 1 + usize::try_from(more).unwrap_or(usize::MAX - 1))
    }

    /// That many attempts begin.
    pub(crate) fn took(&mut self, now: Instant, per_second: u32, attempts: usize) {
        let due = self.next.filter(|next| *next > now).unwrap_or(now);
        let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
        self.next = Some(due + interval(per_second).saturating_mul(attempts));
    }
}

fn interval(per_second: u32) -> Duration {
    Duration::from_secs(1) / per_second.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of attempts that begin in each second, if there always is a message.
    fn seconds(per_second: u32, count: usize) -> Vec<usize> {
        let begun = Instant::now();
        let mut throttle = Throttle::default();
        let mut now = begun;
        let mut counts = vec![0; count];
        loop {
            let (begins, attempts) = throttle.next(now, per_second);
            now = begins;
            let Some(counted) = counts.get_mut((now - begun).as_secs() as usize) else {
                return counts;
            };
            let attempts = attempts.min(10);
            throttle.took(now, per_second, attempts);
            *counted += attempts;
        }
    }

    #[test]
    fn attempts_are_spread_over_each_second() {
        assert_eq!(seconds(1, 4), [2, 1, 1, 1], "the second is 10 ms early");
        for per_second in [7, 100, 1000, 5000] {
            for counted in seconds(per_second, 3) {
                let most = per_second as usize + per_second as usize / 50 + 11;
                assert!(counted <= most, "{per_second}: {counted}");
                assert!(counted + 11 >= per_second as usize, "{per_second}: {counted}");
            }
        }
    }

    #[test]
    fn a_pause_earns_no_burst() {
        let mut throttle = Throttle::default();
        let begun = Instant::now();
        throttle.took(begun, 2, 1);

        let later = begun + Duration::from_secs(100);
        assert_eq!(throttle.next(later, 2), (later, 1));
        throttle.took(later, 2, 1);
        let (begins, attempts) = throttle.next(later, 2);
        assert_eq!((begins - later, attempts), (Duration::from_millis(490), 1));
    }
}
