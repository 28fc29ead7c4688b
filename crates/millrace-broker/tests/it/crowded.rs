//! Receives of what is behind more dead letters than one look at a queue handles.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Outgoing, ReceiveRequest};
use millrace_engine::{Kind, Receive, Redrive, Settings};
use millrace_journal::SimFileSystem;

use crate::support::{ANY, content, create, created, key, message, new_queue, open, run};

const DEAD: u64 = 5_000;

#[test]
fn a_short_poll_finds_what_is_behind_dead_letters() {
    for kind in [Kind::Standard, Kind::Fifo] {
        finds_the_last(kind, &ANY);
    }
}

#[test]
fn a_long_poll_finds_what_is_behind_dead_letters() {
    for kind in [Kind::Standard, Kind::Fifo] {
        finds_the_last(kind, &ReceiveRequest { wait_time_s: Some(20), ..ANY });
    }
}

fn finds_the_last(kind: Kind, request: &ReceiveRequest<'_>) {
    let (log, shards) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let [dead_name, name] = match kind {
        Kind::Fifo => ["dead.fifo", "jobs.fifo"],
        Kind::Standard => ["dead", "jobs"],
    };
    let dead = create(&log, &shards, dead_name);
    let target = key(dead_name);
    let redrive = Redrive {
        region: target.region,
        account: target.account,
        name: target.name,
        max_receive_count: 1,
    };
    let settings = Settings { kind, redrive: Some(redrive), ..Settings::default() };
    let queue = created(run(&log, shards.create_queue(&new_queue(name, settings))).unwrap());
    let send = |from: u64, count: u64, body: &str| {
        let ids: Vec<String> = (from..from + count).map(|id| id.to_string()).collect();
        let content = content(body);
        let outgoing: Vec<_> = ids
            .iter()
            .map(|id| {
                let (group, deduplication_id) = match kind {
                    Kind::Fifo => (Some(id.as_str()), Some(id.as_str())),
                    Kind::Standard => (None, None),
                };
                Outgoing { group, deduplication_id, ..message(body, &content) }
            })
            .collect();
        run(&log, queue.send(&outgoing)).unwrap();
    };
    for from in (0..DEAD).step_by(100) {
        send(from, 100, "dead");
    }
    // Each goes to the end of the line at once.
    let seen = Receive {
        max: 100,
        visibility_timeout_s: Some(0),
        attempt: None,
        in_flight_limit: u64::MAX,
    };
    for _ in (0..DEAD).step_by(seen.max) {
        queue.try_receive(&seen).unwrap();
        log.commit_step();
    }
    send(DEAD, 1, "alive");

    let received = run(&log, queue.receive(request)).unwrap();

    let bodies: Vec<_> = received.iter().map(|it| it.content.body().to_vec()).collect();
    assert_eq!(bodies, [b"alive".to_vec()], "{kind:?}");
    assert_eq!(dead.counts().ready, DEAD);
}
