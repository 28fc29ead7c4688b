//! An append-only file of checked frames.
//!
//! ```text
//! file   "MRMETRC1" | frame …
//! frame  length u32 | CRC32C of the payload u32 | payload
//! ```
//! Integers are little-endian. What is not sound at the end of the file is what was being written
//! during a crash; it is cut off. With a sound frame behind it, it is damage: it is skipped,
//! whatever of it is wrong, and so is a damaged beginning of the file.

mod checksums;

use std::cell::OnceCell;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::checksums::Checksums;
use crate::directory::sync_dir;

const MAGIC: &[u8; 8] = b"MRMETRC1";
const HEAD_BYTES: usize = 8;
/// Bytes of a frame at most; a longer length is damage.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes that are read at once while a file is opened.
const READ_BYTES: usize = 1 << 20;
/// Of the beginning of a file that says its version.
const VERSION_AT: usize = MAGIC.len() - 1;

/// A file of frames, or the same in memory.
#[derive(Debug)]
pub(crate) struct Log {
    medium: Medium,
    len: u64,
    /// Appended to since the last sync.
    is_dirty: bool,
}

#[derive(Debug)]
enum Medium {
    File(Arc<File>),
    Memory(Vec<u8>),
    Nowhere,
}

impl Log {
    /// An empty log that ends with the process.
    pub(crate) fn in_memory() -> Log {
        Log { medium: Medium::Memory(MAGIC.to_vec()), len: MAGIC.len() as u64, is_dirty: false }
    }

    /// A log of which nothing is kept, for those who never read what they append.
    pub(crate) fn to_nowhere() -> Log {
        Log { medium: Medium::Nowhere, ..Log::in_memory() }
    }

    /// Opens or creates a file, and shows each sound frame with its place and length in the file.
    pub(crate) fn open(path: &Path, mut frame: impl FnMut(u64, u32, &[u8])) -> io::Result<Log> {
        let file = private_file().read(true).truncate(false).open(path)?;
        let mut reader = BufReader::with_capacity(READ_BYTES, &file);
        let mut begun = Vec::new();
        reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut begun)?;
        if begun.len() < MAGIC.len() && MAGIC.starts_with(&begun) {
            file.set_len(0)?;
            file.write_all_at(MAGIC, 0)?;
            let len = MAGIC.len() as u64;
            return Ok(Log { medium: Medium::File(Arc::new(file)), len, is_dirty: true });
        }
        let is_damaged = begun != MAGIC;
        let mut from = MAGIC.len() as u64;
        if !is_damaged {
            from = sound_frames(&mut reader, file.metadata()?.len(), &mut frame)?;
            reader.seek(SeekFrom::Start(from))?;
        }
        // Of a sound file nothing. Damage is searched as a whole.
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest)?;
        let is_of_another_version = begun.starts_with(&MAGIC[..VERSION_AT]);
        let is_ours = || !is_of_another_version && sound_from(&rest, 0, &OnceCell::new()).is_some();
        if is_damaged && !is_ours() {
            let what = format!("{} is no file of metrics", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let Scanned { end: sound, skipped } = scan(&rest, 0, |at, payload| {
            frame(from + at as u64, (HEAD_BYTES + payload.len()) as u32, payload);
        });
        let len = from + sound as u64;
        if is_damaged || skipped > 0 {
            tracing::error!(
                file = %path.display(),
                bytes = skipped,
                "a file of metrics is damaged: what cannot be read is left out"
            );
        }
        if is_damaged {
            file.write_all_at(MAGIC, 0)?;
        }
        if sound < rest.len() {
            tracing::warn!(
                file = %path.display(),
                bytes = rest.len() - sound,
                "end of a file of metrics cut off: what was being written when the last run ended"
            );
            file.set_len(len)?;
        }
        Ok(Log { medium: Medium::File(Arc::new(file)), len, is_dirty: is_damaged })
    }

    /// Writes a whole file anew: it is there completely or not at all.
    pub(crate) fn replace(
        path: &Path,
        frames: impl Iterator<Item = io::Result<Vec<u8>>>,
    ) -> io::Result<()> {
        Log::prepare(path, frames)?;
        Log::put_in_place(path)
    }

    /// Writes the file that is to take the place of another.
    pub(crate) fn prepare(
        path: &Path,
        frames: impl Iterator<Item = io::Result<Vec<u8>>>,
    ) -> io::Result<Log> {
        let file = private_file().read(true).truncate(true).open(temporary(path))?;
        let mut file = io::BufWriter::new(file);
        file.write_all(MAGIC)?;
        let mut len = MAGIC.len() as u64;
        for payload in frames {
            let payload = payload?;
            file.write_all(&head(&payload)?)?;
            file.write_all(&payload)?;
            len += (HEAD_BYTES + payload.len()) as u64;
        }
        let file = file.into_inner()?;
        file.sync_all()?;
        Ok(Log { medium: Medium::File(Arc::new(file)), len, is_dirty: false })
    }

    /// Puts it there. After an error either of the two may be there.
    pub(crate) fn put_in_place(path: &Path) -> io::Result<()> {
        std::fs::rename(temporary(path), path)?;
        path.parent().map_or(Ok(()), sync_dir)
    }

    /// Appends a frame and returns its place and length. After an error the file is as it was.
    pub(crate) fn append(&mut self, payload: &[u8]) -> io::Result<(u64, u32)> {
        let mut frame = Vec::with_capacity(HEAD_BYTES + payload.len());
        frame.extend_from_slice(&head(payload)?);
        frame.extend_from_slice(payload);
        let at = self.len;
        match &mut self.medium {
            Medium::Nowhere => {}
            Medium::Memory(bytes) => bytes.extend_from_slice(&frame),
            Medium::File(file) => {
                if let Err(error) = file.write_all_at(&frame, at) {
                    // A torn frame would end the log there for ever.
                    let _ = file.set_len(at);
                    return Err(error);
                }
            }
        }
        self.len += frame.len() as u64;
        self.is_dirty = true;
        Ok((at, frame.len() as u32))
    }

    /// Cuts off what was appended at `at` and after.
    pub(crate) fn cut(&mut self, at: u64) -> io::Result<()> {
        match &mut self.medium {
            Medium::Nowhere => {}
            Medium::Memory(bytes) => bytes.truncate(at as usize),
            Medium::File(file) => file.set_len(at)?,
        }
        self.len = at;
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no name any more: what is appended ends with the process.
    pub(crate) fn is_removed(&self) -> bool {
        match &self.medium {
            Medium::File(file) => file.metadata().is_ok_and(|metadata| metadata.nlink() == 0),
            Medium::Memory(_) | Medium::Nowhere => false,
        }
    }

    /// The file to be synced, if anything was appended since this was last asked.
    pub(crate) fn take_dirty(&mut self) -> Option<Arc<File>> {
        match &self.medium {
            Medium::File(file) if std::mem::take(&mut self.is_dirty) => Some(file.clone()),
            _ => None,
        }
    }

    /// Shows the payload of each sound frame within that part of the file.
    pub(crate) fn read(&self, at: u64, len: u32, mut frame: impl FnMut(&[u8])) -> io::Result<()> {
        match &self.medium {
            Medium::Nowhere => {}
            Medium::Memory(bytes) => {
                let end = (at as usize).saturating_add(len as usize).min(bytes.len());
                scan(bytes.get(..end).unwrap_or_default(), at as usize, |_, p| frame(p));
            }
            Medium::File(file) => {
                let mut bytes = vec![0; len as usize];
                file.read_exact_at(&mut bytes, at)?;
                scan(&bytes, 0, |_, payload| frame(payload));
            }
        }
        Ok(())
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Refuses a payload at which reading would stop: what follows it would be cut off.
fn head(payload: &[u8]) -> io::Result<[u8; HEAD_BYTES]> {
    if payload.len() > FRAME_BYTES_MAX {
        let what = format!("a frame is {} bytes, limit {FRAME_BYTES_MAX}", payload.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut head = [0; HEAD_BYTES];
    let (len, checksum) = head.split_at_mut(4);
    len.copy_from_slice(&(payload.len() as u32).to_le_bytes());
    checksum.copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    Ok(head)
}

/// Shows the frames of a file of that length from its beginning on, up to the first that is not
/// sound; returns where that is.
fn sound_frames(
    reader: &mut impl Read,
    len: u64,
    mut frame: impl FnMut(u64, u32, &[u8]),
) -> io::Result<u64> {
    let mut at = MAGIC.len() as u64;
    let mut bytes = Vec::new();
    while let Some(left) = len.checked_sub(at + HEAD_BYTES as u64) {
        bytes.resize(HEAD_BYTES, 0);
        reader.read_exact(&mut bytes)?;
        let Some((checksum, payload_len)) = head_of(&bytes).filter(|(_, len)| *len as u64 <= left)
        else {
            break;
        };
        bytes.resize(payload_len, 0);
        reader.read_exact(&mut bytes)?;
        if crc32c::crc32c(&bytes) != checksum {
            break;
        }
        let frame_len = HEAD_BYTES + payload_len;
        frame(at, frame_len as u32, &bytes);
        at += frame_len as u64;
    }
    Ok(at)
}

struct Scanned {
    /// Where the last sound frame ends.
    end: usize,
    /// Bytes before it that are in no sound frame.
    skipped: usize,
}

/// Shows each sound frame from `from` on, with its place.
fn scan(bytes: &[u8], from: usize, mut frame: impl FnMut(usize, &[u8])) -> Scanned {
    let mut scanned = Scanned { end: from, skipped: 0 };
    let checksums = OnceCell::new();
    while let Some((at, payload)) = sound_from(bytes, scanned.end, &checksums) {
        frame(at, payload);
        scanned.skipped += at - scanned.end;
        scanned.end = at + HEAD_BYTES + payload.len();
    }
    scanned
}

/// The first sound frame from `from` on and its place. `checksums` are made if that is behind
/// damage.
fn sound_from<'a>(
    bytes: &'a [u8],
    from: usize,
    checksums: &OnceCell<Checksums<'a>>,
) -> Option<(usize, &'a [u8])> {
    let first = frame_at(bytes, from);
    if let Some((checksum, payload)) = first
        && crc32c::crc32c(payload) == checksum
    {
        return Some((from, payload));
    }
    let checksums = checksums.get_or_init(|| Checksums::new(bytes));
    // Where its payload alone is damaged, what looks like a frame within it belongs to it.
    let behind = first.map(|(_, payload)| from + HEAD_BYTES + payload.len());
    behind.into_iter().chain(from + 1..bytes.len()).find_map(|at| {
        let (checksum, payload) = frame_at(bytes, at)?;
        let is_sound = checksums.of_part(at + HEAD_BYTES, payload.len()) == checksum;
        is_sound.then_some((at, payload))
    })
}

/// The checksum and the payload of a frame that would begin there.
fn frame_at(bytes: &[u8], at: usize) -> Option<(u32, &[u8])> {
    let (checksum, len) = head_of(bytes.get(at..)?)?;
    let start = at + HEAD_BYTES;
    Some((checksum, bytes.get(start..start.checked_add(len)?)?))
}

/// The checksum and the length of the payload that a head tells; `None`: there is no such frame.
fn head_of(bytes: &[u8]) -> Option<(u32, usize)> {
    let [a, b, c, d, checksum @ ..] = *bytes.first_chunk::<HEAD_BYTES>()?;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let is_possible = (1..=FRAME_BYTES_MAX).contains(&len);
    is_possible.then_some((u32::from_le_bytes(checksum), len))
}

/// Creates a file that is missing. It stays for nobody else wherever it is copied.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests;
