//! Who watches a run, and by what: threads that end with it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use millrace_process::{listen_address, parse_duration};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    INTERRUPTED, Live, listen,
    push::Gateway,
    terminal::{self, FullScreen},
};
use crate::{leftovers, progress::Progress, tls::Trust, watcher::Watcher};

#[derive(Args, Clone, Debug)]
pub(crate) struct WatchFlags {
    /// Serve the series of the running measurement at /metrics of this address, for Prometheus
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Push the series to a Prometheus Pushgateway, or to an importer of its text format
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Time between pushes
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = push_interval, requires = "push")]
    push_interval: Duration,
    /// Show the running measurement on the whole terminal
    #[arg(long)]
    live: bool,
}

/// Everything that watches, until it is dropped: one after the other, and what sums up before what
/// tells of the sums, lest the last push lack the last second.
#[derive(Default)]
pub(crate) struct Watch(Vec<Watcher>);

/// Ends the run early at a signal, until it is dropped. Signals do nothing else from then on, so
/// this is to outlive the report.
pub(crate) struct Interrupts {
    _watcher: Watcher,
}

/// What ends a run early.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Of the terminal that goes away.
    hang_up: Option<Signal>,
}

const SECOND: Duration = Duration::from_secs(1);
/// How soon a thread sees that the run is over.
const TURN: Duration = Duration::from_millis(20);
/// More often is no use: sums are made once a second.
const PUSH_LEAST: Duration = Duration::from_millis(100);
/// Longer than any run, and no trouble for a clock.
const PUSH_MOST: Duration = Duration::from_secs(24 * 3600);

impl Watch {
    /// # Errors
    ///
    /// If the flags cannot be followed. What fails later is told and does not disturb the run.
    pub(crate) fn start(flags: &WatchFlags, progress: &Progress, trust: &Trust) -> Result<Watch> {
        let mut watch = Watch::default();
        let live = progress.live();
        if flags.push.is_some() || flags.listen.is_some() || flags.live {
            live.watch_closely();
        }
        if live.if_watched().is_some() {
            let progress = progress.clone();
            watch.spawn(move |is_over| every(SECOND, is_over, || progress.roll()))?;
        }
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
            let (listener, live) = (listen::bind(*address)?, Arc::clone(live));
            // The port may have been left open.
            let address = listener.local_addr().context("local address")?;
            crate::output::tell(&format!("metrics at http://{address}/metrics"));
            watch.spawn(move |is_over| listen::serve(&listener, &live, is_over))?;
        }
        if flags.live {
            let screen = FullScreen::open(Arc::clone(live))?;
            progress.hide_bar();
            watch.spawn(move |is_over| screen.show(is_over))?;
        }
        Ok(watch)
    }

    fn spawn(&mut self, run: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<()> {
        self.0.push(Watcher::start("watch", run)?);
        Ok(())
    }
}

impl Interrupts {
    pub(crate) fn start(live: &Arc<Live>) -> Result<Interrupts> {
        let live = Arc::clone(live);
        let runtime = crate::runtime::current_thread()?;
        // Not by the thread itself: a signal would still end the process until it got to that.
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt()).context("watching for signals")?;
        let terminate = signal(SignalKind::terminate()).context("watching for signals")?;
        // Under nohup it is nobody's business.
        let hang_up = match millrace_process::ignores_hang_up() {
            true => None,
            false => Some(signal(SignalKind::hangup()).context("watching for signals")?),
        };
        drop(guard);
        let signals = Signals { interrupt, terminate, hang_up };
        let watcher = Watcher::start("watch", move |is_over| {
            runtime.block_on(interrupts(signals, &live, is_over));
        })?;
        Ok(Interrupts { _watcher: watcher })
    }
}

fn push_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        interval if interval > PUSH_MOST => Err("24h is the longest".to_owned()),
        interval => Ok(interval),
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
async fn interrupts(mut signals: Signals, live: &Live, is_over: &AtomicBool) {
    let Signals { interrupt, terminate, hang_up } = &mut signals;
    while !is_over.load(Relaxed) {
        let hung_up = async {
            match hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(()) = interrupt.recv() => {}
            Some(()) = terminate.recv() => {}
            Some(()) = hung_up => {}
            () = tokio::time::sleep(TURN) => continue,
        }
        if live.is_ending() {
            if live.has_screen() {
                terminal::restore();
            }
            leftovers::leave(INTERRUPTED);
        }
        live.end_early();
    }
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::{FaultServer, Reply};

    use super::*;
    use crate::{latency::Verb, live::Event};

    fn flags(push: String) -> WatchFlags {
        let push_interval = Duration::from_secs(3600);
        WatchFlags { listen: None, push: Some(push), push_interval, live: false }
    }

    #[test]
    fn no_push_interval_is_longer_than_a_day() {
        assert_eq!(push_interval("24h"), Ok(PUSH_MOST));
        assert_eq!(push_interval("24.1h"), Err("24h is the longest".to_owned()));
        assert!(push_interval("5000000000000000h").is_err() && push_interval("1min").is_err());
    }

    #[tokio::test]
    async fn the_last_push_has_the_last_second() {
        let gateway = FaultServer::start(|_| async { Reply::json(200, "") }).await.unwrap();
        let progress = Progress::default();
        let watch = Watch::start(&flags(gateway.url()), &progress, &Trust::default()).unwrap();
        progress.live().add(Event::Sent, 7);
        progress.live().record(Verb::Send, SECOND);

        tokio::task::spawn_blocking(|| drop(watch)).await.unwrap();

        let last = gateway.requests().pop().unwrap();
        let text = String::from_utf8_lossy(&last.body);
        assert!(text.contains("millrace_bench_messages_total{outcome=\"sent\"} 7\n"), "{text}");
    }
}
