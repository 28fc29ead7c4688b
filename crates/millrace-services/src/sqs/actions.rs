//! The actions of SQS: how each names its queue, who may be allowed it, and the method that answers.

use std::sync::Arc;

use millrace_broker::SharedQueue;
use millrace_wire::ApiError;
use millrace_wire::sqs::{Action as Input, Answer, Text};

use super::Sqs;
use crate::service::{Action, Call};
use Names::{Nothing, QueueByName, QueueByUrl, SourceOfTask};

/// The ways in which a request names its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Not at all: it is about the caller's account as a whole.
    Nothing,
    /// By the parameter QueueUrl, or else by the path.
    QueueByUrl,
    /// By its name and owner.
    QueueByName,
    /// By the ARN, or the handle of a task, from which messages are moved.
    SourceOfTask,
}

/// All 23.
pub(super) static ACTIONS: [Action<Sqs>; 23] = [
    Action::new("AddPermission", QueueByUrl).of_owners(),
    Action::new("CancelMessageMoveTask", SourceOfTask).of_owners(),
    Action::new("ChangeMessageVisibility", QueueByUrl),
    Action::new("ChangeMessageVisibilityBatch", QueueByUrl).permitted_as("ChangeMessageVisibility"),
    Action::new("CreateQueue", Nothing).of_owners(),
    Action::new("DeleteMessage", QueueByUrl),
    Action::new("DeleteMessageBatch", QueueByUrl).permitted_as("DeleteMessage"),
    Action::new("DeleteQueue", QueueByUrl).of_owners(),
    Action::new("GetQueueAttributes", QueueByUrl),
    Action::new("GetQueueUrl", QueueByName),
    Action::new("ListDeadLetterSourceQueues", QueueByUrl),
    Action::new("ListMessageMoveTasks", SourceOfTask).of_owners(),
    Action::new("ListQueueTags", QueueByUrl).of_owners(),
    Action::new("ListQueues", Nothing).of_owners(),
    Action::new("PurgeQueue", QueueByUrl),
    RECEIVE_MESSAGE,
    Action::new("RemovePermission", QueueByUrl).of_owners(),
    SEND_MESSAGE,
    Action::new("SendMessageBatch", QueueByUrl).permitted_as("SendMessage"),
    Action::new("SetQueueAttributes", QueueByUrl).of_owners(),
    START_MESSAGE_MOVE_TASK,
    Action::new("TagQueue", QueueByUrl).of_owners(),
    Action::new("UntagQueue", QueueByUrl).of_owners(),
];

pub(super) const RECEIVE_MESSAGE: Action<Sqs> = Action::new("ReceiveMessage", QueueByUrl);
pub(super) const SEND_MESSAGE: Action<Sqs> = Action::new("SendMessage", QueueByUrl);
pub(super) const START_MESSAGE_MOVE_TASK: Action<Sqs> =
    Action::new("StartMessageMoveTask", SourceOfTask).of_owners();

/// The parameter QueueUrl.
pub(super) fn queue_url<'r>(input: &'r Input<'_>) -> Option<&'r Text<'r>> {
    let url = match input {
        Input::AddPermission(input) => &input.queue_url,
        Input::ChangeMessageVisibility(input) => &input.queue_url,
        Input::ChangeMessageVisibilityBatch(input) => &input.queue_url,
        Input::DeleteMessage(input) => &input.queue_url,
        Input::DeleteMessageBatch(input) => &input.queue_url,
        Input::DeleteQueue(input) | Input::ListQueueTags(input) | Input::PurgeQueue(input) => {
            &input.queue_url
        }
        Input::GetQueueAttributes(input) => &input.queue_url,
        Input::ListDeadLetterSourceQueues(input) => &input.queue_url,
        Input::ReceiveMessage(input) => &input.queue_url,
        Input::RemovePermission(input) => &input.queue_url,
        Input::SendMessage(input) => &input.queue_url,
        Input::SendMessageBatch(input) => &input.queue_url,
        Input::SetQueueAttributes(input) => &input.queue_url,
        Input::TagQueue(input) => &input.queue_url,
        Input::UntagQueue(input) => &input.queue_url,
        Input::CancelMessageMoveTask(_)
        | Input::CreateQueue(_)
        | Input::GetQueueUrl(_)
        | Input::ListMessageMoveTasks(_)
        | Input::ListQueues(_)
        | Input::StartMessageMoveTask(_) => return None,
    };
    url.as_ref()
}

impl Sqs {
    pub(super) async fn answer(
        &self,
        call: &Call<'_>,
        input: &Input<'_>,
        queue: Option<Arc<SharedQueue>>,
    ) -> Result<Answer, ApiError> {
        let Some(queue) = &queue else {
            return match input {
                // Rare and large: every request's future would have room for it.
                Input::CreateQueue(input) => Box::pin(self.create_queue(call, input)).await,
                Input::ListQueues(input) => self.list_queues(call, input),
                // `find` has looked up the queues of all others.
                _ => Err(ApiError::internal_failure()),
            };
        };
        match input {
            Input::AddPermission(input) => self.add_permission(queue, input).await,
            Input::CancelMessageMoveTask(input) => {
                self.cancel_message_move_task(queue, input).await
            }
            Input::ChangeMessageVisibility(input) => {
                self.change_message_visibility(queue, input).await
            }
            Input::ChangeMessageVisibilityBatch(input) => {
                self.change_message_visibility_batch(queue, input).await
            }
            Input::DeleteMessage(input) => self.delete_message(queue, input).await,
            Input::DeleteMessageBatch(input) => self.delete_message_batch(queue, input).await,
            Input::DeleteQueue(_) => self.delete_queue(queue).await,
            Input::GetQueueAttributes(input) => self.get_queue_attributes(queue, input).await,
            Input::GetQueueUrl(_) => {
                Ok(Answer::GetQueueUrl { queue_url: self.queue_url(call, queue.key()) })
            }
            Input::ListDeadLetterSourceQueues(input) => {
                self.list_dead_letter_source_queues(call, queue, input)
            }
            Input::ListMessageMoveTasks(input) => self.list_message_move_tasks(queue, input),
            Input::ListQueueTags(_) => Ok(self.list_queue_tags(queue)),
            Input::PurgeQueue(_) => self.purge_queue(queue).await,
            Input::ReceiveMessage(input) => self.receive_message(call, queue, input).await,
            Input::RemovePermission(input) => self.remove_permission(queue, input).await,
            Input::SendMessage(input) => self.send_message(call, queue, input).await,
            Input::SendMessageBatch(input) => self.send_message_batch(call, queue, input).await,
            Input::SetQueueAttributes(input) => self.set_queue_attributes(queue, input).await,
            Input::StartMessageMoveTask(input) => {
                self.start_message_move_task(call, queue, input).await
            }
            Input::TagQueue(input) => self.tag_queue(queue, input).await,
            Input::UntagQueue(input) => self.untag_queue(queue, input).await,
            Input::CreateQueue(_) | Input::ListQueues(_) => Err(ApiError::internal_failure()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_all_actions() {
        assert!(ACTIONS.iter().map(|action| action.name).eq(millrace_wire::sqs::ACTIONS));
    }

    /// Developer guide, "Limitations to custom policies".
    #[test]
    fn owners_alone_may_do_what_changes_queues() {
        let of_owners = ACTIONS.iter().filter(|action| action.permission.is_owner_only);
        let names: Vec<&str> = of_owners.map(|action| action.name).collect();
        assert_eq!(
            names,
            [
                "AddPermission",
                "CancelMessageMoveTask",
                "CreateQueue",
                "DeleteQueue",
                "ListMessageMoveTasks",
                "ListQueueTags",
                "ListQueues",
                "RemovePermission",
                "SetQueueAttributes",
                "StartMessageMoveTask",
                "TagQueue",
                "UntagQueue",
            ]
        );
    }

    #[test]
    fn a_batch_is_permitted_as_its_entries_are() {
        for action in &ACTIONS {
            let alone = action.name.strip_suffix("Batch").unwrap_or(action.name);
            assert_eq!(action.permission.action, alone, "{}", action.name);
        }
    }
}
