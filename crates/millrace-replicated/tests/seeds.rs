//! Nodes that share a log with faults, and a ledger of what they were told.
//!
//! `REPLICATED_SEEDS=0..10000` runs those seeds instead of the usual ones. While a node waits for
//! the log, others go on; everything happens on one thread, so that one seed is one run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use millrace_journal::frame::{Chain, Frame, FrameKind};
use millrace_journal::{
    GroupCommit, GroupOptions, Journal, OpenError, Owner, Position, Purpose, Record, SimFileSystem,
    Unavailable,
};
use millrace_replicated::sim::{Faults, Happened, SimConnection};
use millrace_replicated::{Clock, CopyPlace, FollowError, Follower, LogFormat, Patience, SimLog};

const FORMAT: LogFormat = LogFormat { salt: 5, segment_bytes: 8 << 10, max_frame_bytes: 4 << 10 };
const PATIENCE: Patience = Patience {
    first_answer: Duration::from_millis(900),
    answer: Duration::from_millis(500),
    pause: Duration::from_millis(50),
    // Less than the longest election, so that some appends stay unsettled.
    limit: Duration::from_secs(6),
};
const NODES: usize = 3;
const STEPS: usize = 150;
/// Nodes that wait for the log at the same time.
const WAITING_MAX: u32 = 2;

/// Of an owner.
type Nonce = [u8; 16];
/// Places and ids of records, in order.
type Shown = Vec<(Position, u64)>;

struct Node {
    number: usize,
    disk: SimFileSystem,
    connection: Arc<SimConnection>,
    role: Role,
    /// What this node was shown since it was started.
    shown: Shown,
}

enum Role {
    Down,
    Following(Box<Follower>),
    Owning(Arc<GroupCommit>),
}

#[derive(Default)]
struct Ledger {
    next_id: u64,
    acknowledged: BTreeMap<u64, Position>,
    /// Of appends that were fenced, and so are not there.
    fenced: BTreeSet<u64>,
    /// The same of those who were not to own the log.
    losers: BTreeSet<Nonce>,
    /// By epoch: the nonce of the one who was told that it owns it.
    owners: BTreeMap<u64, Nonce>,
    /// What is before was truncated by an owner.
    cut: Position,
    told: Told,
}

/// What nodes have met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    acknowledged: u64,
    fenced: u64,
    not_settled: u64,
    lost_races: u64,
    restarts: u64,
    overtaken: u64,
    void: u64,
}

struct World {
    log: SimLog,
    random: Mutex<fastrand::Rng>,
    /// None while the node is at work.
    nodes: Vec<Mutex<Option<Box<Node>>>>,
    ledger: Mutex<Ledger>,
    waiting: AtomicU32,
    this: Weak<World>,
}

/// Time passes, and others act.
struct WorldClock(Weak<World>);

impl Clock for WorldClock {
    fn now(&self) -> Duration {
        self.0.upgrade().unwrap().log.now()
    }

    fn sleep(&self, time: Duration) {
        let world = self.0.upgrade().unwrap();
        world.log.sleep(time);
        if world.waiting.load(Ordering::Relaxed) < WAITING_MAX && world.below(3) == 0 {
            world.waiting.fetch_add(1, Ordering::Relaxed);
            world.step();
            world.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl World {
    fn new(seed: u64) -> Arc<Self> {
        let log = SimLog::new(seed, FORMAT);
        log.set_faults(Faults::from_seed(seed));
        let node = |number: usize| Node {
            number,
            disk: SimFileSystem::new(seed ^ number as u64),
            connection: log.connect(),
            role: Role::Down,
            shown: Vec::new(),
        };
        let nodes = (0..NODES).map(|number| Mutex::new(Some(Box::new(node(number))))).collect();
        Arc::new_cyclic(|this| Self {
            log,
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            nodes,
            ledger: Mutex::default(),
            waiting: AtomicU32::new(0),
            this: this.clone(),
        })
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.lock().unwrap().u64(0..limit)
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(WorldClock(self.this.clone()))
    }

    /// One node that is not at work does something.
    fn step(&self) {
        let slot = &self.nodes[self.below(NODES as u64) as usize];
        let Some(mut node) = slot.lock().unwrap().take() else { return };
        match self.below(100) {
            0..3 => node.connection.cut(),
            3..15 => node.connection.heal(),
            15..18 => self.log.elect(),
            18..22 => self.kill(&mut node),
            22..24 => self.cut_power(&mut node),
            _ => self.act(&mut node),
        }
        *slot.lock().unwrap() = Some(node);
    }

    fn kill(&self, node: &mut Node) {
        node.role = Role::Down;
        node.disk = node.disk.killed();
        self.ledger().told.restarts += 1;
    }

    fn cut_power(&self, node: &mut Node) {
        node.role = Role::Down;
        node.disk = node.disk.crashed(self.below(1 << 32));
        self.ledger().told.restarts += 1;
    }

    fn act(&self, node: &mut Node) {
        node.role = match std::mem::replace(&mut node.role, Role::Down) {
            Role::Down => self.start(node),
            Role::Following(follower) => self.follow(node, follower),
            Role::Owning(group_commit) => self.own(node, group_commit),
        };
    }

    fn start(&self, node: &mut Node) -> Role {
        let place = CopyPlace::new(Arc::new(node.disk.clone()), Path::new("/copy"));
        node.shown.clear();
        let shown = &mut node.shown;
        let log = Arc::clone(&node.connection);
        let started = Follower::start(log, self.clock(), PATIENCE, &place, &mut |record| {
            shown.push((record.position, id_of(record.index)));
        });
        match started {
            Ok(follower) => Role::Following(Box::new(follower)),
            Err(FollowError::Silent { .. }) => Role::Down,
            // A log that nobody can see to its end for so long looks shorter than it is.
            Err(FollowError::Ahead { .. }) => Role::Down,
            Err(error) => panic!("node {} does not start: {error}", node.number),
        }
    }

    fn follow(&self, node: &mut Node, mut follower: Box<Follower>) -> Role {
        if self.below(5) > 0 {
            let shown = &mut node.shown;
            let copied = follower.catch_up(&mut |record| {
                shown.push((record.position, id_of(record.index)));
            });
            match copied {
                Ok(_) | Err(FollowError::Silent { .. }) => {}
                Err(FollowError::Overtaken { .. }) => {
                    self.ledger().told.overtaken += 1;
                    return Role::Down;
                }
                Err(error) => panic!("node {} does not follow: {error}", node.number),
            }
        }
        if self.below(4) > 0 {
            while follower.background_step() {}
            return Role::Following(follower);
        }
        let owner = Owner {
            node: node.number.to_string(),
            opened_at_ms: self.log.now().as_millis() as u64,
            ..Owner::unnamed(u128::from(self.below(u64::MAX)))
        };
        match follower.start_epoch(&owner) {
            Ok(journal) => {
                let epoch = journal.opened().epoch.0;
                let before = self.ledger().owners.insert(epoch, owner.nonce);
                assert_eq!(before, None, "two own epoch {epoch}");
                let options = GroupOptions { recent_bytes: 0, ..GroupOptions::default() };
                Role::Owning(GroupCommit::new(Box::new(journal), options))
            }
            Err(refused) => {
                if matches!(refused.error, OpenError::Fenced(_)) {
                    let mut ledger = self.ledger();
                    ledger.told.lost_races += 1;
                    ledger.losers.insert(owner.nonce);
                }
                Role::Following(Box::new(refused.follower))
            }
        }
    }

    fn own(&self, node: &mut Node, group_commit: Arc<GroupCommit>) -> Role {
        match self.below(10) {
            0 => self.truncate(&group_commit),
            1 => while group_commit.background_step() {},
            2 => self.read_back(&group_commit, node.number),
            _ => return self.send(group_commit),
        }
        Role::Owning(group_commit)
    }

    fn send(&self, group_commit: Arc<GroupCommit>) -> Role {
        let count = 1 + self.below(3);
        let first = {
            let mut ledger = self.ledger();
            ledger.next_id += count;
            ledger.next_id - count
        };
        let indexes: Vec<_> = (first..first + count).map(u64::to_le_bytes).collect();
        let payload = vec![7; self.below(900) as usize];
        let records: Vec<_> =
            indexes.iter().map(|index| Record { index, payload: &payload }).collect();
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        let Ok(reservation) = group_commit.reserve(bytes, Purpose::Store) else {
            return Role::Down;
        };
        let mut positions = Vec::new();
        let ticket = group_commit.append(reservation, &records, &mut positions);
        while group_commit.commit_step() {}
        let mut ledger = self.ledger();
        match group_commit.outcome(ticket) {
            Some(Ok(())) => {
                ledger.acknowledged.extend((first..).zip(positions));
                ledger.told.acknowledged += count;
                return Role::Owning(group_commit);
            }
            Some(Err(Unavailable::Fenced(_))) => {
                ledger.told.fenced += 1;
                ledger.fenced.extend(first..first + count);
            }
            Some(Err(Unavailable::NotSettled(_))) => ledger.told.not_settled += 1,
            outcome => panic!("an append ends with {outcome:?}"),
        }
        Role::Down
    }

    fn truncate(&self, group_commit: &GroupCommit) {
        let segments = group_commit.segments();
        let cut = segments[segments.len() / 2].id;
        group_commit.truncate_before(cut).unwrap();
        let mut ledger = self.ledger();
        ledger.cut = ledger.cut.max(Position::new(cut, 0));
    }

    /// What is acknowledged and not truncated can be read, by whoever owns the log.
    fn read_back(&self, group_commit: &GroupCommit, node: usize) {
        let oldest = group_commit.segments()[0].id;
        let own = group_commit.opened().tail;
        let held: BTreeSet<u64> = group_commit
            .segments()
            .iter()
            .flat_map(|segment| {
                let mut held = Vec::new();
                let replayed = group_commit.replay_segment(segment.id, &mut |record| {
                    held.push(id_of(record.index));
                    std::ops::ControlFlow::Continue(())
                });
                replayed.unwrap();
                held
            })
            .collect();
        for (id, at) in &self.ledger().acknowledged {
            // Later owners' are behind what this one knows of.
            if at.segment() >= oldest && *at < own {
                assert!(held.contains(id), "node {node} owns the log and lacks record {id}");
            }
        }
    }

    /// Ends all faults and compares what all nodes see with the ledger.
    fn settle_accounts(&self) {
        self.log.calm();
        let messages = self.log.history();
        let (counted, owners) = counting(&messages);
        let mut final_views = Vec::new();
        let fresh = SimFileSystem::new(99);
        for number in 0..=NODES {
            let disk = match self.nodes.get(number) {
                Some(slot) => {
                    let mut node = slot.lock().unwrap().take().unwrap();
                    node.role = Role::Down;
                    node.disk.killed()
                }
                None => fresh.clone(),
            };
            let place = CopyPlace::new(Arc::new(disk), Path::new("/copy"));
            let mut shown = Vec::new();
            let mut show = |record: millrace_journal::Replayed<'_>| {
                shown.push((record.position, id_of(record.index)));
            };
            let clock = Arc::new(self.log.clone());
            let mut follower =
                Follower::start(self.log.connect(), clock, PATIENCE, &place, &mut show).unwrap();
            follower.catch_up(&mut show).unwrap();
            let first = follower.copy().segments()[0].id;
            let due: Vec<_> =
                counted.iter().filter(|(at, _)| at.segment() >= first).copied().collect();
            assert_eq!(shown, due, "node {number} counts what counts, and nothing else");
            final_views.push((first, follower.end()));
        }
        assert!(final_views.iter().all(|(_, end)| *end == final_views[0].1), "one end");

        let mut ledger = self.ledger();
        let ids: BTreeMap<u64, Position> = counted.iter().map(|(at, id)| (*id, *at)).collect();
        assert_eq!(ids.len(), counted.len(), "nothing is there twice");
        for (id, at) in &ledger.acknowledged {
            assert_eq!(ids.get(id), Some(at), "record {id} was acknowledged");
            let is_kept = final_views.iter().all(|(first, _)| at.segment() >= *first);
            assert!(is_kept || *at < ledger.cut, "record {id} was truncated by nobody");
        }
        for id in &ledger.fenced {
            assert_eq!(ids.get(id), None, "record {id} was fenced, and is there");
        }
        let is_loser = |nonce: &Nonce| ledger.losers.contains(nonce);
        assert!(!owners.values().any(is_loser), "who was told that another owns the log owns it");
        for (epoch, nonce) in &ledger.owners {
            assert_eq!(owners.get(epoch), Some(nonce), "epoch {epoch} has the owner that was told");
        }
        ledger.told.void = (messages.len() - frames(&messages).len()) as u64;
    }
}

fn id_of(index: &[u8]) -> u64 {
    u64::from_le_bytes(index.try_into().unwrap())
}

/// The frames that count, by a rule of its own: each follows the last one that counts, by its
/// checksum and counter, in the same epoch or, if it opens one, in the next.
fn frames(messages: &[bytes::Bytes]) -> Vec<Frame> {
    let mut last = Chain::default();
    let mut counting = Vec::new();
    for message in messages {
        let frame = Frame::from_bytes(message, FORMAT.salt).unwrap();
        let header = frame.header;
        let epoch = last.epoch.0 + u64::from(header.kind == FrameKind::Open);
        let expected = (epoch, last.counter + 1, last.previous);
        if (header.epoch.0, header.counter, header.previous) == expected {
            last = Chain { epoch: header.epoch, counter: header.counter, previous: frame.crc };
            counting.push(frame);
        }
    }
    counting
}

/// Places and ids of the records that count, and the owner of each epoch.
fn counting(messages: &[bytes::Bytes]) -> (Shown, BTreeMap<u64, Nonce>) {
    let (mut records, mut owners) = (Vec::new(), BTreeMap::new());
    for frame in frames(messages) {
        if frame.header.kind == FrameKind::Open {
            let nonce = Owner::decode(&frame.body).unwrap().nonce;
            assert_eq!(owners.insert(frame.header.epoch.0, nonce), None);
        }
        let _ = frame.show(&mut |record| {
            records.push((record.position, id_of(record.index)));
            std::ops::ControlFlow::Continue(())
        });
    }
    (records, owners)
}

fn run(seed: u64) -> (Told, Happened, Vec<bytes::Bytes>) {
    let world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
        world.log.sleep(Duration::from_millis(world.below(300)));
    }
    world.settle_accounts();
    let told = world.ledger().told;
    (told, world.log.happened(), world.log.history())
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("REPLICATED_SEEDS").unwrap_or_else(|_| "0..200".to_owned());
    let (first, end) = given.split_once("..").expect("a range such as 0..200");
    first.parse().unwrap()..end.parse().unwrap()
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_void_counts() {
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in seeds() {
        let ran = std::panic::catch_unwind(|| run(seed));
        let Ok((told, happened, _)) = ran else {
            panic!("seed {seed} failed, alone: REPLICATED_SEEDS={seed}..{}", seed + 1)
        };
        for (what, times) in [
            ("acknowledged", told.acknowledged),
            ("fenced", told.fenced),
            ("not settled", told.not_settled),
            ("lost races", told.lost_races),
            ("restarts", told.restarts),
            ("void frames", told.void),
            ("lost requests", happened.lost_requests),
            ("lost answers", happened.lost_answers),
            ("duplicates", happened.duplicates),
            ("slow commits", happened.slow_commits),
            ("refused for proposals", happened.refused_for_proposals),
            ("misplaced", happened.misplaced),
            ("elections", happened.elections),
            ("dropped proposals", happened.dropped),
            ("lagging readers", happened.lags),
            ("purges under way", happened.purges_under_way),
            ("overtaken", told.overtaken),
        ] {
            *seen.entry(what).or_default() += times;
        }
    }
    println!("{seen:?}");
    // So that none of this stops being tested unnoticed.
    if seeds().count() >= 200 {
        let missing: Vec<_> = seen.iter().filter(|(_, times)| **times < 10).collect();
        assert!(missing.is_empty(), "hardly ever: {missing:?}");
    }
}

#[test]
fn one_seed_is_one_run() {
    let (first, second) = (run(7), run(7));

    assert_eq!((first.0, first.1), (second.0, second.1));
    assert!(first.2 == second.2, "the same messages");
}
