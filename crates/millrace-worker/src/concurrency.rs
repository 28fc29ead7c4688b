//! How many handlers may run at a time: a fixed number, or one found from measured latency.
//!
//! ```text
//!   slow start ── latency rises, or the maximum is reached ──► gradient ◄──┐
//!   × 2 a window                                               │           │ every 60 windows:
//!                                                              └── probe ──┘ half for one window
//! ```
//!
//! A window is about as many finished handlers as may run at a time. The *baseline* is the latency
//! without crowding: the lowest seen, measured anew by each probe, because work may have become
//! slower for reasons of its own. By Little's law more handlers give more throughput only while
//! latency stays at the baseline; beyond that they only wait for each other.

use std::time::Duration;

use tokio::time::Instant;

/// How many handlers may run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// Always this many; 0 counts as 1.
    Fixed(usize),
    /// As many as do not slow each other down, `max` at most.
    Auto {
        /// The most that may run; 0 counts as 1.
        max: usize,
    },
}

impl Concurrency {
    /// The most that may ever run.
    pub(crate) fn max(self) -> usize {
        match self {
            Concurrency::Fixed(max) | Concurrency::Auto { max } => max.max(1),
        }
    }
}

/// What `Auto` starts with: one handler would say too little of latency in parallel.
const FIRST_LIMIT: f64 = 4.0;
/// Latency up to this multiple of the baseline counts as not crowded.
const TOLERANCE: f64 = 1.1;
/// The part of the limit by which it grows in a window without crowding, past the slow start.
const GROWTH: f64 = 0.05;
/// The fastest fall in one window.
const STEEPEST: f64 = 0.5;
/// Finished handlers in a window past the slow start, at least and at most.
const WINDOW_SAMPLES: (f64, f64) = (20.0, 500.0);
/// Windows between two measurements of the baseline.
const PROBE_WINDOWS: u32 = 60;

/// The limit in force.
#[derive(Debug)]
pub(crate) struct Limit {
    max: usize,
    gradient: Option<Gradient>,
}

impl Limit {
    pub(crate) fn new(concurrency: Concurrency, now: Instant) -> Limit {
        let max = concurrency.max();
        let gradient = match concurrency {
            Concurrency::Fixed(_) => None,
            Concurrency::Auto { .. } => Some(Gradient::new(max, now)),
        };
        Limit { max, gradient }
    }

    /// Handlers that may run now, 1 at least.
    pub(crate) fn get(&self) -> usize {
        self.gradient.as_ref().map_or(self.max, |gradient| gradient.limit as usize)
    }

    /// A handler is started; `running` counts it.
    pub(crate) fn on_started(&mut self, running: usize) {
        let limit = self.get();
        if let Some(gradient) = &mut self.gradient {
            gradient.is_used_up |= running >= limit;
        }
    }

    /// A handler that was started at `started` succeeded. Failures tell nothing about crowding:
    /// what fails at once is not fast.
    pub(crate) fn on_succeeded(&mut self, started: Instant, now: Instant) {
        if let Some(gradient) = &mut self.gradient {
            gradient.sample(started, now);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    Gradient {
        windows: u32,
    },
    /// One window at half the limit, which is then given back.
    Probe {
        limit: u32,
    },
}

#[derive(Debug)]
struct Gradient {
    limit: f64,
    max: f64,
    phase: Phase,
    /// Latency without crowding, seconds.
    baseline: Option<f64>,
    window: Window,
    /// Whether all that may run did so at some moment of this window; else the limit limits nothing
    /// and must not grow.
    is_used_up: bool,
}

impl Gradient {
    fn new(max: usize, now: Instant) -> Gradient {
        let max = max.min(u32::MAX as usize) as f64;
        Gradient {
            limit: FIRST_LIMIT.min(max),
            max,
            phase: Phase::SlowStart,
            baseline: None,
            window: Window::new(now),
            is_used_up: false,
        }
    }

    fn sample(&mut self, started: Instant, now: Instant) {
        // Started under another limit: tells nothing about this one.
        if started < self.window.start {
            return;
        }
        self.window.add(now.saturating_duration_since(started));
        if self.window.samples >= self.samples_needed() {
            self.end_window(now);
        }
    }

    fn samples_needed(&self) -> f64 {
        let (least, most) = WINDOW_SAMPLES;
        match self.phase {
            Phase::SlowStart => self.limit.floor().min(most),
            Phase::Gradient { .. } | Phase::Probe { .. } => self.limit.floor().clamp(least, most),
        }
    }

    fn end_window(&mut self, now: Instant) {
        let (mean, error) = (self.window.mean, self.window.standard_error());
        let baseline = match self.phase {
            Phase::Probe { .. } => mean,
            _ => self.baseline.map_or(mean, |baseline| baseline.min(mean)),
        };
        self.baseline = Some(baseline);
        // Twice the error of the mean: latencies that differ by themselves are not crowding.
        let allowed = baseline * TOLERANCE + 2.0 * error;
        let is_crowded = mean > allowed;
        (self.phase, self.limit) = match self.phase {
            Phase::SlowStart if !is_crowded && !self.is_used_up => (self.phase, self.limit),
            Phase::SlowStart if !is_crowded && self.limit < self.max => {
                (self.phase, self.limit * 2.0)
            }
            Phase::SlowStart => (Phase::Gradient { windows: 0 }, self.next(allowed, mean)),
            Phase::Gradient { windows } if windows >= PROBE_WINDOWS && self.limit >= 2.0 => {
                (Phase::Probe { limit: self.limit as u32 }, self.limit / 2.0)
            }
            Phase::Gradient { windows } => {
                (Phase::Gradient { windows: windows.saturating_add(1) }, self.next(allowed, mean))
            }
            Phase::Probe { limit } => (Phase::Gradient { windows: 0 }, f64::from(limit)),
        };
        self.limit = self.limit.clamp(1.0, self.max);
        self.window = Window::new(now);
        self.is_used_up = false;
    }

    fn next(&self, allowed: f64, mean: f64) -> f64 {
        let gradient = if mean > 0.0 { (allowed / mean).clamp(STEEPEST, 1.0) } else { 1.0 };
        let growth = if self.is_used_up { (self.limit * GROWTH).max(1.0) } else { 0.0 };
        self.limit * gradient + growth
    }
}

/// Latencies of one window: mean and variance by Welford's method.
#[derive(Debug)]
struct Window {
    start: Instant,
    samples: f64,
    mean: f64,
    squares: f64,
}

impl Window {
    fn new(start: Instant) -> Window {
        Window { start, samples: 0.0, mean: 0.0, squares: 0.0 }
    }

    fn add(&mut self, latency: Duration) {
        let seconds = latency.as_secs_f64();
        self.samples += 1.0;
        let delta = seconds - self.mean;
        self.mean += delta / self.samples;
        self.squares += delta * (seconds - self.mean);
    }

    /// Of the mean, seconds.
    fn standard_error(&self) -> f64 {
        if self.samples < 2.0 {
            return 0.0;
        }
        (self.squares / (self.samples - 1.0) / self.samples).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::BinaryHeap};

    use super::*;

    struct Run {
        total_s: f64,
        median_s: f64,
        last_limit: usize,
        most_running: usize,
    }

    /// Works off `messages`, always as many at a time as the limit allows. `latency` tells how long
    /// a handler takes that starts when that many run.
    fn simulate(
        concurrency: Concurrency,
        messages: usize,
        mut latency: impl FnMut(usize) -> f64,
    ) -> Run {
        let epoch = Instant::now();
        let mut limit = Limit::new(concurrency, epoch);
        let mut now = epoch;
        let mut running = BinaryHeap::new();
        let (mut latencies, mut most_running) = (Vec::new(), 0);
        let mut left = messages;
        while left > 0 || !running.is_empty() {
            while left > 0 && running.len() < limit.get() {
                left -= 1;
                let seconds = latency(running.len() + 1);
                running.push(Reverse((now + Duration::from_secs_f64(seconds), now)));
                limit.on_started(running.len());
                most_running = most_running.max(running.len());
            }
            let Some(Reverse((end, started))) = running.pop() else { break };
            now = end;
            latencies.push((end - started).as_secs_f64());
            limit.on_succeeded(started, now);
        }
        latencies.sort_by(f64::total_cmp);
        Run {
            total_s: (now - epoch).as_secs_f64(),
            median_s: latencies[latencies.len() / 2],
            last_limit: limit.get(),
            most_running,
        }
    }

    #[test]
    fn fixed_limit_never_moves() {
        let run = simulate(Concurrency::Fixed(8), 100, |running| running as f64);

        assert_eq!((run.last_limit, run.most_running), (8, 8));
        assert_eq!(Limit::new(Concurrency::Fixed(0), Instant::now()).get(), 1);
    }

    #[test]
    fn auto_doubles_while_latency_stays() {
        let run = simulate(Concurrency::Auto { max: 512 }, 2000, |_| 1.0);

        // 4, 8, … 512 in seven seconds. Eight handlers would take 250 s.
        assert!(run.total_s <= 12.0, "{} s", run.total_s);
        assert!(run.most_running <= 512);
    }

    #[test]
    fn auto_settles_where_handlers_begin_to_wait_for_each_other() {
        let crowded = |running: usize| (running as f64 / 40.0).max(1.0);

        let run = simulate(Concurrency::Auto { max: 512 }, 4000, crowded);

        // The bound is 4000 / 40 = 100 s; 512 handlers at once would take 12.8 s each.
        assert!(run.total_s < 125.0, "{} s", run.total_s);
        assert!(run.median_s < 1.3, "{} s", run.median_s);
        assert!((36..=56).contains(&run.last_limit), "{}", run.last_limit);
    }

    #[test]
    fn latencies_that_differ_by_themselves_do_not_hold_it_back() {
        let mut random = fastrand::Rng::with_seed(7);
        // Exponentially distributed, whatever runs beside it.
        let run = simulate(Concurrency::Auto { max: 200 }, 60_000, |_| -(1.0 - random.f64()).ln());

        assert!(run.last_limit >= 100, "{}", run.last_limit);
    }

    #[test]
    fn work_that_becomes_slower_by_itself_is_learned_by_a_probe() {
        let mut started = 0;
        let run = simulate(Concurrency::Auto { max: 64 }, 40_000, |_| {
            started += 1;
            if started < 2000 { 0.1 } else { 0.5 }
        });

        assert_eq!(run.last_limit, 64);
    }

    #[test]
    fn limit_that_is_not_used_up_does_not_grow() {
        let epoch = Instant::now();
        let mut limit = Limit::new(Concurrency::Auto { max: 64 }, epoch);

        for second in 1..1000 {
            let now = epoch + Duration::from_secs(second);
            limit.on_started(1);
            limit.on_succeeded(now, now + Duration::from_millis(10));
        }

        assert_eq!(limit.get(), 4);
    }
}
