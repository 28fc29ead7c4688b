//! Everything simulated, and the scheduler that decides what happens next.
//!
//! One seed fixes the run: sizes, what clients do, what the machine does, when time passes. No
//! thread runs; commits, background work, timers and maintenance happen when the scheduler says
//! so, and futures are polled when it says so.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{BrokerError, Handle, Shard, Shards, SharedQueue};
use millrace_core::{Clock, QueueId};
use millrace_journal::{FileSystem, GroupCommit, SimFileSystem, Unavailable};

use crate::clock::ManualClock;
use crate::confirmed::Confirmed;
use crate::executor::Task;
use crate::invariants::{self, Look, Seen};
use crate::oracle::Oracle;
use crate::panics;
use crate::profile::Profile;
use crate::random::Random;
use crate::trace::{Output, Trace};

pub(crate) const DIR: &str = "/data";
/// Steps between two comparisons of everything. In between, what a client touched is compared, and
/// all after what touches no queue in particular.
const COMPARED_EVERY: u64 = 40;

/// How a step ended early.
#[derive(Debug)]
pub enum Trouble {
    /// An invariant does not hold.
    Broken(String),
    /// The machine lost power: what was under way never happened.
    PowerIsOff,
}

impl From<String> for Trouble {
    fn from(text: String) -> Trouble {
        Trouble::Broken(text)
    }
}

pub(crate) type Step = Result<(), Trouble>;

/// One shard and the journal below it.
pub struct Node {
    pub log: Arc<GroupCommit>,
    pub shards: Arc<Shards>,
}

/// A client and the receipt handles that it never forgets.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub handles: Vec<Held>,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub text: String,
    pub handle: Handle,
    /// By an answer; looks without one give handles, too.
    pub given: Option<Given>,
}

/// Which poll was answered with which message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub poll: u64,
    pub uid: u64,
}

/// What went wrong, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub step: u64,
    pub text: String,
    pub last_lines: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { seed, step, text, last_lines } = self;
        write!(
            f,
            "seed {seed}, step {step}: {text}\nlast events:\n{last_lines}\
             replay: cargo run -p millrace-sim -- --seed {seed} --steps {step} --trace"
        )
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of every line of the trace.
    pub hash: u64,
    pub restarts: u64,
    pub commits: u64,
    pub truncations: u64,
}

/// Everything simulated.
pub struct World {
    pub(crate) random: Random,
    pub(crate) profile: Profile,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) fs: SimFileSystem,
    pub(crate) node: Option<Node>,
    pub(crate) oracle: Oracle,
    pub(crate) confirmed: Confirmed,
    pub(crate) tasks: Vec<Task>,
    pub(crate) clients: Vec<Client>,
    pub(crate) trace: Trace,
    pub(crate) step: u64,
    pub(crate) next_uid: u64,
    pub(crate) next_task: u64,
    /// A fault is planned or has happened: the journal may be poisoned.
    pub(crate) is_faulty: bool,
    pub(crate) is_full: bool,
    pub(crate) is_closing: bool,
    pub(crate) restarts: u64,
    pub(crate) commits: u64,
    pub(crate) truncations: u64,
}

/// Runs one seed. A panic in it is a failure like any other.
pub fn run(seed: u64, steps: u64, output: Output) -> Result<Report, Failure> {
    let world = World::new(seed, output);
    run_in(world, seed, |world| world.live(steps))
}

fn run_in(
    mut world: World,
    seed: u64,
    life: impl FnOnce(&mut World) -> Result<(), String>,
) -> Result<Report, Failure> {
    let lived = panics::caught(seed, AssertUnwindSafe(|| life(&mut world)));
    let text = match lived {
        Ok(Ok(())) => {
            return Ok(Report {
                hash: world.trace.hash(),
                restarts: world.restarts,
                commits: world.commits,
                truncations: world.truncations,
            });
        }
        Ok(Err(text)) => text,
        Err(panic) => format!("panicked: {panic}"),
    };
    let failure = Failure { seed, step: world.step, text, last_lines: world.trace.last_lines() };
    // Whatever would be dropped now must not hide the failure: what a panic left half done ends
    // the process when it is touched again.
    std::mem::forget(world);
    Err(failure)
}

impl World {
    fn new(seed: u64, output: Output) -> World {
        let mut random = Random::new(seed);
        let profile = Profile::new(seed, &mut random);
        let fs = SimFileSystem::new(random.bits());
        if profile.refuses_direct {
            fs.refuse_direct();
        }
        let clients = (0..=random.below(4)).map(|_| Client::default()).collect();
        World {
            random,
            profile,
            clock: Arc::default(),
            fs,
            node: None,
            oracle: Oracle::default(),
            confirmed: Confirmed::default(),
            tasks: Vec::new(),
            clients,
            trace: Trace::new(output),
            step: 0,
            next_uid: 0,
            next_task: 0,
            is_faulty: false,
            is_full: false,
            is_closing: false,
            restarts: 0,
            commits: 0,
            truncations: 0,
        }
    }

    fn live(&mut self, steps: u64) -> Result<(), String> {
        self.start()?;
        // Handles sealed with a secret that was lost would be refused, and rightly.
        self.node()?.log.commit_step();
        for _ in 0..3 {
            self.create_queue().map_err(|trouble| format!("{trouble:?}"))?;
        }
        while self.step < steps {
            self.step += 1;
            match self.take_step() {
                Ok(()) => {}
                Err(Trouble::Broken(text)) => return Err(text),
                Err(Trouble::PowerIsOff) => self.lose_power()?,
            }
            if self.step.is_multiple_of(COMPARED_EVERY) {
                self.compare_all()?;
            }
        }
        self.end()
    }

    fn take_step(&mut self) -> Step {
        if self.random.below(1000) < self.profile.restarts {
            return self.restart_somehow();
        }
        if self.random.below(1000) < self.profile.faults {
            return self.inject();
        }
        match self.random.below(100) {
            0..=19 => self.send(),
            20..=31 => self.receive(),
            32..=36 => self.start_long_poll(),
            37..=38 => self.drop_long_poll(),
            39..=49 => self.delete(),
            50..=54 => self.change_visibility(),
            55..=57 => self.create_queue(),
            58..=59 => self.update_queue(),
            60 => self.purge_or_delete_queue(),
            61..=62 => self.start_or_cancel_move_task(),
            63..=74 => self.commit(),
            75..=77 => self.background(),
            78..=80 => self.run_due(),
            81..=87 => self.maintain().and_then(|()| self.compare_as_is()),
            88..=92 => self.poll_some(),
            93 => self.settle(),
            _ => self.pass_time(),
        }
    }

    fn commit(&mut self) -> Step {
        let did_commit = self.node()?.log.commit_step();
        self.commits += u64::from(did_commit);
        self.after_commit();
        self.note(format!("commit {did_commit}"));
        if self.node()?.log.ended().is_some() && self.random.chance(30) {
            return self.restart_somehow();
        }
        self.compare_as_is()
    }

    pub(crate) fn after_commit(&mut self) {
        if let Some(node) = &self.node {
            self.oracle.settle(&node.log);
            self.confirmed.settle(&node.log);
        }
    }

    fn background(&mut self) -> Step {
        let log = &self.node()?.log;
        let did_work = log.background_step();
        let has_read = log.read_ahead_step();
        self.note(format!("background {did_work}, read ahead {has_read}"));
        self.compare_as_is()
    }

    fn run_due(&mut self) -> Step {
        self.shards()?.run_due();
        self.note("run due".to_owned());
        self.compare_as_is()
    }

    fn pass_time(&mut self) -> Step {
        let bound = match self.random.below(40) {
            0 => 3 * 86_400_000,
            1..=2 => 6 * 3_600_000,
            3..=8 => 400_000,
            9..=20 => 20_000,
            _ => 900,
        };
        let by = Duration::from_millis(self.random.below(bound));
        self.advance(by);
        self.note(format!("{} ms pass", by.as_millis()));
        self.compare_as_is()
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.fs.advance(by);
    }

    /// Everything is as the oracle says.
    pub(crate) fn compare_all(&mut self) -> Result<(), String> {
        if self.power_is_off() {
            return Ok(());
        }
        let now = self.now();
        self.oracle.live.tick(now);
        let Some(node) = &self.node else { return Ok(()) };
        if let Err(error) = invariants::compare(node, &self.oracle.live, Look::Ends) {
            return if self.power_is_off() { Ok(()) } else { Err(error) };
        }
        if let Some(uid) = self.confirmed.returned(&self.oracle.live) {
            return Err(format!("message {uid} was deleted, its client was told, and it is there"));
        }
        self.compare_tasks()
    }

    /// Every queue is as the oracle says, and none is touched: the broker has to find out by itself
    /// what is over.
    fn compare_as_is(&mut self) -> Step {
        if self.power_is_off() {
            return Ok(());
        }
        let now = self.now();
        self.oracle.live.tick(now);
        let Some(node) = &self.node else { return Ok(()) };
        let compared = invariants::compare(node, &self.oracle.live, Look::LeavesAsIs);
        compared.map_err(|error| self.blame(error))
    }

    /// One queue is as the oracle says.
    pub(crate) fn compare_queue(&mut self, id: u64) -> Step {
        let now = self.now();
        self.oracle.live.tick(now);
        let Some(node) = &self.node else { return Ok(()) };
        let Some(queue) = node.shards.catalog().queue_by_id(QueueId(id)) else { return Ok(()) };
        let Some(wanted) = self.oracle.live.queues.get(&id) else { return Ok(()) };
        let compared = invariants::compare_queue(node, &queue, wanted, Look::Ends);
        compared.map_err(|error| self.blame(error))
    }

    pub(crate) fn look_into(&self, queue: &SharedQueue) -> Result<BTreeMap<u64, Seen>, Trouble> {
        invariants::look_into(queue).map_err(|error| self.blame(error))
    }

    /// Reads fail when there is no power; everything else is a failure.
    pub(crate) fn blame(&self, error: String) -> Trouble {
        if self.power_is_off() { Trouble::PowerIsOff } else { Trouble::Broken(error) }
    }

    pub(crate) fn power_is_off(&self) -> bool {
        self.fs.list(std::path::Path::new(DIR)).is_err()
    }

    /// A refusal is right only if there is a reason for it.
    pub(crate) fn check_refusal(&self, error: &BrokerError) -> Step {
        let is_right = match error {
            BrokerError::Unavailable(Unavailable::Poisoned(_)) => self.is_faulty,
            BrokerError::Unavailable(Unavailable::DiskFull) => self.is_full || self.is_faulty,
            BrokerError::Unavailable(
                Unavailable::Backlog { .. } | Unavailable::TooLarge { .. },
            ) => true,
            BrokerError::Unavailable(_) => false,
            _ => self.power_is_off(),
        };
        if is_right { Ok(()) } else { Err(Trouble::Broken(format!("refused: {error}"))) }
    }

    pub(crate) fn node(&self) -> Result<&Node, String> {
        self.node.as_ref().ok_or_else(|| "no server runs".to_owned())
    }

    pub(crate) fn shards(&self) -> Result<&Arc<Shards>, String> {
        Ok(&self.node()?.shards)
    }

    pub(crate) fn shard(&self) -> Result<Arc<Shard>, String> {
        self.shards()?.home().map_err(|error| error.to_string())
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.ms()
    }

    pub(crate) fn note(&mut self, what: String) {
        let tail = self.node.as_ref().map_or(0, |node| node.log.tail().0);
        let line = format!("{:5} {} {tail:#x} {what}", self.step, self.clock.ms() % 10_000_000_000);
        self.trace.line(line);
    }

    /// One of the queues that exist.
    pub(crate) fn some_queue(&mut self) -> Result<Option<Arc<SharedQueue>>, String> {
        let queues = self.shards()?.catalog().queues();
        if queues.is_empty() {
            return Ok(None);
        }
        let index = self.random.below(queues.len() as u64) as usize;
        Ok(queues.get(index).cloned())
    }

    pub(crate) fn queue_by_id(&self, id: u64) -> Result<Option<Arc<SharedQueue>>, String> {
        Ok(self.shards()?.catalog().queue_by_id(QueueId(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_is_a_failure_that_names_seed_and_step() {
        let world = World::new(7, Output::Silent);

        let failure = run_in(world, 7, |world| {
            world.step = 3;
            panic!("slot {} is free", 5);
        });

        let failure = failure.expect_err("it panicked").to_string();
        assert!(failure.starts_with("seed 7, step 3: panicked: slot 5 is free"), "{failure}");
        assert!(failure.contains("--seed 7 --steps 3"), "{failure}");
    }
}
