//! Leads a run through its phases, with its clients on a few threads.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tokio::task::LocalSet;

use super::{
    clients::Client,
    endpoint::OwnQueue,
    pace::Pace,
    patience::{PATIENCE, Patience, Vitals},
    report::{Report, Snapshot},
    run::{COUNTS, Count, Phase, Run},
    scenario::{Mode, Scenario},
    template::Shape,
};
use crate::latency::Latencies;

/// How often phases are looked at.
const TURN: Duration = Duration::from_millis(2);
/// How soon it is seen that the run is to end early.
const EARLY_TURN: Duration = Duration::from_millis(100);
/// An answer that takes longer than this is none, where no progress has been made for longer still.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Preloading a queue uses this many connections and batches of so many at most, whatever is
/// measured after.
const PRELOAD_CONNECTIONS: usize = 64;
const PRELOAD_BATCH: u64 = 10;

/// Runs a scenario on a queue of its own, which it deletes afterwards.
pub(crate) fn run(scenario: &Scenario) -> Result<Report> {
    let queue = OwnQueue::new(&scenario.endpoint, scenario.create_queue()?, &scenario.progress);
    run_on(scenario, &queue.name)
}

/// Runs a scenario on a queue that exists and stays.
pub(crate) fn run_on(scenario: &Scenario, queue: &str) -> Result<Report> {
    scenario.progress.go_on()?;
    let mut run = Arc::new(Run::new(scenario, queue));
    let mut preload = None;
    if scenario.mode == Mode::Drain {
        let loading = Arc::new(Run::new(&preloading(scenario), queue));
        let report = drive(&loading, Watch::Producers)?;
        check_preload(&report, scenario.count)?;
        preload = Some(report);
        let loaded = Arc::into_inner(loading).context("clients still hold the run")?;
        run = Arc::new(Run::after(loaded, scenario, queue));
    }
    let watch = match scenario.mode {
        Mode::Drain => Watch::Consumers,
        Mode::Pc if scenario.count > 0 => Watch::Both,
        Mode::Send | Mode::Latency if scenario.count > 0 => Watch::Producers,
        Mode::Send | Mode::Latency | Mode::Pc => Watch::Clock,
    };
    let report = drive(&run, watch)?;
    Ok(match preload {
        Some(preload) => report.after_preload(&preload),
        None => report,
    })
}

impl Run {
    /// Measures for the scenario's duration, then lets consumers catch up.
    fn watch_clock(&self) -> Result<(Snapshot, Snapshot)> {
        let mut vitals = Vitals::new(Instant::now(), self.scenario.gone_after);
        self.warm_up(&mut vitals)?;
        self.enter(Phase::Measure);
        let before = self.snapshot();
        let gone = self.measure(&before, &mut vitals);
        let mut after = self.snapshot();
        self.enter(Phase::Settle);
        if let Err(gone) = gone {
            // What came after its last answer would only make the figures worse.
            after.at = vitals.since().max(before.at);
            self.note_gone(gone.to_string());
        }
        self.scenario.progress.at(1.0, || "consumers catch up".to_owned());
        if self.gone().is_none() {
            self.wait_for_answers();
        }
        if let Some(together) = &self.scenario.together {
            (together.all_sent)().context("waiting for the other processes")?;
            self.enter(Phase::Dry);
        }
        if self.scenario.consumers > 0 && self.gone().is_none() {
            self.settle();
        }
        Ok((before, after))
    }

    /// Waits until what was acknowledged is settled, or no more of it comes. What is missing then
    /// is the verdict's business, unless nobody answers any more: then the server still has it.
    fn settle(&self) {
        let last = Cell::new((self.succeeded(), Instant::now()));
        let settled = self.wait_for_progress(Count::Received, || {
            let succeeded = self.succeeded();
            if succeeded != last.get().0 {
                last.set((succeeded, Instant::now()));
            }
            self.is_settled()
        });
        let (_, answered_at) = last.get();
        // A receive that finds nothing is answered after that long.
        let wait = Duration::from_secs(self.scenario.wait_s.into());
        if let Err(error) = settled
            && answered_at.elapsed() > wait + ANSWER_MAX
        {
            self.note_gone(format!("the server is gone: {error:#}"));
        }
    }

    fn succeeded(&self) -> u64 {
        self.count(Count::Requests).saturating_sub(self.count(Count::FailedRequests))
    }

    /// Waits until producers have the answers to what they sent while it was measured. What is
    /// reported does not depend on it: it lacks the rest, and says so.
    fn wait_for_answers(&self) {
        let producing = || self.producing.load(Relaxed);
        if let Err(error) = self.wait_for_progress(Count::Requests, || producing() == 0) {
            let note = format!("warning: {} requests are in no percentile: {error}", producing());
            self.scenario.progress.note(&note);
        }
    }

    /// Lets the time of warm-up pass.
    fn warm_up(&self, vitals: &mut Vitals) -> Result<()> {
        let (start, progress) = (Instant::now(), &self.scenario.progress);
        progress.at(0.0, || "warm-up".to_owned());
        while start.elapsed() < self.scenario.warm_up {
            progress.go_on()?;
            self.check_server(vitals)?;
            thread::sleep(EARLY_TURN.min(self.scenario.warm_up.saturating_sub(start.elapsed())));
        }
        Ok(())
    }

    /// Lets the scenario's duration pass, or less if asked to end early, and keeps account of every
    /// second.
    ///
    /// # Errors
    ///
    /// If the server is gone.
    fn measure(&self, before: &Snapshot, vitals: &mut Vitals) -> Result<()> {
        let (duration, mut last) = (self.scenario.duration, before.counts);
        let mut second_end = Duration::from_secs(1);
        while before.at.elapsed() < duration {
            let next = second_end.min(duration);
            while before.at.elapsed() < next && self.scenario.progress.go_on().is_ok() {
                let share = before.at.elapsed().as_secs_f64() / duration.as_secs_f64();
                self.scenario.progress.at(share, String::new);
                self.check_server(vitals)?;
                thread::sleep(EARLY_TURN.min(next.saturating_sub(before.at.elapsed())));
            }
            let counts = self.snapshot_counts();
            let passed: [u64; COUNTS] = std::array::from_fn(|index| counts[index] - last[index]);
            if let Some(live) = &self.live {
                live.stands(self.ledger.standing());
            }
            if self.scenario.progress.go_on().is_err() {
                return Ok(());
            }
            if next == second_end {
                self.seconds.lock().unwrap_or_else(PoisonError::into_inner).push(passed);
            }
            last = counts;
            second_end += Duration::from_secs(1);
        }
        Ok(())
    }

    /// Fails once the server is gone. Not by a schedule: there what fails is measured.
    fn check_server(&self, vitals: &mut Vitals) -> Result<()> {
        let (failed, succeeded) = (self.count(Count::FailedRequests), self.succeeded());
        if self.scenario.pace.stages().is_empty() && !vitals.last(Instant::now(), succeeded, failed)
        {
            let why = self.last_error().unwrap_or_else(|| "no error".to_owned());
            let longest = self.scenario.gone_after;
            bail!("the server is gone: no request has succeeded for {longest:?}: {why}");
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        if self.scenario.together.is_some() {
            return self.dry.load(Relaxed) == self.scenario.consumers;
        }
        let (received, deleted) = (self.count(Count::Received), self.count(Count::Deleted));
        self.ledger.waiting() == 0 && deleted + self.count(Count::Kept) >= received
    }

    /// The same, and gives up if the run is to end early.
    fn wait_unless_ended(&self, progress: Count, is_done: impl Fn() -> bool) -> Result<()> {
        let ended = || self.scenario.progress.go_on();
        self.wait_for_progress(progress, || is_done() || ended().is_err())?;
        if is_done() { Ok(()) } else { ended() }
    }

    /// Waits until `is_done`; gives up when `progress` stands still.
    fn wait_for_progress(&self, progress: Count, is_done: impl Fn() -> bool) -> Result<()> {
        let is_producing = self.producing.load(Relaxed) > 0;
        let longest_pause =
            if is_producing { self.scenario.interval_in(0) } else { Duration::ZERO };
        let mut patience = Patience::new(Instant::now(), self.scenario.wait_s, longest_pause);
        while !is_done() {
            thread::sleep(TURN);
            let counts = (self.count(progress), self.count(Count::Requests));
            if self.scenario.progress.go_on().is_err() {
                patience.hurry();
            }
            if !patience.lasts(Instant::now(), counts) {
                let why = self.first_error().unwrap_or_else(|| "no error".to_owned());
                bail!(
                    "no progress for {PATIENCE:?} or more, {} messages wait: {why}",
                    self.ledger.waiting()
                );
            }
        }
        Ok(())
    }
}

/// What ends the measured phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// The scenario's duration, after a warm-up.
    Clock,
    /// All that may be sent was sent.
    Producers,
    /// All that was acknowledged is settled.
    Consumers,
    /// Both, one after the other.
    Both,
}

/// Starts the clients, leads them through the phases, ends them.
fn drive(run: &Arc<Run>, watch: Watch) -> Result<Report> {
    let scenario = &run.scenario;
    // Beyond one for each client they have nothing to do.
    let threads = scenario.threads.clamp(1, (scenario.producers + scenario.consumers).max(1));
    run.producing.store(scenario.producers, Relaxed);
    if watch != Watch::Clock {
        run.enter(Phase::Measure);
    }
    let start = run.snapshot();
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let run = Arc::clone(run);
            let mine = move |index: &usize| index % threads == thread;
            thread::spawn(move || work(&run, mine))
        })
        .collect();
    let watched = match watch {
        Watch::Clock => run.watch_clock(),
        Watch::Producers => run
            .wait_unless_ended(Count::Requests, || run.producing.load(Relaxed) == 0)
            .map(|()| (start, run.snapshot_of_last_progress())),
        Watch::Consumers => run
            .wait_unless_ended(Count::Received, || run.is_settled())
            .map(|()| (start, run.snapshot_of_last_progress())),
        Watch::Both => run
            .wait_unless_ended(Count::Sent, || run.producing.load(Relaxed) == 0)
            .map(|()| run.settle())
            .map(|()| (start, run.snapshot_of_last_progress())),
    };
    run.enter(Phase::Stop);
    let mut stages = vec![Latencies::new(); scenario.pace.stage_count()];
    for worker in workers {
        match worker.join() {
            Ok(outcome) => {
                stages.iter_mut().zip(&outcome?).for_each(|(all, one)| all.merge(one));
            }
            Err(_) => bail!("a thread of clients panicked"),
        }
    }
    let (before, after) = watched?;
    Ok(Report::new(run, &before, &after, stages))
}

/// One thread: its share of the clients on a runtime of its own, until the run stops. Returns what
/// took how long, by stage.
fn work(run: &Arc<Run>, is_mine: impl Fn(&usize) -> bool) -> Result<Vec<Latencies>> {
    let stages = vec![Latencies::new(); run.scenario.pace.stage_count()];
    let latencies = Rc::new(RefCell::new(stages));
    let runtime = crate::runtime::current_thread()?;
    let clients = LocalSet::new();
    for producer in (0..run.scenario.producers).filter(&is_mine) {
        let client = Client::new(Arc::clone(run), Rc::clone(&latencies));
        let run = Arc::clone(run);
        clients.spawn_local(async move {
            client.produce(producer as u16).await;
            run.producing.fetch_sub(1, Relaxed);
        });
    }
    for _ in (0..run.scenario.consumers).filter(&is_mine) {
        clients.spawn_local(Client::new(Arc::clone(run), Rc::clone(&latencies)).consume());
    }
    // Dropping the set ends clients that still wait in a long poll.
    clients.block_on(&runtime, async {
        while run.phase() != Phase::Stop {
            tokio::time::sleep(TURN).await;
        }
    });
    drop(clients);
    Ok(latencies.take())
}

/// What fills a queue before it is drained: exactly as many messages as are planned.
fn preloading(scenario: &Scenario) -> Scenario {
    let largest = (2..=PRELOAD_BATCH).rev().find(|batch| scenario.count.is_multiple_of(*batch));
    let shape = Shape { batch: largest.unwrap_or(1), ..scenario.shape };
    let producers = PRELOAD_CONNECTIONS;
    Scenario {
        mode: Mode::Send,
        shape,
        producers,
        consumers: 0,
        pace: Pace::default(),
        ..scenario.clone()
    }
}

/// One that holds less than planned would be drained sooner, its memory divided by too many.
fn check_preload(report: &Report, planned: u64) -> Result<()> {
    if let Some(error) = &report.first_error {
        bail!("filling the queue failed: {error}");
    }
    let sent = report.count(Count::Sent);
    ensure!(sent == planned, "the queue was filled with {sent} messages of {planned}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_client::testing::{FaultServer, Reply};

    use super::*;
    use crate::load::Endpoint;

    /// What a run comes to on a server that refuses all.
    async fn refused(
        scenario: impl FnOnce(Endpoint) -> Scenario + Send + 'static,
    ) -> Result<Report> {
        let server = FaultServer::start(|_| async { Reply::json(500, "") }).await.unwrap();
        let endpoint = Endpoint::open(&server.url());
        tokio::task::spawn_blocking(|| run_on(&scenario(endpoint), "q")).await.unwrap()
    }

    #[tokio::test]
    async fn a_run_ends_when_the_server_is_gone() {
        let long = Duration::from_secs(600);
        let run = |warm_up| {
            refused(move |endpoint| Scenario {
                warm_up,
                duration: long,
                gone_after: Duration::from_millis(100),
                ..Scenario::new(Mode::Pc, endpoint, 2)
            })
        };

        let unmeasured = run(long).await.unwrap_err();
        let measured = run(Duration::ZERO).await.unwrap();

        for why in [unmeasured.to_string(), measured.reason_for_less().unwrap()] {
            assert!(why.starts_with("the server is gone: ") && why.contains("500"), "{why}");
        }
        assert!(measured.elapsed < Duration::from_secs(1), "the time without answers is left out");
    }

    #[tokio::test]
    async fn a_queue_that_was_not_filled_is_not_drained() {
        let drain = |endpoint| Scenario { count: 10, ..Scenario::new(Mode::Drain, endpoint, 1) };

        let error = refused(drain).await.unwrap_err();

        assert!(error.to_string().starts_with("filling the queue failed: status 500"), "{error:#}");
    }

    #[test]
    fn queues_are_filled_with_any_number_in_the_largest_batches() {
        let scenario = Scenario::to_nowhere(Mode::Drain, 1);
        let batch = |count| preloading(&Scenario { count, ..scenario.clone() }).shape.batch;

        assert_eq!([10_000, 25, 27, 29].map(batch), [10, 5, 9, 1]);
    }
}
