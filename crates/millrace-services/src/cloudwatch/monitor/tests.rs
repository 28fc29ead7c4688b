use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use millrace_core::{Clock, SystemClock};
use millrace_metrics::alarm::Alarm;
use millrace_metrics::{Entity, Sample, Scope, Source, Value};
use millrace_wire::cloudwatch::PutMetricAlarm;

use super::*;
use crate::cloudwatch::act::tests::shards_of;
use crate::cloudwatch::jobs::Place;
use crate::cloudwatch::put_alarm::{alarm, tests::example};

/// A job that leaves another one behind until it is to stop.
fn flood(writes: &Arc<Jobs<Write>>, is_over: &Arc<AtomicBool>) {
    let (next, is_over) = (writes.clone(), is_over.clone());
    let job = move || {
        if !is_over.load(Ordering::Relaxed) {
            flood(&next, &is_over);
        }
        After::Nothing
    };
    writes.add_own("1", Place::First, |_| Write::Job(Box::new(job)));
}

fn monitor(clock: &Arc<SystemClock>, alarms: &[Alarm]) -> Arc<Monitor> {
    let store = Arc::new(MetricStore::open(None, clock.now()).unwrap());
    monitor_of(clock, store, alarms)
}

fn monitor_of(clock: &Arc<SystemClock>, store: Arc<MetricStore>, alarms: &[Alarm]) -> Arc<Monitor> {
    let shards = shards_of(clock.clone());
    let mut book = AlarmBook::open(shards.home().unwrap());
    for alarm in alarms {
        book.put(alarm.clone(), clock.now()).unwrap();
    }
    Arc::new(Monitor::start(shards, store, QueueAccess::Open).unwrap())
}

/// An alarm of that account, which is due as soon as it is looked at.
fn breaching(account: &str, now: Timestamp) -> Alarm {
    let scope = Scope { region: "us-east-1".into(), account: account.into() };
    let treat_missing_data = Some("breaching".into());
    let input = PutMetricAlarm { treat_missing_data, ..example() };
    alarm(&scope, &input, now).unwrap()
}

/// Waits for something that another thread does.
fn comes_true(mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_true() && Instant::now() < until {
        std::thread::yield_now();
    }
    is_true()
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
    let store = Arc::new(MetricStore::open(None, clock.now()).unwrap());
    store.set_source(Arc::new(Faulty), clock.now());
    let alarm = breaching("000000000000", clock.now());
    let scope = alarm.scope.clone();
    let monitor = monitor_of(&clock, store, &[alarm]);

    let ended = monitor.run("1", |_| -> u8 { panic!("the test wants it") }).await;
    assert!(matches!(ended, Err(MonitorError::Panicked)));
    let job = || -> Result<u8, MonitorError> { panic!("the test wants it") };
    assert!(matches!(monitor.run_durably("1", job).await, Err(MonitorError::Panicked)));
    clock.advance(Duration::from_secs(60));
    monitor.tick().await;

    assert!(matches!(monitor.run("1", |_| 7).await, Ok(7)));
    let state = lock(monitor.alarms()).alarm(&scope, "many").unwrap().state;
    assert_eq!(state, State::Alarm, "alarms are evaluated");
    monitor.close();
    assert!(matches!(monitor.run("1", |_| 7).await, Err(MonitorError::Closed)));
}

#[test]
fn a_minute_ends_though_requests_always_wait() {
    let clock = Arc::new(SystemClock::new());
    let monitor = monitor(&clock, &[]);
    let alarm = breaching("000000000000", clock.now());
    let (scope, name) = (alarm.scope.clone(), alarm.name.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let (begun, has_begun) = channel();
    let begin = move || {
        let _ = begun.send(());
        After::Nothing
    };

    monitor.writes.add_own("1", Place::First, |_| Write::Job(Box::new(begin)));
    has_begun.recv().unwrap();
    (0..3).for_each(|_| flood(&monitor.writes, &is_over));
    lock(monitor.alarms()).put(alarm, clock.now()).unwrap();
    clock.advance(Duration::from_secs(60));
    let state = || lock(monitor.alarms()).alarm(&scope, &name).map(|alarm| alarm.state);
    let is_evaluated = comes_true(|| state() == Some(State::Alarm));

    is_over.store(true, Ordering::Relaxed);
    assert!(is_evaluated);
    monitor.close();
}

#[tokio::test]
async fn a_job_whose_client_leaves_ends_in_the_middle_and_others_are_not_run() {
    let clock = Arc::new(SystemClock::new());
    let monitor = monitor(&clock, &[]);
    let ((begun, has_begun), (ended, has_ended)) = (channel(), channel());
    let client = |job: Box<dyn FnOnce(&Interrupt) + Send>| {
        let monitor = monitor.clone();
        tokio::spawn(async move { monitor.run("1", job).await })
    };
    let runs = client(Box::new(move |interrupt| {
        begun.send(()).unwrap();
        let is_interrupted = comes_true(|| interrupt.is_set());
        ended.send(is_interrupted).unwrap();
    }));
    let waits = client(Box::new(|_| panic!("it is not to be run")));
    tokio::task::yield_now().await;
    has_begun.recv().unwrap();

    for client in [waits, runs] {
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
    }

    assert!(has_ended.recv().unwrap());
    assert!(matches!(monitor.run("1", |_| 7).await, Ok(7)));
    monitor.close();
}

#[tokio::test]
async fn the_jobs_of_one_account_keep_nobody_else_waiting() {
    let clock = Arc::new(SystemClock::new());
    let accounts = ["111111111111", "222222222222"];
    let monitor = monitor(&clock, &accounts.map(|account| breaching(account, clock.now())));
    monitor.tick().await;
    let state = |account: &str| {
        let scope = Scope { region: "us-east-1".into(), account: account.into() };
        lock(monitor.alarms()).alarm(&scope, "many").map(|alarm| alarm.state)
    };
    for account in accounts {
        let scope = Scope { region: "us-east-1".into(), account: account.into() };
        let why = ("by hand".to_owned(), None);
        lock(monitor.alarms()).set_state(&scope, "many", State::Ok, why, clock.now()).unwrap();
    }
    let (go_on, is_to_go_on) = channel::<()>();
    let is_to_go_on = Arc::new(Mutex::new(is_to_go_on));
    let blocked: Vec<_> = (0..10)
        .map(|_| {
            let (monitor, is_to_go_on) = (monitor.clone(), is_to_go_on.clone());
            let job = move |_: &Interrupt| is_to_go_on.lock().unwrap().recv().is_ok();
            tokio::spawn(async move { monitor.run("111111111111", job).await })
        })
        .collect();
    tokio::task::yield_now().await;

    assert!(matches!(monitor.run("222222222222", |_| 7).await, Ok(7)));
    assert!(matches!(monitor.run_scrape(|| 7).await, Ok(7)));
    clock.advance(Duration::from_secs(60));
    let ticks = tokio::spawn({
        let monitor = monitor.clone();
        async move { monitor.tick().await }
    });
    tokio::task::yield_now().await;
    assert!(comes_true(|| state("222222222222") == Some(State::Alarm)), "it is evaluated");
    assert_eq!(state("111111111111"), Some(State::Ok), "it waits for the account's jobs");

    drop(go_on);
    for client in blocked {
        assert!(matches!(client.await.unwrap(), Ok(false)));
    }
    ticks.await.unwrap();
    assert_eq!(state("111111111111"), Some(State::Alarm));
    monitor.close();
}

#[tokio::test]
async fn what_is_reset_is_gone() {
    let clock = Arc::new(SystemClock::new());
    let monitor = monitor(&clock, &[breaching("111111111111", clock.now())]);
    let entity = Entity::new(
        Scope { region: "us-east-1".into(), account: "111111111111".into() },
        "Shop",
        Vec::new(),
    );
    let (metric, unit) = ("Sales", millrace_metrics::Unit::Count);
    let (time_s, summary) = (clock.now().seconds(), millrace_metrics::Summary::of(1.0));
    let record = millrace_metrics::Record { entity: &entity, metric, unit, time_s, summary };
    monitor.store().record(&[record]).unwrap();

    monitor.reset().await.unwrap();

    assert!(monitor.store().scopes().is_empty());
    assert_eq!(lock(monitor.alarms()).all().count(), 0);
    monitor.close();
}
