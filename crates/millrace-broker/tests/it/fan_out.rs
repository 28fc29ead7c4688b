//! One append to many queues: all of it is there, or nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use millrace_broker::{BrokerError, Expected, KeptChange, KeptError, SendTo, Shards, SharedQueue};
use millrace_core::{MessageId, SystemClock};
use millrace_journal::{Durability, Fault, GroupCommit, GroupOptions, SimFileSystem};

use crate::support::{ANY, content, create, key, message, open, open_with, run};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const STEPS: &str = "steps";

fn open_durably(fs: Arc<SimFileSystem>) -> (Arc<GroupCommit>, Arc<Shards>) {
    // Frames are small, so that what must stay together could be apart.
    let group = GroupOptions { group_bytes: 4 << 10, ..GroupOptions::default() };
    let clock = Arc::new(SystemClock::new());
    open_with(fs, Path::new("/journal"), clock, Durability::Fsync, group)
}

fn bodies(log: &GroupCommit, queue: &Arc<SharedQueue>) -> BTreeSet<String> {
    let mut bodies = BTreeSet::new();
    loop {
        let received = run(log, queue.receive(&ANY)).unwrap();
        if received.is_empty() {
            return bodies;
        }
        let body = |incoming: &millrace_broker::Incoming| {
            String::from_utf8(incoming.content.body().to_vec()).unwrap()
        };
        bodies.extend(received.iter().map(body));
    }
}

#[test]
fn what_survives_a_power_cut_is_in_every_queue_and_among_the_documents() {
    let mut outcomes = [0, 0];
    for seed in 0..60 {
        let fs = Arc::new(SimFileSystem::new(seed));
        let (log, shards) = open_durably(fs.clone());
        let queues = NAMES.map(|name| create(&log, &shards, name));
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let (mut steps, mut committed): (Vec<u64>, usize) = (Vec::new(), 0);
        for step in 0..20 {
            let targets = next() % 31 + 1;
            let body = format!("{step}{}", "x".repeat((next() % 600) as usize));
            let content = content(&body);
            let messages = [message(&body, &content)];
            // In any order, as subscriptions come.
            let mut numbers: Vec<usize> = (0..5).filter(|bit| targets >> bit & 1 == 1).collect();
            let by = next() as usize % numbers.len();
            numbers.rotate_left(by);
            let sends: Vec<_> = numbers
                .iter()
                .map(|number| SendTo { queue: &queues[*number], messages: &messages })
                .collect();
            let name = step.to_string();
            let changes = [KeptChange::put(STEPS, &name, &content)];
            let (accepted, ticket) =
                shards.home().unwrap().begin_fan_out(&sends, &changes).unwrap();
            assert_eq!(accepted.len(), sends.len());
            assert!(ticket.is_some());
            steps.push(targets);
            if next() % 3 == 0 && step < 19 {
                while log.commit_step() {}
                committed = steps.len();
            }
        }
        // In the middle of the last commit.
        fs.fail_call(fs.calls() + next() % 3, Fault::PowerLoss);
        for _ in 0..3 {
            log.commit_step();
        }
        let crashed = Arc::new(fs.crashed(seed));
        drop((queues, shards, log));

        let (log, shards) = open_durably(crashed);
        let found =
            NAMES.map(|name| bodies(&log, &shards.catalog().queue_by_key(&key(name)).unwrap()));
        let kept =
            |step: usize| shards.home().unwrap().kept().get(STEPS, &step.to_string()).is_some();
        let survived = (0..20).take_while(|step| kept(*step)).count();
        for (step, targets) in steps.iter().enumerate() {
            for (number, bodies) in found.iter().enumerate() {
                let of_step = |body: &&String| body.trim_end_matches('x') == step.to_string();
                let is_there = bodies.iter().any(|body| of_step(&body));
                let is_meant = targets >> number & 1 == 1 && step < survived;
                assert_eq!(is_there, is_meant, "seed {seed} step {step} queue {number}");
            }
            assert_eq!(kept(step), step < survived, "seed {seed} step {step}");
        }
        assert!(survived >= committed, "seed {seed}: {survived} of {committed} committed");
        outcomes[usize::from(survived == 20)] += 1;
        shards.close();
    }
    assert!(
        outcomes.iter().all(|count| *count > 5),
        "the last commit is lost, or there: {outcomes:?}"
    );
}

#[test]
fn a_refused_fan_out_changes_nothing() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let [a, b] = ["a", "b"].map(|name| create(&log, &shards, name));
    let one = content("one");
    let messages = [message("one", &one)];
    let sends = [&b, &a].map(|queue| SendTo { queue, messages: &messages });
    let put = || KeptChange::put(STEPS, "1", b"1");
    let version = |version| [put().if_it_is(Expected::Version(version))];

    let changed = shards.home().unwrap().begin_fan_out(&sends, &version(1));
    assert!(matches!(changed, Err(KeptError::Changed { .. })));
    let huge = vec![b'x'; 70 << 10];
    let huge = [message("huge", &huge)];
    let too_large =
        shards.home().unwrap().begin_fan_out(&[SendTo { queue: &a, messages: &huge }], &[put()]);
    assert!(matches!(too_large, Err(KeptError::Broker(BrokerError::Unavailable(_)))));
    run(&log, shards.catalog().delete_queue(&b)).unwrap();
    let gone = shards.home().unwrap().begin_fan_out(&sends, &[put()]);
    assert!(matches!(gone, Err(KeptError::Broker(BrokerError::QueueDoesNotExist))));

    assert_eq!(a.counts().total(), 0);
    assert!(shards.home().unwrap().kept().get(STEPS, "1").is_none());
    shards.close();
}

#[test]
fn duplicates_are_answered_as_the_first_and_not_stored_again() {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let [standard, fifo] = ["q", "q.fifo"].map(|name| create(&log, &shards, name));
    let one = content("one");
    let plain = [message("one", &one)];
    let grouped = |id| {
        let message = message("one", &one);
        let (group, deduplication_id) = (Some("g"), Some("d"));
        [millrace_broker::Outgoing {
            id: MessageId::from_random(id),
            group,
            deduplication_id,
            ..message
        }]
    };
    let (first, again) = (grouped(7), grouped(8));
    let send = |messages| SendTo { queue: &fifo, messages };

    let (accepted, _) = shards
        .home()
        .unwrap()
        .begin_fan_out(&[send(&first), SendTo { queue: &standard, messages: &plain }], &[])
        .unwrap();
    let (repeated, appended) = shards.home().unwrap().begin_fan_out(&[send(&again)], &[]).unwrap();
    let (both, _) = shards
        .home()
        .unwrap()
        .begin_fan_out(&[SendTo { queue: &standard, messages: &plain }, send(&again)], &[])
        .unwrap();

    assert_eq!(repeated[0][0].id, accepted[0][0].id);
    assert_eq!(both[1][0].id, accepted[0][0].id);
    run(&log, shards.home().unwrap().committed(appended.map(|appended| appended.ticket))).unwrap();
    assert_eq!((standard.counts().total(), fifo.counts().total()), (2, 1));
    shards.close();
}
