//! Producers and consumers, each with a connection of its own.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use anyhow::anyhow;
use tokio::time::{Instant, error::Elapsed, sleep};

use crate::{
    latency::{Latencies, Verb},
    live::{Event, Live},
};

use super::{
    connection::Connection,
    dialect::Sent,
    ledger::Id,
    received::Received,
    response::{is_success, refusal},
    run::{Count, Phase, Run},
    schedule::{MISSED_MAX, Schedule, Turn},
    template::{Bodies, SendTemplate},
};

/// Before the next try after an error, or after an empty receive that did not wait.
const PAUSE: Duration = Duration::from_millis(10);
/// How soon a handler is cut short once nothing is measured any more.
const HANDLER_TURN: Duration = Duration::from_millis(100);
/// While the backlog is at its bound. The timer's own resolution.
const BACKLOG_PAUSE: Duration = Duration::from_millis(1);

/// Which received messages are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    DeleteAll,
    /// All but every n-th, counted by sequence number.
    KeepEvery(u64),
    KeepAll,
}

pub(crate) struct Client {
    run: Arc<Run>,
    /// By stage.
    latencies: Rc<RefCell<Vec<Latencies>>>,
    connection: Connection,
    /// A signed copy of a request, or a delete.
    scratch: Vec<u8>,
    /// Planned sends that failed: when they were due, and how many messages did not get in.
    failed: Vec<(Instant, u64)>,
}

impl Client {
    pub(crate) fn new(run: Arc<Run>, latencies: Rc<RefCell<Vec<Latencies>>>) -> Client {
        let connection = Connection::new(&run.scenario.endpoint);
        Client { run, latencies, connection, scratch: Vec::new(), failed: Vec::new() }
    }

    /// Sends until the limit of messages is reached or the run no longer produces.
    pub(crate) async fn produce(mut self, producer: u16) {
        let run = Arc::clone(&self.run);
        let scenario = &run.scenario;
        let dialect = &scenario.endpoint.dialect;
        let mut stage = 0;
        let mut template = SendTemplate::new(dialect, &run.queue, scenario.shape_in(stage));
        let mut schedule = Schedule::new(&run, producer);
        while run.phase() <= Phase::Measure {
            if scenario.is_bounded() && run.backlog() > scenario.backlog_max {
                sleep(BACKLOG_PAUSE).await;
                continue;
            }
            let Some(turn) = schedule.next(&run).await else { break };
            if schedule.stage() != stage {
                stage = schedule.stage();
                template = SendTemplate::new(dialect, &run.queue, scenario.shape_in(stage));
            }
            let sent_at = if schedule.is_closed() { turn.start } else { Instant::now() };
            let count = scenario.shape.batch;
            let began_us = run.us_at(turn.start);
            let Some(first) = run.ledger.take(count, run.limit(), began_us) else { break };
            if turn.is_planned {
                record(&run, &self.latencies, Verb::Late, turn.due, sent_at - turn.start);
            }
            for index in 0..count {
                let sequence = first + index;
                let group = scenario.group_of(sequence, producer);
                template
                    .patch(index as usize, Id { run: run.ledger.run(), producer, group, sequence });
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            let request = template.bytes(dialect, &mut scratch);
            let acknowledged = self.request(Verb::Send, turn, request, |body| {
                let failed = failed(&run, Sent::Messages, body, count);
                (0..count).filter(|index| !failed.contains(&(*index as usize))).for_each(|index| {
                    run.ledger.acknowledge(first + index);
                });
                run.add(Count::FailedEntries, failed.len() as u64);
                count - failed.len() as u64
            });
            let acknowledged = acknowledged.await.unwrap_or(0);
            run.add(Count::Sent, acknowledged);
            if turn.is_planned {
                self.note_planned(turn, sent_at, count - acknowledged);
            }
            self.scratch = scratch;
        }
        for (due, waited) in schedule.missed(&run) {
            record(&run, &self.latencies, Verb::Send, due, waited);
            record(&run, &self.latencies, Verb::Unsent, due, waited);
        }
        self.record_failed();
    }

    /// Receives, checks and deletes until the run stops.
    pub(crate) async fn consume(mut self) {
        let run = Arc::clone(&self.run);
        let (scenario, dialect) = (&run.scenario, &run.scenario.endpoint.dialect);
        let batch = scenario.shape.batch;
        let (mut receive, mut request, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        dialect.receive(&run.queue, batch, scenario.wait_s, &mut receive);
        let (mut received, bodies) = (Received::default(), Bodies::new(scenario.sizes_bytes()));
        while run.phase() < Phase::Stop {
            if dialect.is_signed() {
                dialect.receive(&run.queue, batch, scenario.wait_s, &mut receive);
            }
            let outcome = self.request(Verb::Receive, Turn::now(), &receive, |body| {
                received.take(body, dialect, &bodies);
            });
            if outcome.await.is_none() {
                continue;
            }
            if received.is_empty() {
                run.add(Count::Empty, 1);
                if run.phase() == Phase::Dry {
                    run.dry.fetch_add(1, Relaxed);
                    return;
                }
                if scenario.wait_s == 0 {
                    sleep(PAUSE).await;
                }
                continue;
            }
            let count = received.len();
            self.check(&mut received);
            handle(&run, count).await;
            if received.is_empty() {
                continue;
            }
            dialect.delete(&run.queue, received.handles(), batch, &mut scratch, &mut request);
            let outcome = self.request(Verb::Delete, Turn::now(), &request, |body| {
                let failed = failed(&run, Sent::Deletes, body, batch.min(received.len()));
                received.ids(&failed).for_each(|id| run.ledger.delete(id));
                run.add(Count::FailedEntries, failed.len() as u64);
                received.len() - failed.len() as u64
            });
            if let Some(deleted) = outcome.await {
                run.add(Count::Deleted, deleted);
            }
        }
    }

    /// Notes what was received, and leaves only what is to be deleted.
    fn check(&self, received: &mut Received) {
        let run = &self.run;
        run.add(Count::Received, received.len());
        let now = Instant::now();
        let now_us = run.us_at(now);
        for (id, _) in &received.messages {
            let sent_us = run.ledger.receive(*id);
            if let Some(sent_us) = sent_us {
                let taken = Duration::from_micros(now_us.saturating_sub(sent_us));
                record(run, &self.latencies, Verb::EndToEnd, now, taken);
            }
        }
        let all = received.len();
        match run.scenario.settle {
            Settle::DeleteAll => {}
            Settle::KeepAll => received.messages.clear(),
            Settle::KeepEvery(every) => received
                .messages
                .retain(|(id, _)| id.is_none_or(|id| !id.sequence.is_multiple_of(every))),
        }
        run.add(Count::Kept, all - received.len());
    }

    /// A planned send is over, and so many of its messages did not get in.
    fn note_planned(&mut self, turn: Turn, sent_at: Instant, refused: u64) {
        if refused == 0 {
            record(&self.run, &self.latencies, Verb::Send, turn.due, turn.start.elapsed());
            record(&self.run, &self.latencies, Verb::Service, turn.due, sent_at.elapsed());
        } else if self.failed.len() < MISSED_MAX {
            self.failed.push((turn.due, refused));
        }
    }

    /// What failed never got in, and so has waited until now: however soon the answer came, a
    /// server must not look quicker for refusing.
    fn record_failed(&self) {
        let now = Instant::now();
        for (due, messages) in &self.failed {
            let waited = now.saturating_duration_since(*due);
            record(&self.run, &self.latencies, Verb::Send, *due, waited);
            for _ in 0..*messages {
                record(&self.run, &self.latencies, Verb::Failed, *due, waited);
            }
        }
    }

    /// One request; `done` sees the body of a success. Failures are counted, and followed by a
    /// pause. What is not answered in time takes as long as it was waited for, at least. Planned
    /// ones are timed by whoever planned them.
    async fn request<T>(
        &mut self,
        verb: Verb,
        turn: Turn,
        bytes: &[u8],
        done: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let run = Arc::clone(&self.run);
        let under_way = run.live.as_deref().map(Live::under_way);
        let answer = self.connection.exchange(bytes).await;
        drop(under_way);
        let outcome = match answer {
            Ok((status, body)) if is_success(status) => {
                if !turn.is_planned {
                    record(&run, &self.latencies, verb, turn.due, turn.start.elapsed());
                }
                Ok(done(body))
            }
            Ok((status, body)) => Err(anyhow!(refusal(status, body))),
            Err(error) => {
                if error.is::<Elapsed>() && !turn.is_planned {
                    record(&run, &self.latencies, verb, turn.due, turn.start.elapsed());
                }
                Err(error)
            }
        };
        run.add(Count::Requests, 1);
        let events = self.connection.take_events();
        match events.opened {
            0 => run.show(Event::Reused, 1),
            opened => run.show(Event::Opened, opened),
        }
        if events.closed_by_server > 0 {
            run.add(Count::ClosedByServer, events.closed_by_server);
        }
        if verb == Verb::Receive && events.unanswered > 0 {
            run.add(Count::Unanswered, events.unanswered);
        }
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                run.fail(&error);
                sleep(PAUSE).await;
                None
            }
        }
    }
}

/// Handles messages one after the other, each for as long as the stage has it. Once nothing is
/// measured any more, what is left takes no time.
async fn handle(run: &Run, messages: u64) {
    let all = run.scenario.handler_in(run.stage()).mul_f64(messages as f64);
    let end = Instant::now() + all;
    while run.phase() <= Phase::Measure {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(HANDLER_TURN)).await;
    }
}

/// Only what began, or was due, while it was measured counts.
fn record(
    run: &Run,
    latencies: &RefCell<Vec<Latencies>>,
    verb: Verb,
    began: Instant,
    taken: Duration,
) {
    let Some(stage) = run.stage_at(began) else { return };
    if let Some(live) = &run.live {
        live.record(verb, taken);
    }
    if let Some(stage) = latencies.borrow_mut().get_mut(stage) {
        stage.record(verb, taken);
    }
}

/// Entries that an answer to a request of `count` names as failed. Single requests fail whole.
fn failed(run: &Run, what: Sent, body: &[u8], count: u64) -> Vec<usize> {
    if run.scenario.shape.batch == 1 {
        return Vec::new();
    }
    run.scenario.endpoint.dialect.failed(what, body, count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{
        pace::{Pace, Stage},
        scenario::{Mode, Scenario},
    };

    // In real time: a clock that is paused jumps while a connection is refused.
    #[tokio::test]
    async fn a_planned_send_that_fails_has_waited_until_the_end() {
        let scenario =
            Scenario { pace: Pace::constant(50.0), ..Scenario::to_nowhere(Mode::Send, 1) };
        let run = Arc::new(Run::new(&scenario, "q"));
        let latencies = Rc::new(RefCell::new(vec![Latencies::new()]));
        let client = Client::new(Arc::clone(&run), Rc::clone(&latencies));
        run.enter(Phase::Measure);

        tokio::join!(client.produce(0), async {
            sleep(Duration::from_millis(400)).await;
            run.enter(Phase::Settle);
        });

        let of = |verb| latencies.borrow()[0].percentiles(verb);
        assert!(of(Verb::Failed).count > 0);
        assert_eq!(of(Verb::Send).count, of(Verb::Failed).count + of(Verb::Unsent).count);
        assert!(of(Verb::Send).max_us >= 390_000.0 && of(Verb::Send).p50_us >= 100_000.0);
        assert_eq!(of(Verb::Service).count, 0);
    }

    #[tokio::test]
    async fn the_way_of_a_planned_message_begins_when_it_was_due() {
        // After each failure it pauses for ten times as long as it may.
        let scenario =
            Scenario { pace: Pace::constant(1000.0), ..Scenario::to_nowhere(Mode::Send, 1) };
        let run = Arc::new(Run::new(&scenario, "q"));
        let latencies = Rc::new(RefCell::new(vec![Latencies::new()]));
        let client = Client::new(Arc::clone(&run), latencies);
        run.enter(Phase::Measure);

        tokio::join!(client.produce(0), async {
            while run.count(Count::Requests) < 6 {
                sleep(Duration::from_millis(1)).await;
            }
            run.enter(Phase::Settle);
        });

        let id = |sequence| Id { run: run.ledger.run(), producer: 0, group: 0, sequence };
        let [first, sixth] = [0, 5].map(|sequence| run.ledger.receive(Some(id(sequence))).unwrap());
        assert!((4_900..=5_100).contains(&(sixth - first)), "{first} {sixth}");
    }

    #[tokio::test(start_paused = true)]
    async fn handlers_take_their_stages_time_for_each_message_while_it_is_measured() {
        let (second, handler) = (Duration::from_secs(1), Duration::from_millis(250));
        let slow = Stage { handler, ..Stage::new(1.0, second) };
        let scenario =
            Scenario { pace: Pace::by_stages(&[slow]), ..Scenario::to_nowhere(Mode::Send, 1) };
        let run = Run::new(&scenario, "q");
        run.enter(Phase::Measure);
        let start = Instant::now();

        handle(&run, 3).await;
        assert_eq!(start.elapsed(), handler * 3);

        let (_, ()) = tokio::join!(handle(&run, 1000), async {
            sleep(second).await;
            run.enter(Phase::Settle);
        });
        assert!(start.elapsed() <= handler * 3 + second + HANDLER_TURN);
    }
}
