//! What a run does: where to, with how many clients, how fast, for how long.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{
    clients::Settle,
    dialect::NewQueue,
    endpoint::Endpoint,
    pace::Pace,
    template::{Grouping, Shape},
};
use crate::{process, progress::Progress};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Producers only
    Send,
    /// Fill a queue with --count messages, then time receiving and deleting them
    Drain,
    /// Producers and consumers together
    Pc,
    /// Serial sends
    Latency,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) mode: Mode,
    pub(crate) endpoint: Endpoint,
    pub(crate) shape: Shape,
    /// Message groups; 0 means one for each producer.
    pub(crate) groups: u32,
    pub(crate) producers: usize,
    pub(crate) consumers: usize,
    pub(crate) threads: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Messages to send; 0 for as many as fit into `duration`.
    pub(crate) count: u64,
    pub(crate) pace: Pace,
    /// Producers pause while more than so many messages wait; 0 for no bound. Where nobody consumes
    /// there is none.
    pub(crate) backlog_max: u64,
    pub(crate) wait_s: u32,
    pub(crate) settle: Settle,
    pub(crate) server_pid: Option<u32>,
    /// How long requests may fail, and none succeed, before the server is given up.
    pub(crate) gone_after: Duration,
    /// Other processes that use the same queue.
    pub(crate) together: Option<Together>,
    pub(crate) progress: Progress,
}

/// This process among others that send to and receive from one queue.
#[derive(Clone)]
pub(crate) struct Together {
    /// Whom our messages name as their sender.
    pub(crate) run: u32,
    /// Whom theirs name.
    pub(crate) others: Vec<u32>,
    /// Returns once every process has sent its last message.
    pub(crate) all_sent: Arc<dyn Fn() -> Result<()> + Send + Sync>,
}

impl std::fmt::Debug for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Together").field("run", &self.run).finish_non_exhaustive()
    }
}

/// Messages that may wait before producers pause, so that `pc` measures the rate through the
/// queue and not the rate at which a backlog grows.
pub(crate) const BACKLOG_MAX: u64 = 10_000;

/// A server that is started anew is back sooner.
const GONE_AFTER: Duration = Duration::from_secs(15);

impl Scenario {
    /// A scenario with the usual values: single messages of 1 KB, 5 s after 1 s of warm-up.
    pub(crate) fn new(mode: Mode, endpoint: Endpoint, connections: usize) -> Scenario {
        let (producers, consumers) = match mode {
            Mode::Send | Mode::Latency => (connections, 0),
            Mode::Drain => (0, connections),
            // At least one of each.
            Mode::Pc => (connections.div_ceil(2), (connections / 2).max(1)),
        };
        Scenario {
            mode,
            endpoint,
            shape: Shape::default(),
            groups: 0,
            producers,
            consumers,
            threads: 1,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(5),
            count: 0,
            pace: Pace::default(),
            backlog_max: BACKLOG_MAX,
            wait_s: 1,
            settle: Settle::DeleteAll,
            server_pid: None,
            gone_after: GONE_AFTER,
            together: None,
            progress: Progress::default(),
        }
    }

    /// Whether producers wait for consumers.
    pub(crate) fn is_bounded(&self) -> bool {
        self.backlog_max > 0 && self.consumers > 0
    }

    /// Creates a queue of this scenario's kind under a fresh name.
    ///
    /// # Errors
    ///
    /// Also if the endpoint's kind of queue cannot do what the scenario asks for.
    pub(crate) fn create_queue(&self) -> Result<String> {
        let needs_groups = self.shape.grouping != Grouping::None;
        self.endpoint.dialect.interface().check(self.shape.batch, needs_groups)?;
        let unique = process::now().as_nanos();
        let is_fifo = self.shape.grouping == Grouping::Fifo;
        let name = format!("bench-{unique}{}", if is_fifo { ".fifo" } else { "" });
        // Longer than a run: a message that comes again was given out twice.
        let visibility_timeout_s = Some(3600);
        let queue = NewQueue { name: &name, visibility_timeout_s, is_fifo };
        self.endpoint.create_queue(&queue, &self.progress)
    }

    pub(crate) fn group_of(&self, sequence: u64, producer: u16) -> u32 {
        match self.groups {
            0 => u32::from(producer),
            groups => (sequence % u64::from(groups)) as u32,
        }
    }

    /// What messages look like in a stage of the schedule.
    pub(crate) fn shape_in(&self, stage: usize) -> Shape {
        let own = self.pace.stages().get(stage).and_then(|stage| stage.size_bytes);
        Shape { size_bytes: own.unwrap_or(self.shape.size_bytes), ..self.shape }
    }

    /// The sizes of all bodies that are sent.
    pub(crate) fn sizes_bytes(&self) -> Vec<usize> {
        (0..self.pace.stage_count()).map(|stage| self.shape_in(stage).size_bytes).collect()
    }

    /// How long a message is handled in a stage of the schedule.
    pub(crate) fn handler_in(&self, stage: usize) -> Duration {
        self.pace.stages().get(stage).map_or(Duration::ZERO, |stage| stage.handler)
    }

    /// Time between the starts of one producer's requests in a stage; zero in a closed loop.
    pub(crate) fn interval_in(&self, stage: usize) -> Duration {
        self.pace.interval(stage, self.producers as f64 * self.shape.batch as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Stage;

    impl Scenario {
        /// To an endpoint where nobody listens.
        pub(crate) fn to_nowhere(mode: Mode, connections: usize) -> Scenario {
            Scenario::new(mode, Endpoint::open("http://127.0.0.1:1"), connections)
        }
    }

    #[test]
    fn connections_are_shared_between_producers_and_consumers() {
        let clients = |mode, connections| {
            let scenario = Scenario::to_nowhere(mode, connections);
            (scenario.producers, scenario.consumers)
        };

        assert_eq!(clients(Mode::Pc, 8), (4, 4));
        assert_eq!(clients(Mode::Pc, 1), (1, 1));
        assert_eq!(clients(Mode::Send, 8), (8, 0));
        assert_eq!(clients(Mode::Drain, 8), (0, 8));
    }

    #[test]
    fn a_rate_is_shared_by_producers_and_entries() {
        let mut scenario = Scenario::to_nowhere(Mode::Send, 4);
        assert_eq!(scenario.interval_in(0), Duration::ZERO);

        (scenario.pace, scenario.shape.batch) = (Pace::constant(400.0), 10);

        assert_eq!(scenario.interval_in(0), Duration::from_millis(100));
    }

    #[test]
    fn a_stage_may_have_a_size_and_a_handler_of_its_own() {
        let mut scenario = Scenario::to_nowhere(Mode::Send, 4);
        assert_eq!((scenario.sizes_bytes(), scenario.handler_in(0)), (vec![1024], Duration::ZERO));

        let handler = Duration::from_millis(50);
        let usual = Stage::new(100.0, Duration::from_secs(1));
        let large = Stage { size_bytes: Some(10_240), handler, ..usual };
        scenario.pace = Pace::by_stages(&[usual, large]);

        assert_eq!(scenario.sizes_bytes(), [1024, 10_240]);
        assert_eq!((scenario.handler_in(0), scenario.handler_in(1)), (Duration::ZERO, handler));
        assert_eq!(scenario.shape_in(1).batch, 1);
    }

    #[test]
    fn groups_take_turns() {
        let mut scenario = Scenario::to_nowhere(Mode::Send, 4);
        assert_eq!(scenario.group_of(7, 3), 3);

        scenario.groups = 5;

        assert_eq!(scenario.group_of(7, 3), 2);
    }
}
