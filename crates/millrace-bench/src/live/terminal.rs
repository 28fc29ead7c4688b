//! The terminal of `--live`: its screen is ours while a run goes on, and as it was afterwards.

use std::{
    io::{self, IsTerminal, Stderr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor,
        event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

use super::{INTERRUPTED, Live, screen};
use crate::{cli::UsageError, leftovers, output};

/// Standard error, for the report goes to standard output. Restored when dropped.
pub(super) struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    live: Arc<Live>,
}

const KEY_TURN: Duration = Duration::from_millis(50);
const DRAW_EVERY: Duration = Duration::from_millis(250);

impl FullScreen {
    /// # Errors
    ///
    /// Without a terminal to read keys from and to draw on.
    pub(super) fn open(live: Arc<Live>) -> Result<FullScreen> {
        for (name, is_terminal) in
            [("input", io::stdin().is_terminal()), ("error", io::stderr().is_terminal())]
        {
            if !is_terminal {
                bail!(UsageError(format!("--live needs a terminal, and standard {name} is none")));
            }
        }
        let terminal = Terminal::new(CrosstermBackend::new(io::stderr())).context("terminal")?;
        enable_raw_mode().context("reading keys")?;
        // From here on there is something to restore, whatever fails.
        live.take_screen();
        let screen = FullScreen { terminal, live };
        execute!(io::stderr(), EnterAlternateScreen, cursor::Hide).context("terminal")?;
        Ok(screen)
    }

    /// Draws and reads keys until it is over. A terminal that goes away ends only this.
    pub(super) fn show(mut self, is_over: &AtomicBool) {
        let mut drawn: Option<Instant> = None;
        while !is_over.load(Relaxed) {
            if drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY) {
                drawn = Some(Instant::now());
                if self.draw().is_err() {
                    return;
                }
            }
            match ends(KEY_TURN) {
                Ok(false) => {}
                Ok(true) if self.live.is_ending() => {
                    drop(self);
                    leftovers::leave(INTERRUPTED);
                }
                Ok(true) => {
                    self.live.end_early();
                    drawn = None;
                }
                Err(_) => return,
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let is_ending = self.live.is_ending();
        let view = self.live.view();
        let elapsed = view.began.elapsed();
        self.terminal.draw(|frame| screen::draw(frame, &view, elapsed, is_ending)).map(drop)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
        // They were kept from the screen while it was ours. A terminal that is gone shows none.
        for note in self.live.free_screen() {
            output::tell(&note);
        }
    }
}

/// As it was before.
pub(super) fn restore() {
    // What cannot be restored is gone.
    let _ = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// Whether a key within `patience` asks for an end.
fn ends(patience: Duration) -> io::Result<bool> {
    if !event::poll(patience)? {
        return Ok(false);
    }
    let Input::Key(key) = event::read()? else { return Ok(false) };
    let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q') => true,
            KeyCode::Char('c') => is_interrupt,
            _ => false,
        })
}
