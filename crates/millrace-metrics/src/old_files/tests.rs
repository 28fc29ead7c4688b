use millrace_core::Timestamp;

use super::*;
use crate::resolution::DAY_S;
use crate::{ListFilter, MetricStore, Periods, SeriesQuery};

/// Writes a file of frames.
pub(crate) fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = MAGIC.to_vec();
    for payload in frames {
        file.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        file.extend_from_slice(payload);
    }
    std::fs::write(path, file).unwrap();
}

/// What version 0.2.0 kept of two hours of three days, one of which it had rolled up to hours and
/// one to five minutes, and of a request around a midnight. One series was removed.
fn old_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.2.0");
    for entry in std::fs::read_dir(fixture).unwrap() {
        let file = entry.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

const DAY: u64 = 20_000;
const NOW: Timestamp = Timestamp((DAY + 67) * DAY_S * 1000 + 3_600_000);

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Day, count, sum, smallest and largest of a series, by day.
fn days_of(store: &MetricStore, name: &str, metric: &str) -> Vec<(u64, [f64; 4])> {
    let scope = Scope { region: "eu-west-1".into(), account: "000000000042".into() };
    let entity = match name {
        "orders" => Entity::new(scope, "AWS/SQS", vec![("QueueName".into(), name.into())]),
        city => {
            let dimensions = vec![("City".into(), city.into()), ("Line".into(), "1".into())];
            Entity::new(scope, "Shop", dimensions)
        }
    };
    let periods = Periods { origin_s: 0, period_s: DAY_S };
    let (start_s, end_s) = (0, NOW.seconds());
    let query = SeriesQuery { entity: &entity, metric, unit: None, periods, start_s, end_s };
    let points = store.points(&[query], NOW).unwrap().remove(0);
    let of = |s: &crate::Summary| [s.count, s.sum, s.min, s.max];
    points.iter().map(|point| (point.time_s / DAY_S - DAY, of(&point.summary))).collect()
}

fn check(dir: &Path) {
    let store = MetricStore::open(Some(dir), NOW).unwrap();
    let sales = [
        (0, [120.0, 7_140.0, 0.0, 119.0]),
        (50, [120.0, 7_260.0, 1.0, 120.0]),
        (66, [120.0, 7_380.0, 2.0, 121.0]),
    ];
    assert_eq!(days_of(&store, "Oslo", "Sales"), sales);
    let latency =
        [(0, [36.0, 96.0, 0.5, 7.0]), (50, [48.0, 180.0, 0.5, 7.0]), (66, [60.0, 264.0, 0.5, 7.0])];
    assert_eq!(days_of(&store, "Oslo", "Latency"), latency);
    let idle = [0, 50, 66].map(|day| (day, [120.0, 0.0, 0.0, 0.0]));
    assert_eq!(days_of(&store, "orders", "NumberOfMessagesSent"), idle);
    assert_eq!(days_of(&store, "Rome", "Sales"), [], "it was removed");
    let visits = [(66, [1.0, 4.0, 4.0, 4.0]), (67, [2.0, 8.0, 4.0, 4.0])];
    assert_eq!(days_of(&store, "Rome", "Visits"), visits);
    let listed = |scope| store.list(scope, &ListFilter::default(), Timestamp(0)).len();
    assert_eq!(store.scopes().iter().map(listed).sum::<usize>(), 4);
}

#[test]
fn an_old_directory_is_converted_with_all_its_days() {
    let dir = old_directory();

    check(dir.path());

    let left = names(dir.path());
    assert!(left.iter().all(|name| name.starts_with("history.db")), "{left:?}");
    check(dir.path());
}

#[test]
fn a_crash_during_the_conversion_leaves_the_old_files_or_the_database() {
    let dir = old_directory();
    std::fs::write(dir.path().join("history.new"), b"half a database").unwrap();
    check(dir.path());

    // The database was there, and some of the old files were not removed yet.
    let old = old_directory();
    for name in ["catalog.log", "20050-5m.log"] {
        std::fs::copy(old.path().join(name), dir.path().join(name)).unwrap();
    }
    check(dir.path());
    assert!(names(dir.path()).iter().all(|name| name.starts_with("history.db")));
}

#[test]
fn of_two_files_of_a_day_the_coarser_is_taken_and_what_is_no_day_is_left_alone() {
    let dir = old_directory();
    write(&dir.path().join("20000-1m.log"), &[b"finer".to_vec()]);
    let others = ["10-2m.log", "x-1m.log", "alarms.log", "12-1m", "4294967296-1m.log"];
    others.iter().for_each(|name| std::fs::write(dir.path().join(name), b"").unwrap());

    check(dir.path());

    let left = names(dir.path());
    assert!(others.iter().all(|name| left.contains(&(*name).to_owned())), "{left:?}");
    assert!(!left.contains(&"20000-1m.log".to_owned()));
}

#[test]
fn damage_costs_its_frame_and_a_senseless_length_ends_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames");
    write(&path, &[b"first".to_vec(), b"second".to_vec(), b"third".to_vec()]);
    let sound = std::fs::read(&path).unwrap();
    let found = || {
        let mut found = Vec::new();
        read_frames(&path, |payload| found.push(payload.to_vec())).unwrap();
        found.len()
    };

    assert_eq!(found(), 3);
    for end in 0..sound.len() {
        std::fs::write(&path, &sound[..end]).unwrap();
        assert_eq!(found(), [21, 35].iter().filter(|frame| **frame <= end).count(), "{end}");
    }
    for (at, expected) in [(8, 0), (12, 2), (16, 2), (21, 1), (29, 2), (36, 2)] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(found(), expected, "{at}");
    }
}

#[test]
fn a_foreign_day_is_set_aside_and_foreign_names_stop_the_conversion() {
    let dir = old_directory();
    let foreign = dir.path().join("20003-1m.log");
    std::fs::write(&foreign, b"MRMETRC2 of another version").unwrap();
    check(dir.path());
    assert_eq!(std::fs::read(dir.path().join("20003-1m.log.foreign-1")).unwrap().len(), 27);

    let dir = old_directory();
    std::fs::write(dir.path().join("catalog.log"), b"something else").unwrap();
    let before = names(dir.path());
    assert!(MetricStore::open(Some(dir.path()), NOW).is_err());
    assert_eq!(names(dir.path()), before, "nothing is lost, and nothing half made takes space");
}

#[test]
fn values_that_have_lost_their_names_are_lent_to_no_new_series() {
    let dir = old_directory();
    std::fs::remove_file(dir.path().join("catalog.log")).unwrap();
    let store = MetricStore::open(Some(dir.path()), NOW).unwrap();
    let entity = Entity::new(Scope { region: "r".into(), account: "a".into() }, "Shop", vec![]);
    let summary = crate::Summary::of(1.0);
    let (metric, unit, time_s) = ("Sales", Unit::Count, NOW.seconds());
    store.record(&[crate::Record { entity: &entity, metric, unit, time_s, summary }]).unwrap();

    let periods = Periods { origin_s: 0, period_s: DAY_S };
    let query =
        SeriesQuery { entity: &entity, metric, unit: None, periods, start_s: 0, end_s: time_s + 1 };
    let found = store.points(&[query], NOW).unwrap().remove(0);
    assert_eq!(found.iter().map(|point| point.summary.count).collect::<Vec<_>>(), [1.0]);
}
