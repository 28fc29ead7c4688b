//! Blocks that the disk cannot read: for `repair`, which has to go on past them.

use std::io;

use rustix::io::Errno;

use super::backup::Backups;
use super::zero::write_zeros;
use crate::fs::{BLOCK_BYTES, File};
use crate::position::SegmentId;

const WINDOW_BYTES: usize = 1 << 20;

/// Writes zeros over the blocks of a segment that cannot be read, which makes a disk that has spare
/// sectors read them again. Returns where they were.
pub(super) fn blank(
    id: SegmentId,
    file: &dyn File,
    backups: &mut Backups<'_>,
) -> io::Result<Vec<u64>> {
    let mut bad = Vec::new();
    let mut buffer = vec![0; WINDOW_BYTES];
    let size = file.size()?;
    let mut offset = 0;
    while offset < size {
        offset = file.next_data(offset)?;
        offset -= offset % BLOCK_BYTES as u64;
        read(file, &mut buffer, offset, &mut bad)?;
        offset += WINDOW_BYTES as u64;
    }
    if !bad.is_empty() {
        backups.copy(id, file)?;
        for at in bad.iter().filter_map(|at| u32::try_from(*at).ok()) {
            let end = size.min(u64::from(at) + BLOCK_BYTES as u64) as u32;
            write_zeros(file, at, end)?;
        }
    }
    Ok(bad)
}

/// As [`File::read_at`]; blocks that cannot be read are zeros, and their places go to `bad`. The
/// place that is read starts a block.
pub(super) fn read(
    file: &dyn File,
    buffer: &mut [u8],
    offset: u64,
    bad: &mut Vec<u64>,
) -> io::Result<usize> {
    match file.read_at(buffer, offset) {
        Err(error) if is_bad_sector(&error) => {}
        done => return done,
    }
    let mut length = 0;
    for block in buffer.chunks_mut(BLOCK_BYTES) {
        let at = offset + length as u64;
        let whole = (file.size()?.saturating_sub(at)).min(block.len() as u64) as usize;
        match file.read_at(block, at) {
            Ok(_) => {}
            Err(error) if is_bad_sector(&error) => {
                block.fill(0);
                bad.push(at);
            }
            Err(error) => return Err(error),
        }
        length += whole;
        if whole < block.len() {
            break;
        }
    }
    Ok(length)
}

fn is_bad_sector(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NODATA))
}
