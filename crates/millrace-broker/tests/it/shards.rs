//! Several shards in one process: side by side, on the same threads, closed and built again.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_broker::{
    BrokerError, Incoming, MoveTaskStatus, OpenShard, Options, Outgoing, ReceiveRequest, Redrive,
    SendTo, Settings, Shard, Shards, SharedQueue, commit_driver,
};
use millrace_core::{MessageId, QueueId, QueueKey, ShardId, SystemClock, Timestamp};
use millrace_engine::Replay;
use millrace_journal::{
    GroupCommit, GroupOptions, LocalJournal, LocalOptions, OpenError, SimFileSystem,
};

use crate::drivers;
use crate::support::{ANY, content, created, key, message, move_task, new_queue, run};

const HOME: ShardId = ShardId(0);
const OTHER: ShardId = ShardId(3);
const LONG: Duration = Duration::from_secs(30);

fn shards() -> Arc<Shards> {
    Shards::new(Arc::new(SystemClock::new()))
}

/// The journal of a file system, once whoever was the last to let go of it has closed its files.
fn unlocked(fs: &Arc<SimFileSystem>) -> (LocalJournal, Replay) {
    let begun = Instant::now();
    loop {
        let mut replay = Replay::default();
        let options = LocalOptions { segment_bytes: 64 << 10, ..LocalOptions::default() };
        let opened =
            LocalJournal::open(fs.clone(), Path::new("/journal"), options, &mut |record| {
                replay.apply(record.index, record.position.0, record.record_len).unwrap();
            });
        match opened {
            Ok((journal, _)) => return (journal, replay),
            Err(OpenError::Locked { .. }) if begun.elapsed() < LONG => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Opens a shard over the journal of a file system.
fn try_open(
    shards: &Shards,
    id: ShardId,
    fs: &Arc<SimFileSystem>,
) -> Result<(Arc<GroupCommit>, Arc<Shard>), BrokerError> {
    let (journal, replay) = unlocked(fs);
    let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
    let replayed = replay.finish(Shard::first_seq(id, log.opened().epoch.0)?);
    let secret = u128::from(id.0) + 1;
    let open = OpenShard {
        id,
        log: log.clone(),
        options: Options::default(),
        replayed,
        random: Box::new(move || secret),
    };
    Ok((log, shards.open(open)?))
}

fn open(shards: &Shards, id: ShardId, fs: &Arc<SimFileSystem>) -> (Arc<GroupCommit>, Arc<Shard>) {
    try_open(shards, id, fs).unwrap()
}

fn create(log: &GroupCommit, shard: &Shard, name: &str) -> Arc<SharedQueue> {
    created(run(log, shard.create_queue(&new_queue(name, Settings::default()))).unwrap())
}

async fn send(queue: &SharedQueue, number: u64) -> Result<(), BrokerError> {
    let content = content("body");
    let id = MessageId::from_random(u128::from(number));
    queue.send(&[Outgoing { id, ..message("body", &content) }]).await.map(drop)
}

/// Yields once to the other tasks.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::thread::yield_now();
        Poll::Pending
    })
    .await;
}

/// Does something at its end, whatever that is.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits for what others do.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn two_shards_work_side_by_side_on_the_same_threads() {
    const RUNTIMES: u64 = 3;
    const ROUNDS: u64 = 300;
    let shards = shards();
    let opened = [HOME, OTHER].map(|id| open(&shards, id, &Arc::new(SimFileSystem::new(1))));
    let queues: Vec<_> =
        opened.iter().map(|(log, shard)| create(log, shard, &format!("q{}", shard.id()))).collect();
    let committers: Vec<JoinHandle<()>> =
        opened.iter().map(|(log, _)| log.spawn_committer().unwrap()).collect();
    shards.spawn_threads().unwrap();

    std::thread::scope(|scope| {
        for runtime in 0..RUNTIMES {
            let (shards, queues) = (&shards, &queues);
            scope.spawn(move || {
                drivers::run(commit_driver(|| std::future::ready(())), async {
                    let poll = ReceiveRequest { max: 1, wait_time_s: Some(20), ..ANY };
                    for number in 0..ROUNDS {
                        for turn in 0..queues.len() {
                            let queue = &queues[(turn + runtime as usize) % queues.len()];
                            send(queue, runtime * ROUNDS + number).await.unwrap();
                            // There are as many messages as receives, if not always at once.
                            let received = queue.receive(&poll).await.unwrap();
                            let handle = |message: &Incoming| {
                                shards.open_receipt_handle(&message.receipt_handle).unwrap()
                            };
                            let handles: Vec<_> = received.iter().map(handle).collect();
                            assert_eq!(handles[0].queue.shard(), queue.id().shard());
                            assert!(queue.delete(&handles).await.unwrap()[0].is_ok());
                        }
                    }
                });
            });
        }
    });

    assert_eq!(queues.iter().map(|queue| queue.counts().total()).sum::<u64>(), 0);
    shards.close();
    committers.into_iter().for_each(|committer| committer.join().unwrap());
}

/// The journal is locked for as long as anything holds it: a journal that opens was let go of by
/// all threads.
#[test]
fn a_shard_is_closed_and_built_again_while_others_go_on() {
    const REBUILDS: u64 = 100;
    const CLIENTS: u64 = 2;
    let shards = shards();
    let (home_log, home) = open(&shards, HOME, &Arc::new(SimFileSystem::new(1)));
    let steady = create(&home_log, &home, "steady");
    let steady_committer = home_log.spawn_committer().unwrap();
    let fs = Arc::new(SimFileSystem::new(2));
    let (mut log, mut shard) = open(&shards, OTHER, &fs);
    create(&log, &shard, "jobs");
    let mut committer = log.spawn_committer().unwrap();
    shards.spawn_threads().unwrap();
    let (sent, tried, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));

    let committer = std::thread::scope(|scope| {
        // Also if a check fails: the clients would go on for ever.
        let _over = OnDrop(|| is_over.store(true, Ordering::Relaxed));
        for client in 0..CLIENTS {
            let (shards, steady) = (&shards, &steady);
            let (sent, tried, is_over) = (&sent, &tried, &is_over);
            scope.spawn(move || {
                drivers::run(commit_driver(|| std::future::ready(())), async {
                    for number in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        let queue = shards.catalog().queue_by_key(&key("jobs"));
                        if let Some(queue) = queue {
                            tried.fetch_add(1, Ordering::Relaxed);
                            match send(&queue, client << 32 | number).await {
                                Ok(()) => _ = sent.fetch_add(1, Ordering::Relaxed),
                                Err(BrokerError::Unavailable(_)) => {}
                                Err(error) => panic!("{error}"),
                            }
                            if number % 3 == 0 {
                                // Hidden: the timers have something to do later.
                                let _ = queue.receive(&ReceiveRequest { max: 1, ..ANY }).await;
                            }
                        }
                        send(steady, client << 32 | number).await.unwrap();
                        yield_now().await;
                    }
                });
            });
        }
        for _ in 0..REBUILDS {
            let before = sent.load(Ordering::Relaxed);
            wait_until("messages are sent", || sent.load(Ordering::Relaxed) >= before + 5);
            let let_go = (Arc::downgrade(&log), Arc::downgrade(&shard));
            drop((log, shard));

            shards.close_shard(OTHER);

            committer.join().unwrap();
            wait_until("nothing holds the shard", || let_go.1.upgrade().is_none());
            wait_until("nothing holds the journal", || let_go.0.upgrade().is_none());
            assert!(shards.shard(OTHER).is_none());
            (log, shard) = open(&shards, OTHER, &fs);
            committer = log.spawn_committer().unwrap();
        }
        committer
    });

    let jobs = shards.catalog().queue_by_key(&key("jobs")).unwrap();
    let found = jobs.counts().total();
    assert!(found >= sent.load(Ordering::Relaxed), "what was told to be sent is there");
    assert!(found <= tried.load(Ordering::Relaxed), "nothing is there twice");
    shards.close();
    committer.join().unwrap();
    steady_committer.join().unwrap();
}

#[test]
fn nothing_is_left_of_a_closed_shard_but_the_others() {
    let shards = shards();
    let (home_log, home) = open(&shards, HOME, &Arc::new(SimFileSystem::new(1)));
    let (log, other) = open(&shards, OTHER, &Arc::new(SimFileSystem::new(2)));
    let kept = create(&home_log, &home, "kept");
    let gone = create(&log, &other, "gone");
    run(&log, send(&gone, 1)).unwrap();
    assert_ne!(shards.run_due(), Timestamp::NEVER, "its retention is to end");

    shards.close_shard(OTHER);

    assert_eq!(shards.run_due(), Timestamp::NEVER);
    assert!(shards.catalog().queue_by_id(gone.id()).is_none());
    assert_eq!(shards.catalog().queues().len(), 1);
    assert!(matches!(run(&log, send(&gone, 2)), Err(BrokerError::Unavailable(_))));
    run(&home_log, send(&kept, 1)).unwrap();
}

#[test]
fn ids_of_a_shard_survive_replay_and_their_receipt_handles_are_found() {
    let fs = Arc::new(SimFileSystem::new(1));
    let first = shards();
    open(&first, HOME, &Arc::new(SimFileSystem::new(2)));
    let (log, shard) = open(&first, OTHER, &fs);
    let queue = create(&log, &shard, "jobs");
    run(&log, send(&queue, 1)).unwrap();
    let received = run(&log, queue.receive(&ANY)).unwrap();
    let (id, seq) = (queue.id(), received[0].delivery.at.seq);
    first.close();
    drop((first, log, shard, queue));

    let second = shards();
    open(&second, HOME, &Arc::new(SimFileSystem::new(3)));
    let (log, shard) = open(&second, OTHER, &fs);
    let queue = second.catalog().queue_by_id(id).unwrap();
    let handle = second.open_receipt_handle(&received[0].receipt_handle).unwrap();

    assert_eq!([id.shard(), QueueId(seq).shard(), handle.queue.shard()], [OTHER; 3]);
    assert_eq!((handle.queue, handle.seq), (id, seq));
    assert!(run(&log, queue.delete(&[handle])).unwrap()[0].is_ok());
    assert_eq!(queue.counts().total(), 0);
    let later = create(&log, &shard, "later");
    assert!(later.id().0 >> 40 > id.0 >> 40, "of a later epoch");
    assert_eq!(second.shard_of(&later).unwrap().id(), OTHER);
}

#[test]
fn a_shard_does_not_open_over_another_ones_journal() {
    let fs = Arc::new(SimFileSystem::new(1));
    let first = shards();
    let (log, shard) = open(&first, OTHER, &fs);
    create(&log, &shard, "jobs");
    first.close();
    drop((first, log, shard));

    let refused = try_open(&shards(), HOME, &fs).map(drop);

    let text = "the journal of shard 0 holds a queue of shard 3";
    assert!(matches!(&refused, Err(BrokerError::Internal(told)) if told == text), "{refused:?}");
}

#[test]
fn a_journal_that_was_opened_too_often_is_refused() {
    assert_eq!(Shard::first_seq(OTHER, 65_535).unwrap(), 0x03ff_ff00_0000_0000);

    let refused = Shard::first_seq(OTHER, 65_536).unwrap_err();

    let text = "the journal is in its epoch 65536, limit 65535: no further ids can be made; move \
                the messages to a server with a new data directory";
    assert_eq!(refused.to_string(), text);
}

/// One record moves a message, so it cannot leave its journal.
#[test]
fn messages_stay_in_their_shard() {
    let shards = shards();
    let (home_log, home) = open(&shards, HOME, &Arc::new(SimFileSystem::new(1)));
    let (log, other) = open(&shards, OTHER, &Arc::new(SimFileSystem::new(2)));
    let dead = create(&log, &other, "dead");
    let jobs = create(&home_log, &home, "jobs");
    let QueueKey { region, account, name } = dead.key().clone();
    let redrive = Redrive { region, account, name, max_receive_count: 1 };
    let update = shards.catalog().update_queue(&jobs, |definition| {
        definition.settings.redrive = Some(redrive);
        Ok::<_, ()>(())
    });
    run(&home_log, update).unwrap().unwrap();
    run(&home_log, send(&jobs, 1)).unwrap();

    let at_once = ReceiveRequest { visibility_timeout_s: Some(0), ..ANY };
    for _ in 0..3 {
        assert_eq!(run(&home_log, jobs.receive(&at_once)).unwrap().len(), 1);
    }
    let start = move_task(jobs.key(), dead.key());
    run(&home_log, home.move_tasks().start(&start)).unwrap();
    shards.maintain();

    let task = home.move_tasks().of_source(jobs.key(), 1).remove(0);
    assert_eq!(task.status, MoveTaskStatus::Failed);
    assert_eq!((jobs.counts().total(), dead.counts().total()), (1, 0));
    shards.close();
}

/// Two fan-outs to the same queues, each in its own order, do not wait for each other.
#[test]
fn fan_outs_lock_their_queues_in_one_order() {
    let shards = shards();
    let (log, home) = open(&shards, HOME, &Arc::new(SimFileSystem::new(1)));
    let queues = ["a", "b"].map(|name| create(&log, &home, name));
    let (done, is_done) = std::sync::mpsc::channel();
    for turn in 0..2 {
        let (log, home, queues, done) = (log.clone(), home.clone(), queues.clone(), done.clone());
        std::thread::spawn(move || {
            let content = content("m");
            for _ in 0..3_000 {
                let messages = [message("m", &content)];
                let to = |number: usize| SendTo { queue: &queues[number], messages: &messages };
                // What waits for its commit fills the journal's room again and again.
                while home.begin_fan_out(&[to(turn), to(1 - turn)], &[]).is_err() {
                    log.commit_step();
                }
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        is_done.recv_timeout(LONG).expect("they wait for each other");
    }
    while log.commit_step() {}
    assert_eq!(queues.map(|queue| queue.counts().total()), [6_000; 2]);
    shards.close();
}
