//! What alarms do when their state changes.

use std::sync::{Arc, OnceLock};

use futures_executor::block_on;
use millrace_broker::{BrokerError, Kind, NewContent, Outgoing, Shards};
use millrace_core::{Arn, MessageId, md5};
use millrace_metrics::alarm::{Change, Owed};

use super::alarms::{SharedBook, lock};
use super::notification::{Message, subject};
use crate::sqs;

/// SenderId of messages from alarms.
const SENDER: &str = "cloudwatch.amazonaws.com";

/// Whose queues alarms may send to, apart from those of their own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAccess {
    /// All, for nobody has to say who they are.
    Open,
    /// Those whose policy lets the alarm's account send, as for requests of that account.
    ByPolicy,
}

/// What does the actions of alarms.
#[derive(Clone)]
pub(super) struct Actions {
    pub shards: Arc<Shards>,
    pub book: SharedBook,
    pub queue_access: QueueAccess,
    /// Set once there are topics.
    pub topics: Arc<OnceLock<Arc<dyn Topics>>>,
}

/// Where alarms publish.
pub(crate) trait Topics: Send + Sync {
    /// Publishes for an alarm of that account and waits until it is durable.
    fn publish(&self, account: &str, notice: &Notice<'_>) -> Result<(), Failure>;
}

/// The message of an alarm for a topic.
pub(crate) struct Notice<'a> {
    /// ARN of the topic.
    pub topic: &'a str,
    pub subject: &'a str,
    pub message: &'a str,
    /// The same when it is published again, because the process was killed before that was noted.
    pub deduplication_id: &'a str,
}

/// Tells the log that an alarm is in another state.
pub(super) fn announce(change: &Change) {
    tracing::info!(
        alarm = change.alarm.name,
        from = change.before.name(),
        to = change.alarm.state.name(),
        "alarm changed its state"
    );
}

impl Actions {
    /// Waits until all changes of alarms are durable.
    pub(super) fn commit(&self) -> Result<(), BrokerError> {
        let latest = lock(&self.book).latest();
        // It waits for a commit only, which wakes it from another thread.
        block_on(self.shards.home()?.committed(latest))
    }

    /// Does what is owed, which must be durable, and notes how that went. What the journal does not
    /// take now stays owed.
    pub(super) fn act(&self, owed: &[Owed]) {
        let all = owed.iter().flat_map(|owed| owed.arns.iter().map(move |arn| (owed, arn)));
        for (owed, arn) in all {
            // The clock may have struck between the change of state and this.
            if !lock(&self.book).owes(owed, arn) {
                continue;
            }
            let alarm = &owed.alarm().name;
            let failure = match self.send(arn, owed) {
                Ok(()) => None,
                Err(Failure::NotNow(error)) => {
                    tracing::warn!(alarm, %error, "an alarm's action is done later");
                    continue;
                }
                Err(Failure::Never(failure)) => Some(failure),
            };
            let now = self.shards.now();
            if let Err(error) = lock(&self.book).acted(owed, arn, failure.as_deref(), now) {
                tracing::error!(alarm, %error, "that an action is done is not stored");
            }
        }
    }

    /// Sends the message about a change to a queue or topic and waits until it is durable.
    fn send(&self, arn: &str, owed: &Owed) -> Result<(), Failure> {
        let body = serde_json::to_string(&Message::of(&owed.change));
        let body = body.map_err(|error| Failure::Never(error.to_string()))?;
        let once = format!("alarm-{}-{}", owed.id, owed.alarm().state_entered_at);
        let parsed = Arn::parse(arn).ok_or("this is no ARN")?;
        if parsed.service == "sns" {
            let subject = subject(&owed.change);
            let notice =
                Notice { topic: arn, subject: &subject, message: &body, deduplication_id: &once };
            return match self.topics.get() {
                Some(topics) => topics.publish(&owed.alarm().scope.account, &notice),
                None => Err(Failure::NotNow("topics are not open yet".to_owned())),
            };
        }
        let key = parsed.queue().ok_or("this kind of action is not supported")?;
        let queue = self.shards.catalog().queue_by_key(&key).ok_or("the queue does not exist")?;
        let definition = queue.definition();
        let account = &owed.alarm().scope.account;
        if self.queue_access == QueueAccess::ByPolicy && !sqs::may_send(account, &queue) {
            return Err("the queue's policy does not allow sqs:SendMessage".into());
        }
        let limit = definition.settings.maximum_message_size_bytes as usize;
        if body.len() > limit {
            let text = format!("the message is {} bytes, limit {limit}", body.len());
            return Err(Failure::Never(text));
        }
        let mut content = Vec::new();
        let id = MessageId::from_random(fastrand::u128(..));
        let is_fifo = queue.kind() == Kind::Fifo;
        // A FIFO queue drops what is sent again because the process was killed before it was noted.
        let deduplication_id = is_fifo.then_some(once.as_str());
        NewContent {
            body: body.as_bytes(),
            body_md5: md5(body.as_bytes()),
            sender: SENDER,
            deduplication_id: deduplication_id.unwrap_or_default(),
            ..NewContent::default()
        }
        .encode(&mut content);
        let outgoing = Outgoing {
            id,
            content: &content,
            size_bytes: body.len(),
            group: is_fifo.then_some("alarms"),
            deduplication_id,
            delay_s: None,
        };
        block_on(queue.send(&[outgoing]))?;
        Ok(())
    }
}

/// Why an action was not done.
pub(crate) enum Failure {
    /// The next minute may be better.
    NotNow(String),
    Never(String),
}

impl From<&str> for Failure {
    fn from(text: &str) -> Failure {
        Failure::Never(text.to_owned())
    }
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Failure {
        match error.is_for_now() {
            true => Failure::NotNow(error.to_string()),
            false => Failure::Never(error.to_string()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use millrace_broker::{OpenShard, Shard};
    use std::sync::Mutex;

    use millrace_core::{ShardId, SystemClock, Timestamp};
    use millrace_engine::Replay;
    use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
    use millrace_metrics::Scope;
    use millrace_metrics::alarm::State;
    use millrace_wire::cloudwatch::PutMetricAlarm;

    use super::*;
    use crate::cloudwatch::book::AlarmBook;
    use crate::cloudwatch::put_alarm::{alarm, tests::example};

    pub(in crate::cloudwatch) fn shards() -> Arc<Shards> {
        shards_of(Arc::new(SystemClock::new()))
    }

    pub(in crate::cloudwatch) fn shards_of(clock: Arc<SystemClock>) -> Arc<Shards> {
        let journal = Box::new(MemoryJournal::new(16 << 20));
        let log = GroupCommit::new(journal, GroupOptions::default());
        log.spawn_committer().unwrap();
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        let open = OpenShard {
            id: ShardId(0),
            log,
            options: Default::default(),
            replayed,
            random: Box::new(|| 1),
        };
        Shards::of_one(clock, open).unwrap()
    }

    #[test]
    fn an_action_that_was_done_meanwhile_is_not_done_again() {
        let shards = shards();
        let mut book = AlarmBook::open(shards.home().unwrap());
        let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
        let input = PutMetricAlarm {
            alarm_actions: vec!["arn:aws:sqs:us-east-1:000000000000:gone".into()],
            ..example()
        };
        book.put(alarm(&scope, &input, Timestamp(1)).unwrap(), Timestamp(1)).unwrap();
        let why = ("by hand".to_owned(), None);
        let owed = book.set_state(&scope, "many", State::Alarm, why, Timestamp(2)).unwrap();
        let owed = [owed.unwrap()];
        let book: SharedBook = Arc::new(Mutex::new(book));
        let queue_access = QueueAccess::Open;
        let topics = Arc::default();
        let actions = Actions { shards, book: book.clone(), queue_access, topics };

        actions.act(&owed);
        actions.act(&owed);

        let about_actions = |summary: &str| summary.contains("execute action");
        let history = lock(&book).history(&scope.account);
        assert_eq!(history.iter().filter(|item| about_actions(&item.summary)).count(), 1);
    }
}
