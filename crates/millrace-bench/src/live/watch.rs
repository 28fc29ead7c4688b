//! Who watches a run, and by what: threads that end with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{
    INTERRUPTED, Live,
    listen::MetricsListener,
    push::Gateway,
    terminal::{self, FullScreen},
};
use crate::{progress::Progress, scenarios::duration, tls::Trust};

#[derive(Args, Clone, Debug)]
pub(crate) struct WatchFlags {
    /// Serve the series of the running measurement at /metrics of this address, for Prometheus
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Push the series to a Prometheus Pushgateway, or to an importer of its text format
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Time between pushes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, requires = "push")]
    push_interval: Duration,
    /// Show the running measurement on the whole terminal
    #[arg(long)]
    live: bool,
}

/// Everything that watches, until it is dropped.
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    listener: Option<MetricsListener>,
}

const SECOND: Duration = Duration::from_secs(1);
/// How soon a thread sees that the run is over.
const TURN: Duration = Duration::from_millis(20);
/// More often is no use: sums are made once a second.
const PUSH_LEAST: Duration = Duration::from_millis(100);

impl Watch {
    /// # Errors
    ///
    /// If the flags cannot be followed. What fails later is told and does not disturb the run.
    pub(crate) fn start(flags: &WatchFlags, progress: &Progress, trust: &Trust) -> Result<Watch> {
        let mut watch = Watch {
            is_over: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            listener: None,
        };
        let live = progress.live();
        watch.spawn({
            let live = Arc::clone(live);
            move |is_over| interrupts(&live, is_over)
        })?;
        if let Some(url) = &flags.push {
            let (mut gateway, progress) = (Gateway::new(url, trust)?, progress.clone());
            let interval = flags.push_interval.max(PUSH_LEAST);
            watch.spawn(move |is_over| {
                every(interval, is_over, || {
                    if let Some(warning) = gateway.push(progress.live()) {
                        progress.note(&warning);
                    }
                });
            })?;
        }
        if let Some(address) = &flags.listen {
            let (listener, address) = MetricsListener::start(address, Arc::clone(live))?;
            eprintln!("metrics at http://{address}/metrics");
            watch.listener = Some(listener);
        }
        if flags.push.is_some() || flags.listen.is_some() || flags.live {
            live.watch();
        }
        if flags.live {
            let screen = FullScreen::open(Arc::clone(live))?;
            progress.hide_bar();
            watch.spawn(move |is_over| screen.show(is_over))?;
        }
        if live.if_watched().is_some() {
            let progress = progress.clone();
            watch.spawn(move |is_over| every(SECOND, is_over, || progress.roll()))?;
        }
        Ok(watch)
    }

    fn spawn(&mut self, run: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<()> {
        let is_over = Arc::clone(&self.is_over);
        let thread = thread::Builder::new().name("watch".to_owned());
        self.threads.push(thread.spawn(move || run(&is_over)).context("starting a thread")?);
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // The last first: what sums up comes before what pushes.
        while let Some(thread) = self.threads.pop() {
            let _ = thread.join();
        }
        self.listener.take();
    }
}

/// Acts once an interval, and once more when it is over.
fn every(interval: Duration, is_over: &AtomicBool, mut act: impl FnMut()) {
    let mut due = Instant::now() + interval;
    while !is_over.load(Relaxed) {
        if Instant::now() < due {
            thread::sleep(TURN.min(interval));
            continue;
        }
        act();
        // After a slow one, not all that were missed.
        due = (due + interval).max(Instant::now());
    }
    act();
}

/// The first signal ends the run early, the second at once.
fn interrupts(live: &Live, is_over: &AtomicBool) {
    let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
        while !is_over.load(Relaxed) {
            tokio::select! {
                Some(()) = interrupt.recv() => {}
                Some(()) = terminate.recv() => {}
                () = tokio::time::sleep(TURN) => continue,
            }
            if live.is_ending() {
                if live.has_screen() {
                    terminal::restore();
                }
                std::process::exit(INTERRUPTED);
            }
            live.end_early();
        }
    });
}
