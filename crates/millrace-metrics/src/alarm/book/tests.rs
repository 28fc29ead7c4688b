use super::history::{HISTORY_KEPT_S, HISTORY_MAX};
use super::*;
use crate::Entity;
use crate::alarm::{Comparison, MissingData, Rule, WatchedPoint};
use crate::math::{Query, QueryKind};

fn scope() -> Scope {
    Scope { region: "us-east-1".into(), account: "000000000000".into() }
}

pub(in crate::alarm) fn alarm(name: &str) -> Alarm {
    let kind = QueryKind::Metric {
        entity: Entity::new(scope(), "AWS/SQS", vec![("QueueName".into(), "jobs".into())]),
        metric: "ApproximateNumberOfMessagesVisible".into(),
        unit: None,
        statistic: "Maximum".into(),
        period_s: 60,
    };
    let query = Query { id: "m".into(), kind, label: None, account: None, is_returned: true };
    let rule = Rule {
        comparison: Comparison::GreaterThanThreshold,
        threshold: 10.0,
        periods: 1,
        to_alarm: 1,
        missing: MissingData::Missing,
    };
    Alarm {
        scope: scope(),
        name: name.into(),
        description: None,
        actions_enabled: true,
        ok_actions: vec!["arn:ok".into()],
        alarm_actions: vec!["arn:alarm".into()],
        insufficient_data_actions: Vec::new(),
        queries: vec![query],
        period_s: 60,
        rule,
        low_sample_count: None,
        threshold_metric_id: None,
        says_to_alarm: false,
        says_missing: false,
        says_queries: false,
        configured_at: 0,
        state: State::InsufficientData,
        reason: "Unchecked: Initial alarm creation".into(),
        reason_data: None,
        state_updated_at: 0,
        state_entered_at: 0,
        tags: BTreeMap::new(),
    }
}

fn point(time_s: u64, value: f64) -> WatchedPoint {
    WatchedPoint { time_s, value, samples: Some(1.0) }
}

fn verdict(state: State) -> Verdict {
    Verdict { state, points: vec![point(60, 11.0)], missing: vec![0] }
}

fn summaries(book: &AlarmBook) -> Vec<&str> {
    book.history().iter().map(|item| item.summary.as_str()).collect()
}

#[test]
fn states_and_history_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    assert!(book.put(alarm("a"), Timestamp(1)).unwrap());
    assert!(book.put(alarm("b"), Timestamp(2)).unwrap());
    let change = book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(3)).unwrap();
    assert_eq!(change.unwrap().arns, ["arn:alarm"]);
    assert!(book.delete(&scope(), "b", Timestamp(4)).unwrap());
    assert!(!book.delete(&scope(), "b", Timestamp(4)).unwrap());
    drop(book);

    let book = AlarmBook::open(Some(dir.path()), Timestamp(5)).unwrap();
    let kept = book.alarm(&scope(), "a").unwrap();
    assert_eq!((kept.state, kept.state_entered_at), (State::Alarm, 3));
    let all = ["\"a\" created", "\"b\" created"].map(|what| format!("Alarm {what}"));
    let rest = ["Alarm updated from INSUFFICIENT_DATA to ALARM", "Alarm \"b\" deleted"];
    assert_eq!(summaries(&book), [&all[0][..], &all[1], rest[0], rest[1]]);
}

#[test]
fn an_alarm_that_is_put_again_keeps_its_state_and_tags() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    book.tag(&scope(), "a", |tags| drop(tags.insert("team".into(), "x".into()))).unwrap();
    book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(2)).unwrap();
    let before = book.alarm(&scope(), "a").unwrap().clone();

    let again = Alarm { description: Some("new".into()), ..alarm("a") };
    assert!(!book.put(again, Timestamp(3)).unwrap(), "it is there already");
    let expected = Alarm { description: Some("new".into()), ..before };
    assert!(expected.reason_data.is_some() && expected.state_updated_at == 2);
    assert_eq!(book.alarm(&scope(), "a"), Some(&expected));
}

#[test]
fn a_scope_has_a_bounded_number_of_alarms() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    for number in 0..ALARMS_MAX {
        book.insert(alarm(&number.to_string()));
    }

    let refused = book.put(alarm("more"), Timestamp(1));
    assert!(matches!(refused, Err(AlarmError::TooMany)));
    assert!(!book.put(alarm("0"), Timestamp(1)).unwrap(), "it may be changed");
    let elsewhere = Scope { region: "eu-west-1".into(), ..scope() };
    assert!(book.put(Alarm { scope: elsewhere, ..alarm("more") }, Timestamp(1)).unwrap());
    book.delete(&scope(), "0", Timestamp(1)).unwrap();
    assert!(book.put(alarm("more"), Timestamp(1)).unwrap(), "there is room again");
}

#[test]
fn an_account_has_a_bounded_number_of_alarms_in_all_regions_and_leaves_room_for_others() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    let of = |account: &str, region: &str, number: usize| Alarm {
        scope: Scope { region: region.into(), account: account.into() },
        ..alarm(&number.to_string())
    };
    (0..ALARMS_OF_ACCOUNT_MAX / 2).for_each(|number| book.insert(of("1", "a", number)));
    (0..ALARMS_OF_ACCOUNT_MAX / 2).for_each(|number| book.insert(of("1", "b", number)));

    let refused = book.put(of("1", "c", 0), Timestamp(1));
    assert!(matches!(refused, Err(AlarmError::TooMany)));
    assert!(book.put(of("2", "c", 0), Timestamp(1)).unwrap());
}

#[test]
fn changes_owe_their_actions_one_beside_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    let mut enter = |name| {
        book.put(alarm(name), Timestamp(1)).unwrap();
        book.judged(&scope(), name, &verdict(State::Alarm), Timestamp(2)).unwrap().unwrap()
    };
    let (a, b) = (enter("a"), enter("b"));

    book.acted(&a, "arn:alarm", None, Timestamp(3)).unwrap();
    assert!(!book.owes(a.id, "arn:alarm") && book.owes(b.id, "arn:alarm"));
    assert!(!book.owes(b.id, "arn:ok"), "of another state");
    drop(book);
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(4)).unwrap();
    assert_eq!(book.owed().collect::<Vec<_>>(), [&b]);
    assert_eq!(summaries(&book).last(), Some(&"Successfully executed action arn:alarm"));
    let next = book.judged(&scope(), "a", &verdict(State::Ok), Timestamp(5)).unwrap().unwrap();
    assert_ne!(next.id, b.id);
    assert!(book.owes(next.id, "arn:ok") && book.owes(b.id, "arn:alarm"));
}

#[test]
fn a_file_opens_that_an_earlier_version_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let mut frame = serde_json::to_value(Frame::Alarm(Box::new(alarm("a")))).unwrap();
    frame["Alarm"].as_object_mut().unwrap().remove("says_queries").unwrap();
    frame["Alarm"]["queries"][0].as_object_mut().unwrap().remove("account").unwrap();
    let frames = [frame.to_string().into_bytes()];
    Log::replace(&dir.path().join("alarms.log"), frames.into_iter().map(Ok)).unwrap();

    let book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    assert_eq!(book.alarm(&scope(), "a"), Some(&alarm("a")));
}

#[test]
fn the_history_tells_of_each_change_what_the_alarm_was() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(2)).unwrap();
    book.put(Alarm { actions_enabled: false, ..alarm("a") }, Timestamp(3)).unwrap();
    book.delete(&scope(), "a", Timestamp(4)).unwrap();

    let told = |index: usize, member: &str| {
        let data: serde_json::Value =
            serde_json::from_str(&book.history().iter().nth(index).unwrap().data).unwrap();
        let state = data[member]["stateValue"].as_str().unwrap().to_owned();
        (state, data[member]["actionsEnabled"].as_bool().unwrap())
    };
    assert_eq!(told(0, "createdAlarm"), ("INSUFFICIENT_DATA".to_owned(), true));
    assert_eq!(told(2, "updatedAlarm"), ("ALARM".to_owned(), false));
    assert_eq!(told(3, "deletedAlarm"), ("ALARM".to_owned(), false));
}

#[test]
fn actions_belong_to_changes_of_state_only() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let mut judged = |state| {
        let change = book.judged(&scope(), "a", &verdict(state), Timestamp(2)).unwrap();
        change.map(|owed| (owed.change.before, owed.arns))
    };

    assert_eq!(judged(State::InsufficientData), None);
    let entered = |before, arn: &str| Some((before, vec![arn.to_owned()]));
    assert_eq!(judged(State::Alarm), entered(State::InsufficientData, "arn:alarm"));
    assert_eq!(judged(State::Alarm), None);
    assert_eq!(judged(State::Ok), entered(State::Alarm, "arn:ok"));
    book.put(Alarm { actions_enabled: false, ..alarm("a") }, Timestamp(2)).unwrap();
    let change = book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(3)).unwrap();
    assert!(change.unwrap().arns.is_empty());
}

#[test]
fn a_state_set_by_hand_lasts_until_the_next_evaluation() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let why = ("drill".to_owned(), None);

    let change = book.set_state(&scope(), "a", State::Alarm, why.clone(), Timestamp(2)).unwrap();
    assert_eq!(change.unwrap().alarm().reason, "drill");
    let change = book.judged(&scope(), "a", &verdict(State::Ok), Timestamp(3)).unwrap();
    assert_eq!(change.unwrap().change.before, State::Alarm);
    let missing = book.set_state(&scope(), "z", State::Ok, why, Timestamp(4));
    assert!(matches!(missing, Err(AlarmError::NotFound)));
}

fn owed(book: &AlarmBook) -> Vec<(State, Vec<String>)> {
    book.owed().map(|owed| (owed.alarm().state, owed.arns.clone())).collect()
}

#[test]
fn a_crash_at_any_byte_never_parts_a_change_of_state_from_its_actions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("alarms.log");
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    let two = Alarm { alarm_actions: vec!["arn:x".into(), "arn:y".into()], ..alarm("a") };
    book.put(two, Timestamp(1)).unwrap();
    let len = || std::fs::metadata(&path).unwrap().len();
    let created = len();
    let entered = book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(2)).unwrap();
    let entered = entered.unwrap();
    let changed = len();
    assert!(book.owes(entered.id, "arn:x") && book.owes(entered.id, "arn:y"));
    book.acted(&entered, "arn:x", None, Timestamp(3)).unwrap();
    let acted = len();
    book.acted(&entered, "arn:y", Some("gone"), Timestamp(3)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    drop(book);

    let check = |book: &AlarmBook, end: u64| {
        let found = (book.alarm(&scope(), "a").unwrap().state, owed(book));
        let owes = |arns: &[&str]| {
            vec![(State::Alarm, arns.iter().map(|arn| (*arn).to_owned()).collect())]
        };
        let expected = match end {
            end if end < changed => (State::InsufficientData, Vec::new()),
            end if end < acted => (State::Alarm, owes(&["arn:x", "arn:y"])),
            end if end < bytes.len() as u64 => (State::Alarm, owes(&["arn:y"])),
            _ => (State::Alarm, Vec::new()),
        };
        assert_eq!(found, expected, "cut at {end}");
    };
    for end in created..=bytes.len() as u64 {
        std::fs::write(&path, &bytes[..end as usize]).unwrap();
        check(&AlarmBook::read(Directory::open(dir.path()).unwrap()).unwrap(), end);
        // What is written anew is synced: too slow for each byte.
        if [changed, acted, bytes.len() as u64].iter().any(|whole| end.abs_diff(*whole) <= 1) {
            // The second time what the first has written anew.
            check(&AlarmBook::open(Some(dir.path()), Timestamp(4)).unwrap(), end);
            check(&AlarmBook::open(Some(dir.path()), Timestamp(4)).unwrap(), end);
        }
    }
}

#[test]
fn a_bounded_number_of_changes_waits_for_its_actions() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    let two = Alarm { alarm_actions: vec!["arn:x".into(), "arn:x".into()], ..alarm("a") };
    book.put(two, Timestamp(1)).unwrap();
    let mut states = [State::Alarm, State::Ok].into_iter().cycle();
    let mut enter = |book: &mut AlarmBook| {
        let verdict = verdict(states.next().unwrap());
        book.judged(&scope(), "a", &verdict, Timestamp(2)).unwrap().unwrap()
    };
    let first = enter(&mut book);
    let second = enter(&mut book);
    (2..OWED_MAX).for_each(|_| drop(enter(&mut book)));
    assert!(book.owed().count() == OWED_MAX && book.owes(first.id, "arn:x"));

    let last = enter(&mut book);
    assert!(!book.owes(first.id, "arn:x") && book.owes(last.id, "arn:x"));
    let told = "Failed to execute action arn:x: too many actions wait";
    assert_eq!(summaries(&book)[OWED_MAX + 2..], [told; 2]);
    drop(book);
    let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
    let kept: Vec<u64> = book.owed().map(|owed| owed.id).collect();
    assert_eq!((kept.len(), kept[0], kept[OWED_MAX - 1]), (OWED_MAX, second.id, last.id));
}

#[test]
fn what_a_failed_sync_left_unknown_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(2)).unwrap();
    assert!(book.take_dirty().unwrap().is_some());

    book.sync_failed();
    // As if the pages had never reached the disk.
    std::fs::write(dir.path().join("alarms.log"), b"").unwrap();
    book.take_dirty().unwrap();
    drop(book);

    let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
    assert_eq!(owed(&book), [(State::Alarm, vec!["arn:alarm".to_owned()])]);
}

#[test]
fn an_alarm_whose_deletion_cannot_be_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    book.log = Log::read_only(&dir.path().join("alarms.log"));

    assert!(book.delete(&scope(), "a", Timestamp(2)).is_err());
    assert!(book.alarm(&scope(), "a").is_some(), "it may be deleted again");
}

#[test]
fn the_file_stays_short_whatever_is_changed_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();

    // So long that their bytes count before their number does.
    for time in 0..200 {
        let reason = ("x".repeat(20_000), Some(time.to_string()));
        let state = State::InsufficientData;
        book.set_state(&scope(), "a", state, reason, Timestamp(time)).unwrap();
    }

    let bytes = std::fs::metadata(dir.path().join("alarms.log")).unwrap().len();
    assert!(bytes <= OUTDATED_BYTES_MAX + (64 << 10), "{bytes}");
    drop(book);
    let book = AlarmBook::open(Some(dir.path()), Timestamp(200)).unwrap();
    assert_eq!(book.alarm(&scope(), "a").unwrap().reason_data.as_deref(), Some("199"));
    assert_eq!(book.history().len(), 1);
}

#[test]
fn the_file_holds_few_frames_that_are_outdated_and_is_not_written_anew_for_those_that_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("alarms.log");
    let frames = || {
        let mut count = 0;
        Log::open(&path, |_, _, _| count += 1).unwrap();
        count
    };
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let touch = |book: &mut AlarmBook| book.tag(&scope(), "a", |_| ()).unwrap();

    (0..OUTDATED_FRAMES_MAX).for_each(|_| touch(&mut book));
    assert_eq!(frames(), OUTDATED_FRAMES_MAX + 2, "with the alarm and its history");
    touch(&mut book);
    assert_eq!(frames(), 2);
    touch(&mut book);
    assert_eq!(frames(), 3);
    // All of these count: alarms, history, what is owed.
    for number in 0..OUTDATED_FRAMES_MAX {
        let name = number.to_string();
        book.insert(alarm(&name));
        book.judged(&scope(), &name, &verdict(State::Alarm), Timestamp(2)).unwrap();
    }
    book.rewrite().unwrap();
    assert_eq!(frames(), 3 * OUTDATED_FRAMES_MAX + 2);
    (0..OUTDATED_FRAMES_MAX).for_each(|_| touch(&mut book));
    assert_eq!(frames(), 4 * OUTDATED_FRAMES_MAX + 2);
}

#[test]
fn the_history_is_bounded_and_loses_the_oldest_items() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let item = book.history().iter().next().unwrap().clone();
    std::iter::repeat_n(item, HISTORY_MAX - 2).for_each(|item| book.history.add(item));

    book.delete(&scope(), "a", Timestamp(1)).unwrap();
    assert_eq!(book.history().len(), HISTORY_MAX);
    book.put(alarm("b"), Timestamp(1)).unwrap();
    assert_eq!(book.history().len(), HISTORY_MAX);
    assert_eq!(book.history().iter().nth(HISTORY_MAX - 1).unwrap().summary, "Alarm \"b\" created");
}

#[test]
fn an_alarm_that_is_deleted_leaves_its_history_for_thirty_days() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();

    book.delete(&scope(), "a", Timestamp(2)).unwrap();
    assert!(book.alarms.is_empty(), "nothing of its scope is left");
    let over = Timestamp(2).plus_seconds(HISTORY_KEPT_S);
    book.forget(over);
    assert_eq!(summaries(&book), ["Alarm \"a\" deleted"]);
    book.forget(Timestamp(over.0 + 1));
    assert!(book.history().is_empty());
}

#[test]
fn tags_are_bounded_however_they_are_added() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let tags = |from: usize| (from..from + 50).map(|n| (n.to_string(), String::new()));

    book.tag(&scope(), "a", |known| known.extend(tags(0))).unwrap();
    book.tag(&scope(), "a", |known| known.extend(tags(0))).unwrap();
    let refused = book.tag(&scope(), "a", |known| known.extend(tags(1)));
    assert!(matches!(refused, Err(AlarmError::TooManyTags)));
    assert_eq!(book.alarm(&scope(), "a").unwrap().tags.len(), 50);
    // The file may hold one with more.
    book.insert(Alarm { tags: tags(0).chain(tags(50)).collect(), ..alarm("a") });
    book.tag(&scope(), "a", |known| known.retain(|key, _| key != "7")).unwrap();
    assert_eq!(book.alarm(&scope(), "a").unwrap().tags.len(), 99);
}

#[test]
fn the_history_holds_a_bounded_number_of_data_points() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let points = (0..1_440).rev().map(|minute| point(minute * 60, minute as f64)).collect();

    let verdict = Verdict { points, ..verdict(State::Alarm) };
    let owed = book.judged(&scope(), "a", &verdict, Timestamp(2)).unwrap().unwrap();
    let data: serde_json::Value =
        serde_json::from_str(owed.alarm().reason_data.as_deref().unwrap()).unwrap();
    let kept = data["recentDatapoints"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0], &kept[99]), (100, &1340.0.into(), &1439.0.into()));
    assert_eq!(data["evaluatedDatapoints"].as_array().unwrap().len(), 10);
}

#[test]
fn percentiles_need_samples_by_the_share_beyond_them() {
    let of = |name: &str, low: Option<&str>| {
        let mut alarm = Alarm { low_sample_count: low.map(str::to_owned), ..alarm("a") };
        if let QueryKind::Metric { statistic, .. } = &mut alarm.queries[0].kind {
            name.clone_into(statistic);
        }
        alarm.samples_min()
    };

    let ignored = |name: &str| of(name, Some("ignore"));
    assert_eq!(ignored("p99"), 1_000.0);
    assert_eq!((ignored("p0"), ignored("p100")), (0.0, 0.0), "there are no more than all");
    assert_eq!(ignored("p99.9"), 10_000.0);
    assert_eq!((ignored("p50"), ignored("p50.5"), ignored("p10")), (20.0, 21.0, 100.0));
    assert_eq!((of("p99", None), of("p99", Some("evaluate"))), (0.0, 0.0));
    assert_eq!((ignored("Maximum"), ignored("tm99")), (0.0, 0.0));
}

#[test]
fn reason_data_tell_what_was_looked_at() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    let mut watching = alarm("a");
    if let QueryKind::Metric { unit, .. } = &mut watching.queries[0].kind {
        *unit = Some("Count".into());
    }
    book.put(watching, Timestamp(1)).unwrap();

    let verdict = Verdict { points: vec![point(60, 11.0), point(0, 9.0)], ..verdict(State::Alarm) };
    let verdict = Verdict { missing: vec![120], ..verdict };
    let owed = book.judged(&scope(), "a", &verdict, Timestamp(180_500)).unwrap();
    let data: serde_json::Value =
        serde_json::from_str(owed.unwrap().alarm().reason_data.as_deref().unwrap()).unwrap();
    let evaluated = serde_json::json!([
        {"timestamp": "1970-01-01T00:02:00.000+0000"},
        {"timestamp": "1970-01-01T00:01:00.000+0000", "sampleCount": 1.0, "value": 11.0},
        {"timestamp": "1970-01-01T00:00:00.000+0000", "sampleCount": 1.0, "value": 9.0},
    ]);
    let expected = serde_json::json!({
        "version": "1.0",
        "queryDate": "1970-01-01T00:03:00.500+0000",
        "startDate": "1970-01-01T00:00:00.000+0000",
        "statistic": "Maximum",
        "unit": "Count",
        "period": 60,
        "recentDatapoints": [9.0, 11.0],
        "threshold": 10.0,
        "evaluatedDatapoints": evaluated,
    });
    assert_eq!(data, expected);
    let history: serde_json::Value =
        serde_json::from_str(&book.history().iter().nth(1).unwrap().data).unwrap();
    assert_eq!(history["newState"]["stateReasonData"], expected);
    assert!(history["oldState"].get("stateReasonData").is_none());
}

#[test]
fn a_file_that_is_removed_is_written_anew_unless_the_directory_is_another() {
    let above = tempfile::tempdir().unwrap();
    let (dir, moved) = (above.path().join("metrics"), above.path().join("moved"));
    let mut book = AlarmBook::open(Some(&dir), Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    std::fs::remove_file(dir.join("alarms.log")).unwrap();

    book.put(alarm("b"), Timestamp(1)).unwrap();
    book.take_dirty().unwrap();
    let reopened = AlarmBook::read(Directory::open(&dir).unwrap()).unwrap();
    assert_eq!(reopened.all().count(), 2);

    std::fs::rename(&dir, &moved).unwrap();
    std::fs::create_dir(&dir).unwrap();
    book.put(alarm("c"), Timestamp(1)).unwrap();
    assert!(book.take_dirty().is_err() && book.rewrite().is_err());
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn one_account_does_not_push_out_what_another_still_has_to_do() {
    let mut book = AlarmBook::open(None, Timestamp(1)).unwrap();
    let other = Scope { account: "1".into(), ..scope() };
    for scope in [other.clone(), scope()] {
        let acting = Alarm { scope, alarm_actions: vec!["arn:x".into()], ..alarm("a") };
        book.put(Alarm { ok_actions: acting.alarm_actions.clone(), ..acting }, Timestamp(1))
            .unwrap();
    }
    let first = book.judged(&other, "a", &verdict(State::Alarm), Timestamp(2)).unwrap().unwrap();

    for state in [State::Alarm, State::Ok].into_iter().cycle().take(3 * OWED_MAX) {
        book.judged(&scope(), "a", &verdict(state), Timestamp(2)).unwrap();
    }

    assert_eq!(book.owed().count(), OWED_MAX);
    assert!(book.owes(first.id, "arn:x"));
}

#[test]
fn a_book_that_is_cleared_is_empty_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    let acting = Alarm { alarm_actions: vec!["arn:x".into()], ..alarm("a") };
    book.put(acting, Timestamp(1)).unwrap();
    book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(2)).unwrap();
    let counts = |book: &AlarmBook| (book.all().count(), book.history().len(), book.owed().count());
    assert_eq!(counts(&book), (1, 2, 1));

    book.clear().unwrap();
    assert_eq!(counts(&book), (0, 0, 0));
    drop(book);
    let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
    assert_eq!(counts(&book), (0, 0, 0));
}

#[test]
fn a_copy_of_the_file_owes_what_was_owed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    book.put(alarm("a"), Timestamp(1)).unwrap();
    let owed = book.judged(&scope(), "a", &verdict(State::Alarm), Timestamp(2)).unwrap().unwrap();
    let pinned = book.pin().unwrap().unwrap();
    book.acted(&owed, "arn:alarm", None, Timestamp(3)).unwrap();

    let mut copy = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(pinned.file, pinned.bytes), &mut copy)
        .unwrap();
    std::fs::write(other.path().join(pinned.name), copy).unwrap();
    let copy = AlarmBook::open(Some(other.path()), Timestamp(4)).unwrap();

    assert!(copy.owes(owed.id, "arn:alarm") && !book.owes(owed.id, "arn:alarm"));
    assert_eq!(copy.alarm(&scope(), "a").unwrap().state, State::Alarm);
    assert!(AlarmBook::open(None, Timestamp(1)).unwrap().pin().unwrap().is_none());
}
