//! A bound on what is logged: clients and strangers can cause some lines as often as they like.
//!
//! Each place in the code, of whatever crate, may log [`BURST`] lines at once and one more every
//! [`PAUSE`]. What is beyond is left out and counted; the log tells when that begins, and how many
//! were left out before the next line of the place. Lines below `info` are for who asked for them,
//! and lines of workers are about their own handlers: neither is bounded.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{Event, Level, Metadata, Subscriber, callsite::Identifier};
use tracing_subscriber::{Layer, layer::Context};

/// Lines of one place at once.
const BURST: u32 = 20;

/// One line more after each.
const PAUSE: Duration = Duration::from_secs(10);

/// What tells of lines that were left out is not left out itself.
const TARGET: &str = "millrace::log";

/// Parts of the program that log about their own handlers, a line or more for each message.
const UNBOUNDED: [&str; 2] = ["millrace_worker", "millrace::work"];

/// Leaves out lines of places that log too many.
#[derive(Default)]
pub(super) struct Bound {
    places: Mutex<HashMap<Identifier, Allowance>>,
}

/// What one place may still log.
#[derive(Debug)]
struct Allowance {
    lines: u32,
    /// Up to when lines were added.
    at: Instant,
    left_out: u64,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Logged,
    /// Behind so many that were left out.
    LoggedAfter(u64),
    /// The first of a row.
    BeginsRow,
    LeftOut,
}

impl<S: Subscriber> Layer<S> for Bound {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if !is_bounded(metadata) {
            return true;
        }
        let verdict = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            places.entry(metadata.callsite()).or_insert_with(|| Allowance::new(now)).take(now)
        };
        let of = metadata.target();
        match verdict {
            Verdict::Logged => true,
            Verdict::LoggedAfter(lines) => {
                tracing::warn!(target: TARGET, lines, of, "left out of the log: too many of a kind");
                true
            }
            Verdict::BeginsRow => {
                tracing::warn!(target: TARGET, of, "too many of a kind: more are left out of the log");
                false
            }
            Verdict::LeftOut => false,
        }
    }
}

impl Allowance {
    fn new(now: Instant) -> Allowance {
        Allowance { lines: BURST, at: now, left_out: 0 }
    }

    fn take(&mut self, now: Instant) -> Verdict {
        let passed = now.saturating_duration_since(self.at);
        let pauses =
            u32::try_from(passed.as_millis() / PAUSE.as_millis()).unwrap_or(BURST).min(BURST);
        if self.lines + pauses >= BURST {
            (self.lines, self.at) = (BURST, now);
        } else {
            self.lines += pauses;
            self.at += PAUSE * pauses;
        }
        if self.lines == 0 {
            self.left_out += 1;
            return if self.left_out == 1 { Verdict::BeginsRow } else { Verdict::LeftOut };
        }
        self.lines -= 1;
        match std::mem::take(&mut self.left_out) {
            0 => Verdict::Logged,
            lines => Verdict::LoggedAfter(lines),
        }
    }
}

fn is_bounded(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let is_unbounded = |part: &&str| {
        target.strip_prefix(*part).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    *metadata.level() <= Level::INFO && target != TARGET && !UNBOUNDED.iter().any(is_unbounded)
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::{Registry, fmt, layer::SubscriberExt};

    use super::*;

    #[test]
    fn a_place_has_a_burst_and_then_a_line_every_so_often() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(begun);
        let burst: Vec<Verdict> = (0..BURST).map(|_| allowance.take(begun)).collect();
        let beyond = [(); 3].map(|()| allowance.take(begun));
        let later = begun + PAUSE + PAUSE / 2;
        let after_a_pause = [(); 2].map(|()| allowance.take(later));
        let after_another = allowance.take(begun + 2 * PAUSE);
        let quiet = begun + PAUSE * (BURST + 2);

        assert!(burst.iter().all(|verdict| *verdict == Verdict::Logged));
        assert_eq!(beyond, [Verdict::BeginsRow, Verdict::LeftOut, Verdict::LeftOut]);
        assert_eq!(after_a_pause, [Verdict::LoggedAfter(3), Verdict::BeginsRow]);
        assert_eq!(after_another, Verdict::LoggedAfter(1));
        assert!((0..BURST).all(|_| allowance.take(quiet) == Verdict::Logged));
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn places_that_strangers_reach_are_bounded_and_others_are_not() {
        let written = Written::default();
        let writer = written.clone();
        let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let subscriber = Registry::default().with(layer.and_then(Bound::default()));

        tracing::subscriber::with_default(subscriber, || {
            for number in 0..1000 {
                tracing::warn!(number, "a stranger did this");
                tracing::warn!(target: "millrace_worker::panics", number, "handler failed");
                tracing::debug!(number, "asked for");
            }
            tracing::error!("another place");
        });

        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!(count("a stranger did this"), BURST as usize);
        assert_eq!([count("handler failed"), count("asked for")], [1000, 1000]);
        assert_eq!(count("another place"), 1);
    }
}
