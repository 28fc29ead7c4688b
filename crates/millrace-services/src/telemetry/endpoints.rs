//! Figures of deliveries by HTTP for Prometheus: of all endpoints together, and of some by themselves.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millrace_core::may_take;
use millrace_push::{Push, PushFigures};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::series::Series;

/// A service that posts messages to HTTP endpoints.
pub(crate) trait Posting: Send + Sync {
    /// Its endpoints at this moment.
    fn posted(&self, push: &Push) -> Vec<Posted>;
}

/// A subscription to a topic, or a push queue with all its subscribers, at the moment of the scrape.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    pub arn: String,
    pub account: String,
    /// HTTP endpoints, and those of them whose latest delivery failed.
    pub endpoints: u64,
    pub failing: u64,
    /// Messages that are to be delivered, those under way included.
    pub waiting: u64,
    pub counts: PushFigures,
}

/// The series.
pub(crate) struct EndpointSeries {
    pub push: Arc<Push>,
    pub services: Vec<Arc<dyn Posting>>,
    /// Subscriptions and push queues of an account that have series of their own: those with most
    /// to deliver.
    pub top: usize,
}

/// Name, help and figure.
type Counted = (&'static str, &'static str, fn(&PushFigures) -> u64);

const COUNTED: [Counted; 5] = [
    ("attempts", "Requests to HTTP endpoints", |counts| counts.attempts),
    ("delivered", "Deliveries by HTTP that succeeded", |counts| counts.delivered),
    ("retried", "Requests that failed and are to be repeated", |counts| counts.retried),
    ("failed", "Deliveries by HTTP that were given up", |counts| counts.failed),
    ("redriven", "Deliveries given up that another queue got", |counts| counts.redriven),
];

impl EndpointSeries {
    fn all(&self) -> Vec<Posted> {
        self.services.iter().flat_map(|service| service.posted(&self.push)).collect()
    }

    fn encode_all(&self, encoder: &mut DescriptorEncoder<'_>, all: &[Posted]) -> fmt::Result {
        let figures = self.push.figures();
        for (name, help, of) in COUNTED {
            let name = &format!("millrace_push_{name}");
            Series::new(name, help).counter(encoder, of(&figures))?;
        }
        let sum = |of: fn(&Posted) -> u64| all.iter().map(of).sum::<u64>();
        let waiting = sum(|posted| posted.waiting);
        let endpoints = sum(|posted| posted.endpoints);
        let failing = sum(|posted| posted.failing);
        for (name, help, value) in [
            ("millrace_push_in_flight", "Requests under way", figures.under_way),
            ("millrace_push_waiting", "Messages to be delivered by HTTP", waiting),
            ("millrace_push_endpoints", "HTTP endpoints of topics and push queues", endpoints),
            (
                "millrace_push_failing_endpoints",
                "HTTP endpoints whose latest delivery failed",
                failing,
            ),
        ] {
            Series::new(name, help).gauge(encoder, value)?;
        }
        Ok(())
    }
}

/// Those that have series of their own.
fn shown(mut all: Vec<Posted>, top: usize) -> Vec<Posted> {
    all.sort_by_cached_key(|posted| Reverse((posted.waiting, posted.counts.attempts)));
    let (mut of_all, mut by_account) = (0, HashMap::<String, usize>::new());
    all.retain(|posted| {
        let of_account = by_account.entry(posted.account.clone()).or_default();
        let has_room = may_take(*of_account, of_all, top);
        of_all += usize::from(has_room);
        *of_account += usize::from(has_room);
        has_room
    });
    all
}

fn encode_each(encoder: &mut DescriptorEncoder<'_>, shown: &[Posted]) -> fmt::Result {
    let labels = |posted: &Posted| [("subscription", posted.arn.clone())];
    let waiting = shown.iter().map(|posted| (labels(posted), posted.waiting));
    let help = "Messages to be delivered to an endpoint";
    Series::new("millrace_push_endpoint_waiting", help).gauges(encoder, waiting)?;
    for (name, help, of) in COUNTED {
        let name = &format!("millrace_push_endpoint_{name}");
        let counts = shown.iter().map(|posted| (labels(posted), of(&posted.counts)));
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

    #[test]
    fn endpoints_with_most_to_deliver_have_series_and_do_not_hide_those_of_other_accounts() {
        let seen = |account: &str, waiting: u64| Posted {
            account: account.to_owned(),
            waiting,
            ..Posted::default()
        };
        let of_one = (100..150).map(|waiting| seen("111111111111", waiting));
        let all = || of_one.clone().chain([seen("222222222222", 1)]).collect::<Vec<Posted>>();

        let waiting: Vec<u64> = shown(all(), 10).iter().map(|posted| posted.waiting).collect();

        assert_eq!((waiting[0], waiting[9], waiting[10], waiting.len()), (149, 140, 1, 11));
        assert!(shown(all(), 0).is_empty());
    }
}
