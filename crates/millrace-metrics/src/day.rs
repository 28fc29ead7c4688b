//! The data points of one day at one resolution: a file of frames, and where in it which times are.

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::log::Log;
use crate::number::{Reader, put_varint};
use crate::row::Row;
use crate::{FIVE_MINUTES_KEPT_S, HOURS_KEPT_S, MINUTES_KEPT_S};

pub(crate) const DAY_S: u64 = 86_400;

/// Frames next to one another are found together as long as they are not more bytes than this.
const CHUNK_BYTES: u32 = 32 << 10;

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

/// Frames next to one another and the minutes that they cover.
#[derive(Debug)]
struct Chunk {
    at: u64,
    bytes: u32,
    first: u16,
    last: u16,
}

impl Day {
    pub(crate) fn in_memory() -> Day {
        Day { log: Log::in_memory(), chunks: Vec::new() }
    }

    /// Opens or creates the file and shows every row in it, with its minute.
    pub(crate) fn open(path: &Path) -> io::Result<Day> {
        let mut chunks = Vec::new();
        let log = Log::open(path, |at, bytes, payload| {
            if let Some(minute) = Reader(payload).number() {
                note(&mut chunks, at, bytes, minute);
            }
        })?;
        Ok(Day { log, chunks })
    }

    /// Appends rows of one minute of the day.
    pub(crate) fn append(&mut self, minute: u16, rows: &[Row]) -> io::Result<()> {
        let (at, bytes) = self.log.append(&frame(minute, rows))?;
        note(&mut self.chunks, at, bytes, minute);
        Ok(())
    }

    /// Shows the wanted rows of those minutes, in the order in which they were appended.
    pub(crate) fn read(
        &self,
        minutes: Range<u16>,
        is_wanted: impl Fn(u32) -> bool,
        mut row: impl FnMut(u16, Row),
    ) -> io::Result<()> {
        let overlaps = |c: &&Chunk| c.first < minutes.end && c.last >= minutes.start;
        for chunk in self.chunks.iter().filter(overlaps) {
            self.log.read(chunk.at, chunk.bytes, |payload| {
                let mut reader = Reader(payload);
                let Some(minute) = reader.number().filter(|minute| minutes.contains(minute)) else {
                    return;
                };
                while !reader.is_empty() {
                    match Row::take(&mut reader, &is_wanted) {
                        Ok(Some(found)) => row(minute, found),
                        Ok(None) => {}
                        Err(_) => return,
                    }
                }
            })?;
        }
        Ok(())
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

fn note(chunks: &mut Vec<Chunk>, at: u64, bytes: u32, minute: u16) {
    match chunks.last_mut() {
        Some(last) if at == last.at + u64::from(last.bytes) && last.bytes + bytes < CHUNK_BYTES => {
            last.bytes += bytes;
            last.first = last.first.min(minute);
            last.last = last.last.max(minute);
        }
        _ => chunks.push(Chunk { at, bytes, first: minute, last: minute }),
    }
}
