//! Amazon SQS: the 23 actions. Each file holds a group of them; [`error`] assigns all codes,
//! [`check`] and [`attributes`] all rules about messages and queue attributes.

mod access;
mod attributes;
mod batch;
mod check;
mod declare;
mod error;
mod listings;
mod move_tasks;
mod peek;
mod permissions;
mod policies;
mod policy_document;
mod queues;
mod receive;
mod recently_deleted;
mod send;
mod settle;
mod side_by_side;
mod tags;
mod trace;

use std::ops::RangeInclusive;
use std::sync::Arc;

use millrace_broker::{Definition, Shards, SharedQueue};
use millrace_core::{QueueKey, Timestamp, is_account, limits};
use millrace_otel::RequestSpan;
use millrace_wire::protocol::{PathQueue, Protocol, Target, parse_queue_url};
use millrace_wire::query::Parameters;
use millrace_wire::sqs::{Action, Answer, Text, decode_json, decode_query};
use millrace_wire::{ApiError, Request, RequestOrigin};

pub(crate) use access::allows;
pub use declare::DeclaredQueue;
pub(crate) use peek::{Peek, Shown, as_json};
use recently_deleted::RecentlyDeleted;

use crate::access_keys::AccessKeys;
use crate::auth::Caller;

/// What of SQS is a matter of configuration.
#[derive(Clone, Debug, Default)]
pub struct SqsOptions {
    /// Queue URLs begin with this instead of what the request's Host says.
    pub public_url: Option<String>,
    /// A deleted queue's name may be used again only after 60 seconds.
    pub recreate_cool_down: bool,
}

/// The service.
pub(crate) struct Sqs {
    shards: Arc<Shards>,
    access_keys: AccessKeys,
    options: SqsOptions,
    deleted: RecentlyDeleted,
}

/// One request, apart from its action's parameters.
pub(crate) struct SqsRequest<'a> {
    pub caller: &'a Caller<'a>,
    /// X-Ray header, if the client set it; else the span's, if the request is traced.
    pub trace_header: Option<&'a str>,
    pub span: &'a RequestSpan,
    /// Where queue URLs come from.
    pub http: &'a Request<'a>,
    pub action: &'a str,
    pub path_queue: Option<PathQueue<'a>>,
}

/// Whether something is asked for by a request of its own or as an entry of a batch: AWS has other
/// words for some refusals of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Alone,
    InBatch,
}

impl Sqs {
    pub(crate) fn new(shards: Arc<Shards>, access_keys: AccessKeys, options: SqsOptions) -> Sqs {
        Sqs { shards, access_keys, options, deleted: RecentlyDeleted::default() }
    }

    /// Answers one request.
    pub(crate) async fn call(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
        parameters: &Parameters<'_>,
        caller: &Caller<'_>,
        span: &RequestSpan,
    ) -> Result<Answer, ApiError> {
        let action = match target.protocol {
            Protocol::Json => decode_json(&target.action, request.body)?,
            // Signed for SQS, to the path of another service.
            Protocol::Cbor => return Err(ApiError::unknown_operation()),
            Protocol::Query | Protocol::QueryAsJson => {
                check_query_action(target)?;
                decode_query(&target.action, parameters)?
            }
        };
        let trace_header = request.header("x-amzn-trace-id");
        let trace_header = trace_header.filter(|text| text.len() <= check::TRACE_HEADER_BYTES);
        let own_trace_header = trace::header_of_messages(span, &action);
        let sqs_request = SqsRequest {
            caller,
            trace_header: trace_header.or(own_trace_header.as_deref()),
            span,
            http: request,
            action: &target.action,
            path_queue: target.path_queue,
        };
        trace::asked(span, &action);
        let answer = self.act(&sqs_request, &action).await?;
        trace::answered(span, &answer);
        Ok(answer)
    }

    async fn act(&self, request: &SqsRequest<'_>, action: &Action<'_>) -> Result<Answer, ApiError> {
        match action {
            Action::AddPermission(input) => self.add_permission(request, input).await,
            Action::CancelMessageMoveTask(input) => {
                self.cancel_message_move_task(request, input).await
            }
            Action::ChangeMessageVisibility(input) => {
                self.change_message_visibility(request, input).await
            }
            Action::ChangeMessageVisibilityBatch(input) => {
                self.change_message_visibility_batch(request, input).await
            }
            Action::CreateQueue(input) => self.create_queue(request, input).await,
            Action::DeleteMessage(input) => self.delete_message(request, input).await,
            Action::DeleteMessageBatch(input) => self.delete_message_batch(request, input).await,
            Action::DeleteQueue(input) => self.delete_queue(request, input).await,
            Action::GetQueueAttributes(input) => self.get_queue_attributes(request, input).await,
            Action::GetQueueUrl(input) => self.get_queue_url(request, input),
            Action::ListDeadLetterSourceQueues(input) => {
                self.list_dead_letter_source_queues(request, input)
            }
            Action::ListMessageMoveTasks(input) => self.list_message_move_tasks(request, input),
            Action::ListQueues(input) => self.list_queues(request, input),
            Action::ListQueueTags(input) => self.list_queue_tags(request, input),
            Action::PurgeQueue(input) => self.purge_queue(request, input).await,
            Action::ReceiveMessage(input) => self.receive_message(request, input).await,
            Action::RemovePermission(input) => self.remove_permission(request, input).await,
            Action::SendMessage(input) => self.send_message(request, input).await,
            Action::SendMessageBatch(input) => self.send_message_batch(request, input).await,
            Action::SetQueueAttributes(input) => self.set_queue_attributes(request, input).await,
            Action::StartMessageMoveTask(input) => {
                self.start_message_move_task(request, input).await
            }
            Action::TagQueue(input) => self.tag_queue(request, input).await,
            Action::UntagQueue(input) => self.untag_queue(request, input).await,
        }
    }

    /// The queue that a request is about: the QueueUrl parameter wins over the path; hosts are not
    /// compared, and tell the region only if no signature does; a bare name is enough.
    fn queue(
        &self,
        request: &SqsRequest<'_>,
        queue_url: Option<&Text<'_>>,
    ) -> Result<Arc<SharedQueue>, ApiError> {
        let (region, account, name) = match (queue_url, &request.path_queue) {
            (Some(url), _) if url.starts_with("arn:") => {
                return Err(error::address_is_an_arn(url));
            }
            (Some(url), _) if !url.is_empty() => {
                let parts = parse_queue_url(url).ok_or_else(|| no_address(url))?;
                (parts.region, parts.account, parts.name)
            }
            (_, Some(path)) => (path.region, path.account, path.name),
            _ => return Err(ApiError::missing_parameter("QueueUrl")),
        };
        let caller = request.caller;
        let region = region.filter(|_| !caller.is_region_given).unwrap_or(&caller.region);
        // A word may be a part of a proxy's path; a number can only be meant for an account.
        let account = match account.filter(|a| a.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(account) if !is_account(account) => {
                let text = format!("The account {account} of the queue's address is not valid.");
                return Err(error::invalid_address(text));
            }
            account => account.unwrap_or(&caller.account),
        };
        trace::destination(request.span, name);
        let is_foreign = caller.is_authenticated && account != caller.account;
        let queue =
            self.shards.catalog().queue(region, account, name).ok_or_else(|| match is_foreign {
                true => error::queue_is_not_yours(),
                false => error::queue_does_not_exist(),
            })?;
        self.check_access(request, &queue)?;
        Ok(queue)
    }

    /// Callers of another account need the queue's policy.
    fn check_access(&self, request: &SqsRequest<'_>, queue: &SharedQueue) -> Result<(), ApiError> {
        let caller = request.caller;
        if !caller.is_authenticated || queue.key().account == caller.account {
            return Ok(());
        }
        let definition = queue.definition();
        let policy = definition.attributes.get("Policy").map(String::as_str);
        let arn = queue.arn();
        if access::allows(policy, arn, &caller.account, request.action) {
            return Ok(());
        }
        let action = access::permission(request.action).to_ascii_lowercase();
        Err(ApiError::access_denied(format!(
            "User: {} is not authorized to perform: sqs:{action} on resource: {arn} because no \
             resource-based policy allows the sqs:{action} action",
            caller.arn(&self.access_keys.all())
        )))
    }

    /// Changes a queue's definition in one step with reading it; returns once that is durable.
    async fn change(
        &self,
        queue: &SharedQueue,
        change: impl FnOnce(&mut Definition) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        self.shards.catalog().update_queue(queue, change).await.map_err(error::of_broker)?
    }

    fn queue_url(&self, request: &SqsRequest<'_>, key: &QueueKey) -> String {
        format!("{}/{}/{}", self.origin(request.http), key.account, key.name)
    }

    /// Where the client reached the server, so that it will again.
    fn origin<'a>(&'a self, request: &Request<'a>) -> Origin<'a> {
        if let Some(public) = &self.options.public_url {
            return Origin::Public(public.trim_end_matches('/'));
        }
        Origin::Requested(RequestOrigin::of(request))
    }
}

/// What queue URLs begin with: scheme, host and port, without a slash at the end.
enum Origin<'a> {
    /// As configured.
    Public(&'a str),
    /// As the client said.
    Requested(RequestOrigin<'a>),
}

impl std::fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Public(url) => f.write_str(url),
            Origin::Requested(origin) => origin.fmt(f),
        }
    }
}

/// The error for a URL that names no queue. As with Amazon, a host without a path counts as the
/// name of a queue that does not exist.
fn no_address(url: &str) -> ApiError {
    let behind_scheme = url.split_once("://").map_or(url, |(_, behind)| behind);
    if !behind_scheme.contains('/') {
        return error::queue_does_not_exist();
    }
    error::invalid_address(format!("The address {url} is not valid for this endpoint."))
}

/// On a queue's path only actions about that queue are valid.
fn check_query_action(target: &Target<'_>) -> Result<(), ApiError> {
    let is_about_all = matches!(&*target.action, "CreateQueue" | "ListQueues");
    if target.path_queue.is_some() && is_about_all {
        return Err(ApiError::invalid_action(&target.action));
    }
    Ok(())
}

/// A required text parameter.
fn required<'r>(value: Option<&'r Text<'_>>, name: &str) -> Result<&'r str, ApiError> {
    match value {
        Some(text) if !text.is_empty() => Ok(text.as_str()),
        _ => Err(ApiError::missing_parameter(name)),
    }
}

/// A number within `allowed`; `reason` is what clients are told of any other.
fn bounded(
    value: i64,
    allowed: &RangeInclusive<u64>,
    parameter: &str,
    reason: &str,
) -> Result<u32, ApiError> {
    match u64::try_from(value) {
        Ok(number) if allowed.contains(&number) => Ok(number as u32),
        _ => Err(error::invalid_value(value, parameter, reason)),
    }
}

/// Seconds that make up a cool-down, from an earlier instant.
fn is_within_cool_down(since: Timestamp, now: Timestamp) -> bool {
    now < since.plus_seconds(limits::COOL_DOWN_S)
}
