//! Move tasks, and the maintenance that runs them and shortens the log.

use std::collections::BTreeMap;

use millrace_broker::{Kind, MoveTask, MoveTaskError, MoveTaskStatus, StartMoveTask};
use millrace_core::QueueKey;

use crate::executor::{Output, Purpose, Task};
use crate::invariants::Seen;
use crate::model::{Change, Message, Model, State};
use crate::oracle::Mark;
use crate::world::{Step, Trouble, World};

/// Tasks of one source that are kept, the oldest are forgotten.
const KEPT_TASKS: usize = 10;

/// Where a moved message came from and where it is now.
struct Found {
    from: u64,
    from_seq: u64,
    to: u64,
    seen: Seen,
}

impl World {
    pub(crate) fn start_or_cancel_move_task(&mut self) -> Step {
        if let Some(task) = self.oracle.live.running_task().cloned() {
            return if self.random.chance(30) { self.cancel(task) } else { Ok(()) };
        }
        let Some(source) = self.some_queue()? else { return Ok(()) };
        let now = self.now();
        self.oracle.live.tick(now);
        let Some(model) = self.oracle.live.queues.get(&source.id().0) else { return Ok(()) };
        let (kind, ready) = (model.kind(), model.ready());
        let start = StartMoveTask {
            source: source.key().clone(),
            destination: self.some_destination(source.id().0, kind),
            max_per_second: self.random.chance(50).then(|| self.random.pick(&[1, 10, 500])),
        };
        let shard = self.shard()?;
        let asked = start.clone();
        let begin = async move {
            Output::Done(
                shard.move_tasks().start(&asked).await.map(drop).map_err(into_broker_error),
            )
        };
        let name = source.key().name.clone();
        self.next_task += 1;
        let purpose = Purpose::Commit { what: "start task", serial: None };
        let mut future = Task::new(self.next_task, purpose, begin);
        if let Some(Output::Done(Err(error))) = future.poll() {
            self.note(format!("start task on {name}: {error}"));
            return self.check_refusal(&error);
        }
        let Some(task) = self.shard()?.move_tasks().of_source(&start.source, 1).pop() else {
            return Err(format!("the task on {name} is not listed").into());
        };
        let is_as_asked = task.to_move == ready
            && task.status == MoveTaskStatus::Running
            && task.destination == start.destination.map(|key| key.to_string());
        if !is_as_asked || self.oracle.live.tasks.contains_key(&task.id) {
            return Err(format!("{ready} ready, started {task:?}").into());
        }
        self.note(format!("start task {task:?}"));
        let serial = Some(self.record(Change::Task(Box::new(task)))?);
        future.purpose = Purpose::Commit { what: "start task", serial };
        self.tasks.push(future);
        Ok(())
    }

    /// Mostly one that there is. None: where the messages came from.
    fn some_destination(&mut self, source: u64, kind: Kind) -> Option<QueueKey> {
        let queues = self.oracle.live.queues.values();
        let others = queues.filter(|other| other.kind() == kind && other.definition.id != source);
        let mut others: Vec<QueueKey> = others.map(|other| other.definition.key()).collect();
        if others.is_empty() {
            return None;
        }
        let chosen = others.swap_remove(self.random.below(others.len() as u64) as usize);
        self.random.chance(60).then_some(chosen)
    }

    fn cancel(&mut self, task: MoveTask) -> Step {
        let shard = self.shard()?;
        let id = task.id.clone();
        let cancel = async move {
            Output::Done(shard.move_tasks().cancel(&id).await.map(drop).map_err(into_broker_error))
        };
        self.next_task += 1;
        let purpose = Purpose::Commit { what: "cancel task", serial: None };
        let mut future = Task::new(self.next_task, purpose, cancel);
        if let Some(Output::Done(Err(error))) = future.poll() {
            self.note(format!("cancel task: {error}"));
            return self.check_refusal(&error);
        }
        self.note(format!("cancel task {}", task.id));
        let cancelled = MoveTask { status: MoveTaskStatus::Cancelled, ..task };
        let serial = Some(self.record(Change::Task(Box::new(cancelled)))?);
        future.purpose = Purpose::Commit { what: "cancel task", serial };
        self.tasks.push(future);
        self.compare_tasks().map_err(Trouble::Broken)
    }

    pub(crate) fn maintain(&mut self) -> Step {
        let node = self.node()?;
        let low = node.log.tail().0;
        let oldest = node.log.segments().first().map(|segment| segment.id);
        node.shards.maintain();
        let mark = Mark::of(&node.log);
        let truncated = node.log.segments().first().map(|segment| segment.id) != oldest;
        self.truncations += u64::from(truncated);
        self.note(format!("maintain, truncated {truncated}"));
        let Some(task) = self.oracle.live.running_task().cloned() else { return Ok(()) };
        self.note_moves(&task, mark)?;
        let source = source_key(&task)?;
        let listed = self.shard()?.move_tasks().of_source(&source, usize::MAX);
        let Some(seen) = listed.into_iter().find(|seen| seen.id == task.id) else {
            return Err(format!("{task:?} is gone").into());
        };
        if seen.status != MoveTaskStatus::Running {
            self.check_end(&seen)?;
            self.note(format!("task ends {seen:?}"));
            let now = self.now();
            self.oracle.record_after(now, low, mark, Change::Task(Box::new(seen)));
        }
        self.compare_tasks().map_err(Trouble::Broken)
    }

    /// Finds out which messages a task moved, by their bodies.
    fn note_moves(&mut self, task: &MoveTask, mark: Mark) -> Step {
        let now = self.now();
        self.oracle.live.tick(now);
        let before = self.oracle.live.clone();
        let mut after = BTreeMap::new();
        for queue in self.shards()?.catalog().queues() {
            after.insert(queue.id().0, self.look_into(&queue)?);
        }
        let mut found = found(&before, &after)?;
        found.sort_by_key(|found| found.seen.end);
        let elapsed_ms = now - task.started_ms;
        let earned = task.max_per_second.map(|rate| {
            // One at once after each start.
            1 + self.restarts + elapsed_ms * u64::from(rate) / 1000
        });
        let most = earned.map_or(100, |earned| earned.saturating_sub(task.moved).min(100));
        if found.len() as u64 > most {
            return Err(format!("{} moved, {most} allowed by {task:?}", found.len()).into());
        }
        for Found { from, from_seq, to, seen } in found {
            let message = self.check_move(&before, task, (from, from_seq), to, &seen)?;
            self.oracle.check_seq(to, message.seq)?;
            self.note(format!("moved {from_seq:#x} to {:#x}", message.seq));
            self.confirmed.take(message.uid, None);
            let (id, message) = (task.id.clone(), Box::new(message));
            let change = Change::TaskMoved { task: id, from, from_seq, to, message };
            self.oracle.record(now, Mark { end: seen.end, ..mark }, change);
        }
        for id in after.keys() {
            self.compare_queue(*id)?;
        }
        Ok(())
    }

    fn check_move(
        &self,
        before: &Model,
        task: &MoveTask,
        (from, from_seq): (u64, u64),
        to: u64,
        seen: &Seen,
    ) -> Result<Message, Trouble> {
        let now = self.now();
        let (Some(source), Some(target)) = (before.queues.get(&from), before.queues.get(&to))
        else {
            return Err("moved between queues that are not there".to_owned().into());
        };
        let message =
            source.messages.get(&from_seq).ok_or("moved what was not there".to_owned())?;
        let source_arn = source.definition.key().to_string();
        let target_arn = target.definition.key().to_string();
        let wanted = task.destination.as_ref().or(message.source.as_ref());
        if source_arn != task.source
            || wanted.is_none_or(|wanted| *wanted != target_arn)
            || message.state != State::Ready
            || message.id == seen.message.id
        {
            return Err(format!("{task:?} moved {message:?} to {target_arn}").into());
        }
        let end = now + u64::from(target.definition.settings.delay_s) * 1000;
        let is_delayed = target.definition.settings.delay_s > 0;
        Ok(Message {
            id: seen.message.id,
            seq: seen.message.seq,
            sent: now,
            kept_from: now,
            state: if is_delayed { State::Delayed(end) } else { State::Ready },
            receive_count: 0,
            first_received: 0,
            last_received: 0,
            was_received: false,
            source: None,
            ..message.clone()
        })
    }

    fn check_end(&self, ended: &MoveTask) -> Step {
        let known = self.oracle.live.tasks.get(&ended.id);
        let is_counted = known.is_some_and(|known| known.moved == ended.moved);
        let source = source_key(ended)?;
        let left = self.oracle.live.by_name(&source.name).map(|queue| queue.receivable().len());
        let is_right = match ended.status {
            MoveTaskStatus::Completed => ended.moved >= ended.to_move || left == Some(0),
            MoveTaskStatus::Failed => ended.failure.is_some(),
            _ => false,
        };
        if is_counted && is_right {
            return Ok(());
        }
        Err(format!("ended {ended:?}, {left:?} left, known as {known:?}").into())
    }

    /// Tasks are what the oracle says, as far as they are listed.
    pub(crate) fn compare_tasks(&mut self) -> Result<(), String> {
        let mut sources: Vec<String> =
            self.oracle.live.tasks.values().map(|task| task.source.clone()).collect();
        sources.sort();
        sources.dedup();
        for arn in sources {
            let Some(key) = millrace_core::Arn::parse(&arn).and_then(|arn| arn.queue()) else {
                return Err(format!("{arn} names no queue"));
            };
            let listed = self.shard()?.move_tasks().of_source(&key, 100);
            let running = self.oracle.live.running_task().filter(|task| task.source == arn);
            if running.is_some_and(|running| listed.iter().all(|task| task.id != running.id)) {
                return Err(format!("tasks of {arn}: {listed:?}, should have {running:?}"));
            }
            if listed.len() > KEPT_TASKS {
                return Err(format!("{} tasks of {arn} are kept", listed.len()));
            }
            for seen in listed {
                let known = self.oracle.live.tasks.get(&seen.id);
                if known != Some(&seen) && !self.oracle.adopt_task(&seen) {
                    let known = self.oracle.live.tasks.get(&seen.id);
                    return Err(format!("task {seen:?}\n  should be {known:?}"));
                }
            }
        }
        self.oracle.end_doubts();
        Ok(())
    }
}

fn source_key(task: &MoveTask) -> Result<QueueKey, String> {
    let arn = millrace_core::Arn::parse(&task.source).and_then(|arn| arn.queue());
    arn.ok_or_else(|| format!("{task:?} has no source"))
}

fn found(before: &Model, after: &BTreeMap<u64, BTreeMap<u64, Seen>>) -> Result<Vec<Found>, String> {
    let mut all = Vec::new();
    for (from, queue) in &before.queues {
        for (from_seq, message) in &queue.messages {
            let is_there = |seq: &u64| after.get(from).is_some_and(|seen| seen.contains_key(seq));
            if is_there(from_seq) {
                continue;
            }
            let mut places = after.iter().flat_map(|(to, seen)| {
                seen.values().filter(|s| s.message.uid == message.uid).map(move |s| (*to, s))
            });
            match (places.next(), places.next()) {
                (Some((to, seen)), None) => {
                    all.push(Found { from: *from, from_seq: *from_seq, to, seen: seen.clone() });
                }
                (None, _) => return Err(format!("a task lost {message:?}")),
                _ => return Err(format!("a task left two of {message:?}")),
            }
        }
    }
    Ok(all)
}

fn into_broker_error(error: MoveTaskError) -> millrace_broker::BrokerError {
    match error {
        MoveTaskError::Broker(error) => error,
        other => millrace_broker::BrokerError::Internal(other.to_string()),
    }
}
