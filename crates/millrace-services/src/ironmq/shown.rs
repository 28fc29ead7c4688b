//! What people see of IronMQ's settings: a queue in the console, its endpoints in `/metrics`.
//! Secrets are left out: subscribers' headers, and what the parameters of their URLs say.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use millrace_broker::SharedQueue;
use millrace_push::{EndpointFigures, Push};

use super::IronMq;
use super::push::Pushers;
use super::settings::{
    Alert, AlertKind, Direction, IronSettings, QueueType, SubscribedQueue, Subscriber,
};
use crate::telemetry::{Posted, Posting};

/// Stands for a secret.
const MASK: &str = "***";

/// What IronMQ says of a queue beyond SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IronMqQueue {
    /// `pull`, `multicast` or `unicast`.
    pub kind: &'static str,
    pub is_push: bool,
    /// Attempts after the first.
    pub retries: u32,
    pub retries_delay_s: u32,
    /// Empty if there is none.
    pub error_queue: String,
    pub subscribers: Vec<IronMqSubscriber>,
    /// Reason for the failure of the latest delivery of a unicast queue, whose subscribers share
    /// their messages.
    pub latest_error: Option<String>,
    pub alerts: Vec<IronMqAlert>,
}

/// A subscriber of a push queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IronMqSubscriber {
    pub name: String,
    pub url: String,
    /// The queue that it is, if it is one.
    pub queue: Option<String>,
    /// Messages that are to be delivered. `None` in a unicast queue: they wait in the queue itself.
    pub waiting: Option<u64>,
    /// Reason for the failure of the latest delivery.
    pub latest_error: Option<String>,
}

/// An alert of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IronMqAlert {
    /// `fixed` or `progressive`.
    pub kind: &'static str,
    /// `asc` or `desc`.
    pub direction: &'static str,
    pub trigger: u64,
    /// The queue that gets the alert's messages.
    pub queue: String,
    pub snooze_s: u64,
}

impl IronMq {
    /// What IronMQ says of a queue; `None` if its settings are those of any queue.
    pub(crate) fn overview(&self, queue: &SharedQueue) -> Option<IronMqQueue> {
        let settings = self.pushers.settings(queue);
        if **settings == IronSettings::default() {
            return None;
        }
        let is_unicast = settings.kind == QueueType::Unicast;
        let own = if is_unicast { self.pushers.figures(queue) } else { None };
        let hidden: HashMap<String, Arc<SharedQueue>> = match is_unicast {
            true => HashMap::new(),
            false => self.pushers.hidden(queue).into_iter().map(|(it, to)| (it.name, to)).collect(),
        };
        let subscriber = |it: &Subscriber| {
            let hidden = hidden.get(&it.name);
            let figures = hidden.and_then(|hidden| self.pushers.figures(hidden));
            let waiting = hidden.map_or(0, |hidden| hidden.counts().total());
            IronMqSubscriber {
                // Version 1 has no names: there it is the URL.
                name: masked(&it.name).into_owned(),
                url: masked(&it.url).into_owned(),
                queue: SubscribedQueue::of(&it.url).map(|it| it.0.into_owned()),
                waiting: (!is_unicast).then_some(waiting),
                latest_error: figures.and_then(|it| it.latest_error).map(|it| it.text),
            }
        };
        Some(IronMqQueue {
            kind: settings.kind.name(),
            is_push: settings.is_push(),
            retries: settings.push.retries,
            retries_delay_s: settings.push.retries_delay_s,
            error_queue: settings.push.error_queue.clone(),
            subscribers: settings.push.subscribers.iter().map(subscriber).collect(),
            latest_error: own.and_then(|it| it.latest_error).map(|it| it.text),
            alerts: settings.alerts.iter().map(IronMqAlert::of).collect(),
        })
    }

    /// The type of a push queue.
    pub(crate) fn push_type(&self, queue: &SharedQueue) -> Option<&'static str> {
        let settings = self.pushers.settings(queue);
        settings.is_push().then(|| settings.kind.name())
    }
}

impl IronMqAlert {
    fn of(alert: &Alert) -> IronMqAlert {
        IronMqAlert {
            kind: match alert.kind {
                AlertKind::Fixed => "fixed",
                AlertKind::Progressive => "progressive",
            },
            direction: match alert.direction {
                Direction::Asc => "asc",
                Direction::Desc => "desc",
            },
            trigger: alert.trigger,
            queue: alert.queue.clone(),
            snooze_s: alert.snooze_s,
        }
    }
}

impl Posting for IronMq {
    fn posted(&self, _push: &Push) -> Vec<Posted> {
        let queues = self.pushers.shards.catalog().queues();
        queues.iter().filter_map(|queue| posted(&self.pushers, queue)).collect()
    }
}

/// A push queue with its HTTP endpoints, if it has any. They are counted together: the names that
/// clients choose are no labels.
fn posted(pushers: &Pushers, queue: &SharedQueue) -> Option<Posted> {
    let settings = pushers.settings(queue);
    let is_http = |it: &Subscriber| SubscribedQueue::of(&it.url).is_none();
    let endpoints = settings.push.subscribers.iter().filter(|it| is_http(it)).count() as u64;
    if !settings.is_push() || endpoints == 0 {
        return None;
    }
    let account = queue.key().account.clone();
    let mut posted =
        Posted { arn: queue.arn().to_owned(), account, endpoints, ..Posted::default() };
    if settings.kind == QueueType::Unicast {
        let figures = pushers.figures(queue).unwrap_or_default();
        // One of them failed, and it is not known here which.
        add(&mut posted, queue.counts().total(), &figures);
        return Some(posted);
    }
    for (subscriber, hidden) in pushers.hidden(queue) {
        if is_http(&subscriber) {
            let figures = pushers.figures(&hidden).unwrap_or_default();
            add(&mut posted, hidden.counts().total(), &figures);
        }
    }
    Some(posted)
}

fn add(posted: &mut Posted, waiting: u64, figures: &EndpointFigures) {
    posted.waiting += waiting;
    posted.failing += u64::from(figures.latest_error.is_some());
    let (sum, counts) = (&mut posted.counts, &figures.counts);
    sum.attempts += counts.attempts;
    sum.delivered += counts.delivered;
    sum.retried += counts.retried;
    sum.failed += counts.failed;
    sum.redriven += counts.redriven;
    sum.under_way += counts.under_way;
}

/// A URL without what its parameters say: one of them may be a token. Users and passwords are not
/// allowed in it.
fn masked(url: &str) -> Cow<'_, str> {
    let Some((before, query)) = url.split_once('?').filter(|_| url.contains("://")) else {
        return Cow::Borrowed(url);
    };
    let parameters: Vec<String> = query.split('&').map(masked_parameter).collect();
    format!("{before}?{}", parameters.join("&")).into()
}

/// One without a name is all secret.
fn masked_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((_, "")) => parameter.to_owned(),
        Some((name, _)) => format!("{name}={MASK}"),
        None if parameter.is_empty() => String::new(),
        None => MASK.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_what_their_parameters_say() {
        for (url, shown) in [
            ("http://host:8080/in", "http://host:8080/in"),
            ("https://host/hook?oauth=secret&a=&b", "https://host/hook?oauth=***&a=&***"),
            ("http://host?x=1#y=2", "http://host?x=***"),
            ("http://host?x==1?&&", "http://host?x=***&&"),
            ("http://\u{e9}/?\u{e9}=\u{e9}", "http://\u{e9}/?\u{e9}=***"),
            ("ironmq:///a%20b", "ironmq:///a%20b"),
            ("a name?x=1", "a name?x=1"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
