//! A log in memory: durability `Memory`, for tests and for those who ask for it.
//!
//! It outlives the journals that are opened in it, and not the process. Several owners may open it,
//! one after the other or at once, as they would a log that is shared over a network; the latest
//! fences the others. Tests cut them off from it, and fill it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::{AppendError, OpenError, ReadError, TruncateError, Unavailable};
use crate::frame::{
    Chain, FRAME_HEADER_BYTES, Frame, FrameKind, Prior, SEGMENT_HEADER_BYTES, Verdict,
};
use crate::journal::{Journal, Placement, SegmentInfo, Visitor};
use crate::owner::Owner;
use crate::position::{Epoch, Opened, Position, SegmentId};
use crate::record::{self, Replayed};
use crate::store::{End, JournalStore, Unowned};

/// A log in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    placement: Placement,
    max_frame_bytes: u32,
    shared: Arc<Shared>,
}

struct Shared {
    /// The last segment that there is space for.
    limit: AtomicU32,
    /// True if the last preparation was refused.
    is_full: AtomicBool,
    /// How far its time is ahead of the machine's.
    ahead_ms: AtomicU64,
    log: Mutex<Log>,
}

/// Keeps frames in memory, shared with the group commit that wrote them, until truncated.
pub struct MemoryJournal {
    store: MemoryStore,
    opened: Opened,
    chain: Chain,
    origin: Instant,
}

struct Log {
    chain: Chain,
    tail: Position,
    first: SegmentId,
    bytes: u64,
    /// Bodies by where they start. Without those of OPEN frames.
    bodies: BTreeMap<Position, Body>,
    /// Of the last epoch.
    owner: Option<Owner>,
    /// Owners of this epoch and earlier ones are cut off.
    cut_off: Option<Epoch>,
}

/// Holds the log, so that nobody gets at it.
struct Stall<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, Log>);

impl Drop for Stall<'_> {
    fn drop(&mut self) {}
}

struct Body {
    records: u32,
    bytes: Bytes,
}

/// A log in memory before this process owns it.
struct UnownedMemory {
    store: MemoryStore,
    end: End,
}

impl MemoryStore {
    #[must_use]
    pub fn new(segment_bytes: u32) -> Self {
        let placement = Placement {
            segment_header_bytes: SEGMENT_HEADER_BYTES as u32,
            data_end_bytes: segment_bytes,
        };
        let first = SegmentId(1);
        let log = Log {
            chain: Chain::default(),
            tail: placement.start(first),
            first,
            bytes: 0,
            bodies: BTreeMap::new(),
            owner: None,
            cut_off: None,
        };
        let shared = Shared {
            limit: AtomicU32::new(SegmentId::END.0),
            is_full: AtomicBool::new(false),
            ahead_ms: AtomicU64::new(0),
            log: Mutex::new(log),
        };
        Self { max_frame_bytes: placement.data_bytes(), placement, shared: Arc::new(shared) }
    }

    /// A log that takes no longer frames than this.
    #[must_use]
    pub fn with_max_frame_bytes(self, max_frame_bytes: u32) -> Self {
        Self { max_frame_bytes, ..self }
    }

    /// From now on nothing of the present owner arrives.
    pub fn cut_off(&self) {
        let mut log = self.log();
        log.cut_off = Some(log.chain.epoch);
    }

    /// From now on there is no space for another segment.
    pub fn fill(&self) {
        let active = self.log().tail.segment();
        self.shared.limit.store(active.0, Ordering::Relaxed);
    }

    /// Until the guard is dropped, no append and no read comes to an end.
    #[must_use]
    pub fn stall(&self) -> impl Drop + '_ {
        Stall(self.log())
    }

    /// Lets time pass for the journals that are opened in it.
    pub fn advance(&self, by: Duration) {
        self.shared.ahead_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }

    /// There is space again.
    pub fn free(&self) {
        self.shared.limit.store(SegmentId::END.0, Ordering::Relaxed);
        self.shared.is_full.store(false, Ordering::Relaxed);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a frame of the owner of epoch `by`; None is about to become one.
    fn append(&self, frame: &Frame, by: Option<Epoch>) -> Result<(), AppendError> {
        let mut log = self.log();
        if by.is_some_and(|by| log.cut_off >= Some(by)) {
            return Err(AppendError::NotSettled("cut off from the log".into()));
        }
        let Verdict::Valid(chain) = log.chain.judge(&frame.header, frame.crc) else {
            return Err(AppendError::Fenced(log.chain.epoch));
        };
        let place = self.placement.place(log.tail, frame.header.length);
        assert_eq!(frame.header.place, place, "where the frame stands");
        assert!(frame.header.length <= self.max_frame_bytes, "frame is too long");
        log.chain = chain;
        log.tail = frame.end();
        log.bytes += u64::from(frame.header.length);
        if frame.header.kind == FrameKind::Open {
            log.owner = Owner::decode(&frame.body);
            return Ok(());
        }
        let body = Body { records: frame.header.records, bytes: frame.body.clone() };
        log.bodies.insert(frame.header.place.plus(FRAME_HEADER_BYTES as u32), body);
        Ok(())
    }

    fn replay(&self, segments: std::ops::Range<SegmentId>, visitor: &mut Visitor<'_>) {
        let range = Position::new(segments.start, 0)..Position::new(segments.end, 0);
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
                    return;
                }
            }
        }
    }
}

impl JournalStore for MemoryStore {
    fn recover(
        &self,
        visitor: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Box<dyn Unowned>, OpenError> {
        let log = self.log();
        let (end, first) = (End { chain: log.chain, tail: log.tail }, log.first);
        drop(log);
        self.replay(first..SegmentId::END, &mut |record| {
            // What another owner has appended meanwhile is behind the end.
            if record.position < end.tail {
                visitor(record);
            }
            ControlFlow::Continue(())
        });
        Ok(Box::new(UnownedMemory { store: self.clone(), end }))
    }
}

impl Unowned for UnownedMemory {
    fn end(&self) -> End {
        self.end
    }

    fn owner(&self) -> Result<Option<Owner>, ReadError> {
        let log = self.store.log();
        Ok(log.owner.clone().filter(|_| log.chain.epoch == self.end.chain.epoch))
    }

    fn start_epoch(self: Box<Self>, owner: &Owner) -> Result<Box<dyn Journal>, OpenError> {
        Ok(Box::new(self.begin(owner)?))
    }
}

impl UnownedMemory {
    fn begin(self, owner: &Owner) -> Result<MemoryJournal, OpenError> {
        let Self { store, end } = self;
        let place = store.placement.place(end.tail, owner.frame_bytes());
        let header = end.chain.next(FrameKind::Open, place, Prior::Unsynced);
        let frame = Frame::open(header, owner, 0);
        store.append(&frame, None).map_err(|error| match error {
            AppendError::Fenced(epoch) => OpenError::Fenced(epoch),
            error => OpenError::io("starting an epoch")(std::io::Error::other(error)),
        })?;
        let first = store.placement.start(store.log().first);
        Ok(MemoryJournal {
            opened: Opened { epoch: header.epoch, first, tail: frame.end(), torn_tail: None },
            chain: frame.chain(),
            store,
            origin: Instant::now(),
        })
    }
}

impl MemoryJournal {
    /// The only journal of a log that is empty.
    #[must_use]
    pub fn new(segment_bytes: u32) -> Self {
        let store = MemoryStore::new(segment_bytes);
        let log = store.log();
        let end = End { chain: log.chain, tail: log.tail };
        drop(log);
        match (UnownedMemory { store, end }).begin(&Owner::unnamed(0)) {
            Ok(journal) => journal,
            Err(error) => unreachable!("nobody else has this log: {error}"),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.store.log()
    }
}

impl Journal for MemoryJournal {
    fn opened(&self) -> Opened {
        self.opened
    }

    fn chain(&self) -> Chain {
        self.chain
    }

    fn salt(&self) -> u64 {
        0
    }

    fn prior(&self) -> Prior {
        Prior::Unsynced
    }

    fn placement(&self) -> Placement {
        self.store.placement
    }

    fn max_frame_bytes(&self) -> u32 {
        self.store.max_frame_bytes
    }

    fn is_local(&self) -> bool {
        true
    }

    fn is_ready(&self, segment: SegmentId) -> bool {
        segment.0 <= self.store.shared.limit.load(Ordering::Relaxed)
    }

    fn prepare(&self, segment: SegmentId) -> Result<(), Unavailable> {
        let is_full = !self.is_ready(segment);
        self.store.shared.is_full.store(is_full, Ordering::Relaxed);
        if is_full { Err(Unavailable::DiskFull) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.store.shared.is_full.load(Ordering::Relaxed)
    }

    fn append(&self, frame: &Frame) -> Result<(), AppendError> {
        self.store.append(frame, Some(self.opened.epoch))
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
        self.store.replay(segment..segment.next(), visitor);
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
        let ahead_ms = self.store.shared.ahead_ms.load(Ordering::Relaxed);
        self.origin.elapsed() + Duration::from_millis(ahead_ms)
    }
}
