//! Receives, by a look at the queue or by a poll's future: found out, checked, told to the oracle.

use millrace_broker::{BrokerError, Kind, SharedQueue};
use millrace_engine::{Receive, Received};

use crate::invariants::{self, Bounds, Receipt, check_receive};
use crate::model::{Change, QueueModel};
use crate::oracle::{Mark, Serial};
use crate::world::{Step, Trouble, World};

/// What a receive was asked, for the oracle.
#[derive(Clone, Debug)]
pub struct Asked {
    pub queue: u64,
    pub max: usize,
    pub visibility_timeout_s: Option<u32>,
    pub attempt: Option<String>,
    /// The poll that asks. None: a look at the queue, without an answer.
    pub poll: Option<u64>,
}

impl Asked {
    /// Until when what is received now is hidden.
    fn deadline(&self, queue: &QueueModel, now: u64) -> u64 {
        let default_s = queue.definition.settings.visibility_timeout_s;
        now + u64::from(self.visibility_timeout_s.unwrap_or(default_s)) * 1000
    }
}

/// What a receive took.
pub(crate) struct Taken {
    pub seqs: Vec<u64>,
    pub is_repeat: bool,
    pub serial: Serial,
}

/// How a receive ended, as far as the oracle must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Given,
    Nothing,
    Refused,
}

impl World {
    pub(crate) fn receive(&mut self) -> Step {
        let Some(queue) = self.some_queue()? else { return Ok(()) };
        let asked = self.question(&queue, "t");
        let receive = Receive {
            max: asked.max,
            visibility_timeout_s: asked.visibility_timeout_s,
            // Any injective number does: the broker hashes the texts of its own callers.
            attempt: asked.attempt.as_ref().map(|text| u128::from(text.as_bytes()[1])),
            in_flight_limit: self.profile.in_flight_limit,
        };
        let before = self.before(&asked);
        let received = queue.try_receive(&receive);
        let mark = self.mark()?;
        let name = queue.key().name.clone();
        match received {
            Ok(Some((received, ticket))) => {
                if ticket != mark.ticket {
                    return Err(format!("receive: {ticket:?}, should be {mark:?}").into());
                }
                let taken = self.note_receive(&asked, before, (Answer::Given, mark))?;
                let seqs: Vec<u64> = received.deliveries.iter().map(|d| d.at.seq).collect();
                self.note(format!("receive {} from {name}: {seqs:x?}", asked.max));
                self.check_received(&queue, &received, taken.as_ref())?;
                self.hold(&queue, &received)
            }
            Ok(None) | Err(BrokerError::OverLimit) => {
                let taken = self.note_receive(&asked, before, (Answer::Nothing, mark))?;
                self.note(format!("receive {} from {name}: none", asked.max));
                match taken.filter(|taken| !taken.seqs.is_empty()) {
                    Some(taken) => Err(format!("took {:x?} silently", taken.seqs).into()),
                    None => Ok(()),
                }
            }
            Err(error) => {
                self.note(format!("receive {} from {name}: {error}", asked.max));
                self.check_refusal(&error)?;
                self.note_receive(&asked, before, (Answer::Refused, mark)).map(drop)
            }
        }
    }

    /// A receive of that queue; attempt ids begin with `prefix`.
    pub(crate) fn question(&mut self, queue: &SharedQueue, prefix: &str) -> Asked {
        let is_fifo = queue.kind() == Kind::Fifo;
        let has_attempt = is_fifo && self.random.chance(40);
        Asked {
            queue: queue.id().0,
            max: self.random.pick(&[1, 1, 3, 10]),
            visibility_timeout_s: self
                .random
                .chance(50)
                .then(|| self.random.pick(&[0, 1, 10, 60, 43_200])),
            attempt: has_attempt.then(|| format!("{prefix}{}", self.random.below(3))),
            poll: None,
        }
    }

    /// The queue as it is before a receive.
    pub(crate) fn before(&mut self, asked: &Asked) -> Option<QueueModel> {
        let now = self.now();
        self.oracle.live.tick(now);
        self.oracle.live.queues.get(&asked.queue).cloned()
    }

    /// Finds out what a receive did, checks it, and tells the oracle. `None`: nothing.
    pub(crate) fn note_receive(
        &mut self,
        asked: &Asked,
        before: Option<QueueModel>,
        (answer, mark): (Answer, Mark),
    ) -> Result<Option<Taken>, Trouble> {
        let (id, now) = (asked.queue, self.now());
        let (Some(before), Some(queue)) = (before, self.queue_by_id(id)?) else { return Ok(None) };
        if answer == Answer::Given
            && let Some(seqs) = self.oracle.repeated(now, asked)
        {
            return self.note_repeat(asked, &before, seqs, mark).map(Some);
        }
        let redrive = before.definition.settings.redrive.clone();
        let target = redrive
            .as_ref()
            .and_then(|redrive| self.oracle.live.by_name(&redrive.name))
            .filter(|target| target.definition.id != id)
            .cloned();
        let after = self.look_into(&queue)?;
        let shared = match &target {
            Some(target) => self.queue_by_id(target.definition.id)?,
            None => None,
        };
        let dead_after = shared.map(|shared| self.look_into(&shared)).transpose()?;
        let dead = target.as_ref().zip(dead_after.as_ref());
        let receipt = invariants::receipt(now, &before, &after, dead)?;
        let bounds = Bounds {
            max: asked.max,
            in_flight_limit: self.profile.in_flight_limit,
            may_stop_early: redrive.is_some(),
            max_receive_count: redrive.filter(|_| target.is_some()).map(|r| r.max_receive_count),
        };
        if answer != Answer::Refused {
            check_receive(&before, bounds, &receipt)?;
        }
        let to = target.map_or(0, |target| target.definition.id);
        self.note_receipt(asked, &before, receipt, (to, mark))
    }

    /// The attempt's messages again, hidden anew.
    fn note_repeat(
        &mut self,
        asked: &Asked,
        before: &QueueModel,
        seqs: Vec<u64>,
        mark: Mark,
    ) -> Result<Taken, Trouble> {
        let (id, now) = (asked.queue, self.now());
        let deadline = asked.deadline(before, now);
        let changes = seqs.iter().map(|seq| (*seq, deadline)).collect();
        let serial = self.oracle.record(now, mark, Change::Visibility { queue: id, changes });
        self.oracle.remember(now, id, asked.attempt.as_deref(), &seqs);
        self.note_taken(before, &seqs, asked.poll);
        self.compare_queue(id)?;
        Ok(Taken { seqs, is_repeat: true, serial })
    }

    fn note_receipt(
        &mut self,
        asked: &Asked,
        before: &QueueModel,
        receipt: Receipt,
        (to, mark): (u64, Mark),
    ) -> Result<Option<Taken>, Trouble> {
        let (id, now) = (asked.queue, self.now());
        let Receipt { deadline, seqs, moved } = receipt;
        if seqs.is_empty() && moved.is_empty() {
            self.compare_queue(id)?;
            return Ok(None);
        }
        let wanted = asked.deadline(before, now);
        if !seqs.is_empty() && deadline != wanted {
            return Err(format!("hidden until {deadline}, should be {wanted}").into());
        }
        let seen = moved.iter().map(|step| step.to).filter(|seq| seq & invariants::UNSEEN == 0);
        let mut new_seqs: Vec<u64> = seen.collect();
        new_seqs.sort_unstable();
        for seq in new_seqs {
            self.oracle.check_seq(to, seq)?;
        }
        let moved_seqs: Vec<u64> = moved.iter().map(|step| step.from).collect();
        self.note_taken(before, &moved_seqs, None);
        self.note_taken(before, &seqs, asked.poll);
        let change = Change::Received { queue: id, deadline, seqs: seqs.clone(), to, moved };
        let serial = self.oracle.record(now, mark, change);
        self.oracle.remember(now, id, asked.attempt.as_deref(), &seqs);
        self.compare_queue(id)?;
        self.compare_queue(to)?;
        Ok(Some(Taken { seqs, is_repeat: false, serial }))
    }

    fn note_taken(&mut self, before: &QueueModel, seqs: &[u64], poll: Option<u64>) {
        for message in seqs.iter().filter_map(|seq| before.messages.get(seq)) {
            self.confirmed.take(message.uid, poll);
        }
    }

    /// What the answer says is what happened, and in order.
    fn check_received(
        &self,
        queue: &SharedQueue,
        received: &Received,
        taken: Option<&Taken>,
    ) -> Step {
        let is_repeat = taken.is_some_and(|taken| taken.is_repeat);
        let mut taken: Vec<u64> = taken.map(|taken| taken.seqs.clone()).unwrap_or_default();
        let seqs: Vec<u64> = received.deliveries.iter().map(|d| d.at.seq).collect();
        let mut sorted = seqs.clone();
        sorted.sort_unstable();
        taken.sort_unstable();
        if sorted != taken || received.is_repeated != is_repeat {
            return Err(format!("delivered {received:?}, took {taken:x?}").into());
        }
        let model = self.oracle.live.queues.get(&queue.id().0);
        for delivery in &received.deliveries {
            let message = model.and_then(|model| model.messages.get(&delivery.at.seq));
            if message.is_none_or(|message| message.receive_count != delivery.receive_count) {
                return Err(format!("delivered {delivery:?}, is {message:?}").into());
            }
        }
        Ok(invariants::check_order(queue.kind(), received.deliveries.iter())?)
    }

    fn hold(&mut self, queue: &SharedQueue, received: &Received) -> Step {
        let client = self.random.below(self.clients.len() as u64) as usize;
        for delivery in &received.deliveries {
            let text = queue.receipt_handle(delivery);
            self.keep_handle(client, queue.id().0, text, None)?;
        }
        Ok(())
    }
}
