//! Batches that wait to be full.

use std::sync::{Arc, Mutex};

use millrace_client::testing::MemoryPeer;
use millrace_worker::{
    Concurrency, Handler, HandlerError, Message, Options, Outcome, Until, Worker,
};
use tokio::time::{Instant, sleep};

use crate::support::{MS, S, bodies};

/// Remembers sizes of batches and when they came.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<(usize, Instant)>>>);

impl Handler for Batches {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        self.0.lock().unwrap().push((messages.len(), Instant::now()));
        Ok(vec![Outcome::Ack; messages.len()])
    }
}

impl Batches {
    fn sizes(&self) -> Vec<usize> {
        self.0.lock().unwrap().iter().map(|(size, _)| *size).collect()
    }
}

fn options(batch_size: usize) -> Options {
    Options {
        batch_size,
        batch_window: 5 * S,
        concurrency: Concurrency::Fixed(1),
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn full_batch_does_not_wait_and_the_rest_waits_for_the_window() {
    let peer = MemoryPeer::standard();
    peer.set_latency(5 * MS);
    peer.put(bodies(125));
    let handler = Batches::default();
    let worker = Worker::new(peer.clone(), handler.clone(), options(50));
    let drain = worker.drain();
    let started = Instant::now();
    let end = async {
        sleep(30 * S).await;
        drain.release_now();
    };

    tokio::join!(worker.run(), end);

    assert_eq!(handler.sizes(), [50, 50, 25]);
    let at: Vec<_> = handler.0.lock().unwrap().iter().map(|(_, at)| *at - started).collect();
    assert!(at[1] < S, "{at:?}");
    assert!(at[2] >= 5 * S && at[2] < 6 * S, "{at:?}");
    assert_eq!(peer.deleted().len(), 125);
}

#[tokio::test(start_paused = true)]
async fn batch_grows_by_what_comes_within_its_window() {
    let peer = MemoryPeer::standard();
    let handler = Batches::default();
    let worker = Worker::new(peer.clone(), handler.clone(), options(1000));
    let drain = worker.drain();
    let send = async {
        for number in 0..8 {
            peer.put([format!("m{number}")]);
            sleep(S).await;
        }
        sleep(10 * S).await;
        drain.release_now();
    };

    tokio::join!(worker.run(), send);

    let sizes = handler.sizes();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, 8), "{sizes:?}");
    assert!(sizes[0] == 5 || sizes[0] == 6, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn batch_that_cannot_grow_does_not_wait() {
    let peer = MemoryPeer::standard();
    peer.put(bodies(7));
    let handler = Batches::default();
    let options = Options { until: Until::Once, batch_window: 60 * S, ..options(1000) };
    let started = Instant::now();

    Worker::new(peer, handler.clone(), options).run().await;

    assert_eq!(handler.sizes(), [7]);
    assert!(started.elapsed() < S, "{:?}", started.elapsed());
}
