use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millrace_core::{Clock, SystemClock};
use millrace_metrics::{Entity, Sample, Scope, Source, Value};
use millrace_wire::cloudwatch::PutMetricAlarm;

use super::*;
use crate::cloudwatch::act::tests::broker_of;
use crate::cloudwatch::put_alarm::{alarm, tests::example};

/// A job that leaves another one behind until it is to stop.
fn flood(monitor: &Arc<Monitor>, is_over: &Arc<AtomicBool>) {
    let (next, is_over) = (monitor.clone(), is_over.clone());
    let job = move || {
        if !is_over.load(Ordering::Relaxed) {
            flood(&next, &is_over);
        }
        After::Nothing
    };
    monitor.send(Message::Job(Box::new(job))).unwrap();
}

/// Closing a minute of it panics.
struct Faulty;

impl Source for Faulty {
    fn peek(&self, _: &Entity, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }

    fn close(&self, _: Timestamp) -> Vec<Sample> {
        panic!("the test wants it")
    }
}

#[tokio::test]
async fn a_bug_ends_its_request_and_its_step_and_nothing_else() {
    let clock = Arc::new(SystemClock::new());
    let broker = broker_of(clock.clone());
    let store = Arc::new(MetricStore::open(None, clock.now()).unwrap());
    store.set_source(Arc::new(Faulty), clock.now());
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    let treat_missing_data = Some("breaching".into());
    let input = PutMetricAlarm { treat_missing_data, ..example() };
    let mut book = AlarmBook::open(None, clock.now()).unwrap();
    book.put(alarm(&scope, &input, clock.now()).unwrap(), clock.now()).unwrap();
    let alarms = Alarms { book, queue_access: QueueAccess::Open };
    let monitor = Monitor::start(broker, store, alarms).unwrap();

    let ended = monitor.run(|| -> u8 { panic!("the test wants it") }).await;
    assert!(matches!(ended, Err(MonitorError::Panicked)));
    let job = || -> Result<u8, MonitorError> { panic!("the test wants it") };
    assert!(matches!(monitor.run_durably(job).await, Err(MonitorError::Panicked)));
    clock.advance(Duration::from_secs(60));
    monitor.tick().await;

    assert!(matches!(monitor.run(|| 7).await, Ok(7)));
    let state = lock(monitor.alarms()).alarm(&scope, "many").unwrap().state;
    assert_eq!(state, State::Alarm, "alarms are evaluated");
    monitor.close();
    assert!(matches!(monitor.run(|| 7).await, Err(MonitorError::Closed)));
}

#[test]
fn a_minute_ends_though_requests_always_wait() {
    let clock = Arc::new(SystemClock::new());
    let broker = broker_of(clock.clone());
    let store = Arc::new(MetricStore::open(None, clock.now()).unwrap());
    let book = AlarmBook::open(None, clock.now()).unwrap();
    let alarms = Alarms { book, queue_access: QueueAccess::Open };
    let monitor = Arc::new(Monitor::start(broker, store, alarms).unwrap());
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    let treat_missing_data = Some("breaching".into());
    let input = PutMetricAlarm { treat_missing_data, ..example() };
    let alarm = alarm(&scope, &input, clock.now()).unwrap();
    let name = alarm.name.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let begin = move || {
        let _ = begun.send(());
        After::Nothing
    };

    monitor.send(Message::Job(Box::new(begin))).unwrap();
    has_begun.recv().unwrap();
    (0..3).for_each(|_| flood(&monitor, &is_over));
    lock(monitor.alarms()).put(alarm, clock.now()).unwrap();
    clock.advance(Duration::from_secs(60));
    let state = || lock(monitor.alarms()).alarm(&scope, &name).map(|alarm| alarm.state);
    let until = Instant::now() + Duration::from_secs(10);
    while state() != Some(State::Alarm) && Instant::now() < until {
        std::thread::yield_now();
    }

    is_over.store(true, Ordering::Relaxed);
    assert_eq!(state(), Some(State::Alarm), "it is evaluated");
    monitor.close();
}
