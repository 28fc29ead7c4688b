//! Everything at once under random faults: the promises hold for every seed.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use millrace_client::{
    CallError, CallErrorKind, EntryError, Outgoing,
    testing::{Fault, MemoryPeer, Operation},
};
use millrace_worker::{Backoff, Concurrency, Options, Outcome, Worker};
use tokio::time::{Instant, sleep};

use crate::support::{MS, Recorder, S};

const MESSAGES: usize = 150;
const HANDLERS: usize = 7;

fn fault(random: &mut fastrand::Rng) -> (Operation, Fault) {
    let operation = *random
        .choice(&[Operation::Receive, Operation::Delete, Operation::ChangeVisibility])
        .unwrap();
    let kind = *random
        .choice(&[CallErrorKind::Transport, CallErrorKind::Server, CallErrorKind::Throttled])
        .unwrap();
    let error = CallError::new(kind, "planned", "planned");
    let fault = match random.u8(0..4) {
        0 => Fault::Refuse(error),
        1 => Fault::LoseAnswer(error.ambiguous()),
        2 => {
            let entries = (0..10).filter(|_| random.bool()).collect();
            Fault::FailEntries(entries, EntryError::new("InternalError", "planned", false))
        }
        // Less than a call may take, so that the peer does answer.
        _ => Fault::Slow(random.u32(1..3000) * MS),
    };
    (operation, fault)
}

fn put(peer: &MemoryPeer, random: &mut fastrand::Rng, is_fifo: bool) {
    for number in 0..MESSAGES {
        let group = format!("g{}", random.u8(0..12));
        let body = format!("{group}-{number:04}");
        let group_id = is_fifo.then(|| group.into());
        peer.put_message(Outgoing { group_id, ..Outgoing::new(body) });
    }
}

/// Each message fails a few times, in one way or another, then succeeds.
fn handler(seed: u64) -> Recorder {
    Recorder::new(move |message| {
        let mut random = fastrand::Rng::with_seed(
            seed ^ message.body().bytes().fold(u64::from(message.receive_count()), |hash, byte| {
                hash.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(byte))
            }),
        );
        let latency = match random.u8(0..10) {
            0 => random.u32(20..120) * S,
            _ => random.u32(1..800) * MS,
        };
        let outcome = match random.u8(0..10) {
            0 => Err("failed".into()),
            1 => Ok(Outcome::Retry { after: Some(random.u32(0..10) * S) }),
            2 => Ok(Outcome::Release),
            3 => Ok(Outcome::reject("rejected")),
            _ => Ok(Outcome::Ack),
        };
        (latency, outcome)
    })
}

async fn check(seed: u64, is_fifo: bool) {
    // The worker's own jitter as well.
    fastrand::seed(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let peer = if is_fifo { MemoryPeer::fifo() } else { MemoryPeer::standard() };
    let dead = if is_fifo { MemoryPeer::fifo() } else { MemoryPeer::standard() };
    peer.set_latency(random.u32(0..50) * MS);
    put(&peer, &mut random, is_fifo);
    let handler = handler(seed);
    let visibility_timeout = S * random.u32(20..60);
    let options = Options {
        concurrency: Concurrency::Fixed(HANDLERS),
        // The handler knows nothing of lanes.
        batch_size: if is_fifo { 1 } else { random.usize(1..4) },
        backoff: Backoff::List(vec![S]),
        visibility_timeout,
        ..Options::default()
    };
    let worker =
        Worker::new(peer.clone(), handler.clone(), options).with_dead_letter_queue(dead.clone());
    let drain = worker.drain();
    let faults = async {
        let started = Instant::now();
        let mut last: HashMap<Operation, Instant> = HashMap::new();
        while !peer.bodies().is_empty() {
            sleep(random.u32(1..2000) * MS).await;
            let (operation, fault) = fault(&mut random);
            // Two faults of an extension in half a timeout: more than that is a peer that does not
            // answer.
            let pause = match operation {
                Operation::ChangeVisibility => visibility_timeout / 2,
                _ => S,
            };
            let last = last.entry(operation).or_insert(started);
            if last.elapsed() >= pause && !peer.has_plan(operation) {
                *last = Instant::now();
                peer.plan(operation, fault);
            }
            assert!(started.elapsed() < Duration::from_secs(4 * 3600), "seed {seed} hangs");
        }
        drain.drain();
    };

    let (summary, ()) = tokio::join!(worker.run(), faults);

    let acknowledged: HashSet<String> = handler.succeeded().into_iter().collect();
    let dead_letters: HashSet<String> = dead.bodies().iter().map(|body| body.to_string()).collect();
    let deleted = peer.deleted();
    assert_eq!(deleted.len(), MESSAGES, "seed {seed}: each is deleted once");
    for body in &deleted {
        let body = &**body;
        assert!(
            acknowledged.contains(body) || dead_letters.contains(body),
            "seed {seed}: {body} was deleted without success"
        );
    }
    assert!(handler.most_running() <= HANDLERS, "seed {seed}: {} handlers", handler.most_running());
    assert_eq!(handler.overlapping(), [""; 0], "seed {seed}: one message, two handlers");
    for run in handler.runs() {
        // Leases may be lost after the handler's end: when the answer to a delete was.
        assert!(!run.was_cancelled, "seed {seed}: lease lost though the peer answers: {run:?}");
    }
    assert_eq!(summary.cut_off, 0, "seed {seed}");
    if is_fifo {
        check_order(seed, &handler);
    }
}

/// In each group, a message starts only after all before it were acknowledged or rejected.
fn check_order(seed: u64, handler: &Recorder) {
    let mut done: HashMap<String, String> = HashMap::new();
    for run in handler.runs() {
        let group = run.body.split('-').next().unwrap().to_owned();
        if let Some(last) = done.get(&group) {
            // A delete whose answer was lost may bring back the one before, never an older one.
            assert!(*last <= run.body, "seed {seed}: {} after {last}", run.body);
        }
        if matches!(run.outcome, Some(Outcome::Ack | Outcome::Reject { .. })) {
            done.insert(group, run.body);
        }
    }
}

/// `WORKER_SEEDS=0..1000` for more.
fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("WORKER_SEEDS").ok();
    let range = given.as_deref().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    range.unwrap_or(0..8)
}

#[tokio::test(start_paused = true)]
async fn promises_hold_for_standard_queues_under_random_faults() {
    for seed in seeds() {
        check(seed, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn promises_hold_for_fifo_queues_under_random_faults() {
    for seed in seeds() {
        check(seed, true).await;
    }
}
