//! `http`: how long any HTTP/1.1 server takes to answer one request, again and again; in a closed
//! loop, or by a schedule as `rate` has it.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use millrace_process::parse_duration;
use tokio::{
    task::LocalSet,
    time::{Instant, error::Elapsed, sleep},
};

use super::{
    Findings, Flags, Setting, conduct,
    parts::Parts,
    rate::{Step, chart, finding, table},
    values::{distinct, positive},
};
use crate::{
    live::{Event, Live},
    load::{Connection, Latencies, MISSED_MAX, Pace, Turn, Verb, first_due, is_success, pace},
    process,
    progress::Progress,
    report::{Metric, Section, thousands},
};

#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Requests a second, one run for each [default: as fast as answers come]
    #[arg(long, value_name = "PER SECOND", value_delimiter = ',', value_parser = positive)]
    rate: Vec<f64>,
    /// Connections that requests are spread over
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    conns: u64,
    #[arg(long, default_value = "GET", value_parser = method)]
    method: String,
    /// Body of each request
    #[arg(long, value_name = "TEXT", default_value = "")]
    body: String,
    /// A header more, such as 'Content-Type: text/plain'
    #[arg(long = "header", value_name = "HEADER", value_parser = header)]
    headers: Vec<String>,
    /// Time to measure at each rate, before scaling
    #[arg(long = "step-duration", default_value = "20s", value_parser = parse_duration)]
    duration: Duration,
}

/// What the connections of a run found together.
struct Run {
    warm_until: Instant,
    end: Instant,
    /// Between the requests of one connection; zero in a closed loop.
    interval: Duration,
    latencies: Latencies,
    answered: u64,
    /// Answers that are no success.
    refused: u64,
    /// Requests without an answer.
    failed: u64,
    first_error: Option<String>,
    live: Option<Arc<Live>>,
}

const WARM_UP: Duration = Duration::from_secs(2);
const DURATION_LEAST: Duration = Duration::from_secs(1);
/// After a request without an answer.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn run(flags: &Flags<Plan>) -> Result<()> {
    distinct("--rate", &flags.plan.rate)?;
    conduct("http", &flags.options, |setting| findings(setting, &flags.plan))
}

fn findings(setting: &Setting, plan: &Plan) -> Result<Findings> {
    let request = request(setting, plan)?;
    let mut findings = Findings { title: "One request".to_owned(), ..Findings::default() };
    let (mut steps, mut notes) = (Vec::new(), Vec::new());
    let rates = if plan.rate.is_empty() { vec![0.0] } else { plan.rate.clone() };
    let mut parts = Parts::measure(&setting.progress, rates, |rate| {
        Ok((rate, process::now(), measure(setting, plan, &request, rate)?))
    })?;
    findings.note_failure(&parts);
    for (rate, began, run) in parts.all.drain(..) {
        let name = match rate {
            0.0 => format!("closed loop, {} connections", plan.conns),
            rate => format!("{rate}/s"),
        };
        let step = Step {
            id: if rate > 0.0 { rate.to_string() } else { "closed".to_owned() },
            name,
            rate,
            elapsed: run.end - run.warm_until,
            batch: 1,
            sent: run.answered,
            stage: None,
            latencies: run.latencies,
        };
        let front = format!("http.{}", step.id);
        findings.metrics.extend(step.metrics(&front));
        findings.faults.extend(step.overload(&front));
        for (name, count) in [("refused", run.refused), ("failed", run.failed)] {
            let fault = Metric::faults(&format!("{front}.{name}"), count);
            findings.metrics.push(fault.clone());
            findings.faults.push(fault);
        }
        findings.recordings.extend(step.latencies.recordings(&front, began, step.elapsed));
        findings.warnings.extend(warning(&step, run.refused + run.failed));
        notes.extend(run.first_error.map(|error| format!("The first error: {error}")));
        steps.push(step);
    }
    let steps: Vec<&Step> = steps.iter().collect();
    findings.sections.push(Section {
        id: "http".to_owned(),
        title: "One request".to_owned(),
        question: format!("How long does a {} of {} take?", plan.method, setting.url),
        finding: finding(&steps),
        charts: vec![chart(&steps)],
        tables: vec![table(&steps)],
        notes,
        ..Section::default()
    });
    Ok(findings)
}

/// What a reader of percentiles has to know.
fn warning(step: &Step, failed: u64) -> Option<String> {
    let meaning = match step.rate {
        0.0 => "they are in no percentile, but for those that took longest",
        _ => "they count as if they had waited until the end",
    };
    let count = thousands(failed as f64);
    (failed > 0).then(|| format!("{}: {count} requests failed; {meaning}.", step.name))
}

/// The request as it goes out.
fn request(setting: &Setting, plan: &Plan) -> Result<Vec<u8>> {
    let site = setting.endpoint.dialect.sqs().context("a plain HTTP request needs no --peer")?;
    let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", plan.method, site.path, site.host);
    for header in &plan.headers {
        head += &format!("{header}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", plan.body.len());
    Ok([head.as_bytes(), plan.body.as_bytes()].concat())
}

fn measure(setting: &Setting, plan: &Plan, request: &[u8], rate: f64) -> Result<Run> {
    setting.progress.begin("http");
    let runtime = crate::runtime::current_thread()?;
    let clients = LocalSet::new();
    let found = clients.block_on(&runtime, async {
        let start = Instant::now();
        let warm_until = start + setting.lasting(WARM_UP, Duration::from_millis(300));
        let interval = Pace::constant(rate).interval(0, plan.conns as f64);
        let run = Rc::new(RefCell::new(Run {
            warm_until,
            end: warm_until + setting.lasting(plan.duration, DURATION_LEAST),
            interval,
            latencies: Latencies::new(),
            answered: 0,
            refused: 0,
            failed: 0,
            first_error: None,
            live: setting.progress.live().if_watched(),
        }));
        let mut tasks = Vec::new();
        for number in 0..plan.conns {
            let connection = Connection::new(&setting.endpoint);
            let due = start + interval.mul_f64(number as f64 / plan.conns as f64);
            let (run, request) = (Rc::clone(&run), request.to_vec());
            tasks.push(tokio::task::spawn_local(ask(run, connection, request, due)));
        }
        let warm_until = run.borrow().warm_until;
        let end = run.borrow().end;
        let show = |progress: &Progress| {
            let passed = Instant::now().saturating_duration_since(warm_until);
            let share = passed.as_secs_f64() / (end - warm_until).as_secs_f64().max(1e-9);
            progress.at(share, String::new);
        };
        let join = setting.progress.unless_ended(async {
            for task in tasks {
                task.await.context("a connection panicked")?;
            }
            Ok(())
        });
        setting.progress.shown(show, join).await?;
        anyhow::Ok(run)
    })?;
    let run = Rc::into_inner(found).context("connections still hold the run")?.into_inner();
    match &run.first_error {
        Some(error) if run.answered == 0 => bail!("no answer was a success: {error}"),
        None if run.answered == 0 => bail!("nothing was measured: no answer came in time"),
        _ => Ok(run),
    }
}

/// One connection's requests until the run ends.
async fn ask(
    run: Rc<RefCell<Run>>,
    mut connection: Connection,
    request: Vec<u8>,
    mut due: Instant,
) {
    let (warm_until, end, interval) = {
        let run = run.borrow();
        (run.warm_until, run.end, run.interval)
    };
    while interval.is_zero() || due < end {
        let turn = pace(interval, &mut due).await;
        let sent_at = if interval.is_zero() { turn.start } else { Instant::now() };
        if sent_at >= end && (interval.is_zero() || turn.is_behind) {
            return run.borrow_mut().note_missed(turn.due, sent_at);
        }
        let is_measured = turn.due >= warm_until && turn.due < end;
        if is_measured {
            run.borrow_mut().note_sent(sent_at - turn.start);
        }
        let live = run.borrow().live.clone();
        let under_way = live.as_deref().map(Live::under_way);
        let outcome = connection.exchange(&request).await.map(|(status, _)| status);
        let now = Instant::now();
        drop(under_way);
        let is_failed = outcome.is_err();
        if let Some(live) = &live {
            match is_measured {
                true => live.finished(connection.take_events()),
                false => live.warmed_up(connection.take_events()),
            }
        }
        if is_measured {
            run.borrow_mut().note(outcome, turn, sent_at, now);
        }
        if is_failed {
            sleep(PAUSE).await;
        }
    }
}

impl Run {
    /// A request goes out, so long after it was due.
    fn note_sent(&mut self, late: Duration) {
        if !self.interval.is_zero() {
            self.record(Verb::Late, late);
        }
    }

    /// What was due from an instant on and was not sent until now never will be: it has waited so
    /// long.
    fn note_missed(&mut self, due: Instant, now: Instant) {
        let mut due = first_due(due, self.interval, self.warm_until);
        for _ in 0..MISSED_MAX {
            if self.interval.is_zero() || due >= self.end {
                return;
            }
            self.record(Verb::Send, now - due);
            self.record(Verb::Unsent, now - due);
            due += self.interval;
        }
    }

    /// A request that was sent at an instant is over now.
    fn note(&mut self, outcome: Result<u16>, turn: Turn, sent_at: Instant, now: Instant) {
        let error = match outcome {
            Ok(status) if is_success(status) => {
                self.answered += 1;
                self.record(Verb::Send, now - turn.start);
                // In a closed loop both are the same.
                if turn.is_planned {
                    self.record(Verb::Service, now - sent_at);
                }
                return;
            }
            Ok(status) => {
                self.refused += 1;
                format!("status {status}")
            }
            Err(error) => {
                self.failed += 1;
                if error.is::<Elapsed>() && !turn.is_planned {
                    // As long at least.
                    self.record(Verb::Send, now - turn.start);
                }
                format!("{error:#}")
            }
        };
        self.note_failed(turn, now);
        if let Some(live) = &self.live {
            live.add(Event::Failed, 1);
        }
        self.first_error.get_or_insert(error);
    }

    /// What was planned and failed has waited until the end: however soon the answer came, a server
    /// must not look quicker for refusing.
    fn note_failed(&mut self, turn: Turn, now: Instant) {
        if !turn.is_planned {
            return self.record(Verb::Failed, now - turn.start);
        }
        let waited = now.max(self.end) - turn.due;
        self.record(Verb::Send, waited);
        self.record(Verb::Failed, waited);
    }

    fn record(&mut self, verb: Verb, taken: Duration) {
        self.latencies.record(verb, taken);
        if let Some(live) = &self.live {
            live.record(verb, taken);
        }
    }
}

fn method(text: &str) -> Result<String, String> {
    match text {
        "HEAD" | "" => Err("HEAD has no body to wait for".to_owned()),
        text if text.bytes().all(|letter| letter.is_ascii_uppercase()) => Ok(text.to_owned()),
        text => Err(format!("{text} is not a method such as GET")),
    }
}

fn header(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((name, _)) if !name.is_empty() && !text.contains(['\r', '\n']) => Ok(text.to_owned()),
        _ => Err("a header is a name, a colon and a value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Url;

    use super::*;
    use crate::{access::Access, scenarios::setting::defaults, tls::Trust};

    #[test]
    fn requests_hold_path_headers_and_body() {
        let trust = Trust::default();
        let setting = Setting::new(
            Url::parse("http://127.0.0.1:1/a?b=c").unwrap(),
            Access::open(),
            &trust,
            None,
            1.0,
        )
        .unwrap();
        let plan = Plan {
            method: "POST".to_owned(),
            body: "xy".to_owned(),
            headers: vec!["A: b".to_owned()],
            ..defaults().unwrap()
        };

        let request = String::from_utf8(request(&setting, &plan).unwrap()).unwrap();

        let head = "POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:1\r\nA: b\r\nContent-Length: 2\r\n";
        assert_eq!(request, format!("{head}\r\nxy"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_planned_request_that_is_refused_has_waited_until_the_end() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut run = Run {
            warm_until: start,
            end: start + second * 4,
            interval: second,
            latencies: Latencies::new(),
            answered: 0,
            refused: 0,
            failed: 0,
            first_error: None,
            live: None,
        };

        tokio::time::advance(second).await;
        run.note(Ok(503), Turn::behind(start), start, Instant::now());
        run.note(Ok(200), Turn::behind(start), start, Instant::now());

        let of = |verb| run.latencies.percentiles(verb);
        let count = |verb| of(verb).count;
        assert_eq!([Verb::Send, Verb::Failed, Verb::Service].map(count), [2, 1, 1]);
        assert!(of(Verb::Send).max_us >= 4e6 && of(Verb::Service).max_us < 1.1e6);
    }

    #[test]
    fn a_header_cannot_smuggle_another() {
        assert!(header("A: b").is_ok());
        assert!(header("A: b\r\nC: d").is_err() && header("A").is_err());
        assert!(method("GET /x").is_err() && method("HEAD").is_err());
    }
}
