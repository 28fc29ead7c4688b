//! The data points of one day at one resolution: a file of frames, and where in it which times and
//! entities are. So a read costs what it finds, as long as frames hold few entities.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use crate::log::Log;
use crate::number::{Reader, put_varint};
use crate::row::Row;
use crate::{BASE_PERIOD_S, FIVE_MINUTES_KEPT_S, HOURS_KEPT_S, MINUTES_KEPT_S};

pub(crate) const DAY_S: u64 = 86_400;

/// Frames next to one another are found together as long as they are not more bytes than this.
const CHUNK_BYTES: u32 = 32 << 10;
/// Rows of one frame where all of them need not be there after a crash, or none: a quarter to all
/// of a chunk.
pub(crate) const ROWS_PER_FRAME: usize = 1_000;
/// In place of a minute: several follow, each with its own rows.
const SEVERAL: u16 = 1_440;

/// How far apart the data points of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resolution {
    Minute,
    FiveMinutes,
    Hour,
}

impl Resolution {
    pub(crate) const ALL: [Resolution; 3] =
        [Resolution::Minute, Resolution::FiveMinutes, Resolution::Hour];

    /// Ending of the file's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Resolution::Minute => "1m",
            Resolution::FiveMinutes => "5m",
            Resolution::Hour => "1h",
        }
    }

    pub(crate) fn period_minutes(self) -> u16 {
        match self {
            Resolution::Minute => 1,
            Resolution::FiveMinutes => 5,
            Resolution::Hour => 60,
        }
    }

    pub(crate) fn period_s(self) -> u64 {
        u64::from(self.period_minutes()) * BASE_PERIOD_S
    }

    /// How long its data points are kept after the end of their day.
    pub(crate) fn kept_s(self) -> u64 {
        match self {
            Resolution::Minute => MINUTES_KEPT_S,
            Resolution::FiveMinutes => FIVE_MINUTES_KEPT_S,
            Resolution::Hour => HOURS_KEPT_S,
        }
    }

    /// What they are rolled up to then; `None`: they are dropped.
    pub(crate) fn coarser(self) -> Option<Resolution> {
        match self {
            Resolution::Minute => Some(Resolution::FiveMinutes),
            Resolution::FiveMinutes => Some(Resolution::Hour),
            Resolution::Hour => None,
        }
    }
}

/// An opened file.
#[derive(Debug)]
pub(crate) struct Day {
    log: Log,
    chunks: Vec<Chunk>,
}

/// Frames next to one another, and which minutes and entities they cover.
#[derive(Debug)]
struct Chunk {
    at: u64,
    bytes: u32,
    minutes: RangeInclusive<u16>,
    entities: RangeInclusive<u32>,
}

/// Which entities are asked for, and which minutes of each.
pub(crate) type Wanted = BTreeMap<u32, Range<u16>>;

impl Day {
    pub(crate) fn in_memory() -> Day {
        Day { log: Log::in_memory(), chunks: Vec::new() }
    }

    /// Opens or creates the file and shows every row in it, with its minute.
    pub(crate) fn open(path: &Path) -> io::Result<Day> {
        let mut chunks = Vec::new();
        let log = Log::open(path, |at, bytes, payload| {
            each_minute(payload, |minute, rows| {
                note(&mut chunks, (at, bytes), minute, entities_of(rows));
            });
        })?;
        Ok(Day { log, chunks })
    }

    /// Appends rows of one or more minutes of the day, all or none of them. Returns where.
    pub(crate) fn append(&mut self, minutes: &[(u16, Vec<Row>)]) -> io::Result<u64> {
        let payload = match minutes {
            [(minute, rows)] => frame(*minute, rows),
            several => frame_of_several(several),
        };
        let (at, bytes) = self.log.append(&payload)?;
        for (minute, rows) in minutes {
            note(&mut self.chunks, (at, bytes), *minute, rows.iter().map(|row| row.entity));
        }
        Ok(at)
    }

    /// Takes back what was appended at `at` and after.
    pub(crate) fn take_back(&mut self, at: u64) -> io::Result<()> {
        self.log.cut(at)?;
        self.chunks.retain(|chunk| chunk.at < at);
        if let Some(last) = self.chunks.last_mut() {
            last.bytes = last.bytes.min((at - last.at) as u32);
        }
        Ok(())
    }

    /// Shows the wanted rows behind `from`, with their minutes, in the order in which they were
    /// appended. It reads no more than the chunks that may hold some, and ends behind the one with
    /// which nothing is left of `left_bytes`. Returns up to where it has come.
    pub(crate) fn read_on(
        &self,
        wanted: &Wanted,
        from: u64,
        left_bytes: &mut u64,
        mut row: impl FnMut(u16, Row),
    ) -> io::Result<u64> {
        let all = wanted.values().cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let Some(all) = all else { return Ok(self.len()) };
        let is_wanted = |chunk: &&Chunk| {
            // First: a day of many entities has as many chunks for each minute.
            chunk.overlaps(&all) && {
                let mut entities = wanted.range(chunk.entities.clone());
                entities.any(|(_, minutes)| chunk.overlaps(minutes))
            }
        };
        let first = self.chunks.partition_point(|chunk| chunk.end() <= from);
        let left = self.chunks.get(first..).unwrap_or_default();
        for chunk in left.iter().filter(is_wanted) {
            // Its beginning may have been read before frames were added to it.
            let part = chunk.at.max(from)..chunk.end();
            self.read_chunk(part.clone(), &mut row, |minute, entity| {
                wanted.get(&entity).is_some_and(|minutes| minutes.contains(&minute))
            })?;
            *left_bytes = left_bytes.saturating_sub(part.end - part.start);
            if *left_bytes == 0 {
                return Ok(part.end);
            }
        }
        Ok(self.len())
    }

    /// Shows all rows of those minutes.
    pub(crate) fn read_minutes(
        &self,
        minutes: Range<u16>,
        mut row: impl FnMut(u16, Row),
    ) -> io::Result<()> {
        for chunk in self.chunks.iter().filter(|chunk| chunk.overlaps(&minutes)) {
            let whole = chunk.at..chunk.end();
            self.read_chunk(whole, &mut row, |minute, _| minutes.contains(&minute))?;
        }
        Ok(())
    }

    fn read_chunk(
        &self,
        place: Range<u64>,
        row: &mut impl FnMut(u16, Row),
        is_wanted: impl Fn(u16, u32) -> bool,
    ) -> io::Result<()> {
        self.log.read(place.start, (place.end - place.start) as u32, |payload| {
            each_minute(payload, |minute, rows| {
                let mut reader = Reader(rows);
                while !reader.is_empty() {
                    match Row::take(&mut reader, |entity| is_wanted(minute, entity)) {
                        Ok(Some(found)) => row(minute, found),
                        Ok(None) => {}
                        Err(_) => return,
                    }
                }
            });
        })
    }

    /// The largest number of an entity that it has values of.
    pub(crate) fn last_entity(&self) -> Option<u32> {
        self.chunks.iter().map(|chunk| *chunk.entities.end()).max()
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.log.len()
    }

    pub(crate) fn log(&mut self) -> &mut Log {
        &mut self.log
    }
}

/// A frame's payload.
pub(crate) fn frame(minute: u16, rows: &[Row]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(8 + rows.len() * 16);
    put_varint(&mut payload, u64::from(minute));
    rows.iter().for_each(|row| row.put(&mut payload));
    payload
}

fn frame_of_several(minutes: &[(u16, Vec<Row>)]) -> Vec<u8> {
    let mut payload = Vec::new();
    put_varint(&mut payload, u64::from(SEVERAL));
    let mut of_minute = Vec::new();
    for (minute, rows) in minutes {
        of_minute.clear();
        rows.iter().for_each(|row| row.put(&mut of_minute));
        put_varint(&mut payload, u64::from(*minute));
        put_varint(&mut payload, of_minute.len() as u64);
        payload.extend_from_slice(&of_minute);
    }
    payload
}

/// Shows the minutes of a payload and the bytes of their rows.
fn each_minute(payload: &[u8], mut minute: impl FnMut(u16, &[u8])) {
    let mut reader = Reader(payload);
    match reader.number() {
        Some(SEVERAL) => {
            while let Some(number) = reader.number() {
                let Some(rows) = reader.number().and_then(|bytes| reader.bytes(bytes)) else {
                    return;
                };
                minute(number, rows);
            }
        }
        Some(number) => minute(number, reader.0),
        None => {}
    }
}

/// The entities of a minute's rows, as far as these make sense.
fn entities_of(rows: &[u8]) -> impl Iterator<Item = u32> {
    let mut reader = Reader(rows);
    std::iter::from_fn(move || {
        let mut entity = None;
        let is_wanted = |found| {
            entity = Some(found);
            false
        };
        Row::take(&mut reader, is_wanted).ok()?;
        entity
    })
}

/// Remembers that the frame at that place, of so many bytes, has rows of that minute and of those
/// entities.
fn note(
    chunks: &mut Vec<Chunk>,
    (at, bytes): (u64, u32),
    minute: u16,
    entities: impl Iterator<Item = u32>,
) {
    let Some(entities) = span_of(entities) else { return };
    match chunks.last_mut() {
        // The frame's first minute has put it there.
        Some(last) if at + u64::from(bytes) == last.at + u64::from(last.bytes) => {
            last.cover(minute, &entities);
        }
        Some(last) if at == last.at + u64::from(last.bytes) && last.bytes + bytes < CHUNK_BYTES => {
            last.bytes += bytes;
            last.cover(minute, &entities);
        }
        _ => chunks.push(Chunk { at, bytes, minutes: minute..=minute, entities }),
    }
}

fn span_of(entities: impl Iterator<Item = u32>) -> Option<RangeInclusive<u32>> {
    entities.map(|entity| entity..=entity).reduce(joined)
}

fn joined<T: Ord + Copy>(a: RangeInclusive<T>, b: RangeInclusive<T>) -> RangeInclusive<T> {
    *a.start().min(b.start())..=*a.end().max(b.end())
}

impl Chunk {
    fn end(&self) -> u64 {
        self.at + u64::from(self.bytes)
    }

    fn cover(&mut self, minute: u16, entities: &RangeInclusive<u32>) {
        self.minutes = joined(self.minutes.clone(), minute..=minute);
        self.entities = joined(self.entities.clone(), entities.clone());
    }

    fn overlaps(&self, minutes: &Range<u16>) -> bool {
        *self.minutes.start() < minutes.end && *self.minutes.end() >= minutes.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

    fn rows(entity: u32) -> Vec<Row> {
        vec![Row { entity, cells: vec![(0, Summary::of(f64::from(entity)))] }]
    }

    fn found(day: &Day, minutes: Range<u16>) -> Vec<(u16, u32)> {
        let mut found = Vec::new();
        day.read_minutes(minutes, |minute, row| found.push((minute, row.entity))).unwrap();
        found
    }

    #[test]
    fn a_read_looks_at_no_more_than_the_chunks_of_its_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("day");
        let mut day = Day::open(&path).unwrap();
        // Some frames a chunk.
        for minute in 0..100 {
            day.append(&[(minute, (0..500).flat_map(rows).collect())]).unwrap();
        }
        day.append(&[(3, rows(1)), (50, rows(2))]).unwrap();
        let reopened = Day::open(&path).unwrap();

        for day in [day, reopened] {
            let bytes: u64 = day.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
            assert_eq!(bytes + day.chunks[0].at, day.log.len(), "each frame is in one");
            assert!((5..90).contains(&day.chunks.len()), "{}", day.chunks.len());
            assert!(day.chunks.iter().all(|chunk| chunk.bytes < CHUNK_BYTES));
            let (last, others) = day.chunks.split_last().unwrap();
            assert!(others.iter().all(|chunk| chunk.minutes.end() - chunk.minutes.start() < 20));
            assert_eq!(last.minutes, 3..=99);
            let of_50 = found(&day, 50..51);
            assert_eq!((of_50.len(), of_50[500]), (501, (50, 2)));
            assert_eq!(found(&day, 3..4).len(), 501);
            assert!(found(&day, 100..1_440).is_empty() && found(&day, 3..3).is_empty());
        }
    }

    #[test]
    fn a_frame_beyond_a_chunk_is_one_of_its_own() {
        let mut day = Day::in_memory();
        let large: Vec<Row> = (0..20_000).flat_map(rows).collect();
        for minute in 0..3 {
            day.append(&[(minute, large.clone())]).unwrap();
        }

        assert_eq!(day.chunks.len(), 3);
        assert_eq!(found(&day, 1..2).len(), 20_000);
    }

    #[test]
    fn a_read_finds_the_minutes_of_each_entity_and_looks_at_no_chunk_without_any() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("day");
        let mut day = Day::open(&path).unwrap();
        let part = |first: u32| (first..first + 5_000).flat_map(rows).collect::<Vec<_>>();
        for minute in 0..4 {
            for first in [0, 5_000, 10_000] {
                day.append(&[(minute, part(first))]).unwrap();
            }
        }
        let wanted = Wanted::from([(4_999, 0..2), (12_000, 1..3), (99_999, 0..4)]);
        let reopened = Day::open(&path).unwrap();

        for mut day in [day, reopened] {
            assert_eq!((day.chunks.len(), day.last_entity()), (12, Some(14_999)));
            // What is not to be looked at cannot be.
            for chunk in day.chunks.iter_mut().filter(|chunk| chunk.entities.contains(&5_000)) {
                chunk.at = u64::MAX / 2;
            }
            let mut found = Vec::new();
            let end = day.read_on(&wanted, 0, &mut u64::MAX.clone(), |minute, row| {
                found.push((minute, row.entity));
            });
            assert_eq!(end.unwrap(), day.len());
            assert_eq!(found, [(0, 4_999), (1, 4_999), (1, 12_000), (2, 12_000)]);
        }
    }

    #[test]
    fn what_is_taken_back_is_gone_and_what_follows_is_found() {
        let mut day = Day::in_memory();
        day.append(&[(1, rows(1))]).unwrap();
        let at = day.append(&[(2, rows(2)), (3, rows(3))]).unwrap();
        day.take_back(at).unwrap();
        assert_eq!(found(&day, 0..1_440), [(1, 1)]);
        day.append(&[(4, rows(4))]).unwrap();
        assert_eq!(found(&day, 0..1_440), [(1, 1), (4, 4)]);
        day.take_back(0).unwrap();
        assert!(day.chunks.is_empty());
    }
}
