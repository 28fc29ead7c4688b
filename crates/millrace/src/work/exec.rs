//! A shell command for each message.
//!
//! The body comes on standard input, what is known of the message in `MILLRACE_*` variables; the
//! exit code says what becomes of the message. Nothing of a message is ever part of the command.
//!
//! Every command runs in a process group of its own, which ends with it: whatever is left of the
//! group when the command ends, times out or is cut off is killed. So there are never more commands
//! than the worker's concurrency allows. A command for which there is no room waits for some, for
//! as long as a command may run: by then those that run now have ended.

use std::{
    fs::File,
    io::{self, Seek, Write},
    process::ExitStatus,
    time::Duration,
};

use millrace_worker::{HandlerError, Message, Outcome};
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::{process::Child, time::sleep};

use super::{
    WorkFlags,
    environment::{self, Names},
    flags::ExitCodes,
    process_group::{ProcessGroup, shell},
    room::{Room, Turns},
};

/// BSD's sysexits: the input data was incorrect.
const EX_DATAERR: i32 = 65;
/// BSD's sysexits: a temporary failure.
const EX_TEMPFAIL: i32 = 75;

/// Runs a command for each message.
#[derive(Debug)]
pub(super) struct Exec {
    command: String,
    queue_url: String,
    exit_codes: ExitCodes,
    retry_delay: Duration,
    timeout: Duration,
    kill_after: Duration,
    /// Whose turn it is among messages that wait for room.
    turns: Turns,
}

impl Exec {
    pub(super) fn new(command: &str, queue_url: &str, flags: &WorkFlags) -> Exec {
        Exec {
            command: command.to_owned(),
            queue_url: queue_url.to_owned(),
            exit_codes: flags.exit_codes,
            retry_delay: flags.retry_delay,
            timeout: flags.timeout(),
            kill_after: flags.kill_after,
            turns: Turns::default(),
        }
    }

    pub(super) async fn run(&self, message: &Message) -> Result<Outcome, HandlerError> {
        let mut room = Room::new(&self.turns, self.timeout);
        let mut child = loop {
            match self.spawn(message) {
                Ok(child) => break child,
                Err(error) => {
                    if !room.may_come(error, message.cancelled()).await? {
                        return Ok(Outcome::Release);
                    }
                }
            }
        };
        drop(room);
        let mut group = ProcessGroup::of(&child)?;
        let ended = async {
            tokio::select! {
                status = child.wait() => Ended::Exited(status),
                () = sleep(self.timeout) => Ended::TimedOut,
                () = message.cancelled() => Ended::Cancelled,
            }
        };
        match ended.await {
            Ended::Exited(status) => {
                group.kill();
                Ok(self.outcome(status?, message))
            }
            // Whatever the exit code after SIGTERM: many programs end with 0 then.
            Ended::TimedOut => {
                let (message_id, receive_count) = (message.id(), message.receive_count());
                tracing::warn!(%message_id, receive_count, "the command took too long");
                group.stop(&mut child, self.kill_after).await;
                Ok(Outcome::RETRY)
            }
            Ended::Cancelled => {
                group.stop(&mut child, self.kill_after).await;
                Ok(Outcome::Release)
            }
        }
    }

    fn spawn(&self, message: &Message) -> io::Result<Child> {
        let names = match self.exit_codes {
            ExitCodes::Sysexits => Names::Millrace,
            ExitCodes::Watchbot => Names::Watchbot,
        };
        shell(&self.command)
            .envs(environment::of(message, &self.queue_url, names))
            .stdin(body_file(message.body().as_bytes())?)
            .spawn()
    }

    fn outcome(&self, status: ExitStatus, message: &Message) -> Outcome {
        let code = status.code();
        match (self.exit_codes, code) {
            (_, Some(0)) => Outcome::Ack,
            (ExitCodes::Sysexits, Some(EX_DATAERR)) | (ExitCodes::Watchbot, Some(3)) => {
                Outcome::reject(format!("the command ended with {status}"))
            }
            (ExitCodes::Sysexits, Some(EX_TEMPFAIL)) => {
                Outcome::Retry { after: Some(self.retry_delay) }
            }
            // A retry as after a failure, but nobody is told of one.
            (ExitCodes::Watchbot, Some(4)) => Outcome::RETRY,
            _ => {
                let (message_id, queue) = (message.id(), &self.queue_url);
                let receive_count = message.receive_count();
                tracing::warn!(%message_id, queue, receive_count, %status, "the command failed");
                Outcome::RETRY
            }
        }
    }
}

enum Ended {
    Exited(io::Result<ExitStatus>),
    TimedOut,
    Cancelled,
}

/// The body as a file in memory. It is whole before the command starts: through a pipe, a worker
/// that dies would make the command believe that a part of the body is all of it.
fn body_file(body: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("message", MemfdFlags::CLOEXEC)?);
    file.write_all(body)?;
    file.rewind()?;
    Ok(file)
}
