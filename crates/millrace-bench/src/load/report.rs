//! What a run found: rates, percentiles, cost and the verdict on every id.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ledger::Verdict,
    run::{COUNTS, Count, Run},
    scenario::Mode,
    tally::{self, Tally},
    template::Grouping,
};
use crate::{
    latency::{Latencies, Percentiles, Verb},
    process,
    report::Recording,
};

/// What processes had used at one instant.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// `None` where no server is known, or it is gone and its account with it.
    pub(crate) server_cpu: Option<Duration>,
    pub(crate) server_resident_bytes: u64,
    pub(crate) own_cpu: Duration,
}

/// Counters and cost at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) counts: [u64; COUNTS],
    pub(crate) cost: Cost,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    mode: Mode,
    /// When measuring began, since 1970.
    pub(crate) began: Duration,
    pub(crate) elapsed: Duration,
    counts: [u64; COUNTS],
    /// The same of the whole run: with filling, warming up and settling.
    counts_in_all: [u64; COUNTS],
    /// CPU times of the measured phase; memory at its end.
    pub(crate) cost: Cost,
    pub(crate) latencies: Latencies,
    /// The same by stage, where a schedule has several.
    pub(crate) stages: Vec<Latencies>,
    pub(crate) verdict: Verdict,
    /// Of `drain`: how long filling took, and what it cost.
    pub(crate) preload: Option<(Duration, Cost)>,
    pub(crate) first_error: Option<String>,
    /// Why the run ended before its time, if the server was gone.
    gone: Option<String>,
    /// Counters by whole second, in the order of [`Count`].
    pub(crate) seconds: Vec<[u64; COUNTS]>,
    /// What this process knows of everyone's messages; only where there are several.
    tallies: Vec<Tally>,
    checks_losses: bool,
    /// Messages that were to be sent; zero where that is not known before.
    planned: u64,
    /// Messages that a receive may bring.
    batch: u64,
    is_ordered: bool,
}

impl Cost {
    pub(crate) fn now(server: Option<u32>) -> Cost {
        Cost {
            server_cpu: server.and_then(|pid| process::cpu_time(pid).ok()),
            server_resident_bytes: server
                .and_then(|pid| process::resident_bytes(pid).ok())
                .unwrap_or_default(),
            own_cpu: process::own_cpu_time(),
        }
    }
}

impl Report {
    pub(crate) fn new(
        run: &Run,
        before: &Snapshot,
        after: &Snapshot,
        stages: Vec<Latencies>,
    ) -> Report {
        let mut latencies = Latencies::new();
        stages.iter().for_each(|stage| latencies.merge(stage));
        let server_cpu = after.cost.server_cpu.zip(before.cost.server_cpu);
        let cost = Cost {
            server_cpu: server_cpu.map(|(after, before)| after.saturating_sub(before)),
            server_resident_bytes: after.cost.server_resident_bytes,
            own_cpu: after.cost.own_cpu.saturating_sub(before.cost.own_cpu),
        };
        Report {
            mode: run.scenario.mode,
            began: process::now().saturating_sub(before.at.elapsed()),
            elapsed: after.at - before.at,
            counts: std::array::from_fn(|index| after.counts[index] - before.counts[index]),
            counts_in_all: run.snapshot_counts(),
            cost,
            latencies,
            stages: if stages.len() > 1 { stages } else { Vec::new() },
            verdict: run.ledger.verdict(),
            preload: None,
            first_error: run.first_error(),
            gone: run.gone().cloned(),
            seconds: run.seconds(),
            tallies: run
                .scenario
                .together
                .as_ref()
                .map(|_| run.ledger.tallies())
                .unwrap_or_default(),
            // What is still in a server that is gone is not lost yet.
            checks_losses: run.scenario.consumers > 0 && run.gone().is_none(),
            planned: if run.scenario.producers > 0 { run.scenario.count } else { 0 },
            batch: run.scenario.shape.batch,
            is_ordered: run.scenario.shape.grouping == Grouping::Fifo,
        }
    }

    /// What several processes found together. The server's cost is the first one's that knows it.
    pub(crate) fn join(reports: Vec<Report>) -> Option<Report> {
        let tallies: Vec<Tally> =
            reports.iter().flat_map(|report| report.tallies.iter().cloned()).collect();
        let verdict = tally::verdict(&tallies);
        let joined = reports.into_iter().reduce(|mut all, report| {
            all.elapsed = all.elapsed.max(report.elapsed);
            all.counts = sum(&all.counts, &report.counts);
            all.counts_in_all = sum(&all.counts_in_all, &report.counts_in_all);
            all.cost.own_cpu += report.cost.own_cpu;
            if all.cost.server_cpu.is_none() {
                all.cost = Cost { own_cpu: all.cost.own_cpu, ..report.cost };
            }
            all.latencies.merge(&report.latencies);
            all.verdict.foreign += report.verdict.foreign;
            all.verdict.out_of_order += report.verdict.out_of_order;
            all.first_error = all.first_error.or(report.first_error);
            all.gone = all.gone.or(report.gone);
            for (index, second) in report.seconds.iter().enumerate() {
                match all.seconds.get_mut(index) {
                    Some(all) => *all = sum(all, second),
                    None => all.seconds.push(*second),
                }
            }
            all.checks_losses = (all.checks_losses || report.checks_losses) && all.gone.is_none();
            all
        });
        joined.map(|all| {
            let Verdict { foreign, out_of_order, .. } = all.verdict;
            Report { verdict: Verdict { foreign, out_of_order, ..verdict }, tallies, ..all }
        })
    }

    /// What was timed, for the interval log; `front` is how the run is called.
    pub(crate) fn recordings(&self, front: &str) -> Vec<Recording> {
        self.latencies.recordings(front, self.began, self.elapsed)
    }

    /// Of a run that emptied what `preload` filled.
    pub(crate) fn after_preload(self, preload: &Report) -> Report {
        Report {
            preload: Some((preload.elapsed, preload.cost)),
            counts_in_all: sum(&self.counts_in_all, &preload.counts_in_all),
            ..self
        }
    }

    /// Acknowledged and never received, and not given out in an answer that did not arrive; zero
    /// where nobody received.
    pub(crate) fn lost(&self) -> u64 {
        self.missing() - self.given_out()
    }

    /// Acknowledged and never received, where a server may have given them out in answers that did
    /// not arrive: they stay in flight for longer than a run, as at any server.
    pub(crate) fn given_out(&self) -> u64 {
        let most = self.count_in_all(Count::Unanswered).saturating_mul(self.batch);
        self.missing().min(most)
    }

    /// What is to be said of them, if there are any.
    pub(crate) fn note_on_given_out(&self) -> Option<String> {
        let (given_out, receives) = (self.given_out(), self.count_in_all(Count::Unanswered));
        (given_out > 0).then(|| {
            format!(
                "{given_out} messages count as given out in answers that did not arrive: \
                 {receives} receives had none."
            )
        })
    }

    /// Requests of the whole run that failed, and messages that were refused in those that did not.
    pub(crate) fn failed(&self) -> u64 {
        self.count_in_all(Count::FailedRequests) + self.count_in_all(Count::FailedEntries)
    }

    fn missing(&self) -> u64 {
        if self.checks_losses { self.verdict.lost } else { 0 }
    }

    /// Whether the queue promises order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    pub(crate) fn own_cpu_us_per_message(&self) -> Option<f64> {
        self.us_per_message(self.cost.own_cpu)
    }

    /// CPU time of a message for people: this process's and the server's.
    pub(crate) fn shown_cpu(&self) -> [String; 2] {
        [self.own_cpu_us_per_message(), self.server_cpu_us_per_message()]
            .map(|us| us.map_or("–".to_owned(), |us| format!("{us:.1} µs")))
    }

    fn us_per_message(&self, time: Duration) -> Option<f64> {
        let messages = self.count(self.headline());
        (messages > 0).then(|| time.as_secs_f64() * 1e6 / messages as f64)
    }

    /// How many cores this process kept busy.
    pub(crate) fn own_cores(&self) -> f64 {
        self.cost.own_cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }

    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    /// In the whole run, not only while it was measured.
    pub(crate) fn count_in_all(&self, count: Count) -> u64 {
        self.counts_in_all[count as usize]
    }

    pub(crate) fn per_second(&self, count: Count) -> f64 {
        self.count(count) as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// What the mode is about: messages sent, or messages taken through.
    pub(crate) fn headline(&self) -> Count {
        match self.mode {
            Mode::Send | Mode::Latency => Count::Sent,
            Mode::Drain | Mode::Pc => Count::Deleted,
        }
    }

    /// Messages a second.
    pub(crate) fn rate(&self) -> f64 {
        let headline = self.headline();
        // A drain that keeps messages is about receiving them.
        let is_kept = self.mode == Mode::Drain && self.count(headline) == 0;
        self.per_second(if is_kept { Count::Received } else { headline })
    }

    /// Whether the run ended before its time because the server was gone.
    pub(crate) fn ended_with_server(&self) -> bool {
        self.gone.is_some()
    }

    pub(crate) fn server_cpu_us_per_message(&self) -> Option<f64> {
        self.us_per_message(self.cost.server_cpu?)
    }

    pub(crate) fn percentiles(&self, verb: Verb) -> Percentiles {
        self.latencies.percentiles(verb)
    }

    /// Send, receive and delete each by its own count: their rates differ while a backlog grows.
    pub(crate) fn requests_per_message(&self) -> f64 {
        let verbs = [
            (Verb::Send, Count::Sent),
            (Verb::Receive, Count::Received),
            (Verb::Delete, Count::Deleted),
        ];
        let each = verbs.iter().map(|(verb, messages)| {
            self.percentiles(*verb).count as f64 / self.count(*messages).max(1) as f64
        });
        each.sum()
    }

    /// What must not happen: a loss, a duplicate, a stranger, a broken order; empty if all is well.
    pub(crate) fn violations(&self) -> Vec<String> {
        let verdict = &self.verdict;
        let checks = [
            (self.lost(), "lost"),
            (verdict.duplicates, "duplicated"),
            (verdict.foreign, "foreign or altered"),
            (if self.is_ordered { verdict.out_of_order } else { 0 }, "out of order"),
        ];
        checks
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} messages {what}"))
            .collect()
    }

    /// Returns whether the server was there until the end and messages got through: otherwise
    /// nothing can be said of losses.
    fn has_whole_run(&self) -> bool {
        self.gone.is_none() && self.rate() > 0.0
    }

    /// Why nothing could be measured, or not as much as was asked for, if that is so.
    pub(crate) fn reason_for_less(&self) -> Option<String> {
        if self.gone.is_some() {
            return self.gone.clone();
        }
        if self.rate() == 0.0 {
            let why = self.first_error.as_deref().unwrap_or("nothing failed, and nothing came");
            return Some(format!("nothing was measured, no message got through: {why}"));
        }
        let sent = self.count(Count::Sent);
        (sent < self.planned).then(|| format!("{sent} messages of {} were sent", self.planned))
    }

    pub(crate) fn json(&self) -> Value {
        let rates: serde_json::Map<_, _> = NAMES
            .iter()
            .take(5)
            .map(|(count, name)| ((*name).to_owned(), self.per_second(*count).into()))
            .collect();
        let counts: serde_json::Map<_, _> = NAMES
            .iter()
            .map(|(count, name)| ((*name).to_owned(), self.count(*count).into()))
            .collect();
        let latencies: serde_json::Map<_, _> = self
            .latencies
            .named()
            .map(|(name, percentiles)| (name.to_owned(), percentiles.json()))
            .collect();
        let server = self.cost.server_cpu.map(|cpu| {
            json!({
                "cpu_s": cpu.as_secs_f64(),
                "cpu_s_per_million": self.server_cpu_us_per_message(),
                "resident_bytes": self.cost.server_resident_bytes,
            })
        });
        let verdict = &self.verdict;
        json!({
            "elapsed_s": self.elapsed.as_secs_f64(),
            "per_s": rates,
            "counts": counts,
            "latency_us": latencies,
            "server": server,
            "own_cpu_s": self.cost.own_cpu.as_secs_f64(),
            "preload_s": self.preload.map(|(elapsed, _)| elapsed.as_secs_f64()),
            "check": {
                "acknowledged": verdict.acknowledged, "received": verdict.received,
                "deleted": verdict.deleted, "lost": self.checks_losses.then_some(self.lost()),
                "given_out": self.checks_losses.then_some(self.given_out()),
                "duplicates": verdict.duplicates, "unacknowledged": verdict.unacknowledged,
                "foreign": verdict.foreign, "out_of_order": verdict.out_of_order,
            },
            "failed_requests_in_all": self.count_in_all(Count::FailedRequests),
            "first_error": self.first_error,
        })
    }
}

fn sum(one: &[u64; COUNTS], other: &[u64; COUNTS]) -> [u64; COUNTS] {
    std::array::from_fn(|index| one[index] + other[index])
}

const NAMES: [(Count, &str); COUNTS] = [
    (Count::Sent, "sent"),
    (Count::Received, "received"),
    (Count::Deleted, "deleted"),
    (Count::Requests, "requests"),
    (Count::Empty, "empty"),
    (Count::FailedRequests, "failed_requests"),
    (Count::FailedEntries, "failed_entries"),
    (Count::ClosedByServer, "closed_by_server"),
    (Count::Kept, "kept"),
    (Count::Unanswered, "unanswered_receives"),
];

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((elapsed, _)) = self.preload {
            writeln!(f, "filled in   {:.1} s", elapsed.as_secs_f64())?;
        }
        writeln!(
            f,
            "rate        {:.0} messages/s over {:.2} s",
            self.rate(),
            self.elapsed.as_secs_f64()
        )?;
        for (name, percentiles) in self.latencies.named() {
            writeln!(f, "{name:<11} {percentiles}")?;
        }
        if let Some(cpu_us) = self.server_cpu_us_per_message() {
            let mib = self.cost.server_resident_bytes as f64 / f64::from(1 << 20);
            writeln!(
                f,
                "server      {cpu_us:.2} CPU s per million messages, {mib:.0} MiB resident"
            )?;
        }
        writeln!(f, "generator   {:.2} CPU s", self.cost.own_cpu.as_secs_f64())?;
        for (count, name) in NAMES {
            if self.count(count) > 0 {
                writeln!(f, "{name:<16} {:>12}", self.count(count))?;
            }
        }
        let Verdict { acknowledged, received, deleted, unacknowledged, .. } = self.verdict;
        writeln!(
            f,
            "check: {acknowledged} acknowledged, {received} received, {deleted} deleted, {unacknowledged} unacknowledged"
        )?;
        if let Some(error) = &self.first_error {
            let failed = self.count_in_all(Count::FailedRequests);
            writeln!(f, "failed requests in all: {failed}, the first error: {error}")?;
        }
        if let Some(note) = self.note_on_given_out() {
            writeln!(f, "{note}")?;
        }
        match self.violations() {
            none if none.is_empty() && !self.has_whole_run() => {
                write!(f, "losses are not known: the run did not get to its end")
            }
            none if none.is_empty() => write!(f, "nothing lost, duplicated or out of order"),
            some => write!(f, "VIOLATED: {}", some.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests;
