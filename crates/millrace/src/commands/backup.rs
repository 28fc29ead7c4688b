//! `backup`: a copy of all data of a running server, in a directory that `serve` opens.

use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes};
use clap::Args;
use millrace_client::transport::StreamedBody;
use tokio::sync::{mpsc, oneshot};

use super::connection::ConnectionFlags;
use super::send::first_signal;
use super::{Sqs, output};
use crate::copy::{Copied, Copy};
use crate::logging::tell;

/// Pieces that came and are not written: the disk may be slower than the network.
const PIECES_WAITING: usize = 16;
/// A server on the same machine has work that cannot wait.
const NICENESS: i32 = 10;

#[derive(Args, Debug)]
pub(crate) struct BackupFlags {
    /// Directory to write, which must be empty or not there
    directory: PathBuf,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// What has come of the archive, for a thread that reads it.
struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

pub(super) async fn run(flags: &BackupFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    // To check the journal all its segments are opened.
    crate::limits::raise_open_files();
    // Where that is not allowed the copy competes with others.
    let _ = rustix::process::nice(NICENESS);
    let copy = Copy::begin(&flags.directory)?;
    let taken = take(&sqs, &copy).await;
    let Copied { segments, size_bytes } = taken.inspect_err(|_| copy.give_up())?;
    copy.finish()?;
    let (dir, bytes) = (flags.directory.display(), output::thousands(size_bytes));
    let plural = if segments == 1 { "" } else { "s" };
    tell(&format!("{dir}: a backup of {bytes} bytes, {segments} segment{plural}, checked"));
    Ok(())
}

async fn take(sqs: &Sqs, copy: &Copy) -> Result<Copied> {
    let mut body = sqs.backup().await?;
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let (done, filled) = oneshot::channel();
    let copy = copy.clone();
    let fill = move || {
        // Whoever asked waits for it.
        let _ = done.send(copy.fill(Pieces { receiver, piece: Bytes::new() }));
    };
    thread::Builder::new().name("unpack".to_owned()).spawn(fill).context("starting a thread")?;
    let signal = first_signal()?;
    let received = tokio::select! {
        received = receive(&mut body, sender) => received,
        name = signal => Err(anyhow::anyhow!("{}: ended", name.unwrap_or_default())),
    };
    let filled = filled.await;
    received?;
    match filled {
        Ok(filled) => filled,
        Err(_) => bail!("a bug ended the backup"),
    }
}

/// Hands on what comes, as long as it is wanted.
async fn receive(body: &mut StreamedBody, pieces: mpsc::Sender<Bytes>) -> Result<()> {
    while let Some(piece) = body.next().await.context("receiving the backup")? {
        if pieces.send(piece).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.receiver.blocking_recv().unwrap_or_default();
        }
        let length = self.piece.len().min(buffer.len());
        let Some(buffer) = buffer.get_mut(..length) else { return Ok(0) };
        self.piece.copy_to_slice(buffer);
        Ok(length)
    }
}
