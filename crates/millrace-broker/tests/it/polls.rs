//! Long polls: whom a message wakes.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millrace_broker::ReceiveRequest;
use millrace_journal::SimFileSystem;

use crate::damage::{ANY, content, create, message, open, run};

#[test]
fn a_poll_that_leaves_passes_its_wake_on() {
    let (log, broker) = open(Arc::new(SimFileSystem::new(1)), Path::new("/journal"));
    let queue = create(&log, &broker, "jobs");
    let mut context = Context::from_waker(Waker::noop());
    let long = ReceiveRequest { wait_time_s: Some(20), ..ANY };
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(broker.receive(&queue, &long)));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    run(&log, broker.send(&queue, &[message("m", &content("m"))])).unwrap();

    drop(first);

    let Poll::Ready(received) = second.as_mut().poll(&mut context) else {
        panic!("it waits still")
    };
    assert_eq!(received.unwrap().len(), 1);
}
