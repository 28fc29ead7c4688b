//! What a simulated disk is made of: images of files, names, and the faults that are planned.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::sim::Fault;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

pub(super) struct World {
    pub(super) random: u64,
    pub(super) now: Duration,
    /// Mutating calls so far; faults are planned by their number.
    pub(super) calls: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) is_off: bool,
    pub(super) syncs_fail: bool,
    pub(super) refuses_direct: bool,
    pub(super) is_out_of_files: bool,
    /// File and place of a byte that cannot be read.
    pub(super) unreadable: Option<(usize, u64)>,
    pub(super) sync_time: Duration,
    pub(super) capacity_bytes: u64,
    pub(super) files: Vec<Image>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) durable_names: BTreeMap<PathBuf, usize>,
    pub(super) pending_names: Vec<NameChange>,
    pub(super) locks: Vec<PathBuf>,
}

#[derive(Default)]
pub(super) struct Image {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<Unsynced>,
    pub(super) allocated_bytes: u64,
}

/// A write since the last sync.
pub(super) struct Unsynced {
    offset: usize,
    bytes: Vec<u8>,
    /// Past the page cache.
    is_direct: bool,
}

pub(super) enum NameChange {
    Set(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf, usize),
}

impl World {
    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("power is off")) } else { Ok(()) }
    }

    pub(super) fn check_files(&self) -> io::Result<()> {
        if self.is_out_of_files { Err(rustix::io::Errno::MFILE.into()) } else { Ok(()) }
    }

    /// Counts a mutating call and meets its planned fault, if any.
    pub(super) fn begin_call(&mut self) -> io::Result<()> {
        self.check_power()?;
        let number = self.calls;
        self.calls += 1;
        match self.faults.get(&number) {
            None => Ok(()),
            Some(Fault::Io) => Err(io::Error::other("simulated i/o error")),
            Some(Fault::NoSpace) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::NoMemory) => Err(rustix::io::Errno::NOMEM.into()),
            Some(Fault::Refusal) => Err(io::ErrorKind::InvalidInput.into()),
            Some(Fault::PowerLoss) => {
                self.is_off = true;
                Err(io::Error::other("simulated loss of power"))
            }
        }
    }

    pub(super) fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let mut ids: Vec<usize> = self.names.values().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().filter_map(|id| self.files.get(*id)).map(|image| image.allocated_bytes).sum()
    }

    /// Sets space aside for file `id` to be `bytes` long, if the disk has it.
    pub(super) fn grow(&mut self, id: usize, bytes: u64) -> io::Result<()> {
        let used = self.used_bytes();
        let capacity = self.capacity_bytes;
        let image = self.files.get_mut(id).ok_or(io::ErrorKind::NotFound)?;
        let wanted = bytes.saturating_sub(image.allocated_bytes);
        if wanted > 0 && used.saturating_add(wanted) > capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        image.allocated_bytes = image.allocated_bytes.max(bytes);
        if (image.live.len() as u64) < bytes {
            image.live.resize(bytes as usize, 0);
        }
        Ok(())
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Set(path, id) => names.insert(path.clone(), *id),
            Self::Rename(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id)
            }
            Self::Remove(path, _) => names.remove(path),
        };
    }

    /// The file whose name changes.
    fn file(&self) -> usize {
        match self {
            Self::Set(_, id) | Self::Rename(_, _, id) | Self::Remove(_, id) => *id,
        }
    }
}

/// Makes those of the changes that a loss of power leaves: with a file system that keeps to their
/// order the first ones, else the first ones of each file.
pub(super) fn keep_some(
    changes: &[NameChange],
    names: &mut BTreeMap<PathBuf, usize>,
    random: &mut u64,
) {
    let keeps_order = bounded(random, 2) == 0;
    let mut left = BTreeMap::new();
    for change in changes {
        let of = if keeps_order { 0 } else { change.file() };
        let of_same = |it: &&NameChange| keeps_order || it.file() == of;
        let left = left
            .entry(of)
            .or_insert_with(|| bounded(random, changes.iter().filter(of_same).count() as u64 + 1));
        if *left > 0 {
            *left -= 1;
            change.apply(names);
        }
    }
}

impl Image {
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], is_direct: bool) {
        let end = offset + bytes.len();
        if self.live.len() < end {
            self.live.resize(end, 0);
        }
        if let Some(target) = self.live.get_mut(offset..end) {
            target.copy_from_slice(bytes);
        }
        self.unsynced.push(Unsynced { offset, bytes: bytes.to_vec(), is_direct });
    }

    /// At once on disk: no order with what is synced can be relied on.
    pub(super) fn shorten(&mut self, bytes: u64) {
        self.live.truncate(bytes as usize);
        self.durable.truncate(bytes as usize);
        for write in &mut self.unsynced {
            write.bytes.truncate((bytes as usize).saturating_sub(write.offset));
        }
        self.allocated_bytes = self.allocated_bytes.min(bytes);
    }

    pub(super) fn sync(&mut self) {
        for write in std::mem::take(&mut self.unsynced) {
            put(&mut self.durable, write.offset, &write.bytes);
        }
        self.durable.resize(self.live.len(), 0);
    }

    /// A failed sync: of what is in the page cache some was written, the rest never will be, and
    /// all of it counts as clean.
    pub(super) fn lose(&mut self, random: &mut u64) {
        for write in std::mem::take(&mut self.unsynced) {
            if write.is_direct {
                self.unsynced.push(write);
            } else if bounded(random, 2) == 0 {
                put(&mut self.durable, write.offset, &write.bytes);
            }
        }
        self.durable.resize(self.live.len(), 0);
    }

    pub(super) fn forget_clean(&mut self) {
        let length = self.live.len();
        self.live.clone_from(&self.durable);
        self.live.resize(length, 0);
        for write in &self.unsynced {
            put(&mut self.live, write.offset, &write.bytes);
        }
    }

    /// The durable image with an arbitrary part of the unsynced writes, sector by sector.
    pub(super) fn torn(&self, random: &mut u64) -> Self {
        let mut durable = self.durable.clone();
        for Unsynced { offset, bytes, .. } in &self.unsynced {
            let mut start = *offset;
            let end = offset + bytes.len();
            while start < end {
                let stop = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                if bounded(random, 2) == 0
                    && let Some(piece) = bytes.get(start - offset..stop - offset)
                {
                    put(&mut durable, start, piece);
                }
                start = stop;
            }
        }
        let allocated_bytes = self.allocated_bytes;
        Self { live: durable.clone(), durable, unsynced: Vec::new(), allocated_bytes }
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    if let Some(target) = image.get_mut(offset..end) {
        target.copy_from_slice(bytes);
    }
}

/// SplitMix64.
pub(super) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(super) fn bounded(state: &mut u64, bound: u64) -> u64 {
    next_random(state) % bound.max(1)
}
