//! One scenario by several processes or hosts at once.
//!
//! A node listens, the coordinator connects. Both write one JSON object a line:
//!
//! ```text
//! coordinator              node
//! {"job": …}           →
//!                      ←   {"ready": {"version": …}}
//! "clock"              →                               five times; the quickest counts
//!                      ←   {"clock": microseconds}
//! {"start_at_us": …}   →                               by the node's own clock
//!                      ←   "all_sent"                  its producers are done
//! "settle"             →                               everyone's are: empty the queue
//!                      ←   {"report": …}
//! ```
//! Instead of an answer, `{"failed": "why"}`. Credentials are never sent: a node has its own.
//! Lines are at most [`LINE_MAX`] bytes, and a silent partner is given up after [`SILENCE_MAX`]. A
//! node whose coordinator ends the connection ends its run.

mod coordinate;
mod serve;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_core::Url;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub(crate) use coordinate::{Nodes, local};
pub(crate) use serve::{Flags, serve};

use crate::{
    access::{Access, Interface, Protocol},
    load::{Endpoint, Grouping, Mode, Pace, Report, Scenario, Shape, is_nothing_yet},
    process,
};

/// Tallies of some hundred million messages.
const LINE_MAX: u64 = 1 << 30;
/// Beyond the run itself.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// How soon it is seen that there is no use in listening.
const TURN: Duration = Duration::from_millis(100);
const PROTOCOL: u32 = 8;
/// An empty line: nothing is said, but by somebody who is there.
const SIGN_OF_LIFE: &[u8] = b"\n";

/// What a node is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    protocol: u32,
    pub(crate) endpoint: String,
    interface: Interface,
    sqs_protocol: Protocol,
    /// As the interface calls it.
    queue: String,
    mode: Mode,
    batch: u64,
    size_bytes: usize,
    is_fifo: bool,
    groups: u32,
    producers: usize,
    consumers: usize,
    threads: usize,
    warm_up: Duration,
    duration: Duration,
    pace: Pace,
    backlog_max: u64,
    wait_s: u32,
    server_pid: Option<u32>,
    /// A round-trip time to add.
    delay: Duration,
    /// Whom this node's messages name as their sender, and whom the other nodes' do.
    run: u32,
    others: Vec<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Job(Box<Job>),
    Clock,
    StartAtUs(u64),
    Settle,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready { version: String },
    Clock(u64),
    AllSent,
    Report(Box<Report>),
    Failed(String),
}

impl Job {
    pub(crate) fn new(
        scenario: &Scenario,
        endpoint: &Url,
        access: &Access,
        queue: &str,
        delay: Duration,
    ) -> Job {
        Job {
            protocol: PROTOCOL,
            endpoint: endpoint.with_query(),
            interface: access.interface(),
            sqs_protocol: access.protocol(),
            queue: queue.to_owned(),
            mode: scenario.mode,
            batch: scenario.shape.batch,
            size_bytes: scenario.shape.size_bytes,
            is_fifo: scenario.shape.grouping == Grouping::Fifo,
            groups: scenario.groups,
            producers: scenario.producers,
            consumers: scenario.consumers,
            threads: scenario.threads,
            warm_up: scenario.warm_up,
            duration: scenario.duration,
            pace: scenario.pace.clone(),
            backlog_max: scenario.backlog_max,
            wait_s: scenario.wait_s,
            server_pid: scenario.server_pid,
            delay,
            run: 0,
            others: Vec::new(),
        }
    }

    /// The scenario of this node alone, against an endpoint that it knows how to reach.
    fn scenario(&self, endpoint: Endpoint) -> Scenario {
        let grouping = Grouping::new(self.is_fifo, self.groups);
        Scenario {
            shape: Shape { batch: self.batch.max(1), size_bytes: self.size_bytes, grouping },
            groups: self.groups,
            producers: self.producers,
            consumers: self.consumers,
            threads: self.threads,
            warm_up: self.warm_up,
            duration: self.duration,
            pace: self.pace.clone(),
            backlog_max: self.backlog_max,
            // A poll that does not wait says nothing about the queue being empty.
            wait_s: self.wait_s.max(1),
            server_pid: self.server_pid,
            ..Scenario::new(self.mode, endpoint, 1)
        }
    }
}

/// One end of a conversation.
struct Line {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Line {
    fn new(socket: TcpStream) -> Result<Line> {
        socket.set_nodelay(true).context("TCP_NODELAY")?;
        socket.set_read_timeout(Some(TURN)).context("setting a timeout")?;
        let reader = socket.try_clone().context("sharing the connection")?;
        Ok(Line { reader: BufReader::new(reader), writer: socket })
    }

    fn say(&mut self, what: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(what).context("writing JSON")?;
        line.push(b'\n');
        self.writer.write_all(&line).context("the connection broke")
    }

    /// `None` once the other side has ended the connection. Listens for as long as `go_on` finds no
    /// reason not to.
    fn hear<T: DeserializeOwned>(
        &mut self,
        silence_max: Duration,
        go_on: impl Fn() -> Result<()>,
    ) -> Result<Option<T>> {
        let (mut line, mut heard) = (Vec::new(), Instant::now());
        loop {
            // As of before the read: what came while this process was held up is in the socket.
            let is_silent = heard.elapsed() > silence_max;
            let before = line.len();
            let mut reader = (&mut self.reader).take(LINE_MAX - before as u64);
            match reader.read_until(b'\n', &mut line) {
                Ok(_) if line == SIGN_OF_LIFE => {
                    line.clear();
                    heard = Instant::now();
                    go_on()?;
                    continue;
                }
                Ok(_) => break,
                Err(error) if is_nothing_yet(&error) => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
            go_on()?;
            // What there was of a line is kept.
            if line.len() > before {
                heard = Instant::now();
            } else if is_silent {
                bail!("nothing was heard in time");
            }
        }
        if line.is_empty() {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') {
            bail!("a line was cut off or is longer than {LINE_MAX} bytes");
        }
        serde_json::from_slice(&line).context("not understood").map(Some)
    }
}

/// Wall clock, for clocks of two hosts have nothing else in common.
fn now_us() -> u64 {
    u64::try_from(process::now().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (Line, Line) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (Line::new(near).unwrap(), Line::new(far).unwrap())
    }

    fn always() -> Result<()> {
        Ok(())
    }

    #[test]
    fn what_is_said_is_heard() {
        let (mut near, mut far) = pair();
        let patience = Duration::from_secs(5);

        near.say(&Request::StartAtUs(7)).unwrap();
        assert!(matches!(far.hear(patience, always).unwrap(), Some(Request::StartAtUs(7))));

        drop(near);
        assert!(far.hear::<Request>(patience, always).unwrap().is_none());
    }

    #[test]
    fn signs_of_life_are_waited_through() {
        let (near, mut far) = pair();
        let looks = std::cell::Cell::new(0);
        let silence_max = 5 * TURN;

        let heard = far.hear(silence_max, || {
            looks.set(looks.get() + 1);
            match looks.get() {
                20 => Ok((&near.writer).write_all(b"\"clock\"\n")?),
                _ => Ok((&near.writer).write_all(SIGN_OF_LIFE)?),
            }
        });

        assert!(matches!(heard.unwrap(), Some(Request::Clock)));
        assert!(far.hear::<Request>(silence_max, always).is_err());
    }

    /// As a process that is stopped and goes on.
    #[test]
    fn what_came_while_nobody_listened_is_heard() {
        let (near, mut far) = pair();
        let silence_max = 5 * TURN;

        let heard = far.hear(silence_max, || {
            (&near.writer).write_all(b"\"clock\"\n")?;
            std::thread::sleep(2 * silence_max);
            Ok(())
        });

        assert!(matches!(heard.unwrap(), Some(Request::Clock)));
    }

    #[test]
    fn half_a_line_and_nonsense_are_errors() {
        let (mut near, mut far) = pair();
        near.writer.write_all(b"{\"job\":1}\n{\"cl").unwrap();
        drop(near);

        assert!(far.hear::<Request>(Duration::from_secs(5), always).is_err());
        assert!(far.hear::<Request>(Duration::from_secs(5), always).is_err());
    }

    #[test]
    fn a_line_may_come_in_parts_and_nobody_listens_for_ever() {
        let (near, mut far) = pair();
        (&near.writer).write_all(b"\"clo").unwrap();
        // The other half is said after the first was looked at.
        let looks = std::cell::Cell::new(0);
        let heard = far.hear(Duration::from_secs(5), || {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                (&near.writer).write_all(b"ck\"\n").unwrap();
            }
            Ok(())
        });
        assert!(matches!(heard.unwrap(), Some(Request::Clock)));

        let error = far.hear::<Request>(Duration::from_secs(500), || bail!("enough")).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        assert!(far.hear::<Request>(Duration::ZERO, always).is_err());
    }
}
