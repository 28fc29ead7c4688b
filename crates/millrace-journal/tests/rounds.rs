//! Use, an end, damage and repair, round after round: what was committed and not met by damage is
//! there.
//!
//! `ROUNDS_SEEDS=0..100000` runs those seeds instead of the usual ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use common::{Opening, Seen, append, dir, open_with, payload, segment_path, work_off};
use millrace_journal::{
    Durability, Fault, FileSystem, GroupCommit, OpenError, Purpose, SegmentId, SimFileSystem,
    check, repair,
};

const FRAME_HEADER_BYTES: usize = 48;
const SEGMENT_HEADER_BYTES: usize = 64;
const BLOCK_BYTES: usize = 4096;
const FAULTS: [Fault; 3] = [Fault::NoSpace, Fault::Io, Fault::PowerLoss];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A record, where its frame stands, and the epoch that it was written in.
struct Stored {
    seen: Seen,
    frame: Range<usize>,
    epoch: u64,
    /// Committed, not truncated, and not met by damage.
    counts: bool,
}

impl Stored {
    fn segment(&self) -> u32 {
        self.seen.position.segment().0
    }
}

struct World {
    fs: SimFileSystem,
    random: Random,
    segment_blocks: usize,
    stored: BTreeMap<u64, Stored>,
    epochs: Vec<u64>,
    /// The simulated disk has one at most.
    has_bad_sector: bool,
}

/// The log begins anew.
struct SaltLost;

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        Self {
            fs: SimFileSystem::new(seed),
            segment_blocks: random.pick(&[1, 1, 3]),
            random,
            stored: BTreeMap::new(),
            epochs: Vec::new(),
            has_bad_sector: false,
        }
    }

    fn run(&mut self) -> Result<(), SaltLost> {
        for _ in 0..2 + self.random.below(6) {
            while self.random.chance(20) {
                let fault = self.fail_soon(20, &FAULTS);
                if let Ok(opening) = self.open() {
                    self.judge(&opening);
                }
                self.end(fault == Fault::PowerLoss);
            }
            let opening = self.open().unwrap();
            self.judge(&opening);
            let log = opening.group_commit;
            let is_dead = self.use_log(&log);
            let active = log.tail().segment().0;
            drop(log);
            self.end(is_dead);
            if self.random.chance(75) {
                for _ in 0..1 + self.random.below(4) {
                    self.damage(active);
                }
                self.repair()?;
            }
        }
        self.judge(&self.open().unwrap());
        Ok(())
    }

    fn open(&self) -> Result<Opening, OpenError> {
        let segment_bytes = (self.segment_blocks * BLOCK_BYTES) as u32;
        open_with(&self.fs, Durability::Fsync, segment_bytes)
    }

    fn fail_soon(&mut self, calls: usize, faults: &[Fault]) -> Fault {
        let fault = self.random.pick(faults);
        self.fs.fail_call(self.fs.calls() + self.random.below(calls) as u64, fault);
        fault
    }

    /// The process ends, or the machine loses power.
    fn end(&mut self, is_off: bool) {
        let seed = self.random.next();
        let is_off = is_off || self.random.chance(40);
        self.fs = if is_off { self.fs.crashed(seed) } else { self.fs.killed() };
    }

    /// Whether power was lost meanwhile.
    fn use_log(&mut self, log: &Arc<GroupCommit>) -> bool {
        if self.random.chance(40) {
            self.fail_soon(60, &[Fault::PowerLoss]);
        }
        for _ in 0..self.random.below(25 * self.segment_blocks) {
            let is_alive = match self.random.below(12) {
                0 => self.truncate(log),
                1 => {
                    work_off(log);
                    true
                }
                2 => {
                    log.background_step();
                    true
                }
                _ => self.store(log),
            };
            if !is_alive {
                return true;
            }
        }
        false
    }

    fn truncate(&mut self, log: &Arc<GroupCommit>) -> bool {
        let segments = log.segments();
        let boundary = segments[self.random.below(segments.len())].id;
        let is_done = log.truncate_before(boundary).is_ok();
        // Whether it is gone is seen at the next start.
        self.lose(|stored| SegmentId(stored.segment()) < boundary);
        is_done
    }

    fn store(&mut self, log: &Arc<GroupCommit>) -> bool {
        let first = self.stored.len() as u64;
        let ids: Vec<u64> = (first..=first + self.random.below(4) as u64).collect();
        let Ok((ticket, positions)) = append(log, first, &ids, Purpose::Store) else {
            return false;
        };
        while log.commit_step() {}
        let is_committed = log.outcome(ticket).expect("settled").is_ok();
        let record_len = |id| (12 + 16 + payload(id).len()) as u32;
        let start = positions[0].offset() as usize - FRAME_HEADER_BYTES;
        let bytes: usize = ids.iter().map(|id| record_len(*id) as usize).sum();
        let frame = start..(start + FRAME_HEADER_BYTES + bytes).next_multiple_of(8);
        for (id, position) in ids.into_iter().zip(positions) {
            let seen = Seen { position, record_len: record_len(id), id, batch: first };
            let epoch = *self.epochs.last().unwrap();
            let stored = Stored { seen, frame: frame.clone(), epoch, counts: is_committed };
            self.stored.insert(id, stored);
        }
        is_committed
    }

    /// These need not be there any more.
    fn lose(&mut self, is_lost: impl Fn(&Stored) -> bool) {
        for stored in self.stored.values_mut().filter(|stored| is_lost(stored)) {
            stored.counts = false;
        }
    }

    fn lose_bytes(&mut self, segment: u32, bytes: &Range<usize>) {
        self.lose(|stored| {
            let frame = &stored.frame;
            stored.segment() == segment && frame.start < bytes.end && bytes.start < frame.end
        });
    }

    fn damage(&mut self, active: u32) {
        let segments = self.segments();
        let segment = self.random.pick(&segments);
        let path = segment_path(segment);
        let mut bytes = self.fs.contents(&path).unwrap();
        match self.random.below(12) {
            0..4 => {
                let start = self.random.below(bytes.len() + 1);
                let most = self.random.pick(&[1, 600]);
                let range = start..(start + 1 + self.random.below(most)).min(bytes.len());
                self.alter(segment, range);
            }
            4 => {
                let start = self.random.below(SEGMENT_HEADER_BYTES).min(bytes.len());
                self.alter(segment, start..SEGMENT_HEADER_BYTES.min(bytes.len()));
            }
            5 | 6 => {
                let here = self.stored.values().filter(|stored| stored.segment() == segment);
                let frames: Vec<usize> = here.map(|stored| stored.frame.start).collect();
                if !frames.is_empty() {
                    let at = self.random.pick(&frames) + self.random.below(60);
                    self.alter(segment, at.min(bytes.len())..(at + 1).min(bytes.len()));
                }
            }
            7 => {
                bytes.truncate(self.random.below(bytes.len() + 1));
                self.fs.plant(&path, &bytes);
                self.lose_bytes(segment, &(bytes.len()..usize::MAX));
            }
            // That the oldest or the last one is gone need not show.
            8 if segments[0] < segment && segment < active => {
                self.remove(path);
                self.lose_bytes(segment, &(0..usize::MAX));
            }
            9 if segment < active => {
                let other = self.fs.contents(&segment_path(self.random.pick(&segments)));
                self.fs.plant(&path, &other.unwrap());
                self.lose_bytes(segment, &(0..usize::MAX));
            }
            10 if !self.has_bad_sector && !bytes.is_empty() => {
                let at = self.random.below(bytes.len());
                let block = at / BLOCK_BYTES * BLOCK_BYTES;
                let in_block = &bytes[block..(block + BLOCK_BYTES).min(bytes.len())];
                // Holes are not read from the disk.
                if in_block.iter().any(|byte| *byte != 0) {
                    self.has_bad_sector = true;
                    self.fs.fail_reads_at(&path, at as u64);
                    self.lose_bytes(segment, &(block..block + BLOCK_BYTES));
                }
            }
            _ => {
                let index = dir().join(format!("{segment:08x}.idx"));
                if let Some(mut bytes) = self.fs.contents(&index) {
                    let at = self.random.below(bytes.len());
                    bytes[at] ^= 1;
                    self.fs.plant(&index, &bytes);
                }
            }
        }
    }

    fn alter(&mut self, segment: u32, range: Range<usize>) {
        let path = segment_path(segment);
        let mut bytes = self.fs.contents(&path).unwrap();
        let bits = 1 + self.random.below(255) as u8;
        let is_zeroed = self.random.chance(30);
        for byte in &mut bytes[range.clone()] {
            *byte = if is_zeroed { 0 } else { *byte ^ bits };
        }
        self.fs.plant(&path, &bytes);
        self.lose_bytes(segment, &range);
    }

    fn remove(&self, path: PathBuf) {
        self.fs.remove(&path).unwrap();
        self.fs.sync_dir(dir()).unwrap();
    }

    fn segments(&self) -> Vec<u32> {
        let names = self.fs.list(dir()).unwrap();
        let number = |name: &String| u32::from_str_radix(name.strip_suffix(".seg")?, 16).ok();
        let mut segments: Vec<u32> = names.iter().filter_map(number).collect();
        segments.sort_unstable();
        segments
    }

    /// A repair that may be interrupted, fail, or have its end followed by a loss of power.
    fn repair(&mut self) -> Result<(), SaltLost> {
        let run = |fs: &SimFileSystem| repair(Arc::new(fs.clone()), dir());
        if self.random.chance(40) {
            // A sector that is written in part cannot be read, and shows no data to be missed.
            let faults = if self.has_bad_sector { &[Fault::PowerLoss][..] } else { &FAULTS };
            let fault = self.fail_soon(25, faults);
            // What it has found is found again.
            let _ = run(&self.fs);
            self.end(fault == Fault::PowerLoss);
        }
        run(&self.fs).unwrap();
        assert!(check(&self.fs, dir()).unwrap().is_sound());
        self.has_bad_sector = false;
        self.end(false);
        if self.segments().is_empty() { self.lose_salt() } else { Ok(()) }
    }

    /// Without any header it takes two frames of a segment to tell the journal's from others.
    fn lose_salt(&self) -> Result<(), SaltLost> {
        let counted = self.stored.values().filter(|stored| stored.counts);
        let frames: BTreeSet<(u32, usize)> =
            counted.map(|stored| (stored.segment(), stored.frame.start)).collect();
        let frames: Vec<_> = frames.into_iter().collect();
        assert!(frames.windows(2).all(|two| two[0].0 != two[1].0), "{frames:?}");
        Err(SaltLost)
    }

    /// All that counts is there, once, in order, and can be read; nothing is there that was not
    /// stored; no epoch comes again while records of it count.
    fn judge(&mut self, opening: &Opening) {
        let seen: BTreeMap<u64, &Seen> = opening.seen.iter().map(|seen| (seen.id, seen)).collect();
        assert_eq!(seen.len(), opening.seen.len());
        assert!(opening.seen.is_sorted_by_key(|seen| (seen.position, seen.id)));
        assert!(seen.iter().all(|(id, seen)| self.stored[id].seen == **seen));
        for (id, stored) in self.stored.iter().filter(|(_, stored)| stored.counts) {
            let Seen { position, record_len, .. } = stored.seen;
            assert!(seen.contains_key(id), "{id} is lost");
            let record = opening.group_commit.read(position, record_len).unwrap();
            assert_eq!(record.payload(), payload(*id));
        }
        let epoch = opening.opened.epoch.0;
        let counted = self.stored.values().filter(|stored| stored.counts);
        assert!(counted.map(|stored| stored.epoch).max() < Some(epoch));
        self.epochs.push(epoch);
    }
}

#[test]
fn what_damage_did_not_meet_is_kept() {
    let seeds = std::env::var("ROUNDS_SEEDS").unwrap_or_else(|_| "0..250".to_owned());
    let (from, to) = seeds.split_once("..").unwrap();
    for seed in from.parse::<u64>().unwrap()..to.parse().unwrap() {
        let run = || World::new(seed).run();
        let ran = std::panic::catch_unwind(run);
        assert!(ran.is_ok(), "seed {seed}");
    }
}
