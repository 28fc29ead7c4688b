//! ListQueues and ListDeadLetterSourceQueues, page by page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_broker::SharedQueue;
use millrace_core::{QueueKey, limits};
use millrace_wire::ApiError;
use millrace_wire::sqs::{Answer, ListDeadLetterSourceQueues, ListQueues, Text};

use super::{Sqs, bounded, error};
use crate::principal::Caller;
use crate::service::Call;

/// The part of a listing that is asked for.
struct Page {
    limit: usize,
    /// The name of the last queue that the page before gave.
    after: Option<String>,
    /// Clients that name no MaxResults do not ask for a second page.
    has_token: bool,
}

impl Page {
    fn new(max_results: Option<i64>, token: Option<&Text<'_>>) -> Result<Page, ApiError> {
        let limit = bounded(
            max_results.unwrap_or(*limits::LIST_RESULTS.end() as i64),
            &limits::LIST_RESULTS,
            "MaxResults",
            "MaxResults must be an integer between 1 and 1000.",
        )?;
        let after = token.filter(|token| !token.is_empty()).map(|token| name_in(token));
        Ok(Page {
            limit: limit as usize,
            after: after.transpose()?,
            has_token: max_results.is_some(),
        })
    }
}

impl Sqs {
    pub(super) fn list_queues(
        &self,
        call: &Call<'_>,
        input: &ListQueues<'_>,
    ) -> Result<Answer, ApiError> {
        let page = Page::new(input.max_results, input.next_token.as_ref())?;
        let prefix = input.queue_name_prefix.as_ref().map(Text::as_str).unwrap_or_default();
        let Caller { principal, region, .. } = call.caller;
        // One more than asked for tells whether there is a next page.
        let (after, limit) = (page.after.as_deref(), page.limit + 1);
        let owner = (&**region, &*principal.account);
        let catalog = self.shards.catalog();
        let found = catalog.list_queues(owner, prefix, after, limit, has_url);
        let (queue_urls, next_token) = self.urls_and_token(call, found, &page);
        Ok(Answer::ListQueues { queue_urls, next_token })
    }

    pub(super) fn list_dead_letter_source_queues(
        &self,
        call: &Call<'_>,
        queue: &Arc<SharedQueue>,
        input: &ListDeadLetterSourceQueues<'_>,
    ) -> Result<Answer, ApiError> {
        let page = Page::new(input.max_results, input.next_token.as_ref())?;
        // A source is of its dead-letter queue's region and account.
        let QueueKey { region, account, .. } = queue.key();
        let after = page.after.as_deref().map(|name| QueueKey::new(region, account, name));
        let limit = page.limit + 1;
        let found = self.shards.catalog().dead_letter_sources(queue.key(), after.as_ref(), limit);
        let (queue_urls, next_token) = self.urls_and_token(call, found, &page);
        Ok(Answer::ListDeadLetterSourceQueues { queue_urls, next_token })
    }

    /// URLs of the page's queues, and the token for the next page if there is one.
    fn urls_and_token(
        &self,
        call: &Call<'_>,
        found: Vec<Arc<SharedQueue>>,
        page: &Page,
    ) -> (Vec<String>, Option<String>) {
        let has_token = page.has_token && found.len() > page.limit;
        let on_page = found.iter().take(page.limit);
        let urls: Vec<String> = on_page.map(|it| self.queue_url(call, it.key())).collect();
        let token = urls.last().filter(|_| has_token).map(|url| STANDARD.encode(url));
        (urls, token)
    }
}

/// Returns true for a name that the URL of a queue can say. Queues of IronMQ may have others.
pub(super) fn has_url(name: &str) -> bool {
    !name.contains(['/', '?', '#'])
}

/// The name in a token, which is the URL of the last queue of its page.
fn name_in(token: &str) -> Result<String, ApiError> {
    let url = STANDARD.decode(token).ok().and_then(|url| String::from_utf8(url).ok());
    let name = url.as_deref().and_then(|url| url.rsplit('/').next()).map(str::to_owned);
    let reason = "The token is not one of an earlier answer.";
    name.ok_or_else(|| error::invalid_value(token, "NextToken", reason))
}
