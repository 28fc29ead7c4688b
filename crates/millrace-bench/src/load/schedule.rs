//! When one client's requests are due: as soon as the last one is answered, or by a schedule that
//! waits for nobody.
//!
//! A scheduled request counts by when it was *due*: in that stage, and if that was while it was
//! measured, however late it goes out or is answered. What a stall keeps from being sent at all had
//! waited until then, and counts so.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::run::{Phase, Run};

/// How soon it is seen that nothing is measured any more.
const TURN: Duration = Duration::from_millis(100);
/// What a timer is late by itself: tokio's counts in milliseconds and so does epoll, and each
/// rounds up. That is not the server's doing; what is beyond it counts.
const TIMER_LATENESS: Duration = Duration::from_millis(2);
/// Requests of one client that are told apart when they were never sent, or failed; a hopeless rate
/// has no end of them.
pub(crate) const MISSED_MAX: usize = 1_000_000;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// What it belongs to is told by this.
    pub(crate) due: Instant,
    /// Its latency counts from here.
    pub(crate) start: Instant,
    /// The last answer came too late for the schedule.
    pub(crate) is_behind: bool,
    /// By a schedule: whatever becomes of it counts, also that it failed.
    pub(crate) is_planned: bool,
}

/// One producer's requests.
pub(super) struct Schedule {
    /// By which producers take turns.
    share: f64,
    /// The stage in which the next request is due.
    stage: usize,
    interval: Duration,
    due: Instant,
}

impl Turn {
    /// Of a client that has just got its last answer, and has no schedule.
    pub(crate) fn now() -> Turn {
        let now = Instant::now();
        Turn { due: now, start: now, is_behind: false, is_planned: false }
    }

    /// Of a request whose time has come before it could be sent.
    pub(crate) fn behind(due: Instant) -> Turn {
        Turn { due, start: due, is_behind: true, is_planned: true }
    }

    /// Of a request that was waited for. A generator that was stopped meanwhile gave it no less to
    /// wait for than a server.
    fn woken(due: Instant) -> Turn {
        let start = Instant::now().min(due + TIMER_LATENESS);
        Turn { due, start, is_behind: false, is_planned: true }
    }
}

impl Schedule {
    pub(super) fn new(run: &Run, producer: u16) -> Schedule {
        let share = f64::from(producer) / run.scenario.producers.max(1) as f64;
        let interval = run.scenario.interval_in(0);
        Schedule { share, stage: 0, interval, due: Instant::now() + interval.mul_f64(share) }
    }

    /// Whether there is none: requests follow their answers.
    pub(super) fn is_closed(&self) -> bool {
        self.interval.is_zero()
    }

    /// In which the request is due that was last waited for.
    pub(super) fn stage(&self) -> usize {
        self.stage
    }

    /// Waits for the next request's time. `None` once measuring is over, but for the one whose time
    /// came before that.
    pub(super) async fn next(&mut self, run: &Run) -> Option<Turn> {
        if self.is_closed() {
            return Some(Turn::now());
        }
        loop {
            if run.phase() > Phase::Measure {
                return None;
            }
            self.follow_stages(run);
            let (due, now) = (self.due, Instant::now());
            if due <= now {
                self.due += self.interval;
                return Some(Turn::behind(due));
            }
            sleep_until(due.min(now + TURN)).await;
            if Instant::now() >= due && run.measured_until().is_none_or(|end| due < end) {
                self.due += self.interval;
                return Some(Turn::woken(due));
            }
        }
    }

    /// What was due while it was measured and will not be sent: when, and how long it has waited.
    pub(super) fn missed(mut self, run: &Run) -> impl Iterator<Item = (Instant, Duration)> + '_ {
        let now = Instant::now();
        let end = run.measured_until().filter(|_| !self.is_closed());
        let since = run.measured_since().unwrap_or(now);
        self.due = first_due(self.due, self.interval, since);
        let next = move || {
            self.follow_stages(run);
            let due = self.due;
            self.due += self.interval;
            end.is_some_and(|end| due < end).then(|| (due, now.saturating_duration_since(due)))
        };
        std::iter::from_fn(next).take(MISSED_MAX)
    }

    /// A schedule knows nothing of when its requests are sent: the first one that would be due
    /// after the end of a stage is the next stage's first.
    fn follow_stages(&mut self, run: &Run) {
        while let Some(end) = run.stage_end(self.stage).filter(|end| self.due >= *end) {
            self.stage += 1;
            self.interval = run.scenario.interval_in(self.stage);
            self.due = end + self.interval.mul_f64(self.share);
        }
    }
}

/// The first that is due from an instant on, of a schedule that goes on with `due`.
pub(crate) fn first_due(due: Instant, interval: Duration, since: Instant) -> Instant {
    let late = u64::try_from(since.saturating_duration_since(due).as_nanos()).unwrap_or(u64::MAX);
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    let turns = late.div_ceil(interval);
    due + Duration::from_nanos(turns.saturating_mul(interval))
}

/// When the next request starts, and by `interval` the one after it.
pub(crate) async fn pace(interval: Duration, due: &mut Instant) -> Turn {
    if interval.is_zero() {
        return Turn::now();
    }
    let scheduled = *due;
    *due += interval;
    if scheduled <= Instant::now() {
        return Turn::behind(scheduled);
    }
    sleep_until(scheduled).await;
    Turn::woken(scheduled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Mode, Pace, Scenario, Stage};

    const SECOND: Duration = Duration::from_secs(1);

    /// Of one producer.
    fn run_at(pace: Pace) -> Run {
        Run::new(&Scenario { pace, ..Scenario::to_nowhere(Mode::Send, 1) }, "q")
    }

    #[tokio::test]
    async fn a_late_schedule_counts_from_when_it_was_due() {
        let mut due = Instant::now().checked_sub(SECOND).unwrap();
        let scheduled = due;

        let turn = pace(Duration::from_millis(10), &mut due).await;

        assert_eq!((turn.start, due), (scheduled, scheduled + Duration::from_millis(10)));
        assert!(turn.is_behind);
        assert!(pace(Duration::ZERO, &mut due).await.start > scheduled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeper_that_wakes_late_is_forgiven_the_timer_and_no_more() {
        let interval = Duration::from_millis(10);
        let woken_after = async |late: Duration| {
            let mut due = Instant::now() + interval;
            let scheduled = due;
            let (turn, ()) =
                tokio::join!(pace(interval, &mut due), tokio::time::advance(interval + late));
            turn.start - scheduled
        };

        assert!(woken_after(Duration::ZERO).await <= TIMER_LATENESS);
        assert_eq!(woken_after(SECOND / 2).await, TIMER_LATENESS);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_due_before_the_end_is_sent_and_nothing_after_it() {
        let run = run_at(Pace::constant(1.0));
        let mut schedule = Schedule::new(&run, 0);
        run.enter(Phase::Measure);
        let began = Instant::now();

        assert_eq!(schedule.next(&run).await.unwrap().due, began);
        let (second, ()) = tokio::join!(schedule.next(&run), async {
            // The end is seen before the sleeper wakes.
            tokio::time::advance(SECOND).await;
            tokio::time::advance(Duration::from_micros(1)).await;
            run.enter(Phase::Settle);
        });

        assert_eq!(second.unwrap().due, began + SECOND);
        assert!(schedule.next(&run).await.is_none());
        assert_eq!(Instant::now(), began + SECOND + Duration::from_micros(1));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_sleeps_through_the_end() {
        let run = run_at(Pace::constant(0.001));
        let mut schedule = Schedule::new(&run, 0);
        run.enter(Phase::Measure);
        schedule.next(&run).await.unwrap();

        let (next, ()) = tokio::join!(schedule.next(&run), async {
            tokio::time::sleep(SECOND).await;
            run.enter(Phase::Settle);
        });

        assert!(next.is_none());
        assert!(run.measured_until().unwrap().elapsed() <= TURN);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_stall_kept_from_being_sent_had_waited_until_then() {
        let run = run_at(Pace::constant(1.0));
        let mut schedule = Schedule::new(&run, 0);
        run.enter(Phase::Measure);
        let began = Instant::now();
        schedule.next(&run).await.unwrap();
        tokio::time::advance(SECOND * 3 + SECOND / 2).await;
        run.enter(Phase::Settle);
        tokio::time::advance(SECOND).await;

        assert!(schedule.next(&run).await.is_none());
        let missed: Vec<_> = schedule.missed(&run).collect();

        let due = [1, 2, 3].map(|second| began + SECOND * second);
        let waited = [7, 5, 3].map(|halves| SECOND * halves / 2);
        assert_eq!(missed, due.into_iter().zip(waited).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_hopeless_rate_missed_while_it_warmed_up_hides_nothing() {
        let run = run_at(Pace::constant(1e8));
        let schedule = Schedule::new(&run, 0);
        tokio::time::advance(SECOND).await;
        run.enter(Phase::Measure);
        let began = Instant::now();
        tokio::time::advance(SECOND).await;
        run.enter(Phase::Settle);

        let (first, waited) = schedule.missed(&run).next().unwrap();

        assert!(first >= began && first < began + Duration::from_micros(1));
        assert_eq!(waited, began + SECOND - first);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stage_begins_when_the_last_one_ends_whatever_its_rate_was() {
        let stages = [Stage::new(0.25, SECOND), Stage::new(4.0, SECOND), Stage::new(2.0, SECOND)];
        let run = run_at(Pace::by_stages(&stages));
        let mut schedule = Schedule::new(&run, 0);
        run.enter(Phase::Measure);
        let began = Instant::now();

        let mut sent = Vec::new();
        for _ in 0..8 {
            let due = schedule.next(&run).await.unwrap().due;
            sent.push(((due - began).as_millis(), schedule.stage()));
        }

        let second = [1000, 1250, 1500, 1750].map(|due| (due, 1));
        let third = [2000, 2500, 3000].map(|due| (due, 2));
        assert_eq!(sent, [&[(0, 0)], &second[..], &third].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_stage_left_behind_is_due_in_it_still() {
        let stages = [Stage::new(2.0, SECOND), Stage::new(1.0, SECOND)];
        let run = run_at(Pace::by_stages(&stages));
        let mut schedule = Schedule::new(&run, 0);
        run.enter(Phase::Measure);
        let began = Instant::now();
        tokio::time::advance(SECOND * 3 / 2).await;

        for (due, stage) in [(began, 0), (began + SECOND / 2, 0), (began + SECOND, 1)] {
            let turn = schedule.next(&run).await.unwrap();
            assert_eq!((turn.due, turn.is_behind, schedule.stage()), (due, true, stage));
            assert_eq!(run.stage_at(turn.due), Some(stage));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_misses_nothing() {
        let run = run_at(Pace::default());
        let mut schedule = Schedule::new(&run, 0);
        run.enter(Phase::Measure);
        schedule.next(&run).await.unwrap();
        tokio::time::advance(SECOND).await;
        run.enter(Phase::Settle);

        assert_eq!(schedule.missed(&run).count(), 0);
    }
}
