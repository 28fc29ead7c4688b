use super::*;
use crate::load::{Scenario, Shape};

/// Of a run in which five messages were acknowledged, none came, and so many receives had no
/// answer.
fn report(batch: u64, unanswered: u64) -> Report {
    report_of(batch, unanswered, None)
}

/// The same, of a server that is gone.
fn report_of(batch: u64, unanswered: u64, gone: Option<&str>) -> Report {
    let shape = Shape { batch, ..Shape::default() };
    let run = Run::new(&Scenario { shape, ..Scenario::to_nowhere(Mode::Pc, 2) }, "q");
    run.ledger.take(5, 5, 0);
    (0..5).for_each(|sequence| run.ledger.acknowledge(sequence));
    // Before it is measured, as a failure may be.
    run.add(Count::Unanswered, unanswered);
    gone.into_iter().for_each(|why| run.note_gone(why.to_owned()));
    let snapshot = run.snapshot();
    Report::new(&run, &snapshot, &snapshot, vec![Latencies::new()])
}

fn report_between(before: &Snapshot, after: &Snapshot) -> Report {
    let run = Run::new(&Scenario::to_nowhere(Mode::Pc, 2), "q");
    Report::new(&run, before, after, vec![Latencies::new()])
}

#[test]
fn what_an_answer_held_that_did_not_arrive_is_not_lost() {
    let found = |batch, unanswered| {
        let report = report(batch, unanswered);
        (report.lost(), report.given_out())
    };

    assert_eq!([found(10, 0), found(1, 0)], [(5, 0), (5, 0)]);
    assert_eq!([found(2, 1), found(2, 2), found(2, 3)], [(3, 2), (1, 4), (0, 5)]);
    assert_eq!(report(2, 1).violations(), ["3 messages lost"]);
    assert!(report(2, 3).violations().is_empty());
    assert!(report(2, 1).note_on_given_out().unwrap().starts_with("2 messages count as"));
    assert_eq!(report(2, 0).note_on_given_out(), None);
}

#[test]
fn a_server_that_is_gone_at_the_end_has_taken_nobody_knows_how_much() {
    let cost_of = |before, after| {
        let [before, after] = [before, after].map(|server_cpu| Snapshot {
            at: Instant::now(),
            counts: [1; COUNTS],
            cost: Cost { server_cpu, ..Cost::default() },
        });
        report_between(&before, &after).cost.server_cpu
    };
    let [one, three] = [1, 3].map(|seconds| Some(Duration::from_secs(seconds)));

    assert_eq!(cost_of(one, three), Some(Duration::from_secs(2)));
    assert_eq!([cost_of(one, None), cost_of(None, three)], [None, None]);
}

#[test]
fn what_a_message_cost_is_unknown_where_there_was_none() {
    let at = |messages, own_ms| Snapshot {
        at: Instant::now(),
        counts: [messages; COUNTS],
        cost: Cost { own_cpu: Duration::from_millis(own_ms), ..Cost::default() },
    };
    let shown = |messages| report_between(&at(0, 0), &at(messages, 3)).shown_cpu();

    assert_eq!(shown(0), ["–", "–"]);
    assert_eq!(shown(2), ["1500.0 µs", "–"]);
}

#[test]
fn what_is_still_in_a_server_that_is_gone_is_not_lost() {
    let gone = || report_of(1, 0, Some("gone"));

    let one = Report::join(vec![gone(), report(1, 0)]).unwrap();

    for report in [gone(), one] {
        assert_eq!((report.lost(), report.reason_for_less()), (0, Some("gone".to_owned())));
        let text = report.to_string();
        assert!(text.ends_with("losses are not known: the run did not get to its end"), "{text}");
        assert_eq!(report.violations(), [""; 0]);
    }
}
