//! A copy of a server's data in a directory of its own: made from the archive that a server sends,
//! checked, and known as unfinished until then.
//!
//! The mark comes first and goes last, so that whatever ends the copy in between, a server does not
//! start on it. Files are for nobody else, whatever the archive says of them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use millrace_journal::{RealFileSystem, SEGMENT_HEADER_BYTES, segment_file_bytes};
use serde::Deserialize;
use tar::{Archive, Entry};

use crate::config::UsageError;

/// The file that says that a copy is not whole.
const MARK: &str = "unfinished-backup";
const PARTS: [&str; 3] = ["journal", "metrics", "tables"];
/// The archive's last file.
const END: &str = "end.json";
const END_BYTES: u64 = 4096;
const WRITE_BYTES: usize = 1 << 20;
/// Written between two syncs. A server that commits to the same disk may have to wait for one.
const SYNC_BYTES: usize = 4 << 20;

/// A directory that gets a copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    dir: PathBuf,
    /// By us.
    is_made: bool,
}

/// A file that is synced while it is written.
struct Synced {
    file: File,
    unsynced_bytes: usize,
}

/// What a server says at the end of an archive.
#[derive(Debug, Deserialize)]
struct End {
    segments: usize,
    /// Segment and offset of the first place that is not in the journal.
    tail: (u32, u32),
}

/// What a whole copy holds.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) segments: usize,
    pub(crate) size_bytes: u64,
}

/// Fails if a backup into this directory has begun and not ended.
pub(crate) fn refuse_unfinished(data: &Path) -> Result<()> {
    if data.join(MARK).symlink_metadata().is_err() {
        return Ok(());
    }
    bail!(
        "{} holds a backup that was not finished: remove it, and take one into an empty directory",
        data.display()
    )
}

impl Copy {
    /// Makes the directory, if it is not there, and marks it. One that holds anything is refused.
    pub(crate) fn begin(dir: &Path) -> Result<Copy> {
        let is_made = match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error).with_context(|| format!("making {}", dir.display())),
        };
        let copy = Copy { dir: dir.to_owned(), is_made };
        if !is_made {
            refuse_unfinished(dir)?;
            let mut files = dir.read_dir().with_context(|| format!("reading {}", dir.display()))?;
            if files.next().is_some() {
                let text =
                    format!("{} is not empty: a backup needs a new directory", dir.display());
                return Err(UsageError(text).into());
            }
        }
        let marked = || {
            create(&dir.join(MARK))?.sync_all()?;
            sync_dir(dir)?;
            sync_dir(&parent(dir))
        };
        marked().with_context(|| format!("writing to {}", dir.display()))?;
        Ok(copy)
    }

    /// Writes what the archive holds, durably, and checks the journal. What fails leaves the mark.
    pub(crate) fn fill(&self, archive: impl Read) -> Result<Copied> {
        let mut size_bytes = 0;
        let end = self.unpack(archive, &mut size_bytes)?;
        let synced = PARTS.iter().try_for_each(|part| sync_dir(&self.dir.join(part)));
        // Before the mark goes: without it, a part that is missing would not be missed.
        synced.and_then(|()| sync_dir(&self.dir)).context("syncing the backup")?;
        self.check(&end)?;
        Ok(Copied { segments: end.segments, size_bytes })
    }

    /// Takes the mark away.
    pub(crate) fn finish(&self) -> Result<()> {
        std::fs::remove_file(self.dir.join(MARK))
            .and_then(|()| sync_dir(&self.dir))
            .with_context(|| format!("finishing {}", self.dir.display()))
    }

    /// Removes what was written: it is of no use, and may be what fills the disk.
    pub(crate) fn give_up(&self) {
        let removed = || {
            for part in PARTS {
                match std::fs::remove_dir_all(self.dir.join(part)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            std::fs::remove_file(self.dir.join(MARK))?;
            if self.is_made { std::fs::remove_dir(&self.dir) } else { Ok(()) }
        };
        if let Err(error) = removed() {
            let dir = self.dir.display();
            crate::logging::tell(&format!("what was written is left in {dir}: {error}"));
        }
    }

    fn unpack(&self, archive: impl Read, size_bytes: &mut u64) -> Result<End> {
        for part in PARTS {
            DirBuilder::new()
                .mode(0o700)
                .create(self.dir.join(part))
                .with_context(|| format!("making {part}"))?;
        }
        let broken = "reading the backup that the server sends";
        let mut archive = Archive::new(archive);
        // Raw: a long name, which the server never sends, would be read into memory, however long.
        for entry in archive.entries().context(broken)?.raw(true) {
            let mut entry = entry.context(broken)?;
            let path = entry.path().context(broken)?.into_owned();
            if path == Path::new(END) {
                let mut text = String::new();
                entry.take(END_BYTES).read_to_string(&mut text).context(broken)?;
                return serde_json::from_str(&text).context(broken);
            }
            if !is_part(&path) || !entry.header().entry_type().is_file() {
                bail!("{} is no part of a backup", path.display());
            }
            *size_bytes += self.write(&path, &mut entry)?;
        }
        bail!("the server ended the backup early: its log says why")
    }

    fn write(&self, path: &Path, entry: &mut Entry<'_, impl Read>) -> Result<u64> {
        let writing = || format!("writing {}", self.dir.join(path).display());
        let file = create(&self.dir.join(path)).with_context(writing)?;
        let mut out = BufWriter::with_capacity(WRITE_BYTES, Synced { file, unsynced_bytes: 0 });
        let written = io::copy(entry, &mut out).with_context(writing)?;
        let out = out.into_inner().map_err(io::IntoInnerError::into_error);
        let file = out.with_context(writing)?.file;
        if written < entry.size() {
            bail!("the server ended the backup early: its log says why");
        }
        if path.extension().is_some_and(|extension| extension == "seg") {
            lengthen(&file, written).with_context(writing)?;
        }
        file.sync_all().with_context(writing)?;
        Ok(written)
    }

    /// Reads all of the journal again: every frame is whole and in its place, up to the end that
    /// the server told.
    fn check(&self, end: &End) -> Result<()> {
        let dir = self.dir.join("journal");
        let report = millrace_journal::check(&*RealFileSystem::read_only(), &dir)
            .context("checking the backup")?;
        if let Some(corruption) = report.corruption {
            bail!("the backup is damaged, as the server's data may be: {corruption}");
        }
        let last = report.segments.last().map(|last| (last.id.0, last.bytes));
        if report.segments.len() != end.segments
            || last != Some(end.tail)
            || report.torn_tail.is_some()
        {
            bail!("the backup is damaged: it ends elsewhere than the server says");
        }
        let damage = millrace_tables::store::check(&self.dir.join("tables"));
        match damage.context("checking the backup")? {
            Some(damage) => bail!("the backup is damaged: its domains: {damage}"),
            None => Ok(()),
        }
    }
}

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced_bytes += written;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced_bytes = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name of a part, `/`, and a name of plain characters.
fn is_part(path: &Path) -> bool {
    let mut components = path.components();
    let (Some(Component::Normal(part)), Some(Component::Normal(name)), None) =
        (components.next(), components.next(), components.next())
    else {
        return false;
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    PARTS.iter().any(|known| part == *known)
        && name.to_str().is_some_and(|name| !name.starts_with('.') && name.bytes().all(is_plain))
}

/// Makes a segment's file as long as its header says: what is behind its frames is not sent.
fn lengthen(file: &File, written: u64) -> io::Result<()> {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    let length = segment_file_bytes(&header).unwrap_or_default();
    if length < written {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "segment header is damaged"));
    }
    file.set_len(length)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millrace_journal::{
        GroupCommit, GroupOptions, LocalJournal, LocalOptions, Purpose, Record,
    };
    use tar::{Builder, Header};
    use tempfile::TempDir;

    use super::*;

    type Files = Vec<(String, Vec<u8>)>;

    /// The files of a backup of a small journal, its end last.
    fn files() -> Files {
        let dir = TempDir::new().unwrap();
        let options = LocalOptions { segment_bytes: 64 << 10, ..LocalOptions::default() };
        let opened = LocalJournal::open(RealFileSystem::new(), dir.path(), options, &mut |_| {});
        let log: Arc<GroupCommit> =
            GroupCommit::new(Box::new(opened.unwrap().0), GroupOptions::default());
        let record = Record { index: b"index", payload: &[7; 10_000] };
        for _ in 0..20 {
            let reservation = log.reserve(record.encoded_bytes(), Purpose::Store).unwrap();
            log.append(reservation, &[record], &mut Vec::new());
            while log.commit_step() {}
        }
        let pinned = log.pin().unwrap();
        let (segments, tail) = (pinned.segments(), pinned.tail());
        let mut files = Files::new();
        let mut put = |name: &str, _, reader: &mut dyn Read| {
            let mut contents = Vec::new();
            reader.read_to_end(&mut contents)?;
            files.push((format!("journal/{name}"), contents));
            Ok(())
        };
        pinned.copy(&mut put).unwrap();
        let tail = [tail.segment().0, tail.offset()];
        let end = serde_json::json!({ "segments": segments, "tail": tail }).to_string();
        files.push((END.to_owned(), end.into_bytes()));
        files
    }

    fn archive(files: &Files) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for (path, contents) in files {
            let mut header = Header::new_ustar();
            header.set_size(contents.len() as u64);
            header.set_mode(0o666);
            archive.append_data(&mut header, path, contents.as_slice()).unwrap();
        }
        archive.into_inner().unwrap()
    }

    /// What a copy of this archive comes to, and that it is known as unfinished if that is a
    /// failure.
    fn filled(archive: &[u8]) -> Result<Copied, String> {
        let above = TempDir::new().unwrap();
        let dir = above.path().join("copy");
        let copy = Copy::begin(&dir).unwrap();
        let filled = copy.fill(archive).map_err(|error| format!("{error:#}"));
        assert!(refuse_unfinished(&dir).is_err());
        match &filled {
            Ok(_) => copy.finish().unwrap(),
            Err(_) => copy.give_up(),
        }
        assert_eq!(dir.exists(), filled.is_ok());
        refuse_unfinished(&dir).unwrap();
        filled
    }

    #[test]
    fn whole_archive_becomes_a_copy() {
        let files = files();

        let copied = filled(&archive(&files)).unwrap();

        assert_eq!(copied.segments, 4);
        let bytes: usize = files.iter().map(|(_, contents)| contents.len()).sum();
        assert_eq!(copied.size_bytes, (bytes - files.last().unwrap().1.len()) as u64);
    }

    #[test]
    fn an_archive_that_ends_anywhere_is_refused() {
        let whole = archive(&files());
        let padding = 1_024;

        for length in (0..whole.len() - padding - 512).step_by(7_919) {
            let refused = filled(&whole[..length]).unwrap_err();
            assert!(refused.contains("early") || refused.contains("reading"), "{refused}");
        }
    }

    #[test]
    fn a_damaged_or_missing_part_of_the_journal_is_found() {
        for (number, at) in [(0, 5_000), (2, 20), (3, 9_000)] {
            let mut files = files();
            files[number].1[at] ^= 1;
            let refused = filled(&archive(&files)).unwrap_err();
            assert!(refused.contains("damaged"), "{refused}");
        }
        for number in [0, 2, 3] {
            let mut files = files();
            files.remove(number);
            let refused = filled(&archive(&files)).unwrap_err();
            assert!(refused.contains("the backup is damaged"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_part_of_a_backup_is_not_written() {
        let names = ["other", "other/a", "journal", "journal/a/b", "tables/.a", "metrics/a b"];
        for name in names {
            let refused = filled(&archive(&vec![(name.to_owned(), vec![1])])).unwrap_err();
            assert!(refused.contains("is no part of a backup"), "{refused}");
        }
        for path in ["/journal/a", "../journal/a", "journal/../a", "journal/.."] {
            assert!(!is_part(Path::new(path)), "{path}");
        }
    }
}
