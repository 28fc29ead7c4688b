//! The inside of a [`SimLog`](super::SimLog): what is there, and what is under way.

use std::time::Duration;

use bytes::Bytes;

use super::{Faults, Happened};
use crate::log::{Published, Silence};

/// A message on its way.
struct Proposal {
    expected: u64,
    message: Bytes,
    due: Duration,
    /// It is taken wherever it arrives.
    is_misplaced: bool,
}

pub(super) struct State {
    random: fastrand::Rng,
    pub(super) now: Duration,
    pub(super) faults: Faults,
    pub(super) happened: Happened,
    /// From number 1 on.
    pub(super) messages: Vec<Bytes>,
    pub(super) first: u64,
    /// The beginning before the latest purge, which some readers still show.
    first_before: u64,
    pub(super) room_bytes: u64,
    /// Counted by the leader and not committed, in order.
    proposed: Vec<Proposal>,
    /// Not at the leader yet.
    late: Vec<Proposal>,
    leaderless_until: Duration,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            now: Duration::ZERO,
            faults: Faults::default(),
            happened: Happened::default(),
            messages: Vec::new(),
            first: 1,
            first_before: 1,
            room_bytes: u64::MAX / 2,
            proposed: Vec::new(),
            late: Vec::new(),
            leaderless_until: Duration::ZERO,
        }
    }

    fn last(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) fn message(&self, sequence: u64) -> Option<Bytes> {
        self.messages.get(usize::try_from(sequence).ok()?.checked_sub(1)?).cloned()
    }

    fn roll(&mut self, of_thousand: u16) -> bool {
        of_thousand > 0 && self.random.u16(0..1000) < of_thousand
    }

    fn soon(&mut self, most_ms: u64) -> Duration {
        self.now + Duration::from_millis(self.random.u64(0..most_ms))
    }

    /// Lets time pass, and what is due arrive.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.now < self.leaderless_until {
            return;
        }
        while self.proposed.first().is_some_and(|first| first.due <= self.now) {
            let proposal = self.proposed.remove(0);
            self.commit(proposal.message);
        }
        while let Some(at) = self.late.iter().position(|late| late.due <= self.now) {
            let late = self.late.remove(at);
            if late.expected == self.last() && self.proposed.is_empty() {
                self.commit(late.message);
            } else if late.is_misplaced && self.proposed.is_empty() {
                self.happened.misplaced += 1;
                self.commit(late.message);
            }
        }
    }

    fn commit(&mut self, message: Bytes) {
        self.room_bytes = self.room_bytes.saturating_sub(message.len() as u64);
        self.messages.push(message);
    }

    pub(super) fn elect(&mut self) {
        self.happened.elections += 1;
        self.leaderless_until = self.soon(8000);
        // Of what is proposed a majority has a part, from the front.
        let kept = self.random.usize(0..=self.proposed.len());
        let lost = self.proposed.split_off(kept);
        for proposal in std::mem::take(&mut self.proposed) {
            self.commit(proposal.message);
        }
        for proposal in lost {
            self.happened.dropped += 1;
            if self.random.bool() {
                self.be_late(proposal.expected, &proposal.message);
            }
        }
    }

    fn be_late(&mut self, expected: u64, message: &Bytes) {
        let misplaced = self.faults.misplaced;
        let is_misplaced = self.roll(misplaced);
        let due = self.soon(6000);
        self.late.push(Proposal { expected, message: message.clone(), due, is_misplaced });
    }

    pub(super) fn publish(
        &mut self,
        expected: u64,
        message: &Bytes,
        timeout: Duration,
    ) -> Published {
        let faults = self.faults;
        if self.roll(faults.election) {
            self.elect();
        }
        if self.now < self.leaderless_until {
            return self.silence(timeout, "no leader");
        }
        if self.roll(faults.lost_request) {
            self.happened.lost_requests += 1;
            if self.random.bool() {
                self.be_late(expected, message);
            }
            return self.silence(timeout, "request lost");
        }
        if self.roll(faults.duplicate) {
            self.happened.duplicates += 1;
            self.be_late(expected, message);
        }
        if message.len() as u64 > self.room_bytes {
            return self.silence(Duration::ZERO, "full");
        }
        let answer = if expected != self.last() + self.proposed.len() as u64 {
            if self.proposed.is_empty() && self.roll(faults.misplaced / 4) {
                self.happened.misplaced += 1;
                self.commit(message.clone());
                return Published::At(self.last());
            }
            self.happened.refused_for_proposals += u64::from(expected == self.last());
            Published::Refused
        } else if self.roll(faults.slow_commit) || !self.proposed.is_empty() {
            self.happened.slow_commits += 1;
            let due = self.soon(3000);
            let message = message.clone();
            self.proposed.push(Proposal { expected, message, due, is_misplaced: false });
            return self.silence(timeout, "not committed yet");
        } else {
            self.commit(message.clone());
            Published::At(self.last())
        };
        if self.roll(faults.lost_answer) {
            self.happened.lost_answers += 1;
            return self.silence(timeout, "answer lost");
        }
        answer
    }

    fn silence(&mut self, timeout: Duration, reason: &str) -> Published {
        self.pass(timeout);
        Published::Silent(Silence(reason.into()))
    }

    pub(super) fn may_be_silent(&mut self, timeout: Duration) -> Result<(), Silence> {
        let lost_answer = self.faults.lost_answer;
        if self.roll(lost_answer) {
            self.pass(timeout);
            return Err(Silence("answer lost".into()));
        }
        Ok(())
    }

    /// The numbers of the first and the last message, as some reader shows them.
    pub(super) fn shown(&mut self) -> (u64, u64) {
        let lag = self.faults.lag;
        let mut first = self.first;
        if self.first_before < first && self.roll(lag) {
            self.happened.purges_under_way += 1;
            first = self.first_before;
        }
        let mut last = self.last();
        if self.roll(lag) {
            self.happened.lags += 1;
            last = last.saturating_sub(self.random.u64(1..5)).max(first - 1);
        }
        (first, last)
    }

    pub(super) fn purge_before(&mut self, sequence: u64) {
        let sequence = sequence.min(self.last() + 1);
        if sequence > self.first {
            self.first_before = std::mem::replace(&mut self.first, sequence);
            let gone = self.first_before..self.first;
            let bytes: usize = gone.filter_map(|gone| self.message(gone)).map(|it| it.len()).sum();
            self.room_bytes = self.room_bytes.saturating_add(bytes as u64);
        }
    }
}
