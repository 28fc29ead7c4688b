//! What machines do: refuse, fail, lose power, restart. And how a run ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{Handle, Kind, OpenShard, Options, Shard, Shards, SharedQueue};
use millrace_core::{Clock as _, ShardId};
use millrace_engine::{Delivery, Replay};
use millrace_journal::{
    Durability, Fault, GroupCommit, GroupOptions, JournalStore, LocalOptions, LocalStore,
    OpenError, Owner,
};

use crate::executor::Purpose;
use crate::model::Change;
use crate::random::Random;
use crate::world::{DIR, Node, Step, Trouble, World};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The machine loses power: what was not synced is lost or torn.
    PowerLoss,
    /// The process is killed: what was written stays, synced or not.
    Kill,
    /// It is told to end.
    Close,
}

impl World {
    /// A call to the disk will fail soon, or space runs out.
    pub(crate) fn inject(&mut self) -> Step {
        let soon = self.fs.calls() + self.random.below(12);
        match if self.may_fail() { self.random.below(4) } else { 3 } {
            0..=2 if self.profile.is_short_of_space => self.fail_several(soon, Fault::NoSpace),
            0 => self.fs.fail_call(soon, Fault::Io),
            1 => self.fs.fail_call(soon, Fault::PowerLoss),
            2 => self.fs.fail_call(soon, Fault::NoSpace),
            _ if self.is_full => return self.free_space(),
            _ => {
                let room = self.random.below(3 * u64::from(self.profile.segment_bytes));
                self.fs.set_capacity(self.fs.used_bytes() + room);
                self.is_full = true;
                self.note(format!("disk has {room} bytes left"));
                return Ok(());
            }
        }
        self.is_faulty = true;
        self.note(format!("call {soon} will fail"));
        Ok(())
    }

    /// Fails that call, and each of the next ones as often as not.
    fn fail_several(&mut self, call: u64, fault: Fault) {
        self.fs.fail_call(call, fault);
        for next in 1..=self.random.below(8) {
            if self.random.chance(50) {
                self.fs.fail_call(call + next, fault);
            }
        }
    }

    /// Whether power and disk may fail. What was answered with `Os` outlives the process, but
    /// neither the machine nor a failed sync.
    fn may_fail(&self) -> bool {
        self.profile.durability == Durability::Fsync
    }

    fn free_space(&mut self) -> Step {
        self.fs.set_capacity(u64::MAX);
        // The journal asks a full disk once a second.
        self.advance(Duration::from_millis(1001));
        self.is_full = false;
        self.note("disk has space".to_owned());
        Ok(())
    }

    pub(crate) fn lose_power(&mut self) -> Result<(), String> {
        self.restart(End::PowerLoss)
    }

    pub(crate) fn restart_somehow(&mut self) -> Step {
        let end = match self.random.below(5) {
            _ if self.power_is_off() => End::PowerLoss,
            0..=1 if self.may_fail() => End::PowerLoss,
            0..=1 => End::Kill,
            2..=3 => End::Kill,
            _ => End::Close,
        };
        self.restart(end).map_err(Trouble::Broken)
    }

    fn restart(&mut self, mut end: End) -> Result<(), String> {
        self.note(format!("{end:?}"));
        if end == End::Close {
            match self.close() {
                Ok(()) => {}
                Err(Trouble::Broken(text)) => return Err(text),
                Err(Trouble::PowerIsOff) => end = End::PowerLoss,
            }
        }
        self.stop(end);
        self.restarts += 1;
        if self.random.chance(20) {
            self.profile.segment_bytes = self.random.pick(&[16 << 10, 32 << 10, 64 << 10]);
        }
        // Starts that are cut short, too.
        if self.may_fail() && self.random.chance(15) {
            let call = self.fs.calls() + self.random.below(8);
            let fault = self.random.pick(&[Fault::Io, Fault::PowerLoss]);
            if self.profile.is_short_of_space {
                self.fail_several(call, Fault::NoSpace);
            } else {
                self.fs.fail_call(call, fault);
            }
            if self.start_with_fault()? {
                return self.compare_all();
            }
            let end = if self.power_is_off() { End::PowerLoss } else { End::Kill };
            self.note(format!("start failed, {end:?}"));
            self.stop(end);
        }
        self.start()?;
        self.compare_all()
    }

    /// Drains, as a server does that is told to end.
    fn close(&mut self) -> Step {
        self.is_closing = true;
        let closed = self.close_shards();
        self.is_closing = false;
        closed
    }

    fn close_shards(&mut self) -> Step {
        self.shards()?.drain();
        self.poll_all()?;
        self.shards()?.close();
        self.after_commit();
        self.poll_all()?;
        let is_poisoned = self.node()?.log.ended().is_some();
        if !is_poisoned && self.oracle.pending() > 0 {
            return Err(format!("{} changes left by a close", self.oracle.pending()).into());
        }
        match self.tasks.first() {
            Some(task) if !is_poisoned => {
                Err(format!("future {} is left by a close", task.number).into())
            }
            _ => Ok(()),
        }
    }

    fn stop(&mut self, end: End) {
        // What the dying process still does to its memory must reach no disk.
        let crashed = (end == End::PowerLoss).then(|| self.fs.crashed(self.random.bits()));
        self.tasks.clear();
        self.node = None;
        self.fs = match crashed {
            Some(crashed) => crashed,
            None => self.fs.killed(),
        };
        if self.profile.refuses_direct {
            self.fs.refuse_direct();
        }
        self.is_faulty = false;
    }

    pub(crate) fn start(&mut self) -> Result<(), String> {
        match self.open()? {
            Ok(()) => return Ok(()),
            // Every start takes a little space.
            Err(error) if self.is_full => self.note(format!("start on a full disk: {error:?}")),
            Err(error) => return Err(format!("start: {error:?}")),
        }
        self.fs.set_capacity(u64::MAX);
        self.is_full = false;
        self.node = None;
        self.fs = self.fs.killed();
        self.open()?.map_err(|error| format!("start: {error:?}"))
    }

    /// False: the fault kept it from starting. If it started, the fault may still come.
    fn start_with_fault(&mut self) -> Result<bool, String> {
        let opened = self.open()?.is_ok();
        self.is_faulty = true;
        Ok(opened)
    }

    fn open(&mut self) -> Result<Result<(), OpenError>, String> {
        let mut replay = Replay::default();
        let (mut end, mut broken) = (0, None);
        let mut visit = |replayed: millrace_journal::Replayed<'_>| {
            let position = replayed.position.0;
            if position < end {
                broken = Some(format!("record at {position:#x} shown after {end:#x}"));
            }
            end = position + u64::from(replayed.record_len);
            if let Err(error) = replay.apply(replayed.index, position, replayed.record_len) {
                broken = Some(format!("{error:?}"));
            }
        };
        let options = LocalOptions {
            durability: self.profile.durability,
            segment_bytes: self.profile.segment_bytes,
            unindexed_segments: self.profile.unindexed_segments,
        };
        let fs = Arc::new(self.fs.clone());
        let store = LocalStore::new(fs, Path::new(DIR), options);
        let unowned = match store.recover(&mut visit) {
            Ok(unowned) => unowned,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(broken) = broken {
            return Err(broken);
        }
        // No two of a log are alike.
        let owner = Owner::unnamed(unowned.end().chain.epoch.0.into());
        let journal = match unowned.start_epoch(&owner) {
            Ok(journal) => journal,
            Err(error) => return Ok(Err(error)),
        };
        let opened = journal.opened();
        replay.recover_definitions("us-east-1", "000000000000");
        let first_seq = Shard::first_seq(ShardId(0), opened.epoch.0);
        let finished = replay.finish(first_seq.map_err(|error| error.to_string())?);
        if let Some(lost) = finished.queues.iter().find(|queue| queue.position.is_none()) {
            return Err(format!("messages without a queue: {lost:?}"));
        }
        if finished.latest > self.clock.now() {
            return Err(format!("a record is of the future: {:?}", finished.latest));
        }
        let group = GroupOptions {
            group_bytes: self.profile.group_bytes,
            recent_bytes: self.profile.recent_bytes,
            ..GroupOptions::default()
        };
        let log = GroupCommit::new(journal, group);
        let options = Options {
            in_flight_limit: self.profile.in_flight_limit,
            purge_cool_down: self.profile.has_purge_cool_down,
            slack_bytes: self.profile.slack_bytes,
        };
        let mut random = Random::new(self.random.bits());
        let random = Box::new(move || random.wide_bits());
        let open = OpenShard {
            id: ShardId(0),
            log: Arc::clone(&log),
            options,
            replayed: finished,
            random,
        };
        let shards = Shards::of_one(self.clock.clone(), open);
        let shards = shards.map_err(|error| format!("shard: {error}"))?;
        self.node = Some(Node { log, shards });
        let now = self.now();
        self.oracle.restart(now, end)?;
        self.confirmed.restart();
        let torn = opened.torn_tail.map(|torn| (torn.segment.0, torn.offset));
        self.note(format!("started epoch {}, replayed to {end:#x}, torn {torn:?}", opened.epoch.0));
        Ok(Ok(()))
    }

    /// The end of every run: faults stop, everything settles, is drained, and the log is short.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        self.note("the run ends".to_owned());
        self.free_space().map_err(plain)?;
        self.restart(if self.power_is_off() { End::PowerLoss } else { End::Kill })?;
        if self.is_faulty {
            self.restart_until_sound()?;
        }
        self.quiesce()?;
        for queue in self.shards()?.catalog().queues() {
            self.drain(&queue).map_err(plain)?;
        }
        // Remembered sends are forgotten.
        self.advance(Duration::from_secs(301));
        for _ in 0..200 {
            let node = self.node()?;
            node.shards.run_due();
            self.maintain().map_err(plain)?;
            let node = self.node()?;
            while node.log.commit_step() {}
            while node.log.background_step() {}
            self.after_commit();
        }
        self.after_commit();
        self.check_log_is_short()?;
        self.compare_all()?;
        self.restart(End::Close)?;
        self.compare_all()
    }

    fn restart_until_sound(&mut self) -> Result<(), String> {
        while self.is_faulty {
            let end = if self.power_is_off() { End::PowerLoss } else { End::Kill };
            self.restart(end)?;
        }
        Ok(())
    }

    /// Commits all, lets time pass, and sees every future resolve.
    fn quiesce(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            while self.node()?.log.commit_step() {}
            self.after_commit();
            self.settle().map_err(plain)?;
            self.advance(Duration::from_secs(21));
        }
        while self.node()?.log.commit_step() {}
        self.after_commit();
        self.settle().map_err(plain)?;
        let left = self.tasks.iter().find(|task| matches!(task.purpose, Purpose::Commit { .. }));
        match left {
            Some(task) => Err(format!("future {} never resolves", task.number)),
            None => self.compare_all(),
        }
    }

    /// Takes everything out of a queue: by handles where any handle does, else by deleting it.
    fn drain(&mut self, queue: &SharedQueue) -> Step {
        let id = queue.id().0;
        let shards = Arc::clone(self.shards()?);
        if queue.kind() == Kind::Fifo {
            let mut future = std::pin::pin!(shards.catalog().delete_queue(queue));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            if let std::task::Poll::Ready(Err(error)) = future.as_mut().poll(&mut context) {
                return Err(format!("drain: {error}").into());
            }
            self.record(Change::QueueDeleted { queue: id })?;
            return Ok(());
        }
        queue.count_messages();
        let peeked = queue.browser().peek(usize::MAX).map_err(|error| error.to_string())?;
        for chunk in peeked.chunks(10) {
            let handles: Vec<Handle> =
                chunk.iter().map(|m| handle_of(queue, &m.delivery)).collect();
            let outcome = queue.begin_delete(&handles);
            outcome.map_err(|error| format!("drain: {error}"))?;
            let seqs = handles.iter().map(|handle| handle.seq).collect();
            self.record(Change::Deleted { queue: id, seqs })?;
            while self.node()?.log.commit_step() {}
        }
        self.compare_queue(id)
    }

    /// With nothing left but definitions, the log is a few segments.
    fn check_log_is_short(&mut self) -> Result<(), String> {
        let segments = self.node()?.log.segments();
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let used = self.fs.used_bytes();
        // What is appended again may fill a segment and begin the next; one spare stands ready.
        let largest = 64 << 10;
        if segments.len() > 3 || used > 6 * largest {
            return Err(format!(
                "{} segments with {bytes} bytes after the drain, {used} on disk",
                segments.len()
            ));
        }
        Ok(())
    }
}

fn plain(trouble: Trouble) -> String {
    match trouble {
        Trouble::Broken(text) => text,
        Trouble::PowerIsOff => "power is off".to_owned(),
    }
}

fn handle_of(queue: &SharedQueue, delivery: &Delivery) -> Handle {
    Handle {
        queue: queue.id(),
        seq: delivery.at.seq,
        slot: delivery.at.slot,
        receive_count: delivery.receive_count,
    }
}
