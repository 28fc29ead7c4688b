//! Opening: what is there, what of it counts, and where to go on.
//!
//! ```text
//!  segments with a header   first … last      contiguous, one salt
//!    each but the last      sidecar, else scan; must end where the next header starts
//!    the last               scan; then search behind the stop
//!  files without a header   behind the last   spares, or a torn activation; else damage
//! ```
//! What the search finds decides between torn tail and corruption: see [`super::scan`]. Then a
//! torn tail is zeroed, what was read is synced (it may be in the page cache only, and the OPEN
//! frame is about to say that it is durable). The OPEN frame, which starts an epoch, is a step of
//! its own.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::blocks::BlockFile;
use super::draft::Draft;
use super::recovered::Recovered;
use super::scan::{Stop, begun_at, is_blank, scan, search};
use super::sealed::replay_sealed;
use super::segment::{SegmentHeader, Zeroed, segment_path, temporary_path};
use super::survey::{Found, lock_dir, survey};
use super::zero::write_zeros;
use super::{LocalJournal, LocalOptions, Origin, Spare};
use crate::error::{AppendError, Corruption, OpenError};
use crate::frame::{Chain, Frame, FrameKind, Prior, SEGMENT_HEADER_BYTES};
use crate::fs::{File, FileSystem, SimFileSystem, is_out_of_space};
use crate::journal::{Journal, Visitor};
use crate::owner::Owner;
use crate::position::{Durability, Epoch, Position, SegmentId, TornTail};
use crate::record::Replayed;

const MIN_SEGMENT_BYTES: u32 = 4 << 10;
const MAX_SEGMENT_BYTES: u32 = 1 << 30;

/// How the log ends.
pub(super) struct End {
    pub(super) stop: Stop,
    pub(super) torn_tail: Option<TornTail>,
}

impl End {
    /// Of a journal without frames, behind `chain`.
    fn empty(chain: Chain) -> Self {
        let offset = SEGMENT_HEADER_BYTES as u32;
        let stop = Stop { offset, chain, frames: 0, records: 0 };
        Self { stop, torn_tail: None }
    }
}

/// Recovers the log in `dir`; a new one begins at `origin`, if there is one. Starts no epoch.
pub(super) fn recover(
    fs: Arc<dyn FileSystem>,
    dir: &Path,
    options: LocalOptions,
    origin: Option<Origin>,
    visitor: &mut dyn FnMut(Replayed<'_>),
) -> Result<LocalJournal, OpenError> {
    check_segment_bytes(options.segment_bytes)?;
    fs.create_dir_all(dir).map_err(OpenError::io("creating the journal directory"))?;
    let lock = lock_dir(&*fs, dir)?;
    recover_locked(fs, dir, options, lock, origin, visitor)
}

/// The same under a lock that is already held.
pub(super) fn recover_locked(
    fs: Arc<dyn FileSystem>,
    dir: &Path,
    options: LocalOptions,
    lock: Box<dyn Send + Sync>,
    origin: Option<Origin>,
    visitor: &mut dyn FnMut(Replayed<'_>),
) -> Result<LocalJournal, OpenError> {
    let mut survey = survey(&*fs, dir)?;
    if let Some(corruption) = survey.corruption {
        return Err(OpenError::Corrupt(corruption));
    }
    for name in &survey.temporary {
        fs.remove(&dir.join(name)).map_err(OpenError::io(format!("removing {name}")))?;
    }
    if !survey.temporary.is_empty() {
        // Before the log is changed: a sidecar that is there again would tell of what is not.
        fs.sync_dir(dir).map_err(OpenError::io("syncing the journal directory"))?;
    }
    let is_other = |origin: Origin| survey.salt.is_some_and(|salt| salt != origin.salt);
    if origin.is_some_and(is_other) {
        return Err(OpenError::OtherLog { path: dir.to_owned() });
    }
    let is_new = survey.segments.is_empty();
    if is_new {
        let origin = origin.unwrap_or_else(|| Origin::new_log(fs.random()));
        survey.segments.push(create_first(&*fs, dir, options.segment_bytes, origin)?);
    }

    let mut show = |record: Replayed<'_>| {
        visitor(record);
        ControlFlow::Continue(())
    };
    // A crash leaves no more of them without sidecars. If there are more, they get theirs at once,
    // and need not all be begun before.
    let most_drafts = options.unindexed_segments + 1;
    let sealed = replay_sealed(&*fs, dir, &survey.segments, most_drafts, &mut show)?;
    let last = survey.segments.last().ok_or_else(no_segment)?;
    // A segment made a moment ago is not searched: that would read all of it.
    let draft = Draft::new();
    let end = if is_new {
        End::empty(last.header.start)
    } else {
        find_end(last, &survey.spares, &mut |record| {
            draft.add_found(&*fs, dir, &record);
            show(record)
        })?
    };
    draft.set_frames(end.stop.frames);
    cut(last, &end).map_err(OpenError::io("cutting the torn tail"))?;
    if !is_new {
        fill_holes(last).map_err(OpenError::io("setting space aside for the last segment"))?;
    }
    let spares = keep_spares(&*fs, dir, last.header.segment, &survey.spares, &options)
        .map_err(OpenError::io("looking at spare segments"))?;
    fs.sync_dir(dir).map_err(OpenError::io("syncing the journal directory"))?;
    let recovered = Recovered { segments: survey.segments, spares, sealed, draft, end };
    recovered.into_journal(fs, dir, options, lock)
}

/// Opens a journal whose first segment has these bytes. Must not panic, whatever they are.
#[doc(hidden)]
pub fn fuzz_recovery(bytes: &[u8]) {
    let fs = SimFileSystem::new(1);
    let dir = Path::new("/fuzz");
    let mut bytes = bytes.get(..bytes.len().min(1 << 20)).unwrap_or_default().to_vec();
    // A shorter file is refused for that alone.
    bytes.resize(bytes.len().max(MIN_SEGMENT_BYTES as usize), 0);
    let bytes = bytes.as_slice();
    fs.plant(&segment_path(dir, SegmentId(1)), bytes);
    // A good header in front lets the rest be reached without guessing its checksum.
    if let Some(body) = bytes.get(SEGMENT_HEADER_BYTES..) {
        let header = SegmentHeader {
            segment: SegmentId(1),
            salt: 0,
            start: Chain::default(),
            segment_bytes: MIN_SEGMENT_BYTES,
        };
        let mut planted = header.encode().to_vec();
        planted.extend_from_slice(body);
        fs.plant(&segment_path(Path::new("/good"), SegmentId(1)), &planted);
    }
    let options = LocalOptions { segment_bytes: MIN_SEGMENT_BYTES, ..LocalOptions::default() };
    for dir in [dir, Path::new("/good")] {
        let _ = LocalJournal::open(Arc::new(fs.clone()), dir, options, &mut |_| {});
        let _ = super::check(&fs, dir);
        let _ = super::repair(Arc::new(fs.clone()), dir);
    }
}

/// Follows the last segment to its end and decides what the end is.
pub(super) fn find_end(
    last: &Found,
    spares: &[(SegmentId, Arc<dyn File>)],
    show: &mut Visitor<'_>,
) -> Result<End, OpenError> {
    let id = last.header.segment;
    let reading = || OpenError::io(format!("reading segment {id}"));
    let stop = scan(&*last.file, &last.header, u64::MAX, show).map_err(reading())?;
    let salt = last.header.salt;
    let traces = search(&*last.file, id, salt, stop.offset, &stop.chain).map_err(reading())?;
    if let Some(later) = traces.outlived_by {
        let reason = format!("frame is damaged, but an intact one follows at offset {later}");
        return Err(OpenError::Corrupt(Corruption::at(id, stop.offset, reason)));
    }
    for (spare, file) in spares {
        let from = SEGMENT_HEADER_BYTES as u32;
        let found = search(&**file, *spare, salt, from, &stop.chain).map_err(reading())?;
        // Its header is durable before the first frame is written, with any durability.
        if found.next.is_some() {
            let reason = "segment header is damaged, but frames are behind it";
            return Err(OpenError::Corrupt(Corruption::at(*spare, 0, reason)));
        }
    }
    let begun = begun_at(&*last.file, Position::new(id, stop.offset)).map_err(reading())?;
    let left = last.header.segment_bytes.saturating_sub(stop.offset);
    let bytes = begun.max(traces.frames_end.saturating_sub(stop.offset)).min(left);
    let torn_tail = (bytes > 0).then_some(TornTail { segment: id, offset: stop.offset, bytes });
    Ok(End { stop, torn_tail })
}

/// Zeroes what is behind the end, and makes durable what is before it.
fn cut(last: &Found, end: &End) -> io::Result<()> {
    if let Some(torn) = &end.torn_tail {
        write_zeros(&*last.file, torn.offset, torn.offset.saturating_add(torn.bytes))?;
    }
    last.file.sync_data()
}

/// Sets aside again what is behind the end: a copy of the file may have left it out. Without space
/// for it the journal goes on as long as there is some.
fn fill_holes(last: &Found) -> io::Result<()> {
    match last.file.allocate(u64::from(last.header.segment_bytes)) {
        Err(error) if is_out_of_space(&error) => {
            tracing::warn!(%error, "no space to fill the last journal segment");
            Ok(())
        }
        filled => filled,
    }
}

/// Keeps the one spare that can be used as it is. The others hold nothing that counts.
fn keep_spares(
    fs: &dyn FileSystem,
    dir: &Path,
    last: SegmentId,
    spares: &[(SegmentId, Arc<dyn File>)],
    options: &LocalOptions,
) -> io::Result<BTreeMap<SegmentId, Spare>> {
    let mut kept = BTreeMap::new();
    for (id, file) in spares.iter().rev() {
        let is_fit = *id == last.next()
            && file.size()? == u64::from(options.segment_bytes)
            && is_blank(&**file)?;
        if is_fit {
            // Whether its zeros are on disk or only set aside is not known.
            let zeroed = Zeroed::up_to(0);
            let path = segment_path(dir, *id);
            let blocks = BlockFile::open(fs, &path, file, options.durability)?;
            kept.insert(*id, Spare { file: Arc::clone(file), blocks, zeroed });
        } else {
            // One by one: a hole among them would be damage.
            fs.remove(&segment_path(dir, *id))?;
            fs.sync_dir(dir)?;
        }
    }
    Ok(kept)
}

fn create_first(
    fs: &dyn FileSystem,
    dir: &Path,
    segment_bytes: u32,
    Origin { salt, segment: id, start }: Origin,
) -> Result<Found, OpenError> {
    let header = SegmentHeader { segment: id, salt, start, segment_bytes };
    // Named when it is whole, so a first segment with a bad header is always damage.
    let temporary = temporary_path(dir, id, "seg");
    let create = || {
        let file = fs.create(&temporary)?;
        file.allocate(u64::from(segment_bytes))?;
        file.write_at(&[&header.encode()], 0)?;
        file.sync_data()?;
        fs.rename(&temporary, &segment_path(dir, id))?;
        fs.sync_dir(dir)?;
        Ok(Found { header, file })
    };
    create().map_err(OpenError::io("creating the first segment"))
}

/// Appends the OPEN frame of an epoch later than all before and than `latest`. What is before it
/// was synced, whatever the durability.
pub(super) fn start_epoch(
    mut journal: LocalJournal,
    owner: &Owner,
    latest: Epoch,
) -> Result<LocalJournal, OpenError> {
    let placement = journal.placement;
    let (chain, tail, size) = {
        let active = super::lock(&journal.active);
        (active.chain, active.tail, active.segment.header.segment_bytes)
    };
    // A segment of another size than the one asked for is not appended to.
    let end = tail.plus(owner.frame_bytes()).offset();
    let stays = size == journal.options.segment_bytes && end <= size;
    let place = if stays { tail } else { placement.roll(tail) };
    let mut header = chain.next(FrameKind::Open, place, Prior::Durable);
    header.epoch = header.epoch.max(Epoch(latest.0.saturating_add(1)));
    let frame = Frame::open(header, owner, journal.salt);
    journal.append(&frame).map_err(|error| match error {
        AppendError::Fenced(epoch) => OpenError::Fenced(epoch),
        error => OpenError::io("starting an epoch")(io::Error::other(error)),
    })?;
    if journal.options.durability != Durability::Fsync {
        // What clients are given in this epoch must not be given again in another.
        let active = Arc::clone(&super::lock(&journal.active).segment);
        active.file.sync_data().map_err(OpenError::io("starting an epoch"))?;
    }
    journal.opened_chain = frame.chain();
    journal.opened.epoch = header.epoch;
    journal.opened.tail = frame.end();
    Ok(journal)
}

pub(super) fn check_segment_bytes(bytes: u32) -> Result<(), OpenError> {
    let (min, max) = (MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
    if (min..=max).contains(&bytes) && bytes.is_multiple_of(min) {
        return Ok(());
    }
    Err(OpenError::SegmentSize { bytes, min, max, multiple: min })
}

pub(super) fn no_segment() -> OpenError {
    OpenError::Io {
        doing: "opening the journal".into(),
        source: io::Error::other("there is no segment"),
    }
}
