//! `POST /_millrace/backup`: a copy of all data while the server goes on, as a tar archive.
//!
//! ```text
//! metrics/history.db                                a copy made for this
//! tables/tables.db                                  another
//! journal/0000001a.idx, journal/0000001a.seg, …     oldest first, the last without a sidecar
//! end.json                                          {"segments": 2, "tail": [27, 4711]}
//! ```
//! An archive without `end.json` is not whole. It holds what all accounts have: where callers are
//! authenticated, it is for keys of the server's own account.
//!
//! Bounded: so many copies at a time, and of each so many bytes that its client has not taken.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_broker::{Pinned, Shards};
use millrace_tables::Tables;
use millrace_wire::{ApiError, BodyStream, Response};
use serde_json::json;
use tar::{Builder, EntryType, Header};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::cloudwatch::Monitor;
use crate::principal::Caller;

/// Each keeps removed segments on the disk until it is through with them.
const BACKUPS_AT_A_TIME: usize = 2;
const PIECE_BYTES: usize = 256 << 10;
/// That a client is behind at most.
const PIECES_WAITING: usize = 4;

/// Copies under way.
pub(super) struct Backups {
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
    tables: Option<Arc<Tables>>,
    /// The account whose keys may ask.
    account: String,
    turns: Arc<Semaphore>,
}

/// What one copy is made of.
struct Contents {
    metrics: Option<File>,
    tables: Option<File>,
    journal: Pinned,
}

/// The archive as its client takes it.
struct Archive {
    pieces: mpsc::Receiver<Vec<u8>>,
    shards: Arc<Shards>,
}

/// Sends what is written to it in pieces.
struct Pieces {
    sender: mpsc::Sender<Vec<u8>>,
    piece: Vec<u8>,
    sent_bytes: u64,
    shards: Arc<Shards>,
}

impl Backups {
    pub(super) fn new(
        shards: Arc<Shards>,
        monitor: Arc<Monitor>,
        tables: Option<Arc<Tables>>,
        account: &str,
    ) -> Backups {
        let turns = Arc::new(Semaphore::new(BACKUPS_AT_A_TIME));
        Backups { shards, monitor, tables, account: account.to_owned(), turns }
    }

    /// Begins a copy of what is there now. A thread of its own reads it; it ends when the client
    /// leaves or the server drains.
    pub(super) async fn begin(&self, caller: &Caller<'_>) -> Result<Response, ApiError> {
        if caller.principal.is_foreign_to(&self.account) {
            let text = "A backup holds the data of all accounts: only keys of the server's own \
                        account may take one.";
            return Err(ApiError::access_denied(text));
        }
        let Ok(turn) = self.turns.clone().try_acquire_owned() else {
            let text = format!("{BACKUPS_AT_A_TIME} backups are being taken already.");
            return Err(ApiError::throttling(text));
        };
        let (pinned, begun) = oneshot::channel();
        let (sender, pieces) = mpsc::channel(PIECES_WAITING);
        let (shards, monitor) = (self.shards.clone(), self.monitor.clone());
        let tables = self.tables.clone();
        let copy = move || {
            let _turn = turn;
            match pin(&shards, &monitor, tables.as_deref()) {
                Err(error) => drop(pinned.send(Err(error))),
                Ok(contents) if pinned.send(Ok(())).is_ok() => send(contents, sender, shards),
                Ok(_) => {}
            }
        };
        let started = thread::Builder::new().name("backup".to_owned()).spawn(copy);
        started.map_err(|error| failed(&error))?;
        begun.await.map_err(|error| failed(&error))??;
        let stream =
            Some(Box::new(Archive { pieces, shards: self.shards.clone() }) as Box<dyn BodyStream>);
        let response = Response::new(200, "application/x-tar", Vec::new());
        Ok(Response { stream, admitted: Some(caller.principal.tenant()), ..response })
    }
}

impl BodyStream for Archive {
    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(task));
        // A client that takes its time would hold up the end of the server.
        Poll::Ready(piece.filter(|_| !self.shards.is_draining()))
    }
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        if self.shards.is_draining() {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the server stops"));
        }
        self.sent_bytes += self.piece.len() as u64;
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let left = |_| io::Error::new(io::ErrorKind::ConnectionAborted, "the client has left");
        self.sender.blocking_send(piece).map_err(left)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE_BYTES - self.piece.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.piece.extend_from_slice(taken);
        if self.piece.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

/// The tables are copied before the journal is pinned; until then the journal keeps what they need.
fn pin(
    shards: &Arc<Shards>,
    monitor: &Monitor,
    tables: Option<&Tables>,
) -> Result<Contents, ApiError> {
    let home = shards.home().map_err(|error| failed(&error))?;
    if home.log().pin().is_none() {
        let text = "This server keeps its data in memory: there is nothing to copy.";
        return Err(ApiError::invalid_parameter_value(text));
    }
    let is_wanted = || {
        let shards = shards.clone();
        move || !shards.is_draining()
    };
    let metrics = monitor.store().copy(is_wanted()).map_err(|error| failed(&error))?;
    let copied = tables.map(|tables| tables.copy(is_wanted()));
    let copied = copied.transpose().map_err(|error| failed(&error))?;
    let journal = home.log().pin().ok_or_else(|| failed(&"the journal cannot be copied"))?;
    Ok(Contents { metrics, tables: copied.map(|copy| copy.file), journal })
}

/// Sends the whole archive, unless its client leaves or something cannot be read.
fn send(contents: Contents, sender: mpsc::Sender<Vec<u8>>, shards: Arc<Shards>) {
    let segments = contents.journal.segments();
    tracing::info!(segments, "backup begun");
    let piece = Vec::with_capacity(PIECE_BYTES);
    let mut pieces = Pieces { sender, piece, sent_bytes: 0, shards };
    match write_archive(contents, &mut pieces) {
        Ok(()) => tracing::info!(size_bytes = pieces.sent_bytes, "backup sent"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
            tracing::warn!(%error, size_bytes = pieces.sent_bytes, "backup ended early");
        }
        Err(error) => tracing::error!(%error, "backup ended early: data cannot be read"),
    }
}

fn write_archive(contents: Contents, out: &mut impl Write) -> io::Result<()> {
    let Contents { metrics, tables, journal } = contents;
    let mut archive = Builder::new(out);
    for (name, file) in [("metrics/history.db", metrics), ("tables/tables.db", tables)] {
        if let Some(file) = file {
            append(&mut archive, name, file.metadata()?.len(), file)?;
        }
    }
    let (segments, tail) = (journal.segments(), journal.tail());
    journal.copy(&mut |name, bytes, reader| {
        append(&mut archive, &format!("journal/{name}"), bytes, reader)
    })?;
    let end =
        json!({ "segments": segments, "tail": [tail.segment().0, tail.offset()] }).to_string();
    append(&mut archive, "end.json", end.len() as u64, end.as_bytes())?;
    archive.into_inner()?.flush()
}

fn append<W: Write>(
    archive: &mut Builder<W>,
    path: &str,
    bytes: u64,
    contents: impl Read,
) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_mtime(now.as_secs());
    archive.append_data(&mut header, path, contents)
}

fn failed(error: &dyn std::fmt::Display) -> ApiError {
    tracing::error!(%error, "backup failed");
    ApiError::internal_failure()
}
