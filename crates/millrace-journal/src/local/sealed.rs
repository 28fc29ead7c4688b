//! What the start learns of sealed segments: from their sidecars, else by reading them.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::draft::Draft;
use super::scan::scan;
use super::segment::temporary_path;
use super::sidecar::Sidecar;
use super::survey::Found;
use crate::error::{Corruption, OpenError};
use crate::fs::FileSystem;
use crate::journal::Visitor;
use crate::position::SegmentId;

/// What replaying the sealed segments taught.
pub(super) struct Sealed {
    /// Committed bytes of each.
    pub(super) ends: Vec<u32>,
    pub(super) unindexed: VecDeque<SegmentId>,
    /// Of the last of these.
    pub(super) drafts: BTreeMap<SegmentId, Arc<Draft>>,
    pub(super) index_bytes: BTreeMap<SegmentId, u64>,
}

/// Shows their records in order. Of at most `most_drafts` without sidecars, the last ones, what was
/// read is kept for those.
pub(super) fn replay_sealed(
    fs: &dyn FileSystem,
    dir: &Path,
    segments: &[Found],
    most_drafts: usize,
    show: &mut Visitor<'_>,
) -> Result<Sealed, OpenError> {
    let mut sealed = Sealed {
        ends: Vec::new(),
        unindexed: VecDeque::new(),
        drafts: BTreeMap::new(),
        index_bytes: BTreeMap::new(),
    };
    for (found, next) in segments.iter().zip(segments.iter().skip(1)) {
        let id = found.header.segment;
        let next_start = next.header.start;
        if let Some(sidecar) = Sidecar::load(fs, dir, &found.header, Some(next_start)) {
            sidecar.replay(id, show);
            sealed.ends.push(sidecar.end.offset);
            sealed.index_bytes.insert(id, sidecar.bytes());
            continue;
        }
        let reading = || format!("reading segment {id}");
        let draft = Draft::new();
        let stop = scan(&*found.file, &found.header, u64::MAX, &mut |record| {
            draft.add_found(fs, dir, &record);
            show(record)
        })
        .map_err(OpenError::io(reading()))?;
        if stop.chain != next_start {
            let reason = format!("frame is damaged, but segment {} follows", id.next());
            return Err(OpenError::Corrupt(Corruption::at(id, stop.offset, reason)));
        }
        sealed.ends.push(stop.offset);
        sealed.unindexed.push_back(id);
        draft.set_frames(stop.frames);
        sealed.drafts.insert(id, Arc::new(draft));
        if sealed.drafts.len() > most_drafts
            && let Some((id, draft)) = sealed.drafts.pop_first()
            && draft.give_up()
        {
            // A leftover is removed at the next start too.
            let _ = fs.remove(&temporary_path(dir, id, "idx"));
        }
    }
    Ok(sealed)
}
