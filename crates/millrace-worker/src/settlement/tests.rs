use super::*;

const NOTHING: [u64; 0] = [];
const LINGER: Duration = Duration::from_millis(100);

fn take(outbox: &mut Outbox, now: Instant) -> Vec<u64> {
    let taken = outbox.take(10, Urgency::Linger, now, |_| true);
    taken.iter().map(|entry| entry.key.0).collect()
}

#[test]
fn one_that_always_fails_alone_is_tried_ever_less_beside_others() {
    let start = Instant::now();
    let mut outbox = Outbox::new(Duration::ZERO);
    outbox.push(Key(0), Urgency::Urgent, start);
    let mut attempts = 0;
    for round in 0..3_000 {
        let now = start + round * Duration::from_millis(20);
        outbox.push(Key(1), Urgency::Urgent, now);
        while let Some(entry) = outbox.take(1, Urgency::Urgent, now, |_| true).first().copied() {
            outbox.call_sent();
            if entry.key == Key(0) {
                attempts += 1;
                outbox.call_ended(CallEnd::OneFailed, now);
                outbox.retry(entry, now);
            } else {
                outbox.call_ended(CallEnd::Answered, now);
            }
        }
        assert!(outbox.ready.is_empty(), "others wait for it");
    }
    assert!((10..60).contains(&attempts), "{attempts} in a minute");
}

#[test]
fn full_batch_goes_at_once_and_the_rest_lingers() {
    let now = Instant::now();
    let mut outbox = Outbox::new(LINGER);
    for key in 0..9 {
        outbox.push(Key(key), Urgency::Linger, now);
    }
    assert_eq!(take(&mut outbox, now), NOTHING);

    outbox.push(Key(9), Urgency::Linger, now);
    outbox.push(Key(10), Urgency::Linger, now);

    assert_eq!(take(&mut outbox, now), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(take(&mut outbox, now), NOTHING);
    assert_eq!(outbox.next_due(now), Some(now + LINGER));
    assert_eq!(take(&mut outbox, now + LINGER), [10]);
}

#[test]
fn urgent_entry_takes_the_others_along() {
    let now = Instant::now();
    let mut outbox = Outbox::new(LINGER);
    outbox.push(Key(1), Urgency::Linger, now);
    outbox.push(Key(2), Urgency::Urgent, now);

    assert_eq!(take(&mut outbox, now), [1, 2]);

    outbox.push(Key(3), Urgency::Linger, now);
    assert_eq!(take(&mut outbox, now), NOTHING);
}

fn fail(outbox: &mut Outbox, entries: Vec<Entry>, retry_after: Option<Duration>, now: Instant) {
    outbox.call_ended(CallEnd::Failed { retry_after }, now);
    entries.into_iter().for_each(|entry| outbox.retry(entry, now));
}

fn send(outbox: &mut Outbox, now: Instant) -> Vec<Entry> {
    let entries = outbox.take(10, Urgency::Linger, now, |_| true);
    outbox.call_sent();
    entries
}

#[test]
fn entries_that_failed_alone_return_together_after_a_pause() {
    let now = Instant::now();
    let mut outbox = Outbox::new(LINGER);
    for key in 0..20 {
        outbox.push(Key(key), Urgency::Urgent, now);
    }
    for _ in 0..2 {
        let sent = send(&mut outbox, now);
        outbox.call_ended(CallEnd::Answered, now);
        sent[..2].iter().for_each(|entry| outbox.retry(*entry, now));
    }

    outbox.push(Key(20), Urgency::Urgent, now);
    assert_eq!(take(&mut outbox, now), [20], "others go on");
    let next = outbox.next_due(now).unwrap();
    assert!(next > now && next <= now + FIRST_PAUSE, "{:?}", next - now);
    let again = outbox.take(10, Urgency::Linger, next, |_| true);
    assert_eq!(again.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [0, 1, 10, 11]);
    assert!(again.iter().all(|entry| (entry.failures, entry.since) == (1, now)));
}

#[test]
fn failed_call_stops_the_outbox_until_one_call_is_answered() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Duration::ZERO);
    for key in 0..100 {
        outbox.push(Key(key), Urgency::Urgent, now);
    }
    let (first, second) = (send(&mut outbox, now), send(&mut outbox, now));

    fail(&mut outbox, first, None, now);
    fail(&mut outbox, second, None, now);

    let next = outbox.next_due(now).unwrap();
    assert!(next > now && next <= now + FIRST_PAUSE, "one failure: {:?}", next - now);
    assert_eq!(take(&mut outbox, now), NOTHING);
    assert_eq!(send(&mut outbox, next).len(), 10);
    assert_eq!(take(&mut outbox, next), NOTHING, "one call at a time");
    outbox.call_ended(CallEnd::Answered, next);
    let calls = (0..8).map(|_| send(&mut outbox, next).len()).collect::<Vec<_>>();
    assert_eq!(calls, [10; 8]);
}

#[test]
fn server_gets_the_pause_that_it_asks_for_up_to_a_bound() {
    let now = Instant::now();
    let after = |asked: Duration| {
        let mut outbox = Outbox::new(Duration::ZERO);
        outbox.push(Key(1), Urgency::Urgent, now);
        let sent = send(&mut outbox, now);
        fail(&mut outbox, sent, Some(asked), now);
        let next = outbox.next_due(now).unwrap();
        assert_eq!(take(&mut outbox, next), [1]);
        next - now
    };

    assert_eq!(after(Duration::from_secs(30)), Duration::from_secs(30));
    assert_eq!(after(Duration::MAX), LONGEST_RETRY_AFTER);
    assert!(after(Duration::ZERO) <= FIRST_PAUSE);
}

#[test]
fn older_entries_are_taken_out_wherever_they_wait() {
    let now = Instant::now();
    let mut outbox = Outbox::new(LINGER);
    outbox.push(Key(1), Urgency::Urgent, now);
    let failed = outbox.take(10, Urgency::Linger, now, |_| true)[0];
    outbox.push(Key(2), Urgency::Urgent, now);
    outbox.push(Key(3), Urgency::Linger, now + LINGER);
    outbox.retry(failed, now);

    let older = outbox.take_older(now);

    assert_eq!(older.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(take(&mut outbox, now + LINGER), NOTHING, "nothing urgent is left");
    assert_eq!(take(&mut outbox, now + 2 * LINGER), [3]);
}

#[test]
fn entry_that_is_held_back_hides_no_later_attempt_of_another() {
    let now = Instant::now();
    let mut outbox = Outbox::new(LINGER);
    outbox.push(Key(1), Urgency::Urgent, now);
    let failed = outbox.take(10, Urgency::Urgent, now, |_| true)[0];
    outbox.push(Key(2), Urgency::Urgent, now - LINGER);
    outbox.retry(failed, now);

    assert_eq!(outbox.take(10, Urgency::Urgent, now, |key| key != Key(2)), []);

    let next = outbox.next_due(now).unwrap();
    assert!(next > now && next <= now + FIRST_PAUSE, "{:?}", next - now);
}

#[test]
fn entries_wait_while_many_calls_are_under_way() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Duration::ZERO);
    for key in 0..100 {
        outbox.push(Key(key), Urgency::Urgent, now);
    }
    for key in 0..CALLS_OPEN as u64 {
        assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true)[0].key, Key(key));
        outbox.call_sent();
    }
    assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true), []);

    outbox.call_ended(CallEnd::Answered, now);

    assert_eq!(outbox.take(1, Urgency::Urgent, now, |_| true).len(), 1);
}

#[test]
fn entry_that_may_not_be_sent_keeps_its_place() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Duration::ZERO);
    for key in 1..4 {
        outbox.push(Key(key), Urgency::Linger, now);
    }

    let taken = outbox.take(10, Urgency::Linger, now, |key| key != Key(1));

    assert_eq!(taken.iter().map(|entry| entry.key.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(take(&mut outbox, now), [1]);
}
