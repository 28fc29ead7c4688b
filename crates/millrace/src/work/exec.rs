//! A shell command for each message.
//!
//! The body comes on standard input, what is known of the message in `MILLRACE_*` variables; the
//! exit code says what becomes of the message. Nothing of a message is ever part of the command.
//!
//! Every command runs in a process group of its own, which ends with it: whatever is left of the
//! group when the command ends, times out or is cut off is killed. So there are never more commands
//! than the worker's concurrency allows.

use std::{
    fs::File,
    io::{self, Seek, Write},
    process::ExitStatus,
    time::Duration,
};

use millrace_worker::{Handler, HandlerError, Message, Outcome};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use super::{
    WorkFlags,
    environment::{self, Names},
    flags::ExitCodes,
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
}

impl Exec {
    pub(super) fn new(command: &str, queue_url: String, flags: &WorkFlags) -> Exec {
        Exec {
            command: command.to_owned(),
            queue_url,
            exit_codes: flags.exit_codes,
            retry_delay: flags.retry_delay,
            timeout: flags.timeout,
            kill_after: flags.kill_after,
        }
    }

    async fn run(&self, message: &Message) -> Result<Outcome, HandlerError> {
        let mut child = self.spawn(message)?;
        // Dropped before `child`, while its process id is still its own.
        let mut group = Group::of(&child)?;
        let ended = async {
            tokio::select! {
                status = child.wait() => Ended::Exited(status),
                () = sleep(self.timeout) => Ended::TimedOut,
                () = message.cancelled() => Ended::Cancelled,
            }
        };
        let outcome = match ended.await {
            Ended::Exited(status) => self.outcome(status?),
            Ended::TimedOut => {
                tracing::warn!(message_id = %message.id(), "the command took too long");
                self.stop(&mut child, &group).await;
                Outcome::RETRY
            }
            Ended::Cancelled => {
                self.stop(&mut child, &group).await;
                Outcome::Release
            }
        };
        group.end();
        Ok(outcome)
    }

    fn spawn(&self, message: &Message) -> io::Result<Child> {
        let names = match self.exit_codes {
            ExitCodes::Sysexits => Names::Millrace,
            ExitCodes::Watchbot => Names::Watchbot,
        };
        Command::new("/bin/sh")
            .arg("-c")
            .arg(&self.command)
            .envs(environment::of(message, &self.queue_url, names))
            .stdin(body_file(message.body().as_bytes())?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// SIGTERM to the group, then time to end; what is left is killed by [`Group::end`].
    async fn stop(&self, child: &mut Child, group: &Group) {
        group.signal(Signal::TERM);
        let _ = timeout(self.kill_after, child.wait()).await;
    }

    fn outcome(&self, status: ExitStatus) -> Outcome {
        let code = status.code();
        match (self.exit_codes, code) {
            (_, Some(0)) => Outcome::Ack,
            (ExitCodes::Sysexits, Some(EX_DATAERR)) | (ExitCodes::Watchbot, Some(3)) => {
                Outcome::reject(format!("the command ended with {status}"))
            }
            (ExitCodes::Sysexits, Some(EX_TEMPFAIL)) => {
                Outcome::Retry { after: Some(self.retry_delay) }
            }
            (ExitCodes::Watchbot, Some(4)) => Outcome::Release,
            _ => {
                tracing::warn!(%status, "the command failed");
                Outcome::RETRY
            }
        }
    }
}

impl Handler for Exec {
    async fn handle(&self, messages: Vec<Message>) -> Result<Vec<Outcome>, HandlerError> {
        let mut outcomes = Vec::with_capacity(messages.len());
        for message in &messages {
            outcomes.push(self.run(message).await?);
        }
        Ok(outcomes)
    }
}

enum Ended {
    Exited(io::Result<ExitStatus>),
    TimedOut,
    Cancelled,
}

/// The body as a file in memory. It is whole before the command starts: through a pipe, a worker that
/// dies would make the command believe that a part of the body is all of it.
fn body_file(body: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("message", MemfdFlags::CLOEXEC)?);
    file.write_all(body)?;
    file.rewind()?;
    Ok(file)
}

/// The process group of a command; killed when dropped.
struct Group {
    id: Option<Pid>,
}

impl Group {
    fn of(child: &Child) -> io::Result<Group> {
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if id.is_none() {
            return Err(io::Error::other("the command has no process id"));
        }
        Ok(Group { id })
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // It fails when nobody is left, which is what is wanted.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills what is left.
    fn end(&mut self) {
        self.signal(Signal::KILL);
        self.id = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
