//! Appends to a log that answers as it likes, one fault at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_journal::frame::{Chain, Frame, FrameKind};
use millrace_journal::{AppendError, Journal, Owner, Position, SimFileSystem};
use millrace_replicated::sim::{Faults, SimConnection};
use millrace_replicated::{
    Clock, CopyPlace, Follower, LogFormat, Patience, Published, Replicated, SharedLog, SimLog,
};

const FORMAT: LogFormat = LogFormat { salt: 5, segment_bytes: 8 << 10, max_frame_bytes: 4 << 10 };

struct Node {
    connection: Arc<SimConnection>,
    journal: Replicated,
    chain: Chain,
    tail: Position,
}

fn own(log: &SimLog, number: u128) -> Node {
    let connection = log.connect();
    let place = CopyPlace::new(Arc::new(SimFileSystem::new(1)), Path::new("/copy"));
    let (to, clock) = (Arc::clone(&connection), Arc::new(log.clone()));
    let mut follower =
        Follower::start(to, clock, Patience::default(), &place, &mut |_| {}).unwrap();
    follower.catch_up(&mut |_| {}).unwrap();
    let started = follower.start_epoch(&Owner::unnamed(number));
    let journal = started.map_err(|refused| refused.error).unwrap();
    let (chain, tail) = (journal.chain(), journal.opened().tail);
    Node { connection, journal, chain, tail }
}

impl Node {
    fn append(&mut self) -> Result<(), AppendError> {
        let header = self.chain.next(FrameKind::Data, self.tail, self.journal.prior());
        let frame = Frame::seal(header, bytes::Bytes::new(), FORMAT.salt);
        self.journal.append(&frame)?;
        (self.chain, self.tail) = (frame.chain(), frame.end());
        Ok(())
    }
}

fn messages(log: &SimLog) -> u64 {
    log.history().len() as u64
}

#[test]
fn an_append_whose_answers_are_lost_is_settled_by_reading() {
    let log = SimLog::new(1, FORMAT);
    let mut owner = own(&log, 1);
    log.set_faults(Faults { lost_answer: 500, ..Faults::default() });

    for _ in 0..10 {
        assert_eq!(owner.append(), Ok(()));
    }

    assert_eq!(messages(&log), 11, "each is there once");
}

#[test]
fn a_refusal_on_account_of_the_first_copy_is_no_fence() {
    let log = SimLog::new(1, FORMAT);
    let mut owner = own(&log, 1);
    log.set_faults(Faults { slow_commit: 1000, ..Faults::default() });

    for _ in 0..10 {
        assert_eq!(owner.append(), Ok(()));
    }

    assert!(log.happened().refused_for_proposals > 0);
    assert_eq!(messages(&log), 11);
}

#[test]
fn void_messages_are_passed_over() {
    let log = SimLog::new(1, FORMAT);
    let mut owner = own(&log, 1);
    owner.append().unwrap();
    for late in log.history() {
        let last = messages(&log);
        let taken = owner.connection.publish(last, &late, Duration::from_secs(1));
        assert_eq!(taken, Published::At(last + 1));
    }

    assert_eq!(owner.append(), Ok(()));

    assert_eq!(messages(&log), 5);
    assert_eq!(own(&log, 2).chain.counter, owner.chain.counter + 1, "others pass over them too");
}

#[test]
fn an_owner_that_slept_through_a_takeover_is_fenced() {
    let log = SimLog::new(1, FORMAT);
    let (mut first, epoch) = (own(&log, 1), own(&log, 2).journal.opened().epoch);

    assert_eq!(first.append(), Err(AppendError::Fenced(epoch)));
    assert!(matches!(first.append(), Err(AppendError::NotSettled(_))), "it has ended");
    assert_eq!(messages(&log), 2);
}

#[test]
fn an_append_that_stays_without_an_answer_is_given_up_in_time() {
    let log = SimLog::new(1, FORMAT);
    let mut owner = own(&log, 1);
    owner.connection.cut();
    let before = log.now();

    assert!(matches!(owner.append(), Err(AppendError::NotSettled(_))));

    let took = log.now() - before;
    assert!(took >= Patience::default().limit && took < Duration::from_secs(32), "{took:?}");
    assert_eq!(owner.journal.failure(), None, "the process need not be restarted");
}

#[test]
fn a_frame_of_two_openings_is_never_the_same() {
    let log = SimLog::new(1, FORMAT);
    own(&log, 1);
    own(&log, 2);

    let epochs: Vec<_> = log
        .history()
        .iter()
        .map(|message| Frame::from_bytes(message, FORMAT.salt).unwrap())
        .map(|frame| (frame.header.epoch.0, Owner::decode(&frame.body).unwrap().nonce[0]))
        .collect();

    assert_eq!(epochs, [(1, 1), (2, 2)]);
}
