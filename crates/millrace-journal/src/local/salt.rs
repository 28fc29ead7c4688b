//! The salt of a log of which no header is whole: for `repair`.

use std::io;
use std::path::Path;

use super::cut::segments_from;
use super::scan::search;
use super::segment::{SegmentHeader, segment_path};
use crate::frame::{
    Chain, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, FrameKind, SEGMENT_HEADER_BYTES,
    fitting_salt,
};
use crate::fs::{File, FileSystem};
use crate::position::{Position, SegmentId};
use crate::received::fit;

/// How much of a segment is looked at for frames that agree.
const LOOKED_AT_BYTES: u64 = 16 << 20;
/// Frames whose salts are compared.
const FRAMES_MAX: usize = 64;

/// What stands in the salt's place in a damaged header, if there are frames that it fits. Else one
/// that several frames agree on: it need not be the log's own, but all its frames are intact with
/// it.
pub(super) fn find_salt(
    fs: &dyn FileSystem,
    dir: &Path,
    from: SegmentId,
) -> io::Result<Option<u64>> {
    let ids = segments_from(fs, dir, from)?;
    for id in &ids {
        let file = fs.open(&segment_path(dir, *id))?;
        let salt = SegmentHeader::read_salt(&*file)?;
        let first = SEGMENT_HEADER_BYTES as u32;
        if search(&*file, *id, salt, first, &Chain::default())?.frames > 0 {
            return Ok(Some(salt));
        }
    }
    for id in ids {
        let file = fs.open(&segment_path(dir, id))?;
        if let Some(salt) = agreed(&*file, id)? {
            return Ok(Some(salt));
        }
    }
    Ok(None)
}

/// The first salt that fits two frames of a segment. What is within one of them is not looked at:
/// bodies may hold anything.
fn agreed(file: &dyn File, id: SegmentId) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; file.size()?.min(LOOKED_AT_BYTES) as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    let mut salts = Vec::new();
    let mut offset = SEGMENT_HEADER_BYTES;
    while let Some(head) = bytes.get(offset..offset + FRAME_HEADER_BYTES)
        && salts.len() < FRAMES_MAX
    {
        let header = FrameHeader::decode(head, Position::new(id, offset as u32));
        // A length that is damaged would hide the frames behind this one.
        let whole = header.and_then(|(header, _)| {
            let frame = bytes.get(offset..offset + header.length as usize)?;
            let body = frame.get(FRAME_HEADER_BYTES..)?;
            (header.kind == FrameKind::Gap || fit(body, header.records)).then_some(frame)
        });
        let Some(frame) = whole else {
            offset += FRAME_ALIGN;
            continue;
        };
        if let Some(salt) = fitting_salt(frame) {
            if salts.contains(&salt) {
                return Ok(Some(salt));
            }
            salts.push(salt);
        }
        offset += frame.len();
    }
    Ok(None)
}
