//! Long polls and other futures: started, polled when woken, dropped when their client vanishes.

use std::sync::Arc;
use std::time::Duration;

use millrace_broker::{BrokerError, Incoming, Kind, ReceiveRequest};
use millrace_journal::Unavailable;

use crate::draft::uid_of;
use crate::executor::{LongPoll, Output, Purpose, Task};
use crate::invariants::check_order;
use crate::model::{Change, QueueModel, State};
use crate::oracle::Mark;
use crate::receives::{Answer, Asked};
use crate::world::{Given, Step, World};

const PARKED_POLLS: usize = 12;
/// More than what any poll may set off.
const SETTLE_ROUNDS: usize = 8;
/// What a receive reserves in the journal, about.
const RECEIVE_BYTES: usize = 4 << 10;

impl World {
    pub(crate) fn start_long_poll(&mut self) -> Step {
        let Some(queue) = self.some_queue()? else { return Ok(()) };
        if self.tasks.len() > PARKED_POLLS {
            return Ok(());
        }
        self.next_task += 1;
        let asked = Asked { poll: Some(self.next_task), ..self.question(&queue, "p") };
        let wait_s = self.random.pick(&[1, 5, 20]);
        let poll = LongPoll::new(&asked, self.now() + wait_s * 1000);
        let shared = Arc::clone(&queue);
        let receive = async move {
            let request = ReceiveRequest {
                max: asked.max,
                visibility_timeout_s: asked.visibility_timeout_s,
                wait_time_s: Some(wait_s as u32),
                attempt_id: asked.attempt.as_deref(),
            };
            Output::Received(shared.receive(&request).await)
        };
        self.note(format!("poll {} of {} begins", self.next_task, queue.key().name));
        self.tasks.push(Task::new(self.next_task, Purpose::LongPoll(poll), receive));
        self.poll_task(self.tasks.len() - 1)
    }

    /// The client of a long poll is gone.
    pub(crate) fn drop_long_poll(&mut self) -> Step {
        // Those that hold something are the interesting ones.
        let must_hold = self.random.chance(60);
        let is_chosen = |task: &&Task| match &task.purpose {
            Purpose::LongPoll(poll) => poll.taken.is_some() || !must_hold,
            Purpose::Commit { .. } => false,
        };
        let polls: Vec<u64> = self.tasks.iter().filter(is_chosen).map(|task| task.number).collect();
        if polls.is_empty() {
            return Ok(());
        }
        let number = self.random.pick(&polls);
        let Some(at) = self.tasks.iter().position(|task| task.number == number) else {
            return Ok(());
        };
        let task = self.tasks.remove(at);
        let Purpose::LongPoll(poll) = task.purpose.clone() else { return Ok(()) };
        let can_return = self.can_return(&poll)?;
        drop(task);
        let mark = self.mark()?;
        self.note(format!("poll {number} is dropped, took {:x?}", poll.taken));
        self.note_return(&poll, can_return, mark)?;
        // Now, before anything else may hide that nobody was told.
        if self.random.chance(30) { self.settle() } else { Ok(()) }
    }

    /// Whether the journal would take the return of what a poll took.
    fn can_return(&self, poll: &LongPoll) -> Result<bool, String> {
        let taken = poll.taken.as_ref().map_or(0, Vec::len);
        let log = &self.node()?.log;
        Ok(log.reserve(64 + 12 * taken, millrace_journal::Purpose::Reclaim).is_ok())
    }

    /// What a poll took and did not hand over goes back at once, unless it is another's by now.
    fn note_return(&mut self, poll: &LongPoll, can_return: bool, mark: Mark) -> Step {
        let (id, now) = (poll.asked.queue, self.now());
        let (Some(taken), Some(queue)) = (&poll.taken, self.queue_by_id(id)?) else {
            return Ok(());
        };
        self.oracle.live.tick(now);
        let Some(model) = self.oracle.live.queues.get(&id) else { return Ok(()) };
        let seen = self.look_into(&queue)?;
        let mut returned = Vec::new();
        for (seq, count) in taken {
            let (Some(message), Some(seen)) = (model.messages.get(seq), seen.get(seq)) else {
                continue;
            };
            // What a named attempt got waits for its repetition.
            let is_ours = poll.asked.attempt.is_none() && message.receive_count == *count;
            if seen.message.receive_count + 1 == message.receive_count {
                if !is_ours || seen.message.state != State::Ready {
                    return Err(format!("given back: {:?}, was {message:?}", seen.message).into());
                }
                returned.push(*seq);
            } else if is_ours && message.is_in_flight() && can_return {
                return Err(format!("not given back: {message:?}").into());
            }
        }
        if !returned.is_empty() {
            self.oracle.record(now, mark, Change::Returned { queue: id, seqs: returned });
        }
        self.compare_queue(id)
    }

    /// Polls one future that was woken.
    pub(crate) fn poll_some(&mut self) -> Step {
        let woken: Vec<usize> = (0..self.tasks.len())
            .filter(|at| self.tasks.get(*at).is_some_and(Task::is_woken))
            .collect();
        if woken.is_empty() {
            return Ok(());
        }
        let at = self.random.pick(&woken);
        self.poll_task(at)
    }

    pub(crate) fn poll_task(&mut self, at: usize) -> Step {
        let mut task = self.tasks.remove(at);
        match task.purpose.clone() {
            Purpose::Commit { what, serial } => {
                let Some(output) = task.poll() else {
                    self.tasks.insert(at, task);
                    return Ok(());
                };
                self.note(format!("{what} resolves"));
                self.after_commit();
                match output {
                    Output::Done(Ok(())) if serial.is_none_or(|s| self.oracle.is_committed(s)) => {
                        Ok(())
                    }
                    Output::Done(Err(error)) => self.check_refusal(&error),
                    other => Err(format!("{what} resolved before its commit: {other:?}").into()),
                }
            }
            Purpose::LongPoll(poll) => self.poll_receive(at, task, poll),
        }
    }

    fn poll_receive(&mut self, at: usize, mut task: Task, mut poll: LongPoll) -> Step {
        let asked = poll.asked.clone();
        let was_waiting = poll.taken.is_none();
        let before = self.before(&asked);
        let output = task.poll();
        let mark = self.mark()?;
        self.after_commit();
        if was_waiting {
            let answer = self.answer_of(before.as_ref(), output.as_ref());
            let taken = self.note_receive(&asked, before, (answer, mark))?;
            if let Some(taken) = taken.filter(|taken| !taken.seqs.is_empty()) {
                poll.serial = Some(taken.serial);
                let model = self.oracle.live.queues.get(&poll.asked.queue);
                let count =
                    |seq: &u64| model.and_then(|m| m.messages.get(seq)).map(|m| m.receive_count);
                let counted = taken.seqs.iter().map(|seq| (*seq, count(seq).unwrap_or_default()));
                poll.taken = Some(counted.collect());
            }
        }
        let number = task.number;
        let Some(output) = output else {
            self.note(format!("poll {number} is pending, took {:x?}", poll.taken));
            task.purpose = Purpose::LongPoll(poll);
            self.tasks.insert(at, task);
            return Ok(());
        };
        drop(task);
        match output {
            Output::Received(Ok(incoming)) => self.check_incoming(number, &poll, &incoming),
            Output::Received(Err(error)) => {
                self.note(format!("poll {number}: {error}"));
                let is_deleted = self.queue_by_id(poll.asked.queue)?.is_none();
                if !(is_deleted && matches!(error, BrokerError::QueueDoesNotExist)) {
                    self.check_refusal(&error)?;
                }
                let can_return = self.can_return(&poll)?;
                self.note_return(&poll, can_return, mark)
            }
            Output::Done(_) => Err("a poll resolved to nothing".to_owned().into()),
        }
    }

    /// How a poll that waited in line until now has ended, if it has.
    fn answer_of(&self, before: Option<&QueueModel>, output: Option<&Output>) -> Answer {
        let is_given = before.is_some_and(|model| match output {
            // Of a FIFO queue: it waits for its commit, if it does not wait in line.
            None => model.kind() == Kind::Fifo && self.awaits_commit(),
            Some(Output::Received(Ok(incoming))) => !incoming.is_empty(),
            Some(_) => false,
        });
        match output {
            Some(Output::Received(Err(_))) => Answer::Refused,
            _ if is_given => Answer::Given,
            _ => Answer::Nothing,
        }
    }

    /// Whether there is anything that a commit would settle.
    fn awaits_commit(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.log.outcome(node.log.latest()).is_none())
    }

    fn check_incoming(&mut self, number: u64, poll: &LongPoll, incoming: &[Incoming]) -> Step {
        let seqs: Vec<u64> = incoming.iter().map(|message| message.delivery.at.seq).collect();
        self.note(format!("poll {number}: {seqs:x?}"));
        let Some(taken) = &poll.taken else {
            let is_early = self.now() < poll.until && !self.is_closing;
            if !incoming.is_empty() || is_early {
                return Err(format!("poll {number} took nothing and got {seqs:x?}").into());
            }
            return Ok(());
        };
        let id = poll.asked.queue;
        let Some(model) = self.oracle.live.queues.get(&id) else { return Ok(()) };
        if model.kind() == Kind::Fifo && !poll.serial.is_none_or(|s| self.oracle.is_committed(s)) {
            return Err(format!("poll {number} resolved before its commit").into());
        }
        for (seq, _) in taken {
            if !seqs.contains(seq) && model.messages.contains_key(seq) {
                return Err(self.blame(format!("poll {number} took {seq:#x} and got {seqs:x?}")));
            }
        }
        check_order(model.kind(), incoming.iter().map(|message| &message.delivery))?;
        let client = self.random.below(self.clients.len() as u64) as usize;
        for message in incoming {
            let delivery = &message.delivery;
            let body = String::from_utf8_lossy(message.content.body());
            let model = self.oracle.live.queues.get(&id);
            let known = model.and_then(|model| model.messages.get(&delivery.at.seq));
            let is_it = known.is_none_or(|known| {
                Some(known.uid) == uid_of(&body)
                    && known.body_bytes == body.len()
                    && known.id == message.id
                    && known.receive_count >= delivery.receive_count
            });
            if !taken.contains(&(delivery.at.seq, delivery.receive_count)) || !is_it {
                return Err(format!("poll {number} got {delivery:?}, is {known:?}").into());
            }
            let given = uid_of(&body).map(|uid| Given { poll: number, uid });
            self.keep_handle(client, id, message.receipt_handle.clone(), given)?;
        }
        Ok(())
    }

    pub(crate) fn poll_all(&mut self) -> Step {
        while let Some(at) = self.tasks.iter().position(Task::is_woken) {
            self.poll_task(at)?;
        }
        Ok(())
    }

    /// Polls all that are woken until nobody is, after which nobody may wait for what is there.
    pub(crate) fn settle(&mut self) -> Step {
        let mut sleeper = None;
        for _ in 0..SETTLE_ROUNDS {
            self.shards()?.run_due();
            while self.tasks.iter().any(Task::is_woken) {
                self.poll_all()?;
                self.shards()?.run_due();
            }
            sleeper = self.sleeper();
            // A long poll that is not woken for what it would be refused waits rightly.
            let is_refused = {
                let purpose = millrace_journal::Purpose::Lease;
                let probe = self.node()?.log.reserve(RECEIVE_BYTES, purpose);
                matches!(probe, Err(Unavailable::Backlog { .. }))
            };
            if sleeper.is_none() || is_refused {
                self.note("settled".to_owned());
                return Ok(());
            }
            // What was received for no time at all is due again a moment later.
            self.advance(Duration::from_millis(2));
        }
        Err(sleeper.unwrap_or_default().into())
    }

    /// A long poll that waits in vain: past its time, or for what it could have.
    fn sleeper(&mut self) -> Option<String> {
        let now = self.now();
        self.oracle.live.tick(now);
        for task in &self.tasks {
            let Purpose::LongPoll(poll) = &task.purpose else { continue };
            if poll.taken.is_some() {
                continue;
            }
            if poll.until <= now {
                return Some(format!("poll {} waits past its time", task.number));
            }
            let Some(model) = self.oracle.live.queues.get(&poll.asked.queue) else { continue };
            let has_room = model.in_flight() < self.profile.in_flight_limit;
            if has_room && let Some(seq) = model.receivable().first() {
                let name = &model.definition.name;
                return Some(format!("poll {} sleeps, {name} has {seq:#x}", task.number));
            }
        }
        None
    }
}
