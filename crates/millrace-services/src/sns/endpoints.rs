//! The HTTP endpoints of subscriptions, as `/metrics` counts them.

use std::sync::Arc;

use millrace_push::Push;

use super::Sns;
use super::subscription::Subscription;
use crate::telemetry::{Posted, Posting};

impl Posting for Sns {
    fn posted(&self, push: &Push) -> Vec<Posted> {
        let posted = |subscription: Arc<Subscription>| {
            let queue = self.topics.queue(subscription.target())?;
            let figures = push.endpoint_figures(queue.id()).unwrap_or_default();
            let arn = subscription.arn().to_owned();
            Some(Posted {
                // The topic's.
                account: arn.split(':').nth(4).unwrap_or_default().to_owned(),
                arn,
                endpoints: 1,
                failing: figures.latest_error.is_some().into(),
                waiting: queue.counts().total(),
                counts: figures.counts,
            })
        };
        self.topics.http_subscriptions().into_iter().filter_map(posted).collect()
    }
}
