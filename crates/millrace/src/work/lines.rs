//! Commands that stay: each is fed one message a line and answers with one line.
//!
//! ```text
//!   → {"number":17,"message_id":"…","receive_count":1,"group_id":null,"attributes":{…},"trace":{…},"body":"…"}
//!   ← 17 ack | 17 retry [SECONDS] | 17 release | 17 reject [REASON]
//! ```
//!
//! The number ties the answer to the message: a stray line is never taken for a success.
//!
//! There are never more commands than handlers run, and those that a burst has left idle end after
//! a while. That a command has ended is seen by its exit, since others may have its standard output
//! open for longer; what it answered before counts. One that ends, says something else or takes too long is killed with its process group;
//! its message is retried, and a new one is started for the next message.

use std::{io, pin::pin, process::Stdio, sync::Arc, time::Duration};

use millrace_worker::{HandlerError, Message, Outcome};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    WorkFlags,
    commands::{Commands, IDLE_MAX, Next, Place},
    line::{line_of, parse},
    process_group::{ProcessGroup, shell},
    room::{self, Room, Turns},
};

/// The longest answer; it is one word, and perhaps a reason.
const ANSWER_BYTES: usize = 4_096;

/// Between the end of a command's output and its exit, if it is about to exit.
const EXIT_PAUSE: Duration = Duration::from_millis(100);

/// Feeds messages to commands that stay.
#[derive(Debug)]
pub(super) struct Lines {
    command: String,
    queue_url: String,
    timeout: Duration,
    kill_after: Duration,
    /// Whose turn it is among messages that wait for room.
    turns: Turns,
    /// The commands of all queues.
    commands: Arc<Commands<Running>>,
}

/// A command that stays. Dropped in order: the group is killed before the child is reaped.
#[derive(Debug)]
pub(super) struct Running {
    group: ProcessGroup,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    child: Child,
    /// The number of the last message.
    number: u64,
}

impl Lines {
    pub(super) fn new(
        command: &str,
        queue_url: &str,
        flags: &WorkFlags,
        commands: Arc<Commands<Running>>,
    ) -> Lines {
        Lines {
            command: command.to_owned(),
            queue_url: queue_url.to_owned(),
            timeout: flags.timeout(),
            kill_after: flags.kill_after,
            turns: Turns::default(),
            commands,
        }
    }

    pub(super) async fn run(&self, message: &Message) -> Result<Outcome, HandlerError> {
        let Some((place, mut running)) = self.take(message.cancelled()).await? else {
            return Ok(Outcome::Release);
        };
        tokio::select! {
            answer = running.ask(message) => {
                let answer = answer?;
                let outcome = parse(answer.text(), running.number)?;
                if let Answer::OfRunning(_) = answer {
                    place.keep(running);
                }
                return Ok(outcome);
            }
            () = sleep(self.timeout) => {}
            () = message.cancelled() => {}
        }
        running.group.stop(&mut running.child, self.kill_after).await;
        if message.is_cancelled() {
            return Ok(Outcome::Release);
        }
        let (message_id, receive_count) = (message.id(), message.receive_count());
        tracing::warn!(%message_id, receive_count, "the command took too long");
        Ok(Outcome::RETRY)
    }

    /// A command that waits for a message, else a new one; none if there is no room for one. One
    /// that has ended meanwhile must not fail the message that it would have got.
    async fn take(
        &self,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Option<(Place<Running>, Running)>, HandlerError> {
        let mut cancelled = pin!(cancelled);
        let mut room = Room::new(&self.turns, self.timeout);
        let place = self.commands.place(&self.queue_url);
        loop {
            match place.next() {
                Next::Take(running) if running.group.has_lost_leader() => {}
                Next::Take(running) => return Ok(Some((place, running))),
                Next::End(running) => end(vec![running], self.kill_after).await,
                Next::Start => match self.spawn() {
                    Ok(running) => return Ok(Some((place, running))),
                    Err(error) => {
                        // An idle command of another queue: one of its own would have been taken.
                        if room::is_lacking(&error)
                            && let Some(idle) = place.make_room()
                        {
                            end(vec![idle], self.kill_after).await;
                        } else if !room.may_come(error, cancelled.as_mut()).await? {
                            return Ok(None);
                        }
                    }
                },
            }
        }
    }

    /// Lets the commands end: they see the end of their standard input.
    pub(super) async fn close(&self) {
        end(self.commands.close(&self.queue_url), self.kill_after).await;
    }

    fn spawn(&self) -> io::Result<Running> {
        let no_pipe = || io::Error::other("the command has no standard input or output");
        let mut child = shell(&self.command)
            .env("MILLRACE_QUEUE_URL", &self.queue_url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let group = ProcessGroup::of(&child)?;
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        Ok(Running { group, stdin, stdout: BufReader::new(stdout), child, number: 0 })
    }
}

/// A line that answers a message.
#[derive(Debug)]
enum Answer {
    OfRunning(String),
    /// The command has ended since, and takes no more messages.
    OfEnded(String),
}

impl Answer {
    fn text(&self) -> &str {
        let (Answer::OfRunning(text) | Answer::OfEnded(text)) = self;
        text
    }
}

impl Running {
    async fn ask(&mut self, message: &Message) -> Result<Answer, HandlerError> {
        self.number += 1;
        let mut line = serde_json::to_vec(&line_of(message, self.number))?;
        line.push(b'\n');
        self.exchange(&line).await
    }

    /// Writes a line and waits for an answer, or for the end of the command.
    async fn exchange(&mut self, line: &[u8]) -> Result<Answer, HandlerError> {
        let mut answer = Vec::new();
        let (stdin, stdout) = (&mut self.stdin, &mut self.stdout);
        let exchanged = async {
            stdin.write_all(line).await?;
            stdout.take(ANSWER_BYTES as u64).read_until(b'\n', &mut answer).await
        };
        let status = tokio::select! {
            biased;
            read = exchanged => match read {
                Ok(_) if answer.ends_with(b"\n") => {
                    return Ok(Answer::OfRunning(text(answer)?));
                }
                Ok(_) if answer.len() >= ANSWER_BYTES => return Err(too_long()),
                // The end of its output, or a pipe that it reads no more: it may have answered, and
                // may be about to exit.
                Ok(_) | Err(_) => None,
            },
            status = self.child.wait() => Some(status?),
        };
        let status = match status {
            Some(status) => Some(status),
            None => timeout(EXIT_PAUSE, self.child.wait()).await.ok().transpose()?,
        };
        self.rest(&mut answer)?;
        if answer.ends_with(b"\n") {
            return Ok(Answer::OfEnded(text(answer)?));
        }
        Err(match status {
            _ if answer.len() >= ANSWER_BYTES => too_long(),
            Some(status) => format!("the command ended ({status}) without an answer").into(),
            None => "the command closed its output or its input without an answer".into(),
        })
    }

    /// What is there of an answer of a command that writes no more; whoever else has its output open
    /// is not waited for.
    fn rest(&mut self, answer: &mut Vec<u8>) -> io::Result<()> {
        let mut found = self.stdout.buffer().to_vec();
        let mut more = [0; ANSWER_BYTES];
        loop {
            match rustix::io::read(self.stdout.get_ref(), &mut more) {
                Ok(count) if count > 0 && found.len() < ANSWER_BYTES => {
                    found.extend_from_slice(more.get(..count).unwrap_or_default());
                }
                Ok(_) | Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let left = ANSWER_BYTES.saturating_sub(answer.len());
        let end = found.iter().position(|byte| *byte == b'\n').map_or(found.len(), |at| at + 1);
        answer.extend_from_slice(found.get(..end.min(left)).unwrap_or_default());
        Ok(())
    }
}

fn text(answer: Vec<u8>) -> Result<String, HandlerError> {
    String::from_utf8(answer).map_err(|_| "the answer is not UTF-8".into())
}

fn too_long() -> HandlerError {
    format!("the answer is longer than {ANSWER_BYTES} bytes").into()
}

/// Lets commands end that have had nothing to do for long, until the work has `ended`.
pub(super) async fn end_surplus(
    commands: &Arc<Commands<Running>>,
    kill_after: Duration,
    ended: impl Future<Output = ()>,
) {
    let mut ended = pin!(ended);
    while timeout(IDLE_MAX / 10, ended.as_mut()).await.is_err() {
        end_surplus_at(Instant::now(), commands, kill_after).await;
    }
}

async fn end_surplus_at(now: Instant, commands: &Arc<Commands<Running>>, kill_after: Duration) {
    let (surplus, _places): (Vec<_>, Vec<_>) = commands.surplus(now).into_iter().unzip();
    if !surplus.is_empty() {
        tracing::debug!(commands = surplus.len(), "ending idle commands");
        end(surplus, kill_after).await;
    }
}

/// Lets commands end, and kills what is left of them after that long.
async fn end(commands: Vec<Running>, kill_after: Duration) {
    let mut ending = Vec::with_capacity(commands.len());
    for Running { group, stdin, child, .. } in commands {
        drop(stdin);
        ending.push((group, child));
    }
    let until = Instant::now() + kill_after;
    for (_group, child) in &mut ending {
        let _ = timeout_at(until, child.wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    fn lines(command: &str, queue_url: &str, commands: &Arc<Commands<Running>>) -> Lines {
        Lines {
            command: command.to_owned(),
            queue_url: queue_url.to_owned(),
            timeout: Duration::from_secs(60),
            kill_after: Duration::from_secs(60),
            turns: Turns::default(),
            commands: Arc::clone(commands),
        }
    }

    async fn take(lines: &Lines) -> (Place<Running>, Running) {
        lines.take(pending()).await.unwrap().unwrap()
    }

    fn keep(lines: &Lines, running: Running) {
        lines.commands.place(&lines.queue_url).keep(running);
    }

    #[tokio::test]
    async fn command_that_ended_while_it_was_idle_gets_no_message() {
        let lines = lines("read line", "q", &Arc::new(Commands::new(9)));
        let (waiting, mut ended) = (lines.spawn().unwrap(), lines.spawn().unwrap());
        let (waiting_id, ended_id) = (waiting.child.id(), ended.child.id());
        ended.stdin.write_all(b"\n").await.unwrap();
        let pid = Pid::from_raw(ended_id.unwrap().cast_signed()).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        keep(&lines, waiting);
        keep(&lines, ended);

        let taken = [take(&lines).await.1, take(&lines).await.1];

        assert_eq!(taken[0].child.id(), waiting_id);
        assert_ne!(taken[1].child.id(), ended_id);
    }

    /// What a command answers to a line of so many bytes, with somebody else left at its output.
    async fn answer(script: &str, line_bytes: usize) -> Result<Answer, String> {
        let lines = lines(script, "q", &Arc::new(Commands::new(1)));
        let (_place, mut running) = take(&lines).await;
        let line = [vec![b'x'; line_bytes], b"\n".to_vec()].concat();
        let answered = timeout(Duration::from_secs(60), running.exchange(&line)).await;
        answered.unwrap().map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn command_that_ended_is_not_waited_for_while_others_have_its_output_open() {
        // More than a pipe holds, with its input left open, too.
        for (script, line_bytes) in [
            ("read -r line; sleep 60 & exit 3", 1),
            ("sleep 60 <&0 & exit 3", 1 << 20),
            ("exec 9<&0; sleep 60 <&9 & read -r line; printf '7 ac'; exit 3", 1),
        ] {
            let ended = answer(script, line_bytes).await.unwrap_err();
            assert!(ended.contains("exit status: 3"), "{script}: {ended}");
        }
    }

    #[tokio::test]
    async fn answer_of_a_command_that_ended_counts_and_it_takes_no_more() {
        for script in [
            "read -r line; echo 7 ack; sleep 60 & exit 3",
            "read -r line; printf '7 ack\\n8 no\\n'",
        ] {
            let answered = answer(script, 1).await.unwrap();
            assert_eq!(answered.text(), "7 ack\n", "{script}");
        }
    }

    #[tokio::test]
    async fn answer_that_is_too_long_is_refused_by_its_limit() {
        for script in [
            "read -r line; head -c 9000 /dev/zero; sleep 60",
            "head -c 4097 /dev/zero & wait; exit",
        ] {
            let refused = answer(script, 1).await.unwrap_err();
            assert_eq!(refused, "the answer is longer than 4096 bytes", "{script}");
        }
    }

    #[tokio::test]
    async fn idle_command_of_another_queue_ends_before_a_new_one_starts() {
        let commands = Arc::new(Commands::new(1));
        let (first, second) =
            (lines("read line", "a", &commands), lines("read line", "b", &commands));
        let (place, running) = take(&first).await;
        let pid = Pid::from_raw(running.child.id().unwrap().cast_signed()).unwrap();
        place.keep(running);

        let _taken = take(&second).await;

        // Ended, and waited for: it is nobody's child any more.
        assert!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).is_err());
        assert!(matches!(commands.place("a").next(), Next::Start));
    }

    #[tokio::test]
    async fn command_that_has_nothing_to_do_for_long_ends_by_itself() {
        let commands = Arc::new(Commands::new(9));
        let lines = lines("read line", "q", &commands);
        let pids = [(); 2].map(|()| {
            let running = lines.spawn().unwrap();
            let pid = Pid::from_raw(running.child.id().unwrap().cast_signed()).unwrap();
            keep(&lines, running);
            pid
        });
        let is_there =
            |pid| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).is_ok();

        end_surplus_at(Instant::now() + IDLE_MAX, &commands, Duration::from_secs(60)).await;

        assert_eq!(pids.map(is_there), [false, true]);
    }
}
