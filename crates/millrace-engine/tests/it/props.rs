//! Random commands against the model; after every one of them the journal is replayed, too.

use std::time::{SystemTime, UNIX_EPOCH};

use millrace_core::Timestamp;
use millrace_engine::{DeduplicationScope, Kind, MessageState, Receive, Redrive, Sent, Settings};
use millrace_engine::{Expired, VisibilityError};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::harness::{Broker, NewMessage, Receipt, START};
use crate::model::{Handle, Model, ModelQueue, Visibility};
use crate::replay::{assert_replay_is_live, snapshot};

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Send { queue: usize, group: usize, dedup: Option<u8>, delay_s: Option<u32> },
    Receive { queue: usize, receive: Receive, is_reluctant: bool },
    Delete { pick: usize },
    ChangeVisibility { pick: usize, timeout_s: u32 },
    GiveBack { pick: usize },
    Take { queue: usize },
    Purge { queue: usize },
    Set { queue: usize, what: Setting },
    Tick { ms: u64 },
    Restart,
    Truncate { segments: u32 },
}

#[derive(Clone, Debug)]
pub(crate) enum Setting {
    Delay(u32),
    Visibility(u32),
    Retention(u32),
    MaxReceives(Option<u32>),
}

const GROUPS: [Option<&str>; 4] = [Some("g"), Some("h"), Some("i"), None];
/// Two sources and their dead-letter queue.
const QUEUES: usize = 3;
const DEAD: usize = 2;

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let queue = || prop_oneof![5 => Just(0usize), 3 => Just(1), 2 => Just(DEAD)];
    let timeout_s = || prop_oneof![Just(0u32), Just(1), Just(5), Just(30), Just(43_200)];
    let receive = (
        prop_oneof![Just(1usize), Just(2), Just(3), Just(10)],
        proptest::option::weighted(0.5, timeout_s()),
        proptest::option::weighted(0.3, 0u128..3),
        prop_oneof![1 => 1u64..5, 6 => Just(120_000)],
    );
    let receive = receive.prop_map(|(max, visibility_timeout_s, attempt, in_flight_limit)| {
        Receive { max, visibility_timeout_s, attempt, in_flight_limit }
    });
    let setting = prop_oneof![
        prop_oneof![Just(0u32), Just(2), Just(10)].prop_map(Setting::Delay),
        prop_oneof![Just(0u32), Just(5), Just(30)].prop_map(Setting::Visibility),
        prop_oneof![Just(60u32), Just(400), Just(1_209_600)].prop_map(Setting::Retention),
        proptest::option::of(1u32..4).prop_map(Setting::MaxReceives),
    ];
    let ms = prop_oneof![
        Just(0u64),
        Just(1),
        1u64..3_000,
        Just(5_000),
        Just(30_000),
        Just(61_000),
        Just(300_000),
        Just(43_200_000),
    ];
    prop_oneof![
        12 => (queue(), 0..GROUPS.len(), proptest::option::weighted(0.3, 0u8..4),
               proptest::option::weighted(0.3, prop_oneof![Just(0u32), Just(1), Just(7)]))
            .prop_map(|(queue, group, dedup, delay_s)| Command::Send { queue, group, dedup, delay_s }),
        10 => (queue(), receive, proptest::bool::weighted(0.3))
            .prop_map(|(queue, receive, is_reluctant)| Command::Receive { queue, receive, is_reluctant }),
        4 => any::<usize>().prop_map(|pick| Command::Delete { pick }),
        4 => (any::<usize>(), timeout_s())
            .prop_map(|(pick, timeout_s)| Command::ChangeVisibility { pick, timeout_s }),
        2 => any::<usize>().prop_map(|pick| Command::GiveBack { pick }),
        1 => queue().prop_map(|queue| Command::Take { queue }),
        1 => queue().prop_map(|queue| Command::Purge { queue }),
        2 => (queue(), setting).prop_map(|(queue, what)| Command::Set { queue, what }),
        6 => ms.prop_map(|ms| Command::Tick { ms }),
        2 => Just(Command::Restart),
        2 => (1u32..6).prop_map(|segments| Command::Truncate { segments }),
    ]
}

/// The engine and the model side by side.
pub(crate) struct Pair {
    pub(crate) broker: Broker,
    model: Model,
    kind: Kind,
    sends: usize,
    /// Every receive's receipts that were ever given out, and the model's names for them.
    receives: Vec<Vec<(Receipt, Handle)>>,
    /// Sequence of the latest message stored in each queue.
    latest_seq: [Option<u64>; QUEUES],
}

impl Pair {
    pub(crate) fn new(kind: Kind, scope: DeduplicationScope) -> Pair {
        let mut broker = Broker::new();
        let mut model = Model::default();
        for (name, redrive) in [("a", Some(redrive(2))), ("b", Some(redrive(1))), ("dead", None)] {
            let settings = Settings {
                kind,
                visibility_timeout_s: 30,
                retention_s: 1_209_600,
                deduplication_scope: scope,
                redrive,
                ..Settings::default()
            };
            broker.create(name, settings.clone());
            model.queues.push(ModelQueue::new(settings));
        }
        let (receives, latest_seq) = (Vec::new(), [None; QUEUES]);
        Pair { broker, model, kind, sends: 0, receives, latest_seq }
    }

    fn now(&self) -> u64 {
        self.broker.now.0
    }

    pub(crate) fn run(&mut self, command: &Command) {
        let now = self.now();
        self.model.queues.iter_mut().for_each(|queue| queue.tick(now));
        match command {
            Command::Send { queue, group, dedup, delay_s } => {
                let group = match self.kind {
                    Kind::Fifo => GROUPS[*group].or(Some("g")),
                    Kind::Standard => GROUPS[*group],
                };
                let dedup = dedup.filter(|_| self.kind == Kind::Fifo);
                self.send(*queue, group, dedup, *delay_s);
            }
            Command::Receive { queue, receive, is_reluctant } => {
                self.receive(*queue, receive, *is_reluctant);
            }
            Command::Delete { pick } => {
                if let Some((receipt, handle)) = self.pick(*pick) {
                    let deleted = self.broker.delete(&receipt.handle).map_err(|Expired| ());
                    assert_eq!(deleted, self.model.queues[handle.queue].delete(&handle));
                }
            }
            Command::ChangeVisibility { pick, timeout_s } => {
                if let Some((receipt, handle)) = self.pick(*pick) {
                    let changed = self.broker.change_visibility(&receipt.handle, *timeout_s);
                    let queue = &mut self.model.queues[handle.queue];
                    let predicted = queue.change_visibility(now, &handle, *timeout_s);
                    assert_eq!(visibility(changed), predicted);
                }
            }
            Command::GiveBack { pick } => {
                if !self.receives.is_empty() {
                    let latest = self.receives.len().saturating_sub(3);
                    let at = latest + pick % (self.receives.len() - latest);
                    let (receipts, handles): (Vec<_>, Vec<_>) =
                        self.receives[at].iter().cloned().unzip();
                    let returned = self.broker.give_back(&receipts);
                    let queue = receipts_queue(&handles);
                    assert_eq!(returned, self.model.queues[queue].give_back(&handles));
                }
            }
            Command::Take { queue } => {
                let taken = self.broker.take_oldest(*queue);
                let messages = &mut self.model.queues[*queue].messages;
                assert_eq!(taken.is_none(), messages.is_empty());
                messages.retain(|message| Some(&message.name) != taken.as_ref());
            }
            Command::Purge { queue } => {
                self.broker.purge(*queue);
                self.model.queues[*queue].purge();
            }
            Command::Set { queue, what } => {
                let mut settings = self.model.queues[*queue].settings.clone();
                match what {
                    Setting::Delay(s) => settings.delay_s = *s,
                    Setting::Visibility(s) => settings.visibility_timeout_s = *s,
                    Setting::Retention(s) => settings.retention_s = *s,
                    Setting::MaxReceives(_) if *queue == DEAD => {}
                    Setting::MaxReceives(max) => settings.redrive = max.map(redrive),
                }
                self.broker.set(*queue, settings.clone());
                self.model.queues[*queue].set(now, settings);
            }
            Command::Tick { ms } => self.broker.now = self.broker.now.plus_millis(*ms),
            Command::Restart => {
                self.broker.restart();
                self.model.queues.iter_mut().for_each(ModelQueue::forget_attempts);
            }
            Command::Truncate { segments } => {
                let first = self.broker.journal.records.first();
                let first = first.map_or(0, |record| (record.position >> 32) as u32);
                self.broker.truncate(first + segments - 1);
            }
        }
        self.broker.tick();
        let now = self.now();
        self.model.queues.iter_mut().for_each(|queue| queue.tick(now));
        self.assert_same();
        assert_replay_is_live(&mut self.broker);
    }

    fn send(&mut self, queue: usize, group: Option<&str>, dedup: Option<u8>, delay: Option<u32>) {
        self.sends += 1;
        let (now, name) = (self.now(), format!("m{}", self.sends));
        let dedup = dedup.map(|dedup| dedup.to_string());
        let message = NewMessage { group, dedup: dedup.as_deref(), delay_s: delay };
        let sent = self.broker.send(queue, &name, message);
        let model = &mut self.model.queues[queue];
        let key = match model.settings.deduplication_scope {
            DeduplicationScope::Queue => dedup,
            DeduplicationScope::MessageGroup => dedup.map(|d| format!("{group:?} {d}")),
        };
        match (sent, model.send(now, &name, group, key.as_deref(), delay)) {
            (Sent::Stored { at, sent, .. }, None) => {
                assert_eq!(sent.0, now);
                assert!(self.latest_seq[queue] < Some(at.seq), "sequences increase");
                self.latest_seq[queue] = Some(at.seq);
            }
            (Sent::Duplicate { id, .. }, Some(first)) => {
                assert_eq!(self.broker.name(id), first);
            }
            (sent, predicted) => panic!("{sent:?}, predicted duplicate of {predicted:?}"),
        }
    }

    fn receive(&mut self, queue: usize, receive: &Receive, is_reluctant: bool) {
        let receive =
            Receive { attempt: receive.attempt.filter(|_| self.kind == Kind::Fifo), ..*receive };
        let now = self.now();
        let target = self.broker.dead_letter_queue(queue);
        let result = match is_reluctant {
            true => self.broker.receive_reluctantly(queue, &receive),
            false => self.broker.receive(queue, &receive),
        };
        self.model.receive(now, queue, target, &receive, is_reluctant, &result);
        let Ok(outcome) = result else { return };
        let named = outcome.receipts.into_iter().map(|receipt| {
            let (name, receives) = (receipt.name.clone(), receipt.handle.receive_count);
            (receipt, Handle { queue, name, receives })
        });
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            self.receives.push(named);
        }
    }

    /// A receipt: mostly a recent one.
    fn pick(&self, pick: usize) -> Option<(Receipt, Handle)> {
        let all: Vec<_> = self.receives.iter().flatten().collect();
        let window = if pick.is_multiple_of(4) { all.len() } else { all.len().min(6) };
        let recent = &all[all.len() - window..];
        (!recent.is_empty()).then(|| recent[(pick / 4) % recent.len()].clone())
    }

    fn assert_same(&self) {
        let mut names = Vec::new();
        for (member, model) in self.broker.members.iter().zip(&self.model.queues) {
            let queue = &member.queue;
            assert_eq!(queue.counts(), model.counts());
            let oldest = model.messages.iter().map(|message| message.enqueued).min();
            assert_eq!(queue.oldest_sent(), oldest.map(Timestamp));
            assert_eq!(queue.next_deadline().0, model.next_deadline());
            let first_ready = queue.first_ready();
            let is_ready = |at| queue.find(at).is_some_and(|v| v.state == MessageState::Ready);
            assert!(first_ready.is_none_or(|first| is_ready(first.at)));

            let seen = snapshot(member, &self.broker.journal).messages;
            assert_eq!(seen.len(), model.messages.len());
            for message in &model.messages {
                let seen = &seen[&message.name];
                let (state, deadline) = message.state.as_seen();
                let first = (message.receives > 0).then_some(Timestamp(message.first_received));
                let source = message.source.map(|source| self.broker.members[source].arn());
                assert_eq!((seen.state, seen.deadline), (state, deadline.map(Timestamp)));
                assert_eq!(seen.receive_count, message.receives);
                assert_eq!((seen.sent, seen.first_received), (Timestamp(message.sent), first));
                assert_eq!((&seen.group, &seen.source), (&message.group, &source));
                names.push(&message.name);
            }
            self.assert_live_bytes(member, model);
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a message is in one queue");
    }

    /// The latest record with a message's body is the one that it needs.
    fn assert_live_bytes(&self, member: &crate::harness::Member, model: &ModelQueue) {
        let needed = model.messages.iter().map(|message| {
            let records = self.broker.journal.records.iter();
            records.rev().find(|record| record.body == message.name).expect("its record is there")
        });
        let needed: Vec<_> = needed.collect();
        let bytes: u64 = needed.iter().map(|record| u64::from(record.len())).sum();
        let segment = needed.iter().map(|record| (record.position >> 32) as u32).min();
        assert_eq!(member.queue.live_bytes(), bytes);
        assert_eq!(member.queue.oldest_segment(), segment);
    }

    /// Receives and deletes until nothing is left; the model watches.
    fn drain(&mut self) {
        for queue in 0..QUEUES {
            let settings = self.model.queues[queue].settings.clone();
            self.broker.set(queue, Settings { redrive: None, ..settings.clone() });
            let now = self.now();
            self.model.queues[queue].set(now, Settings { redrive: None, ..settings });
            let receive = Receive {
                max: 10,
                visibility_timeout_s: Some(10),
                attempt: None,
                in_flight_limit: u64::MAX,
            };
            while !self.model.queues[queue].messages.is_empty() {
                self.run(&Command::Receive { queue, receive, is_reluctant: false });
                let latest = self.receives.last().cloned().unwrap_or_default();
                for (receipt, handle) in latest {
                    let deleted = self.broker.delete(&receipt.handle).map_err(|Expired| ());
                    assert_eq!(deleted, self.model.queues[handle.queue].delete(&handle));
                }
                self.run(&Command::Tick { ms: 1_800_000 });
            }
            assert_eq!(self.broker.members[queue].queue.live_bytes(), 0);
        }
    }
}

pub(crate) fn redrive(max_receive_count: u32) -> Redrive {
    Redrive {
        region: "us-east-1".to_owned(),
        account: "000000000000".to_owned(),
        name: "dead".to_owned(),
        max_receive_count,
    }
}

fn visibility(changed: Result<(), VisibilityError>) -> Visibility {
    match changed {
        Ok(()) => Visibility::Changed,
        Err(VisibilityError::NotAvailable) => Visibility::NotAvailable,
        Err(VisibilityError::BeyondLimit) => Visibility::BeyondLimit,
    }
}

fn receipts_queue(handles: &[Handle]) -> usize {
    handles[0].queue
}

/// Runs random commands. The seed is printed if one fails; `MILLRACE_SEED` replays it and
/// `MILLRACE_CASES` asks for more.
fn check(cases: u32, kind: Kind, scope: DeduplicationScope) {
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let seed = number("MILLRACE_SEED").unwrap_or(drawn);
    let cases = cases_or(cases);
    println!("MILLRACE_SEED={seed}");
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let commands = proptest::collection::vec(command(), 1..70);
    let outcome = TestRunner::new(config).run(&commands, |commands| {
        let mut pair = Pair::new(kind, scope);
        assert_eq!(pair.now(), START.0);
        commands.iter().for_each(|command| pair.run(command));
        pair.drain();
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("MILLRACE_SEED={seed}\n{failure}");
    }
}

/// How many are asked for, or these.
pub(crate) fn cases_or(usual: u32) -> u32 {
    number("MILLRACE_CASES").map_or(usual, |cases| cases as u32)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn standard_queues_do_what_the_model_does() {
    check(120, Kind::Standard, DeduplicationScope::Queue);
}

#[test]
fn fifo_queues_do_what_the_model_does() {
    check(120, Kind::Fifo, DeduplicationScope::Queue);
}

#[test]
fn fifo_queues_that_deduplicate_by_group_do_what_the_model_does() {
    check(60, Kind::Fifo, DeduplicationScope::MessageGroup);
}
