//! What a process does about alarms whose actions its predecessor was killed before doing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Incoming, OpenShard, ReceiveRequest, Shard, Shards};
use millrace_core::{ShardId, SystemClock, Timestamp};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, LocalJournal, LocalOptions, SimFileSystem};
use millrace_metrics::alarm::{Alarm, Comparison, HistoryKind, MissingData, Rule, State};
use millrace_metrics::math::{Query, QueryKind};
use millrace_metrics::{Entity, MetricStore, Scope};
use millrace_services::{
    AlarmBook, DeclaredQueue, Floors, Monitor, Options, QueueAccess, Services, convert_alarms,
};

const REGION: &str = "us-east-1";
const ACCOUNT: &str = "000000000000";

/// A process on a disk, which looks at its alarms once the test says so.
struct Process {
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
}

impl Process {
    fn start(disk: &SimFileSystem) -> Process {
        let mut replay = Replay::default();
        let options = LocalOptions { segment_bytes: 1 << 20, ..LocalOptions::default() };
        let mut apply = |record: millrace_journal::Replayed<'_>| {
            replay.apply(record.index, record.position.0, record.record_len).unwrap();
        };
        // Threads of the process before may still hold its files.
        let (disk, path) = (Arc::new(disk.killed()), Path::new("/journal"));
        let (journal, _) = LocalJournal::open(disk, path, options, &mut apply).unwrap();
        let log = GroupCommit::new(Box::new(journal), GroupOptions::default());
        let replayed = replay.finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        log.spawn_committer().unwrap();
        let clock = Arc::new(SystemClock::new());
        let options = millrace_broker::Options::default();
        let open = OpenShard {
            id: ShardId(0),
            log: log.clone(),
            options,
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(clock, open).unwrap();
        Process { log, shards }
    }

    fn monitor(&self) -> Monitor {
        let store = Arc::new(MetricStore::open(None, self.shards.now()).unwrap());
        Monitor::start(self.shards.clone(), store, QueueAccess::ByPolicy).unwrap()
    }

    async fn declare(&self, name: &str, attributes: &[(&str, &str)]) {
        let idle = Arc::new(self.monitor());
        let floors =
            Floors { shards: self.shards.clone(), monitor: idle.clone(), tables: None, push: None };
        let services = Services::new(floors, &Options::default(), None);
        let mut attributes: Vec<(String, String)> =
            attributes.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        if name.ends_with(".fifo") {
            attributes.push(("FifoQueue".into(), "true".into()));
        }
        let queue = DeclaredQueue {
            region: REGION.into(),
            account: ACCOUNT.into(),
            name: name.into(),
            attributes,
            ..DeclaredQueue::default()
        };
        services.declare_queue(&queue).await.unwrap();
        idle.close();
    }

    /// Puts an alarm and has it enter a state, durably, and does nothing about it.
    async fn enter(&self, alarm: Alarm) {
        let mut book = AlarmBook::open(self.shards.home().unwrap());
        let (scope, name) = (alarm.scope.clone(), alarm.name.clone());
        book.put(alarm, Timestamp(1)).unwrap();
        let why = ("depth".to_owned(), None);
        let owed = book.set_state(&scope, &name, State::Alarm, why, Timestamp(2)).unwrap();
        assert_eq!(owed.unwrap().arns.len(), 1);
        self.shards.home().unwrap().committed(book.latest()).await.unwrap();
    }

    /// The messages in the queue once there is one.
    async fn receive(&self, queue: &str) -> Vec<Incoming> {
        let queue = self.shards.catalog().queue(REGION, ACCOUNT, queue).unwrap();
        let receive = ReceiveRequest {
            max: 10,
            visibility_timeout_s: None,
            wait_time_s: Some(20),
            attempt_id: None,
        };
        queue.receive(&receive).await.unwrap()
    }

    /// The actions left to do, and the latest items of the history.
    fn outcome(&self, account: &str) -> (usize, HistoryKind, String) {
        let book = AlarmBook::open(self.shards.home().unwrap());
        let last = book.history(account).pop().unwrap();
        (book.owed(account, 0, 10).len(), last.kind, last.summary)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.shards.close();
        self.log.close();
    }
}

fn alarm(queue: &str) -> Alarm {
    let scope = Scope { region: REGION.into(), account: ACCOUNT.into() };
    let kind = QueryKind::Metric {
        entity: Entity::new(scope.clone(), "AWS/SQS", vec![("QueueName".into(), "jobs".into())]),
        metric: "ApproximateNumberOfMessagesVisible".into(),
        unit: None,
        statistic: "Maximum".into(),
        period_s: 60,
    };
    Alarm {
        scope,
        name: "too-many".into(),
        description: None,
        actions_enabled: true,
        ok_actions: Vec::new(),
        alarm_actions: vec![format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")],
        insufficient_data_actions: Vec::new(),
        queries: vec![Query {
            id: "m".into(),
            kind,
            label: None,
            account: None,
            is_returned: true,
        }],
        period_s: 60,
        rule: Rule {
            comparison: Comparison::GreaterThanThreshold,
            threshold: 10.0,
            periods: 1,
            to_alarm: 1,
            missing: MissingData::Ignore,
        },
        low_sample_count: None,
        threshold_metric_id: None,
        says_to_alarm: false,
        says_missing: false,
        says_queries: false,
        configured_at: 0,
        state: State::Ok,
        reason: String::new(),
        reason_data: None,
        state_updated_at: 0,
        state_entered_at: 0,
        tags: BTreeMap::new(),
    }
}

/// The disk of a process that is killed right after the change of state is durable.
async fn killed_before_the_action(
    alarm: Alarm,
    queue: &str,
    attributes: &[(&str, &str)],
) -> SimFileSystem {
    let disk = SimFileSystem::new(1);
    let process = Process::start(&disk);
    process.declare(queue, attributes).await;
    process.enter(alarm).await;
    // What was written and not synced is lost as well.
    disk.crashed(1)
}

#[tokio::test]
async fn an_action_that_was_owed_is_done_at_the_next_start_and_not_again() {
    for queue in ["pages", "pages.fifo"] {
        let disk = killed_before_the_action(alarm(queue), queue, &[]).await;
        let process = Process::start(&disk);
        assert_eq!(process.outcome(ACCOUNT).0, 1);

        let monitor = process.monitor();
        let received = process.receive(queue).await;
        monitor.close();
        process.monitor().close();
        drop(process);

        assert_eq!(received.len(), 1);
        let is_fifo = queue.ends_with(".fifo");
        assert_eq!(received[0].delivery.group.as_deref(), is_fifo.then_some("alarms"));
        // A queue that drops what it was sent before is told what tells changes apart.
        let once = if is_fifo { &b"alarm-2-2"[..] } else { b"" };
        assert_eq!(received[0].content.deduplication_id(), once);
        let message: serde_json::Value =
            serde_json::from_slice(received[0].content.body()).unwrap();
        assert_eq!(message["AlarmName"], "too-many");
        assert_eq!([&message["OldStateValue"], &message["NewStateValue"]], ["OK", "ALARM"]);
        let process = Process::start(&disk);
        let done = format!("Successfully executed action arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}");
        assert_eq!(process.outcome(ACCOUNT), (0, HistoryKind::Action, done));
        let queue = process.shards.catalog().queue(REGION, ACCOUNT, queue).unwrap();
        assert_eq!(queue.count_messages().0.total(), 1);
    }
}

#[tokio::test]
async fn an_action_that_cannot_be_done_is_not_owed_any_more() {
    let disk = killed_before_the_action(alarm("pages"), "others", &[]).await;

    let process = Process::start(&disk);
    process.monitor().close();

    let (owed, _, last) = process.outcome(ACCOUNT);
    assert_eq!(owed, 0);
    assert!(last.ends_with("the queue does not exist"), "{last}");
}

#[tokio::test]
async fn what_the_journal_does_not_take_stays_owed() {
    let disk = killed_before_the_action(alarm("pages"), "pages", &[]).await;

    let process = Process::start(&disk);
    process.log.close();
    process.monitor().close();
    assert_eq!(process.outcome(ACCOUNT).0, 1);
    drop(process);

    let process = Process::start(&disk);
    let monitor = process.monitor();
    assert_eq!(process.receive("pages").await.len(), 1);
    monitor.close();
}

/// What became of the action of an alarm of another account, about a queue with these attributes.
async fn outcome_elsewhere(attributes: &[(&str, &str)]) -> String {
    let mut alarm = alarm("pages");
    alarm.scope.account = "111111111111".into();
    alarm.description = Some("x".repeat(1_024));
    let disk = killed_before_the_action(alarm, "pages", attributes).await;
    let process = Process::start(&disk);
    process.monitor().close();
    process.outcome("111111111111").2
}

#[tokio::test]
async fn an_alarm_sends_to_queues_of_other_accounts_only_as_their_policy_and_limits_allow() {
    let policy = |account: &str| {
        let arn = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:pages");
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"AWS":"{account}"}},"Action":"sqs:SendMessage","Resource":"{arn}"}}]}}"#
        )
    };

    let refused = "the queue's policy does not allow sqs:SendMessage";
    assert!(outcome_elsewhere(&[]).await.ends_with(refused));
    let (ours, others) = (policy("111111111111"), policy("222222222222"));
    assert!(outcome_elsewhere(&[("Policy", &others)]).await.ends_with(refused));
    let allowed = outcome_elsewhere(&[("Policy", &ours)]).await;
    assert!(allowed.starts_with("Successfully executed"), "{allowed}");
    let small = [("Policy", &ours[..]), ("MaximumMessageSize", "1024")];
    let limited = outcome_elsewhere(&small).await;
    assert!(limited.ends_with("bytes, limit 1024"), "{limited}");
}

#[tokio::test]
async fn alarms_of_an_earlier_version_are_taken_over_once() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.2.0/metrics");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alarms.log");
    std::fs::copy(fixture.join("alarms.log"), &file).unwrap();
    let disk = SimFileSystem::new(1);
    let process = Process::start(&disk);
    process.declare("pages", &[]).await;

    convert_alarms(&process.shards.home().unwrap(), dir.path()).unwrap();
    drop(process);

    assert!(!file.exists(), "it is durable elsewhere");
    let process = Process::start(&disk.crashed(1));
    let mut book = AlarmBook::open(process.shards.home().unwrap());
    let state = |alarm: &Alarm| (alarm.name.clone(), alarm.state, alarm.tags.len());
    let states: Vec<_> = book.all().map(state).collect();
    let expected = [("backlog", State::Alarm, 1), ("quiet", State::Ok, 1)];
    assert_eq!(states, expected.map(|(name, state, tags)| (name.to_owned(), state, tags)));
    let summaries: Vec<_> = book.history(ACCOUNT).into_iter().map(|item| item.summary).collect();
    let expected = [
        "Alarm \"backlog\" created",
        "Alarm \"gone\" created",
        "Alarm \"quiet\" created",
        "Alarm \"gone\" deleted",
        "Alarm updated from INSUFFICIENT_DATA to OK",
        "Alarm updated from INSUFFICIENT_DATA to ALARM",
    ];
    assert_eq!(summaries, expected);

    // The file could not be removed, and an alarm has changed since.
    let scope = Scope { region: REGION.into(), account: ACCOUNT.into() };
    book.tag(&scope, "quiet", BTreeMap::clear).unwrap();
    std::fs::copy(fixture.join("alarms.log"), &file).unwrap();
    convert_alarms(&process.shards.home().unwrap(), dir.path()).unwrap();
    let again = AlarmBook::open(process.shards.home().unwrap());
    assert!(again.alarm(&scope, "quiet").unwrap().tags.is_empty(), "what is newer stays");
    assert_eq!((again.history(ACCOUNT).len(), again.owed(ACCOUNT, 0, 10).len()), (6, 1));

    let monitor = process.monitor();
    let received = process.receive("pages").await;
    monitor.close();
    let message: serde_json::Value = serde_json::from_slice(received[0].content.body()).unwrap();
    assert_eq!((received.len(), &message["AlarmName"]), (1, &"backlog".into()));
}

#[test]
fn a_file_stays_whose_alarms_the_journal_does_not_take() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.2.0/metrics");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alarms.log");
    std::fs::copy(fixture.join("alarms.log"), &file).unwrap();
    let process = Process::start(&SimFileSystem::new(1));
    process.log.close();

    let refused = convert_alarms(&process.shards.home().unwrap(), dir.path()).unwrap_err();

    assert!(refused.to_string().contains("journal is closed"), "{refused}");
    assert!(file.exists());
}

#[test]
fn a_file_that_is_none_of_alarms_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alarms.log");
    std::fs::write(&file, b"something else").unwrap();
    let process = Process::start(&SimFileSystem::new(1));

    let refused = convert_alarms(&process.shards.home().unwrap(), dir.path()).unwrap_err();

    assert!(refused.to_string().ends_with("is no file of metrics"), "{refused}");
    assert!(file.exists() && process.shards.home().unwrap().kept().figures().is_empty());
}
