//! Publishing in the name of an alarm.

use futures_executor::block_on;
use millrace_wire::ApiError;
use millrace_wire::sns::Publish;

use super::Sns;
use super::fan_out::Source;
use super::message::Draft;
use crate::cloudwatch::{Failure, Notice, Topics};

/// The message group of alarms in FIFO topics.
const GROUP: &str = "alarms";

impl Topics for Sns {
    fn publish(&self, account: &str, notice: &Notice<'_>) -> Result<(), Failure> {
        // It waits for a commit only, which wakes it from another thread.
        block_on(self.publish_notice(account, notice)).map_err(|error| match error.status {
            500.. => Failure::NotNow(error.message.into_owned()),
            _ => Failure::Never(error.message.into_owned()),
        })
    }
}

impl Sns {
    async fn publish_notice(&self, account: &str, notice: &Notice<'_>) -> Result<(), ApiError> {
        let topic = self.topics.topic(notice.topic).ok_or_else(super::error::no_such_topic)?;
        let snapshot = topic.snapshot();
        if self.fan_out.is_guarded && snapshot.document.account != account {
            return Err(super::error::not_authorized("the topic is of another account".to_owned()));
        }
        let text = |text: &str| Some(text.to_owned());
        let input = Publish {
            message: text(notice.message),
            subject: text(notice.subject),
            message_group_id: topic.is_fifo().then(|| GROUP.to_owned()),
            message_deduplication_id: topic.is_fifo().then(|| notice.deduplication_id.to_owned()),
            ..Publish::default()
        };
        let message = Draft::of(&input).checked(topic.is_fifo(), &snapshot.settings)?;
        let source = Source { origin: &self.endpoint, trace_header: "" };
        let (_, ticket) = self.accept(source, &topic, &snapshot, &[message]).await?;
        self.topics.committed(ticket).await
    }
}
