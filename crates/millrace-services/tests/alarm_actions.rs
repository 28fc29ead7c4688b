//! What a process does about alarms whose actions its predecessor was killed before doing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use millrace_broker::{Incoming, OpenShard, ReceiveRequest, Shard, Shards};
use millrace_core::{ShardId, SystemClock, Timestamp};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
use millrace_metrics::alarm::{
    Alarm, AlarmBook, Comparison, HistoryKind, MissingData, Rule, State,
};
use millrace_metrics::math::{Query, QueryKind};
use millrace_metrics::{Entity, MetricStore, Scope};
use millrace_services::{Alarms, DeclaredQueue, Monitor, Options, QueueAccess, Services};

const REGION: &str = "us-east-1";
const ACCOUNT: &str = "000000000000";
const SEGMENT_BYTES: u32 = 16 << 20;

/// A process on the alarms in `dir`, with a queue for their messages.
struct Process {
    log: Arc<GroupCommit>,
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
}

impl Process {
    async fn start(dir: &Path, queue: &str) -> Process {
        Process::start_on(dir, queue, |_| ()).await
    }

    async fn start_on(dir: &Path, queue: &str, before: impl FnOnce(&GroupCommit)) -> Process {
        let declared = DeclaredQueue { name: queue.into(), ..DeclaredQueue::default() };
        Process::start_with(dir, declared, before).await
    }

    /// `before` is done after the creation of the queue and before the first look at the alarms.
    async fn start_with(
        dir: &Path,
        mut queue: DeclaredQueue,
        before: impl FnOnce(&GroupCommit),
    ) -> Process {
        let journal = Box::new(MemoryJournal::new(SEGMENT_BYTES));
        let log = GroupCommit::new(journal, GroupOptions::default());
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
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
        let monitor = |book| {
            let store = Arc::new(MetricStore::open(None, shards.now()).unwrap());
            let alarms = Alarms { book, queue_access: QueueAccess::ByPolicy };
            Arc::new(Monitor::start(shards.clone(), store, alarms).unwrap())
        };
        let idle = monitor(AlarmBook::open(None, shards.now()).unwrap());
        let services = Services::new(shards.clone(), idle.clone(), &Options::default(), None);
        if queue.name.ends_with(".fifo") {
            queue.attributes.push(("FifoQueue".into(), "true".into()));
        }
        let queue = DeclaredQueue { region: REGION.into(), account: ACCOUNT.into(), ..queue };
        services.declare_queue(&queue).await.unwrap();
        idle.close();
        before(&log);
        let monitor = monitor(AlarmBook::open(Some(dir), shards.now()).unwrap());
        Process { log, shards, monitor }
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
}

impl Drop for Process {
    fn drop(&mut self) {
        self.monitor.close();
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

/// Leaves what a process leaves that is killed right after the change of state is durable.
fn killed_before_the_action(dir: &Path, queue: &str) {
    let mut book = AlarmBook::open(Some(dir), Timestamp(1)).unwrap();
    let alarm = alarm(queue);
    book.put(alarm.clone(), Timestamp(1)).unwrap();
    let why = ("depth".to_owned(), None);
    let owed = book.set_state(&alarm.scope, &alarm.name, State::Alarm, why, Timestamp(2)).unwrap();
    assert_eq!(owed.unwrap().arns.len(), 1);
}

#[tokio::test]
async fn an_action_that_was_owed_is_done_at_the_next_start_and_not_again() {
    for queue in ["pages", "pages.fifo"] {
        let dir = tempfile::tempdir().unwrap();
        killed_before_the_action(dir.path(), queue);

        let process = Process::start(dir.path(), queue).await;
        let received = process.receive(queue).await;
        drop(process);

        assert_eq!(received.len(), 1);
        let is_fifo = queue.ends_with(".fifo");
        assert_eq!(received[0].delivery.group.as_deref(), is_fifo.then_some("alarms"));
        // A queue that drops what it was sent before is told what tells changes apart.
        let once = if is_fifo { &b"alarm-1-2"[..] } else { b"" };
        assert_eq!(received[0].content.deduplication_id(), once);
        let message: serde_json::Value =
            serde_json::from_slice(received[0].content.body()).unwrap();
        assert_eq!(message["AlarmName"], "too-many");
        assert_eq!([&message["OldStateValue"], &message["NewStateValue"]], ["OK", "ALARM"]);
        let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
        assert_eq!(book.owed().count(), 0);
        let last = book.history().iter().last().unwrap();
        assert_eq!(last.kind, HistoryKind::Action);
        assert!(last.summary.starts_with("Successfully executed"), "{}", last.summary);
    }
}

#[tokio::test]
async fn an_action_that_cannot_be_done_is_not_owed_any_more() {
    let dir = tempfile::tempdir().unwrap();
    killed_before_the_action(dir.path(), "pages");

    drop(Process::start(dir.path(), "others").await);

    let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
    assert_eq!(book.owed().count(), 0);
    let last = book.history().iter().last().unwrap();
    assert!(last.summary.ends_with("the queue does not exist"), "{}", last.summary);
}

#[tokio::test]
async fn what_the_journal_does_not_take_stays_owed() {
    let dir = tempfile::tempdir().unwrap();
    killed_before_the_action(dir.path(), "pages");

    drop(Process::start_on(dir.path(), "pages", GroupCommit::close).await);
    let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
    assert_eq!(book.owed().count(), 1);
    drop(book);

    let process = Process::start(dir.path(), "pages").await;
    assert_eq!(process.receive("pages").await.len(), 1);
}

/// What became of the action of an alarm of another account, about a queue with these attributes.
async fn outcome_elsewhere(attributes: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut book = AlarmBook::open(Some(dir.path()), Timestamp(1)).unwrap();
    let mut alarm = alarm("pages");
    alarm.scope.account = "111111111111".into();
    alarm.description = Some("x".repeat(1_024));
    book.put(alarm.clone(), Timestamp(1)).unwrap();
    let why = ("depth".to_owned(), None);
    book.set_state(&alarm.scope, &alarm.name, State::Alarm, why, Timestamp(2)).unwrap();
    drop(book);
    let attributes = attributes.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let queue = DeclaredQueue {
        name: "pages".into(),
        attributes: attributes.collect(),
        ..DeclaredQueue::default()
    };
    drop(Process::start_with(dir.path(), queue, |_| ()).await);
    let book = AlarmBook::open(Some(dir.path()), Timestamp(3)).unwrap();
    book.history().iter().last().unwrap().summary.clone()
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
