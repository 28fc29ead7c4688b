//! `top`: what the queues hold and how fast it changes, until interrupted.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::activity::{Activity, activity, rate};
use super::connection::ConnectionFlags;
use super::names::queue_names;
use super::values::interval;
use super::{Sqs, output};
use crate::end_signals::EndSignals;
use millrace_process::visible;

/// Rows where the terminal does not tell its height.
const ROWS: usize = 24;
/// Title, blank line, heads.
const LINES_ABOVE: usize = 3;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left; to the end of the line, and of the screen, is erased.
const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K\r\n";
const ERASE_REST: &str = "\x1b[J";

#[derive(Args, Debug)]
pub(crate) struct TopFlags {
    /// Only queues whose names begin so
    #[arg(default_value = "", add = queue_names())]
    prefix: String,
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Look so often, then end [default: until interrupted; once if the output is no terminal]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Queues as they were at the look before, and when that was.
type Before = HashMap<String, (Activity, Instant)>;

pub(super) async fn run(flags: &TopFlags) -> Result<()> {
    let sqs = flags.connection.connect()?;
    let is_terminal = io::stdout().is_terminal();
    let times = flags.times.unwrap_or(if is_terminal { u64::MAX } else { 1 });
    let screen = is_terminal.then(Screen::enter).transpose()?;
    // The terminal is to be left as it was.
    let mut signals = EndSignals::watch()?;
    tokio::select! {
        outcome = watch(flags, &sqs, times, screen.as_ref()) => outcome,
        _ = signals.next() => Ok(()),
    }
}

async fn watch(flags: &TopFlags, sqs: &Sqs, times: u64, screen: Option<&Screen>) -> Result<()> {
    let mut before = Before::new();
    for turn in 0..times {
        if turn > 0 {
            tokio::time::sleep(flags.interval).await;
        }
        let queues = activity(sqs, &flags.prefix).await?;
        let shown = show(sqs, queues, &mut before, screen.map_or(usize::MAX, |_| height()));
        let mut out = io::stdout().lock();
        if screen.is_some() {
            let lines: String = shown.lines().map(|line| line.to_owned() + ERASE_LINE).collect();
            out.write_all(format!("{HOME}{lines}{ERASE_REST}").as_bytes())?;
        } else {
            out.write_all(shown.as_bytes())?;
        }
        out.flush()?;
    }
    Ok(())
}

/// A screenful: totals, then the fullest queues.
fn show(sqs: &Sqs, mut queues: Vec<Activity>, before: &mut Before, height: usize) -> String {
    queues.sort_by(|a, b| b.held().cmp(&a.held()).then_with(|| a.name.cmp(&b.name)));
    let total: u64 = queues.iter().map(Activity::held).sum();
    let now = Instant::now();
    let mut rows = Vec::new();
    let mut seen = Before::new();
    for queue in &queues {
        let mut row = vec![visible(&queue.name).into_owned()];
        row.extend(queue.counts());
        row.extend(speed(queue, before.get(&queue.name), now));
        rows.push(row);
        seen.insert(queue.name.clone(), (queue.clone(), now));
    }
    *before = seen;
    let hidden = rows.len().saturating_sub(height.saturating_sub(LINES_ABOVE + 1).max(1));
    rows.truncate(rows.len() - hidden);
    let heads =
        ["NAME", "AVAILABLE", "IN FLIGHT", "DELAYED", "SENT/S", "RECEIVED/S", "OLDEST", "CHANGE/S"];
    let mut text = format!(
        "{}: {}, {}\n\n",
        sqs.endpoint(),
        output::counted(queues.len() as u64, "queue"),
        output::counted(total, "message")
    );
    text += &output::table(&heads, &rows);
    if hidden > 0 {
        text += &format!("{hidden} more\n");
    }
    text
}

/// The cells from SENT/S on: since the look before, else as the server says of the last minutes.
fn speed(queue: &Activity, before: Option<&(Activity, Instant)>, now: Instant) -> [String; 4] {
    let mut sent = queue.sent_per_second;
    let mut received = queue.received_per_second;
    let mut change = "-".to_owned();
    if let Some((earlier, at)) = before {
        let elapsed_s = now.duration_since(*at).as_secs_f64().max(0.001);
        let per_second = |total: Option<u64>, before: Option<u64>| {
            Some(total?.saturating_sub(before?) as f64 / elapsed_s)
        };
        sent = per_second(queue.sent, earlier.sent);
        received = per_second(queue.received, earlier.received);
        let difference = queue.held() as f64 - earlier.held() as f64;
        change = format!("{:+.0}", difference / elapsed_s);
    }
    [rate(sent), rate(received), queue.oldest(), change]
}

fn height() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map_or(ROWS, |size| usize::from(size.ws_row)).max(LINES_ABOVE + 2)
}

/// The terminal's other screen, left when dropped.
struct Screen;

impl Screen {
    fn enter() -> io::Result<Screen> {
        io::stdout().lock().write_all(ENTER.as_bytes())?;
        Ok(Screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    }
}
