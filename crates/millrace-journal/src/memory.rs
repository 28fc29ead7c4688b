//! A journal that survives nothing: durability `Memory`, for tests and for those who ask for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::{AppendError, ReadError, TruncateError, Unavailable};
use crate::frame::{Chain, FRAME_HEADER_BYTES, Frame, Prior, SEGMENT_HEADER_BYTES, Verdict};
use crate::journal::{Journal, Placement, SegmentInfo, Visitor};
use crate::position::{Epoch, Opened, Position, SegmentId};
use crate::record::{self, Replayed};

/// Keeps frames in memory, shared with the group commit that wrote them, until truncated.
pub struct MemoryJournal {
    placement: Placement,
    opened: Opened,
    origin: Instant,
    log: Mutex<Log>,
}

struct Log {
    chain: Chain,
    tail: Position,
    first: SegmentId,
    bytes: u64,
    /// Bodies by where they start.
    bodies: BTreeMap<Position, Body>,
}

struct Body {
    records: u32,
    bytes: Bytes,
}

impl MemoryJournal {
    #[must_use]
    pub fn new(segment_bytes: u32) -> Self {
        let placement = Placement {
            segment_header_bytes: SEGMENT_HEADER_BYTES as u32,
            data_end_bytes: segment_bytes,
        };
        let first = placement.start(SegmentId(1));
        let chain = Chain { epoch: Epoch(1), counter: 1, previous: 0 };
        let tail = first.plus(FRAME_HEADER_BYTES as u32);
        Self {
            placement,
            opened: Opened { epoch: chain.epoch, first, tail, torn_tail: None },
            origin: Instant::now(),
            log: Mutex::new(Log {
                chain,
                tail,
                first: SegmentId(1),
                bytes: 0,
                bodies: BTreeMap::new(),
            }),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryJournal {
    fn opened(&self) -> Opened {
        self.opened
    }

    fn chain(&self) -> Chain {
        self.log().chain
    }

    fn salt(&self) -> u64 {
        0
    }

    fn prior(&self) -> Prior {
        Prior::Unsynced
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn is_local(&self) -> bool {
        true
    }

    fn is_ready(&self, _segment: SegmentId) -> bool {
        true
    }

    fn prepare(&self, _segment: SegmentId) -> Result<(), Unavailable> {
        Ok(())
    }

    fn is_full(&self) -> bool {
        false
    }

    fn append(&self, frame: &Frame) -> Result<(), AppendError> {
        let mut log = self.log();
        let Verdict::Valid(chain) = log.chain.judge(&frame.header, frame.crc) else {
            return Err(AppendError::Fenced(log.chain.epoch));
        };
        let place = self.placement.place(log.tail, frame.header.length);
        assert_eq!(frame.header.place, place, "where the frame stands");
        log.chain = chain;
        log.tail = frame.end();
        log.bytes += u64::from(frame.header.length);
        let body = Body { records: frame.header.records, bytes: frame.body.clone() };
        log.bodies.insert(frame.header.place.plus(FRAME_HEADER_BYTES as u32), body);
        Ok(())
    }

    fn read(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
        let log = self.log();
        let (start, body) =
            log.bodies.range(..=position).next_back().ok_or(ReadError::Gone(position))?;
        let offset =
            usize::try_from(position.0 - start.0).map_err(|_| ReadError::Gone(position))?;
        let end = offset.saturating_add(record_len as usize);
        if end > body.bytes.len() {
            return Err(ReadError::Gone(position));
        }
        Ok(body.bytes.slice(offset..end))
    }

    fn replay_segment(
        &self,
        segment: SegmentId,
        visitor: &mut Visitor<'_>,
    ) -> Result<(), ReadError> {
        let range = Position::new(segment, 0)..Position::new(segment.next(), 0);
        let bodies: Vec<(Position, u32, Bytes)> = self
            .log()
            .bodies
            .range(range)
            .map(|(start, body)| (*start, body.records, body.bytes.clone()))
            .collect();
        for (start, records, bytes) in bodies {
            // Written by this process, so they are whole.
            for (offset, record) in record::records(&bytes).take(records as usize) {
                let replayed = Replayed {
                    position: start.plus(offset as u32),
                    index: record.index,
                    payload_len: record.payload.len() as u32,
                    record_len: record.record_len() as u32,
                };
                if visitor(replayed).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn truncate_before(&self, segment: SegmentId) -> Result<(), TruncateError> {
        let mut log = self.log();
        let active = log.tail.segment();
        if segment > active {
            return Err(TruncateError::Active { segment, active });
        }
        let kept = log.bodies.split_off(&Position::new(segment, 0));
        let gone = std::mem::replace(&mut log.bodies, kept);
        log.bytes -=
            gone.values().map(|body| (FRAME_HEADER_BYTES + body.bytes.len()) as u64).sum::<u64>();
        log.first = log.first.max(segment);
        Ok(())
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        let log = self.log();
        let active = log.tail.segment();
        (log.first.0..=active.0)
            .map(|number| {
                let id = SegmentId(number);
                let range = Position::new(id, 0)..Position::new(id.next(), 0);
                let end =
                    log.bodies.range(range).next_back().map_or(0, |(start, body)| {
                        u64::from(start.offset()) + body.bytes.len() as u64
                    });
                SegmentInfo { id, bytes: end, is_sealed: id < active }
            })
            .collect()
    }

    fn disk_bytes(&self) -> u64 {
        self.log().bytes
    }

    fn has_background_work(&self) -> bool {
        false
    }

    fn background_step(&self) -> bool {
        false
    }

    fn finish(&self) {}

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
