//! Amazon SQS: the 23 actions, which [`actions`] lists. Each file holds a group of them; [`error`]
//! assigns all codes, [`check`] and [`attributes`] all rules about messages and queue attributes.

mod actions;
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
use millrace_wire::protocol::{PathQueue, Protocol, ServiceMetadata, Target, parse_queue_url};
use millrace_wire::query::Parameters;
use millrace_wire::sqs::{self, Text, decode_json, decode_query};
use millrace_wire::{ApiError, Request, RequestOrigin, Response};

pub(crate) use actions::Names;
pub(crate) use check::{TRACE_HEADER_BYTES, is_sendable};
pub use declare::DeclaredQueue;
pub(crate) use peek::{Peek, Shown, as_json};
use recently_deleted::RecentlyDeleted;
pub(crate) use tags::is_allowed as is_allowed_in_tags;

use crate::authorize::{Context, Permission, Resource, authorize};
use crate::policy::Policy;
use crate::principal::{Caller, Principal};
use crate::service::{Action, AwsService, Call};

/// Answers from this size on, which servers may have no room for, can be taken back.
const MAY_BE_REFUSED_BYTES: usize = 32 << 10;

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
    options: SqsOptions,
    deleted: RecentlyDeleted,
}

/// Whether something is asked for by a request of its own or as an entry of a batch: AWS has other
/// words for some refusals of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Alone,
    InBatch,
}

impl SqsOptions {
    /// What URLs of this server begin with, for the sender of that request.
    pub(crate) fn origin<'a>(&'a self, request: &Request<'a>) -> Origin<'a> {
        if let Some(public) = &self.public_url {
            return Origin::Public(public.trim_end_matches('/'));
        }
        Origin::Requested(RequestOrigin::of(request))
    }
}

impl Sqs {
    pub(crate) fn new(shards: Arc<Shards>, options: SqsOptions) -> Sqs {
        Sqs { shards, options, deleted: RecentlyDeleted::default() }
    }

    /// The queue that a request is about: the QueueUrl parameter wins over the path; hosts are not
    /// compared, and tell the region only if no signature does; a bare name is enough.
    fn queue(
        &self,
        caller: &Caller<'_>,
        queue_url: Option<&Text<'_>>,
        path_queue: Option<&PathQueue<'_>>,
        span: &RequestSpan,
    ) -> Result<Arc<SharedQueue>, ApiError> {
        let (region, account, name) = match (queue_url, path_queue) {
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
        let principal = &caller.principal;
        let region = region.filter(|_| !caller.is_region_given).unwrap_or(&caller.region);
        // A word may be a part of a proxy's path; a number can only be meant for an account.
        let account = match account.filter(|a| a.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(account) if !is_account(account) => {
                let text = format!("The account {account} of the queue's address is not valid.");
                return Err(error::invalid_address(text));
            }
            account => account.unwrap_or(&principal.account),
        };
        trace::destination(span, name);
        self.shards.catalog().queue(region, account, name).ok_or_else(|| {
            match principal.is_foreign_to(account) {
                true => error::queue_is_not_yours(),
                false => error::queue_does_not_exist(),
            }
        })
    }

    /// Changes a queue's definition in one step with reading it; returns once that is durable.
    async fn change(
        &self,
        queue: &SharedQueue,
        change: impl FnOnce(&mut Definition) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        self.shards.catalog().update_queue(queue, change).await.map_err(error::of_broker)?
    }

    fn queue_url(&self, call: &Call<'_>, key: &QueueKey) -> String {
        format!("{}/{}/{}", self.origin(call.request), key.account, key.name)
    }

    /// Where the client reached the server, so that it will again.
    fn origin<'a>(&'a self, request: &Request<'a>) -> Origin<'a> {
        self.options.origin(request)
    }
}

impl AwsService for Sqs {
    const METADATA: &'static ServiceMetadata = &sqs::SERVICE;
    const ACTIONS: &'static [Action<Sqs>] = &actions::ACTIONS;

    type Input<'a> = sqs::Action<'a>;
    type Answer = sqs::Answer;
    type Names = Names;
    type Resource = Arc<SharedQueue>;

    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<sqs::Action<'a>, ApiError> {
        let target = call.target;
        match target.protocol {
            Protocol::Json => decode_json(&target.action, call.request.body),
            // Signed for SQS, to the path of another service.
            Protocol::Cbor => Err(ApiError::unknown_operation()),
            Protocol::Query | Protocol::QueryAsJson => {
                check_query_action(target)?;
                decode_query(&target.action, parameters)
            }
        }
    }

    fn find(
        &self,
        names: Names,
        call: &Call<'_>,
        input: &sqs::Action<'_>,
    ) -> Result<Option<Arc<SharedQueue>>, ApiError> {
        trace::asked(call.span, input);
        let queue = match names {
            Names::Nothing => return Ok(None),
            Names::QueueByUrl => {
                let path_queue = call.target.path_queue.as_ref();
                self.queue(call.caller, actions::queue_url(input), path_queue, call.span)
            }
            Names::QueueByName => self.queue_by_name(call.caller, input),
            Names::SourceOfTask => self.source_of_task(input),
        };
        queue.map(Some)
    }

    fn act<'a>(
        &self,
        call: &Call<'a>,
        input: &sqs::Action<'a>,
        queue: Option<Arc<SharedQueue>>,
    ) -> impl Future<Output = Result<sqs::Answer, ApiError>> + Send {
        self.answer(call, input, queue)
    }

    fn encode(&self, call: &Call<'_>, answer: sqs::Answer) -> Response {
        trace::answered(call.span, &answer);
        let Target { action, protocol, .. } = call.target;
        let mut response = sqs::response(&answer, action, *protocol, call.request_id);
        if response.body.len() >= MAY_BE_REFUSED_BYTES {
            response.unsent = self.unsent(&answer);
        }
        response
    }

    /// A caller must not learn that another account has a queue of some name.
    fn denied(action: &Action<Sqs>, error: ApiError) -> ApiError {
        if action.name == "GetQueueUrl" { error::queue_is_not_yours() } else { error }
    }
}

impl Resource for Arc<SharedQueue> {
    fn arn(&self) -> &str {
        SharedQueue::arn(self)
    }

    fn account(&self) -> &str {
        &self.key().account
    }

    fn policy(&self) -> Arc<Policy> {
        self.derived(|definition| {
            Policy::parse(definition.attributes.get("Policy").map(String::as_str))
        })
    }
}

/// Returns true if a queue lets an account send messages to it. For what the server does in the
/// account's name, without a request.
pub(crate) fn may_send(account: &str, queue: &Arc<SharedQueue>) -> bool {
    let permission: &Permission = &actions::SEND_MESSAGE.permission;
    let context = Context { region: &queue.key().region };
    authorize(&Principal::account(account), permission, Some(queue), context).is_ok()
}

/// What queue URLs begin with: scheme, host and port, without a slash at the end.
pub(crate) enum Origin<'a> {
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
