//! The local journal: numbered segment files in one directory.
//!
//! ```text
//!  lock            held against a second process
//!  0000001a.seg    sealed: its chain ends where the next segment's header says
//!  0000001a.idx    its sidecar; written as 0000001a.idx.tmp while the segment fills
//!  0000001b.seg    active: frames up to the tail, then a header's length of zeros
//!  0000001c.seg    spare: space set aside, no header
//!  *.tmp           something being made, or on its way out; removed at start
//!  *.bak           what `repair` changed or took away; never read
//! ```
//! One frame is one write and one `fdatasync`. A new segment costs one header and one sync
//! more; its file was made before, in the background.
//!
//! Locks, in their order: `active` (held over write and sync), then `preparing` (held while a
//! file is made), then a segment's `zeroed`, then a draft's `writer` (held while it is written),
//! then `ahead`, `state` and a draft's `waiting` (microseconds).

mod ahead;
mod append;
mod backup;
mod blocks;
mod check;
mod chunks;
mod cut;
mod draft;
mod flush;
mod gap;
mod index;
mod pin;
mod read;
mod recover;
mod recovered;
mod release;
mod remove;
mod repair;
mod salt;
mod scan;
mod sealed;
mod segment;
mod sidecar;
mod space;
mod store;
mod survey;
mod unreadable;
mod zero;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use bytes::Bytes;

use crate::error::{AppendError, Corruption, OpenError, ReadError, TruncateError, Unavailable};
use crate::frame::{Chain, Frame, Prior, SEGMENT_HEADER_BYTES};
use crate::fs::{File, FileSystem};
use crate::journal::{Journal, Pinned, Placement, SegmentInfo, Visitor};
use crate::owner::Owner;
use crate::position::{Durability, Opened, Position, SegmentId};
use crate::record::Replayed;
use ahead::ReadAhead;
use append::Active;
use blocks::BlockFile;
pub use check::{CheckReport, SegmentReport, SidecarState, check};
pub use cut::Cut;
use draft::Draft;
pub use gap::Gap;
pub use pin::segment_file_bytes;
pub use recover::fuzz_recovery;
use release::Released;
pub use repair::{RepairReport, repair};
use segment::{Segment, Zeroed};
use sidecar::Sidecar;
use space::Preparing;
pub use store::{LocalStore, Origin, UnownedLocal};

/// Settings of a local journal.
#[derive(Clone, Copy, Debug)]
pub struct LocalOptions {
    /// `Fsync` or `Os`; `Memory` means `Os` here. Even then each segment is synced while it fills,
    /// when it is full, and before an older one is removed.
    pub durability: Durability,
    /// Size of new segments: 4 KiB to 1 GiB, a multiple of 4 KiB. Existing ones keep theirs.
    pub segment_bytes: u32,
    /// Sealed segments that wait for their sidecar. A start after a crash reads so many whole.
    pub unindexed_segments: usize,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { durability: Durability::Fsync, segment_bytes: 64 << 20, unindexed_segments: 3 }
    }
}

/// Segment files behind the [`Journal`] contract. See the module.
pub struct LocalJournal {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    options: LocalOptions,
    placement: Placement,
    salt: u64,
    opened: Opened,
    opened_chain: Chain,
    active: Mutex<Active>,
    preparing: Mutex<Preparing>,
    state: RwLock<State>,
    ahead: ReadAhead,
    /// The greatest segment whose space is set aside. Stored with Release after the file is in
    /// `state`, so who sees the number finds the file.
    ready_until: AtomicU32,
    /// Whether the last preparation failed for lack of space. A hint for admission.
    is_full: AtomicBool,
    /// The write or sync that failed first: what it covered may be lost, so writing ends. Seen by
    /// the next append and the next background step.
    failed: OnceLock<Arc<str>>,
    _lock: Box<dyn Send + Sync>,
}

/// Where DATA frames go. The end of a segment is kept for OPEN frames, so that a journal whose
/// disk is full to the last byte still starts, many times over.
fn placement_in(segment_bytes: u32) -> Placement {
    let least_bytes = 2 * Owner::unnamed(0).frame_bytes();
    let kept_bytes = (segment_bytes / 1024).max(least_bytes);
    Placement {
        segment_header_bytes: SEGMENT_HEADER_BYTES as u32,
        data_end_bytes: segment_bytes - kept_bytes,
    }
}

/// What readers share. Files, never their contents.
struct State {
    segments: BTreeMap<SegmentId, Arc<Segment>>,
    /// Of the active one.
    active_blocks: Arc<BlockFile>,
    spares: BTreeMap<SegmentId, Spare>,
    /// Sealed without a sidecar; of the oldest, some may be truncated meanwhile.
    unindexed: VecDeque<SegmentId>,
    /// Of the sidecars of segments that were read or appended to since the start.
    drafts: BTreeMap<SegmentId, Arc<Draft>>,
    /// Truncated, their files still there; ascending.
    doomed: VecDeque<Arc<Segment>>,
    removals: Removals,
    /// What is left of removed ones.
    released: VecDeque<Released>,
    index_bytes: BTreeMap<SegmentId, u64>,
}

/// Whether truncated segments may be removed.
#[derive(Clone, Copy, Default)]
enum Removals {
    #[default]
    Possible,
    /// The latest failed; the time to try again.
    NotBefore(Duration),
    /// Whether the latest is on disk is unknown, so nothing younger may go.
    InDoubt,
}

/// A segment's file before it has a header.
#[derive(Clone)]
struct Spare {
    file: Arc<dyn File>,
    blocks: Arc<BlockFile>,
    zeroed: Arc<Zeroed>,
}

impl LocalJournal {
    /// Both steps of opening at once, for an owner without a name: [`UnownedLocal::recover`], then
    /// [`UnownedLocal::start_epoch`].
    pub fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        options: LocalOptions,
        visitor: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<(Self, Opened), OpenError> {
        let owner = Owner::unnamed(nonce(&*fs));
        let journal = UnownedLocal::recover(fs, dir, options, visitor)?.start_epoch(&owner)?;
        let opened = journal.opened;
        Ok((journal, opened))
    }

    fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.state().segments.get(&id).map(Arc::clone)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Ends writing. Of several reasons the first counts.
    fn fail(&self, reason: Arc<str>) {
        let _ = self.failed.set(reason);
    }
}

impl Journal for LocalJournal {
    fn opened(&self) -> Opened {
        self.opened
    }

    fn chain(&self) -> Chain {
        self.opened_chain
    }

    fn salt(&self) -> u64 {
        self.salt
    }

    fn prior(&self) -> Prior {
        match self.options.durability {
            Durability::Fsync => Prior::Durable,
            Durability::Os | Durability::Memory => Prior::Unsynced,
        }
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn is_local(&self) -> bool {
        true
    }

    fn is_ready(&self, segment: SegmentId) -> bool {
        self.ready_until.load(Ordering::Acquire) >= segment.0
    }

    fn prepare(&self, segment: SegmentId) -> Result<(), Unavailable> {
        self.prepare_until(segment)
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn append(&self, frame: &Frame) -> Result<(), AppendError> {
        self.append_frame(frame)
    }

    fn read(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
        self.read_record(position, record_len)
    }

    fn read_anew(&self, position: Position, record_len: u32) -> Result<Bytes, ReadError> {
        self.read_from_disk(position, record_len)
    }

    fn replay_segment(&self, id: SegmentId, visitor: &mut Visitor<'_>) -> Result<(), ReadError> {
        let position = Position::new(id, 0);
        let segment = self.segment(id).ok_or(ReadError::Gone(position))?;
        let next_start = self.segment(id.next()).map(|next| next.header.start);
        if next_start.is_some()
            && let Some(sidecar) = Sidecar::load(&*self.fs, &self.dir, &segment.header, next_start)
        {
            sidecar.replay(id, visitor);
            return Ok(());
        }
        let limit = segment.end.load(Ordering::Acquire);
        let mut is_broken_off = false;
        let stop = scan::scan(&*segment.file, &segment.header, u64::from(limit), &mut |record| {
            let flow = visitor(record);
            is_broken_off = flow.is_break();
            flow
        })
        .map_err(|source| ReadError::Io { position, source })?;
        if !is_broken_off && stop.offset < limit {
            return Err(ReadError::Corrupt(Corruption::at(id, stop.offset, "frame is damaged")));
        }
        Ok(())
    }

    fn truncate_before(&self, segment: SegmentId) -> Result<(), TruncateError> {
        let mut state = self.state_mut();
        let active = state.segments.last_key_value().map_or(segment, |(id, _)| *id);
        if segment > active {
            return Err(TruncateError::Active { segment, active });
        }
        let kept = state.segments.split_off(&segment);
        let gone = std::mem::replace(&mut state.segments, kept);
        state.doomed.extend(gone.into_values());
        drop(state);
        self.ahead.forget_before(segment);
        Ok(())
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        let state = self.state();
        let active = state.segments.last_key_value().map(|(id, _)| *id);
        let info = |(id, segment): (&SegmentId, &Arc<Segment>)| SegmentInfo {
            id: *id,
            bytes: u64::from(segment.end.load(Ordering::Acquire)),
            is_sealed: Some(*id) != active,
        };
        state.segments.iter().map(info).collect()
    }

    fn pin(&self) -> Option<Pinned> {
        Some(Box::new(self.pin_segments()))
    }

    fn disk_bytes(&self) -> u64 {
        self.space_held()
    }

    fn has_background_work(&self) -> bool {
        self.wants_background()
    }

    fn background_step(&self) -> bool {
        self.do_background()
    }

    fn wants_read_ahead(&self) -> bool {
        self.ahead.has_wanted()
    }

    fn read_ahead(&self) -> bool {
        self.read_something_ahead()
    }

    fn failure(&self) -> Option<Arc<str>> {
        self.failed.get().cloned()
    }

    fn finish(&self) {
        self.do_what_must_not_wait();
    }

    fn now(&self) -> Duration {
        self.fs.now()
    }
}

fn nonce(fs: &dyn FileSystem) -> u128 {
    u128::from(fs.random()) << 64 | u128::from(fs.random())
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
