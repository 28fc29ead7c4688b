//! `top`: what the queues hold and how fast it changes, until interrupted.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::connection::{ConnectionFlags, name_of};
use super::queue::{DELAYED, IN_FLIGHT, Listed, READY, messages_held, number, with_attributes};
use super::{Sqs, interval, output};
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
    #[arg(default_value = "")]
    prefix: String,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Look so often, then end [default: until interrupted; once if the output is no terminal]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Messages of a queue, and when they were counted.
type Before = HashMap<String, (u64, Instant)>;

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
        let queues = with_attributes(sqs, &flags.prefix).await?;
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
fn show(sqs: &Sqs, queues: Vec<Listed>, before: &mut Before, height: usize) -> String {
    let mut queues: Vec<(u64, Listed)> =
        queues.into_iter().map(|queue| (messages_held(&queue.1), queue)).collect();
    queues.sort_by(|(one, (a, _)), (other, (b, _))| other.cmp(one).then_with(|| a.cmp(b)));
    let total: u64 = queues.iter().map(|(held, _)| held).sum();
    let now = Instant::now();
    let mut rows = Vec::new();
    let mut seen = Before::new();
    for (held, (url, attributes)) in &queues {
        let change = before.get(url).map(|(earlier, at)| {
            let elapsed_s = now.duration_since(*at).as_secs_f64().max(0.001);
            (*held as f64 - *earlier as f64) / elapsed_s
        });
        seen.insert(url.clone(), (*held, now));
        let cells =
            [READY, IN_FLIGHT, DELAYED].map(|name| output::thousands(number(attributes, name)));
        let mut row = vec![visible(name_of(url)).into_owned()];
        row.extend(cells);
        row.push(change.map_or("-".to_owned(), |change| format!("{change:+.0}")));
        rows.push(row);
    }
    *before = seen;
    let hidden = rows.len().saturating_sub(height.saturating_sub(LINES_ABOVE + 1).max(1));
    rows.truncate(rows.len() - hidden);
    let heads = ["NAME", "READY", "IN FLIGHT", "DELAYED", "CHANGE/S"];
    let mut text = format!(
        "{}: {} queues, {} messages\n\n",
        sqs.endpoint(),
        queues.len(),
        output::thousands(total)
    );
    text += &output::table(&heads, &rows);
    if hidden > 0 {
        text += &format!("{hidden} more\n");
    }
    text
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
