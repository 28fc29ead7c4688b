//! What every measurement needs: servers on fresh directories, the ceiling, rounds and medians.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use super::{
    comparison::{Comparison, Round},
    faults::Faults,
    held::Held,
    probe,
    row::Row,
};
use crate::leftovers::Directory;
use crate::load::{self, Count, Endpoint, Mode, Percentiles, Report, Scenario};
use crate::output;
use crate::process;
use crate::progress::Progress;
use crate::server::{Server, Settings};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Seconds, small backlogs: shows that everything works.
    Quick,
    Usual,
    /// The deepest backlog as well.
    Full,
}

/// Why a row is not judged that takes the largest scale.
pub(crate) const ONLY_FULL: &str = "only with --full";

pub(crate) struct Bench {
    pub(crate) scale: Scale,
    pub(crate) rows: Vec<Row>,
    /// What went wrong; nothing may.
    pub(crate) faults: Faults,
    pub(crate) requests: u64,
    pub(crate) closed_by_server: u64,
    /// Ends a run early when asked to.
    pub(crate) progress: Progress,
    binary: PathBuf,
    /// Of the servers, besides those that a measurement needs.
    flags: Vec<String>,
    directory: Directory,
    ceiling: Server,
}

impl Bench {
    pub(crate) fn new(
        scale: Scale,
        binary: PathBuf,
        flags: Vec<String>,
        directory: Directory,
        progress: Progress,
    ) -> Result<Bench> {
        Ok(Bench {
            scale,
            rows: Vec::new(),
            faults: Faults::default(),
            requests: 0,
            closed_by_server: 0,
            progress,
            binary,
            flags,
            directory,
            ceiling: Server::start_ceiling()?,
        })
    }

    /// Adds a row, and says so to who waits. What went wrong while it was measured is held against
    /// it, whatever the figures are.
    pub(crate) fn add(&mut self, row: Row) {
        let row = row.considered(self.scale, process::cores()).failed(self.faults.of_row());
        let Row { target, what, measured, .. } = &row;
        output::tell(&format!("  {target:>2}  {what}: {measured}"));
        self.rows.push(row);
    }

    /// A server of which nothing is left when it is dropped.
    pub(crate) fn server(&self) -> Result<Server> {
        self.server_with(|settings| settings)
    }

    pub(crate) fn server_with(&self, change: impl FnOnce(Settings) -> Settings) -> Result<Server> {
        let (settings, data) = self.settings()?;
        Ok(Server::start(&change(settings))?.with_data(data))
    }

    /// Of a server on a directory of its own.
    pub(crate) fn settings(&self) -> Result<(Settings, Directory)> {
        let directory = Directory::below(self.directory.path()).context("making a directory")?;
        let settings = Settings {
            binary: self.binary.clone(),
            flags: self.flags.clone(),
            data: directory.path().join("data"),
            durability: "fsync",
            keys: None,
            certificate: None,
        };
        Ok((settings, directory))
    }

    /// A scenario with this scale's durations.
    pub(crate) fn scenario(&self, mode: Mode, endpoint: Endpoint, connections: usize) -> Scenario {
        Scenario {
            warm_up: Duration::from_millis(self.pick(100, 1000, 1000)),
            duration: Duration::from_millis(self.pick(300, 5000, 5000)),
            progress: self.progress.clone(),
            ..Scenario::new(mode, endpoint, connections)
        }
    }

    /// Runs a scenario on `server`, on a queue of its own.
    pub(crate) fn measure(&mut self, server: &Server, scenario: Scenario) -> Result<Report> {
        let queue_url = scenario.create_queue()?;
        let report = self.measure_on(server, scenario, &queue_url)?;
        server.endpoint()?.delete_queue(&queue_url)?;
        Ok(report)
    }

    /// Runs a scenario on an empty queue of `server`, which stays, and checks what it then holds.
    pub(crate) fn measure_on(
        &mut self,
        server: &Server,
        scenario: Scenario,
        queue_url: &str,
    ) -> Result<Report> {
        self.faults.begin();
        let scenario = Scenario { server_pid: Some(server.pid()), ..scenario };
        let report = load::run_on(&scenario, queue_url)?;
        // What ended us may have ended the server: nothing can be held against it.
        self.progress.go_on()?;
        self.requests += report.count_in_all(Count::Requests);
        self.closed_by_server += report.count_in_all(Count::ClosedByServer);
        report.violations().iter().for_each(|violation| self.faults.note(violation));
        if let Some(error) = &report.first_error {
            self.faults.note(&format!("a request failed: {error}"));
        }
        self.check_held(server, queue_url, Held::after(&report))?;
        Ok(report)
    }

    /// Notes a queue that does not hold what it must.
    pub(crate) fn check_held(
        &mut self,
        server: &Server,
        queue_url: &str,
        wanted: Held,
    ) -> Result<()> {
        if let Some(fault) = Held::by(&server.endpoint()?, queue_url)?.fault(wanted) {
            self.faults.note(&fault);
        }
        Ok(())
    }

    /// Runs a scenario on `server` and on the ceiling by turns.
    pub(crate) fn compare(
        &mut self,
        server: &Server,
        scenario: impl Fn(&Bench, Endpoint) -> Scenario,
    ) -> Result<Comparison> {
        let rounds = (0..self.rounds()).map(|_| self.round(server, &scenario));
        Ok(Comparison { rounds: rounds.collect::<Result<_>>()? })
    }

    /// Runs a scenario on the ceiling, then on `server`.
    pub(crate) fn round(
        &mut self,
        server: &Server,
        scenario: impl Fn(&Bench, Endpoint) -> Scenario,
    ) -> Result<Round> {
        let ceiling = scenario(self, self.ceiling.endpoint()?);
        let server_pid = Some(self.ceiling.pid());
        let ceiling = on_ceiling(&Scenario { server_pid, ..ceiling })?;
        let beside = Duration::from_millis(self.pick(50, 300, 300));
        let sync_us = probe::fdatasync(self.directory.path(), beside)?.p50_us;
        let scenario = scenario(self, server.endpoint()?);
        Ok(Round { own: self.measure(server, scenario)?, ceiling, sync_us })
    }

    /// Runs a scenario on the ceiling: what machine and generator take of any server.
    pub(crate) fn measure_ceiling(&self, scenario: &Scenario) -> Result<Report> {
        let endpoint = self.ceiling.endpoint()?;
        on_ceiling(&Scenario { endpoint, server_pid: None, ..scenario.clone() })
    }

    /// What the disk does now, where the servers' data is.
    pub(crate) fn fdatasync(&self) -> Result<Percentiles> {
        let duration = Duration::from_millis(self.pick(200, 2000, 2000));
        probe::fdatasync(self.directory.path(), duration)
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.pick(1, 3, 3)
    }

    /// A number by scale.
    pub(crate) fn pick(&self, quick: u64, usual: u64, full: u64) -> u64 {
        match self.scale {
            Scale::Quick => quick,
            Scale::Usual => usual,
            Scale::Full => full,
        }
    }
}

/// A ceiling that fails is none: everything would be far above it.
fn on_ceiling(scenario: &Scenario) -> Result<Report> {
    let report = load::run(scenario).context("measuring the ceiling")?;
    if let Some(error) = &report.first_error {
        bail!("measuring the ceiling: a request failed: {error}");
    }
    ensure!(report.rate() > 0.0, "measuring the ceiling: it did nothing");
    Ok(report)
}
