use super::*;

#[test]
fn bars_are_as_high_as_their_seconds() {
    let live = Live::default();
    let second = |sent| {
        live.add(Event::Sent, sent);
        live.roll();
    };
    assert_eq!(live.view().bars(), "");

    [0, 50, 100].into_iter().for_each(second);
    assert_eq!(live.view().bars(), "▁▅█");

    (0..40).for_each(|_| second(1));
    assert_eq!(live.view().bars(), "█".repeat(BARRED));
}

#[test]
fn a_second_has_its_own_latencies_and_a_quiet_one_keeps_the_last() {
    let live = Live::default();
    live.watch_closely();
    let count = |live: &Live| {
        let view = live.view();
        [&view.last, &view.all].map(|found| found.percentiles(Verb::Send).count)
    };
    live.record(Verb::Send, Duration::from_millis(1));
    live.record(Verb::Send, Duration::from_millis(2));
    live.roll();
    assert_eq!(count(&live), [2, 2]);

    live.record(Verb::Send, Duration::from_millis(1));
    live.roll();
    live.roll();
    assert_eq!(count(&live), [1, 3]);
}

#[test]
fn requests_are_under_way_until_they_are_dropped() {
    let live = Live::default();
    let first = live.under_way();
    let second = live.under_way();
    live.roll();
    assert_eq!(live.view().in_flight, 2);

    drop((first, second));
    live.roll();
    assert_eq!(live.view().in_flight, 0);
}

#[test]
fn notes_are_kept_while_the_screen_is_taken_and_the_oldest_go() {
    let live = Live::default();
    assert_eq!(live.keep_note("at once"), Some("at once"));

    live.take_screen();
    (0..NOTES + 2).for_each(|line| assert_eq!(live.keep_note(&line.to_string()), None));
    let kept = live.free_screen();

    assert_eq!((kept.len(), kept.front().map(String::as_str)), (NOTES, Some("2")));
    assert_eq!(live.keep_note("at once"), Some("at once"));
    assert!(live.free_screen().is_empty());
}

#[test]
fn what_nobody_watches_is_not_counted() {
    let live = Arc::new(Live::default());
    let timed = || {
        live.record(Verb::Send, Duration::from_millis(1));
        live.roll();
        live.view().all.percentiles(Verb::Send).count
    };
    assert!(live.if_watched().is_none());

    live.watch();
    assert!(live.if_watched().is_some());
    assert_eq!(timed(), 0);

    live.watch_closely();
    assert_eq!(timed(), 1);
}
