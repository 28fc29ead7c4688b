//! How fast messages are sent: as fast as answers come, or by a schedule that waits for nobody.
//! A stage of a schedule may also have messages and handlers of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Between two requests of the quickest schedule: without any time there is none.
const SHORTEST: Duration = Duration::from_nanos(1);
/// Between two requests of the slowest schedule: added to any instant.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Stages of a schedule, one after the other; without any, each request waits for the last one's
/// answer. The last stage goes on for as long as the run does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    stages: Vec<Stage>,
}

/// A rate, for how long, and what is different meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stage {
    /// Messages a second; above zero.
    pub(crate) rate: f64,
    pub(crate) duration: Duration,
    /// Bytes of a message's body, if not the scenario's.
    pub(crate) size_bytes: Option<usize>,
    /// How long a consumer handles each message before it deletes it.
    pub(crate) handler: Duration,
}

impl Stage {
    /// Messages as everywhere in the scenario, deleted as soon as they are received.
    pub(crate) fn new(rate: f64, duration: Duration) -> Stage {
        Stage { rate, duration, size_bytes: None, handler: Duration::ZERO }
    }
}

impl Pace {
    /// One rate throughout; zero for as fast as answers come.
    pub(crate) fn constant(rate: f64) -> Pace {
        let stage = Stage::new(rate, Duration::MAX);
        Pace { stages: if rate > 0.0 { vec![stage] } else { Vec::new() } }
    }

    pub(crate) fn by_stages(stages: &[Stage]) -> Pace {
        Pace { stages: stages.to_vec() }
    }

    pub(crate) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// How many stages are told apart; at least one.
    pub(crate) fn stage_count(&self) -> usize {
        self.stages.len().max(1)
    }

    /// The stage so long after the first began.
    pub(crate) fn stage_at(&self, elapsed: Duration) -> usize {
        let mut end = Duration::ZERO;
        let is_over = |stage: &Stage| {
            end = end.saturating_add(stage.duration);
            end <= elapsed
        };
        let passed = self.stages.iter().map(is_over).take_while(|is_over| *is_over).count();
        passed.min(self.stage_count() - 1)
    }

    /// When a stage ends, counted from when the first began; never for the last.
    pub(crate) fn stage_end(&self, stage: usize) -> Option<Duration> {
        let passed = self.stages.get(..=stage).filter(|passed| passed.len() < self.stages.len())?;
        let longer = |end: Duration, stage: &Stage| end.saturating_add(stage.duration);
        Some(passed.iter().fold(Duration::ZERO, longer))
    }

    /// Between the starts of requests that `messages` are sent with, in a stage; zero without a
    /// schedule.
    pub(crate) fn interval(&self, stage: usize, messages: f64) -> Duration {
        let interval = |stage: &Stage| Duration::try_from_secs_f64(messages / stage.rate);
        let stage = self.stages.get(stage);
        stage.map_or(Duration::ZERO, |stage| {
            interval(stage).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn stages_follow_one_another_and_the_last_goes_on() {
        let pace = Pace::by_stages(&[Stage::new(10.0, SECOND), Stage::new(100.0, SECOND * 2)]);

        let at = [0.0, 0.9, 1.0, 2.9, 3.0, 99.0].map(Duration::from_secs_f64);
        assert_eq!(at.map(|elapsed| pace.stage_at(elapsed)), [0, 0, 1, 1, 1, 1]);
        assert_eq!([0, 1, 2].map(|stage| pace.stage_end(stage)), [Some(SECOND), None, None]);
        assert_eq!(pace.interval(0, 4.0), Duration::from_millis(400));
        assert_eq!(pace.interval(1, 4.0), Duration::from_millis(40));
    }

    #[test]
    fn a_constant_rate_is_one_stage_and_none_is_no_schedule() {
        assert_eq!(Pace::constant(4.0).interval(0, 1.0), SECOND / 4);
        assert_eq!(Pace::constant(4.0).stage_count(), 1);
        assert_eq!(Pace::constant(4.0).stage_end(0), None);

        assert_eq!(Pace::constant(1e-300).interval(0, 1.0), LONGEST);
        assert_eq!(Pace::constant(1e300).interval(0, 1.0), SHORTEST);
        let none = Pace::constant(0.0);
        assert!(none.interval(0, 1.0).is_zero());
        assert_eq!((none.stage_count(), none.stage_at(SECOND)), (1, 0));
    }
}
