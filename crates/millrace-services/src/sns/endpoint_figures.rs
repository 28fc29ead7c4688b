//! Figures of deliveries by HTTP for Prometheus: of all endpoints together, and of some by themselves.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millrace_core::may_take;
use millrace_push::{EndpointFigures, Push, PushFigures};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::subscription::Subscription;
use super::topics::Topics;
use crate::telemetry::Series;

/// The series.
pub(crate) struct EndpointSeries {
    pub(super) push: Arc<Push>,
    pub(super) topics: Arc<Topics>,
    /// Endpoints of an account that have series of their own: those with most to deliver.
    pub(super) top: usize,
}

/// Name, help and figure.
type Counted = (&'static str, &'static str, fn(&PushFigures) -> u64);

const COUNTED: [Counted; 5] = [
    ("attempts", "Requests to HTTP endpoints of topics", |counts| counts.attempts),
    ("delivered", "Deliveries by HTTP that succeeded", |counts| counts.delivered),
    ("retried", "Requests that failed and are to be repeated", |counts| counts.retried),
    ("failed", "Deliveries by HTTP that were given up", |counts| counts.failed),
    ("redriven", "Deliveries given up that a dead-letter queue got", |counts| counts.redriven),
];

/// An endpoint at the moment of the scrape.
struct Seen {
    subscription: Arc<Subscription>,
    /// Messages that are to be delivered, those under way included.
    waiting: u64,
    figures: EndpointFigures,
}

impl Seen {
    fn labels(&self) -> [(&'static str, &str); 1] {
        [("subscription", self.subscription.arn())]
    }

    /// The account of the topic.
    fn account(&self) -> &str {
        self.subscription.arn().split(':').nth(4).unwrap_or_default()
    }
}

impl EndpointSeries {
    fn all(&self) -> Vec<Seen> {
        let subscriptions = self.topics.http_subscriptions().into_iter();
        let seen = |subscription: Arc<Subscription>| {
            let queue = self.topics.queue(subscription.target())?;
            let figures = self.push.endpoint_figures(queue.id()).unwrap_or_default();
            Some(Seen { waiting: queue.counts().total(), figures, subscription })
        };
        subscriptions.filter_map(seen).collect()
    }

    fn encode_all(&self, encoder: &mut DescriptorEncoder<'_>, all: &[Seen]) -> fmt::Result {
        let figures = self.push.figures();
        for (name, help, of) in COUNTED {
            let name = &format!("millrace_push_{name}");
            Series::new(name, help).counter(encoder, of(&figures))?;
        }
        let waiting = all.iter().map(|seen| seen.waiting).sum();
        let failing = all.iter().filter(|seen| seen.figures.latest_error.is_some()).count();
        for (name, help, value) in [
            ("millrace_push_in_flight", "Requests under way", figures.under_way),
            ("millrace_push_waiting", "Messages to be delivered by HTTP", waiting),
            ("millrace_push_endpoints", "HTTP endpoints of topics", all.len() as u64),
            (
                "millrace_push_failing_endpoints",
                "HTTP endpoints whose latest delivery failed",
                failing as u64,
            ),
        ] {
            Series::new(name, help).gauge(encoder, value)?;
        }
        Ok(())
    }
}

/// The endpoints that have series of their own.
fn shown(mut all: Vec<Seen>, top: usize) -> Vec<Seen> {
    all.sort_by_cached_key(|seen| Reverse((seen.waiting, seen.figures.counts.attempts)));
    let (mut of_all, mut by_account) = (0, HashMap::<String, usize>::new());
    all.retain(|seen| {
        let of_account = by_account.entry(seen.account().to_owned()).or_default();
        let has_room = may_take(*of_account, of_all, top);
        of_all += usize::from(has_room);
        *of_account += usize::from(has_room);
        has_room
    });
    all
}

fn encode_each(encoder: &mut DescriptorEncoder<'_>, shown: &[Seen]) -> fmt::Result {
    let waiting = shown.iter().map(|seen| (seen.labels(), seen.waiting));
    let help = "Messages to be delivered to an endpoint";
    Series::new("millrace_push_endpoint_waiting", help).gauges(encoder, waiting)?;
    for (name, help, of) in COUNTED {
        let name = &format!("millrace_push_endpoint_{name}");
        let counts = shown.iter().map(|seen| (seen.labels(), of(&seen.figures.counts)));
        Series::new(name, help).counters(encoder, counts)?;
    }
    Ok(())
}

impl fmt::Debug for EndpointSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EndpointSeries").field("top", &self.top).finish_non_exhaustive()
    }
}

impl Collector for EndpointSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.all();
        self.encode_all(&mut encoder, &all)?;
        encode_each(&mut encoder, &shown(all, self.top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sns::subscription::Protocol;
    use crate::sns::subscription::tests::document;

    #[test]
    fn endpoints_with_most_to_deliver_have_series_and_do_not_hide_those_of_other_accounts() {
        let seen = |account: &str, waiting: u64| {
            let mut document = document(Protocol::Http, "http://receiver/");
            document.arn = format!("arn:aws:sns:us-east-1:{account}:t:{waiting}");
            let subscription = Arc::new(Subscription::new(document));
            Seen { subscription, waiting, figures: EndpointFigures::default() }
        };
        let of_one = (100..150).map(|waiting| seen("111111111111", waiting));
        let all = || of_one.clone().chain([seen("222222222222", 1)]).collect::<Vec<Seen>>();

        let waiting: Vec<u64> = shown(all(), 10).iter().map(|seen| seen.waiting).collect();

        assert_eq!((waiting[0], waiting[9], waiting[10], waiting.len()), (149, 140, 1, 11));
        assert!(shown(all(), 0).is_empty());
    }
}
