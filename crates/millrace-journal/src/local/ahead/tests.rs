use std::collections::HashSet;

use super::super::chunks::CHUNKS;
use super::*;
use crate::fs::SimFileSystem;

const SEGMENT: SegmentId = SegmentId(7);
const BYTES: u32 = 1 << 20;
const RECORD: u32 = 1_100;

/// A segment, whose chunks are of 64 KiB, and who reads it.
struct Reading {
    fs: SimFileSystem,
    contents: Vec<u8>,
    limit: u32,
    ahead: ReadAhead,
    /// Records found.
    found: usize,
    /// What was read of the file, by where it starts and how long it is.
    loads: HashSet<(u32, usize)>,
}

impl Reading {
    fn new() -> Reading {
        let fs = SimFileSystem::new(1);
        let contents: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
        fs.plant(&segment_path(Path::new("/"), SEGMENT), &contents);
        let ahead = ReadAhead::new(BYTES);
        Reading { fs, contents, limit: BYTES, ahead, found: 0, loads: HashSet::new() }
    }

    fn place(&self) -> Place<'_> {
        Place { fs: &self.fs, dir: Path::new("/"), limit: self.limit }
    }

    fn read(&mut self, at: u32) -> bool {
        let bytes = self.ahead.read(self.place(), Position::new(SEGMENT, at), RECORD);
        if let Some(bytes) = &bytes {
            assert_eq!(bytes, &self.contents[at as usize..][..RECORD as usize]);
            self.found += 1;
        }
        self.note_loads();
        bytes.is_some()
    }

    /// Reads in this order. How often was the file read?
    fn read_all(&mut self, places: impl IntoIterator<Item = u32>) -> usize {
        let before = self.loads.len();
        for at in places {
            self.read(at);
        }
        self.loads.len() - before
    }

    fn step(&mut self) -> bool {
        let has_read = self.ahead.step(|segment| (segment == SEGMENT).then(|| self.place()));
        self.note_loads();
        has_read
    }

    fn note_loads(&mut self) {
        for chunk in lock(&self.ahead.chunks).by_place.values() {
            if let Contents::Read(part) = &chunk.contents {
                self.loads.insert((part.start, part.bytes.len()));
            }
        }
    }
}

/// One record after the other, each `gap` behind the last.
fn sequence(gap: u32) -> impl Iterator<Item = u32> {
    (64..BYTES - RECORD).step_by((RECORD + gap) as usize)
}

#[test]
fn all_but_the_first_of_a_sequence_are_found() {
    let mut reading = Reading::new();

    // A part of the first chunk, and each chunk.
    assert_eq!(reading.read_all(sequence(0)), 1 + 16);
    assert_eq!(reading.found, sequence(0).count() - 1);
}

#[test]
fn nobody_waits_for_what_was_read_ahead() {
    let mut reading = Reading::new();
    assert_eq!(reading.read_all([0, RECORD, 20 * RECORD, 21 * RECORD]), 2);

    let mut steps = 0;
    for at in sequence(0).skip(21) {
        assert_eq!(reading.read_all([at]), 0, "at {at}");
        steps += u32::from(reading.step());
    }
    assert_eq!(steps, 15);
    assert!(!reading.ahead.has_wanted());
}

#[test]
fn what_is_far_apart_is_read_alone() {
    let mut reading = Reading::new();

    assert_eq!(reading.read_all(sequence(70_000)), 0);
    assert_eq!(reading.found, 0);
}

#[test]
fn little_is_read_of_a_chunk_that_few_records_are_in_by_chance() {
    let mut reading = Reading::new();
    reading.read_all([200_000, 220_000, 221_100, 222_200]);
    assert!(!reading.ahead.has_wanted());

    let chunks = lock(&reading.ahead.chunks);
    let read = chunks.by_place.values().find_map(|chunk| match &chunk.contents {
        Contents::Read(part) => Some((part.start, part.bytes.len())),
        _ => None,
    });
    assert_eq!(read, Some((217_088, 16 << 10)));
}

#[test]
fn only_what_is_committed_is_found() {
    let mut reading = Reading::new();
    reading.limit = 10 * RECORD;
    reading.read_all((0..10).map(|record| record * RECORD));
    assert_eq!(reading.found, 9);
    assert!(!reading.ahead.has_wanted());

    let at = Position::new(SEGMENT, 10 * RECORD);
    assert_eq!(reading.ahead.read(reading.place(), at, RECORD), None);
    reading.limit = 11 * RECORD;
    assert!(reading.read(10 * RECORD));
}

#[test]
fn readers_do_not_disturb_one_another() {
    let mut reading = Reading::new();
    let loads = reading.read_all(
        (0..80).flat_map(|step| (0..10).map(move |reader| reader * 100_000 + step * RECORD)),
    );

    assert_eq!(reading.found, 10 * 79);
    assert!(loads <= 10 + 16, "{loads} loads");
}

#[test]
fn one_who_lags_behind_finds_what_is_read() {
    let mut reading = Reading::new();
    let lagging = |step: u32| [step + 100, step].map(|step| step * RECORD);
    let loads = reading.read_all((0..800).flat_map(lagging));

    assert!(reading.found >= 1_597, "{} found", reading.found);
    assert!(loads <= 2 + 16, "{loads} loads");
}

#[test]
fn those_who_want_what_is_being_read_wait_for_it() {
    let reading = Reading::new();
    let id = ChunkId { segment: SEGMENT, index: 0 };
    lock(&reading.ahead.chunks).insert(id, Contents::Reading);

    std::thread::scope(|scope| {
        let find = || reading.ahead.find(reading.place(), id, 0..RECORD);
        let found = scope.spawn(find);
        let chunks = loop {
            let chunks = lock(&reading.ahead.chunks);
            // The thread holds the lock until it waits.
            if chunks.leads_on(Some(id)) {
                break chunks;
            }
            drop(chunks);
            std::thread::yield_now();
        };
        reading.ahead.load(chunks, reading.place(), id, 0..(64 << 10)).unwrap();
        assert_eq!(found.join().unwrap().unwrap(), reading.contents[..RECORD as usize]);
    });
}

#[test]
fn memory_is_bounded_and_what_was_used_last_stays() {
    let mut reading = Reading::new();
    for segment in 100..100 + 2 * CHUNKS as u32 {
        let far = Position::new(SegmentId(segment), 0);
        assert_eq!(reading.ahead.read(reading.place(), far, RECORD), None);
        reading.read(segment * 10);
    }

    assert_eq!(lock(&reading.ahead.chunks).by_place.len(), CHUNKS);
    assert_eq!(reading.found, 2 * CHUNKS - 1);
}

#[test]
fn files_of_truncated_segments_are_let_go() {
    let mut reading = Reading::new();
    reading.read_all([0, RECORD, 30 * RECORD, 31 * RECORD]);
    assert!(reading.ahead.has_wanted());

    reading.ahead.forget_before(SEGMENT);
    assert!(lock(&reading.ahead.chunks).file(SEGMENT).is_some());
    reading.ahead.forget_before(SEGMENT.next());
    assert!(lock(&reading.ahead.chunks).file(SEGMENT).is_none());
    assert!(!reading.step());

    // Whoever comes late does not open them again.
    assert_eq!(reading.read_all([0, RECORD, 2 * RECORD]), 0);
    assert!(lock(&reading.ahead.chunks).by_place.is_empty());
}

#[test]
fn a_segment_that_is_gone_is_not_read_ahead() {
    let mut reading = Reading::new();
    reading.read_all([0, RECORD, 30 * RECORD, 31 * RECORD]);

    assert!(reading.ahead.step(|_| None));
    assert!(!reading.step());
}

#[test]
fn where_it_cannot_be_done_records_are_read_alone() {
    let mut reading = Reading::new();
    reading.fs.refuse_direct();
    reading.read_all(sequence(0));

    assert_eq!(reading.found, 0);
}

#[test]
fn of_a_chunk_that_cannot_be_read_records_are_read_alone() {
    let reading = Reading::new();
    let id = ChunkId { segment: SEGMENT, index: 0 };
    lock(&reading.ahead.chunks).insert(id, Contents::Unreadable);

    assert_eq!(reading.ahead.find(reading.place(), id, 0..RECORD), None);
}

#[test]
fn the_next_chunk_is_read_ahead_although_it_was_noticed() {
    let mut reading = Reading::new();
    reading.read_all([100_000, 0, RECORD, 30 * RECORD, 31 * RECORD]);

    assert!(reading.step());
    assert_eq!(reading.read_all([110_000]), 0);
}

#[test]
fn whoever_waits_goes_on_although_a_reading_ends_early() {
    let reading = Reading::new();
    let id = ChunkId { segment: SEGMENT, index: 0 };
    lock(&reading.ahead.chunks).insert(id, Contents::Reading);

    drop(ReadingEnds { ahead: &reading.ahead, id, is_shared: false });
    assert!(lock(&reading.ahead.chunks).by_place.is_empty());
}

#[test]
fn after_an_error_reading_goes_on() {
    let mut reading = Reading::new();
    reading.read(0);
    reading.fs.allow_opening(false);
    assert!(!reading.read(RECORD));

    reading.fs.allow_opening(true);
    reading.read_all(sequence(0));
    assert_eq!(reading.found, sequence(0).count() - 1);
}
