//! A disk without room for another segment.

use std::path::Path;
use std::sync::Arc;

use millrace_broker::{BrokerError, ReceiveRequest};
use millrace_journal::{Purpose, SimFileSystem, Unavailable};

use crate::damage::{ANY, content, create, message, open, run};

#[test]
fn messages_that_are_moved_out_of_the_way_leave_room_for_deletes() {
    let fs = SimFileSystem::new(1);
    fs.set_capacity(12 * (64 << 10));
    let (log, broker) = open(Arc::new(fs), Path::new("/journal"));
    let kept = create(&log, &broker, "kept");
    let filler = create(&log, &broker, "filler");
    let large = content(&"x".repeat(1_000));
    for _ in 0..150 {
        run(&log, broker.send(&kept, &[message("x", &large)])).unwrap();
    }
    let refusal = loop {
        if let Err(refusal) = run(&log, broker.send(&filler, &[message("x", &large)])) {
            break refusal;
        }
    };
    assert!(matches!(refusal, BrokerError::Unavailable(Unavailable::DiskFull)), "{refusal}");
    run(&log, broker.delete_queue(&filler)).unwrap();
    // What is left of the last segment is less than the first holds.
    let again = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    while log.tail().offset() < 16 << 10 {
        run(&log, broker.receive(&kept, &again)).unwrap();
    }
    let tail = log.tail();

    for _ in 0..20 {
        broker.maintain();
        while log.commit_step() {}
    }

    assert!(log.tail().0 > tail.0 + (16 << 10), "some were moved");
    assert!(log.reserve(8 << 10, Purpose::Reclaim).is_ok(), "no room for deletes");
    run(&log, broker.purge_queue(&kept)).unwrap();
    while broker.maintain().is_some_and(|pause| pause.as_secs() == 0) {
        while log.background_step() || log.commit_step() {}
    }
    run(&log, broker.send(&kept, &[message("x", &large)])).unwrap();
}
