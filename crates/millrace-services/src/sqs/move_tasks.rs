//! StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_broker::{
    MoveTask, MoveTaskError, MoveTaskFailure, MoveTaskStatus, SharedQueue, StartMoveTask,
};
use millrace_core::{Arn, limits};
use millrace_wire::ApiError;
use millrace_wire::sqs::{
    Action, Answer, CancelMessageMoveTask, ListMessageMoveTasks, MoveTaskResult,
    StartMessageMoveTask,
};
use serde::Deserialize;
use serde_json::json;

use super::{Sqs, actions, bounded, error, required};
use crate::authorize::{Context, authorize};
use crate::principal::Caller;
use crate::service::Call;

/// What a task's handle says. Clients may put into one whatever they like, which is passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handle {
    task_id: String,
    source_arn: String,
}

impl Sqs {
    /// The queue whose messages are, or are to be, moved.
    pub(super) fn source_of_task(&self, input: &Action<'_>) -> Result<Arc<SharedQueue>, ApiError> {
        let arn = match input {
            Action::StartMessageMoveTask(StartMessageMoveTask { source_arn, .. })
            | Action::ListMessageMoveTasks(ListMessageMoveTasks { source_arn, .. }) => {
                Cow::Borrowed(required(source_arn.as_ref(), "SourceArn")?)
            }
            Action::CancelMessageMoveTask(input) => Cow::Owned(task_of(input)?.1),
            _ => return Err(ApiError::internal_failure()),
        };
        self.queue_of_parameter(&arn, "SourceArn")
    }

    pub(super) async fn start_message_move_task(
        &self,
        call: &Call<'_>,
        source: &Arc<SharedQueue>,
        input: &StartMessageMoveTask<'_>,
    ) -> Result<Answer, ApiError> {
        let destination = match &input.destination_arn {
            Some(arn) => Some(self.queue_of_parameter(arn, "DestinationArn")?),
            None => None,
        };
        let permission = &actions::START_MESSAGE_MOVE_TASK.permission;
        let Caller { principal, region, .. } = call.caller;
        authorize(principal, permission, destination.as_ref(), Context { region })?;
        if self.shards.catalog().dead_letter_sources(source.key(), None, 1).is_empty() {
            return Err(ApiError::invalid_parameter_value(
                "Source queue must be configured as a Dead Letter Queue.",
            ));
        }
        if let Some(destination) = &destination {
            if destination.id() == source.id() {
                return Err(ApiError::invalid_parameter_value(
                    "Source queue arn and destination queue arn cannot be the same.",
                ));
            }
            if destination.kind() != source.kind() {
                return Err(ApiError::invalid_parameter_value(
                    "Source and destination queues must be of the same type.",
                ));
            }
        }
        let max_per_second = input.max_number_of_messages_per_second.map(|rate| {
            let reason = "Must be between 1 and 500, if provided.";
            bounded(rate, &limits::MOVE_TASK_RATE, "MaxNumberOfMessagesPerSecond", reason)
        });
        let start = StartMoveTask {
            source: source.key().clone(),
            destination: destination.map(|queue| queue.key().clone()),
            max_per_second: max_per_second.transpose()?,
        };
        let shard = self.shards.shard_of(source).map_err(error::of_broker)?;
        let id = shard.move_tasks().start(&start).await.map_err(error::of_move_task)?;
        Ok(Answer::StartMessageMoveTask { task_handle: task_handle(&id, source.arn()) })
    }

    pub(super) async fn cancel_message_move_task(
        &self,
        source: &Arc<SharedQueue>,
        input: &CancelMessageMoveTask<'_>,
    ) -> Result<Answer, ApiError> {
        let (id, _) = task_of(input)?;
        // The handle's ARN is only said by the client: the task must really be of that queue.
        let shard = self.shards.shard_of(source).map_err(error::of_broker)?;
        let tasks = shard.move_tasks();
        if !tasks.of_source(source.key(), usize::MAX).iter().any(|task| task.id == id) {
            return Err(error::of_move_task(MoveTaskError::NoSuchTask));
        }
        let moved = tasks.cancel(&id).await.map_err(error::of_move_task)?;
        Ok(Answer::CancelMessageMoveTask { moved })
    }

    pub(super) fn list_message_move_tasks(
        &self,
        source: &Arc<SharedQueue>,
        input: &ListMessageMoveTasks<'_>,
    ) -> Result<Answer, ApiError> {
        let limit = bounded(
            input.max_results.unwrap_or(1),
            &limits::MOVE_TASK_RESULTS,
            "MaxResults",
            "Must be between 1 and 10, if provided.",
        )?;
        let shard = self.shards.shard_of(source).map_err(error::of_broker)?;
        let tasks = shard.move_tasks().of_source(source.key(), limit as usize);
        Ok(Answer::ListMessageMoveTasks { results: tasks.into_iter().map(result).collect() })
    }

    /// The queue that an ARN parameter names.
    fn queue_of_parameter(&self, arn: &str, parameter: &str) -> Result<Arc<SharedQueue>, ApiError> {
        let arn = Arn::parse(arn).ok_or_else(|| {
            ApiError::invalid_parameter_value(format!(
                "You must use this format to specify the {parameter}: \
                 arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
            ))
        })?;
        let queue = arn.queue().and_then(|key| self.shards.catalog().queue_by_key(&key));
        queue.ok_or_else(|| {
            error::resource_not_found(format!(
                "The resource that you specified for the {parameter} parameter doesn't exist."
            ))
        })
    }
}

/// The id and the source's ARN in the handle of a task that is to be cancelled.
fn task_of(input: &CancelMessageMoveTask<'_>) -> Result<(String, String), ApiError> {
    let handle = required(input.task_handle.as_ref(), "TaskHandle")?;
    open_task_handle(handle).ok_or_else(|| {
        ApiError::invalid_parameter_value("Value for parameter TaskHandle is invalid.")
    })
}

fn result(task: MoveTask) -> MoveTaskResult {
    let is_running = task.status == MoveTaskStatus::Running;
    MoveTaskResult {
        task_handle: is_running.then(|| task_handle(&task.id, &task.source)),
        status: match task.status {
            MoveTaskStatus::Running => "RUNNING",
            MoveTaskStatus::Completed => "COMPLETED",
            MoveTaskStatus::Cancelled => "CANCELLED",
            MoveTaskStatus::Failed => "FAILED",
        },
        source_arn: task.source,
        destination_arn: task.destination,
        max_number_of_messages_per_second: task.max_per_second.map(u64::from),
        moved: task.moved,
        to_move: Some(task.to_move),
        failure_reason: task.failure.map(|failure| match failure {
            MoveTaskFailure::NoDestination => error::queue_does_not_exist().code.to_owned(),
            MoveTaskFailure::NoSource => "CouldNotDetermineMessageSource".to_owned(),
        }),
        started_timestamp: task.started_ms,
    }
}

/// Opaque to clients: base64 of a JSON document with task id and source ARN.
fn task_handle(id: &str, source_arn: &str) -> String {
    STANDARD.encode(json!({ "taskId": id, "sourceArn": source_arn }).to_string())
}

fn open_task_handle(handle: &str) -> Option<(String, String)> {
    let handle: Handle = serde_json::from_slice(&STANDARD.decode(handle).ok()?).ok()?;
    Some((handle.task_id, handle.source_arn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_tasks_open_and_what_is_none_does_not() {
        let handle = task_handle("id", "arn");
        assert_eq!(open_task_handle(&handle), Some(("id".to_owned(), "arn".to_owned())));
        let encoded = |text: &str| STANDARD.encode(text);
        for other in ["", "x", &encoded("x"), &encoded("{}"), &encoded(r#"{"taskId":"id"}"#)] {
            assert_eq!(open_task_handle(other), None, "{other}");
        }
    }
}
