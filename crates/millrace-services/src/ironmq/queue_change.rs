//! A change of a queue's settings: checks a request and sets what it says in the definition.

use std::collections::BTreeMap;

use millrace_broker::{Redrive, Settings};
use millrace_core::{QueueKey, Url, limits};
use millrace_wire::Request;
use millrace_wire::ironmq::{Alert as AlertRequest, QueueRequest, Subscriber as SubscriberRequest};
use millrace_wire::sqs::Text;

use super::refusal::{Refusal, bounded};
use super::settings::{
    Alert, AlertKind, Direction, IronSettings, QueueType, SubscribedQueue, Subscriber,
};
use crate::sqs::SqsOptions;

/// All subscribers of a queue, as JSON.
const SUBSCRIBERS_BYTES_MAX: usize = 64 << 10;
const SUBSCRIBER_NAME_BYTES_MAX: usize = 1_024;
const SUBSCRIBER_URL_BYTES_MAX: usize = 4_096;
/// Headers of requests that a subscriber cannot choose.
const SERVER_HEADERS: [&str; 10] = [
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Expect",
    "Iron-Message-Id",
    "Iron-Reservation-Id",
    "Iron-Subscriber-Name",
    "Iron-Subscriber-Message-Id",
    "Iron-Subscriber-Message-Url",
];

impl IronSettings {
    /// Sets the type, which stays as it is once the queue is there, in version 3.
    fn set_type(&mut self, change: QueueChange<'_>, is_new: bool) -> Result<(), Refusal> {
        let of_v3 = change.request.r#type.as_ref().map(Text::as_str);
        let of_v1 = change.request.push_type.as_ref().map(Text::as_str);
        let name = of_v3.or(of_v1).unwrap_or_default();
        let has_push = change.request.push.is_some() || change.request.subscribers.is_some();
        let kind = match QueueType::parse(name)? {
            Some(kind) => kind,
            None if has_push && (is_new || change.is_type_changeable) && !self.is_push() => {
                QueueType::Multicast
            }
            None => return Ok(()),
        };
        if kind != self.kind && !is_new && !change.is_type_changeable {
            return Err(Refusal::new(403, "Queue type cannot be changed"));
        }
        if kind == QueueType::Pull && self.is_push() {
            self.push.subscribers.clear();
        }
        self.kind = kind;
        Ok(())
    }

    fn set_push(&mut self, change: QueueChange<'_>) -> Result<(), Refusal> {
        let request = change.request;
        let wrapped = request.push.as_ref();
        let subscribers = wrapped.and_then(|it| it.subscribers.as_ref());
        if let Some(given) = subscribers.or(request.subscribers.as_ref()) {
            let given: Result<Vec<_>, _> = given.0.iter().map(Subscriber::checked).collect();
            self.set_subscribers(given?, change.by)?;
        }
        let limits = (limits::ironmq::RETRIES_MAX, limits::ironmq::RETRIES_DELAY_MAX_S);
        let retries = wrapped.map_or(request.retries, |it| it.retries.or(request.retries));
        if let Some(retries) = bounded("retries", retries, 0, limits.0)? {
            self.push.retries = retries;
        }
        let delay = wrapped.map_or(request.retries_delay, |it| it.retries_delay);
        if let Some(delay) =
            bounded("retries_delay", delay, limits::ironmq::RETRIES_DELAY_MIN_S, limits.1)?
        {
            self.push.retries_delay_s = delay;
        }
        let error_queue = wrapped.and_then(|it| it.error_queue.as_ref());
        if let Some(name) = error_queue.or(request.error_queue.as_ref()) {
            if !name.is_empty() {
                check_name(name)?;
            }
            self.push.error_queue = name.as_str().to_owned();
        }
        Ok(())
    }
}

impl IronSettings {
    /// Sets alerts, or adds them to those that there are. What stays as it was keeps its id.
    fn set_alerts(&mut self, requests: &[AlertRequest<'_>], adds: bool) -> Result<(), Refusal> {
        let old = self.alerts.clone();
        if !adds {
            self.alerts.clear();
        }
        for request in requests {
            let mut new = Alert::checked(request, new_alert_id())?;
            let known = old.iter().find(|it| !adds && request.id.is_none() && it.is_like(&new));
            if let Some(known) = known {
                new.id.clone_from(&known.id);
            }
            match self.alerts.iter_mut().find(|it| it.id == new.id) {
                Some(known) => *known = new,
                None => self.alerts.push(new),
            }
        }
        Ok(())
    }

    /// Sets who gets the messages.
    pub(super) fn set_subscribers(
        &mut self,
        subscribers: Vec<Subscriber>,
        by: SetBy<'_>,
    ) -> Result<(), Refusal> {
        let bytes: usize = subscribers.iter().map(Subscriber::bytes).sum();
        if bytes > SUBSCRIBERS_BYTES_MAX {
            return Err(Refusal::bad("The subscribers of a queue can have up to 64 KB"));
        }
        self.push.subscribers = unique(subscribers)?;
        self.push.is_of_v1 = by.is_v1;
        by.project.clone_into(&mut self.push.project);
        self.push.origin = by.urls.origin(by.request).to_string();
        Ok(())
    }
}

impl Subscriber {
    /// About as JSON.
    fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len() + 6);
        self.name.len() + self.url.len() + headers.sum::<usize>() + 34
    }

    /// A subscriber as a client describes it.
    pub(super) fn checked(request: &SubscriberRequest<'_>) -> Result<Subscriber, Refusal> {
        let url = request.url.as_ref().map(Text::as_str).unwrap_or_default();
        check_url(url)?;
        let name = request.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty());
        if name.is_some_and(|name| name.len() > SUBSCRIBER_NAME_BYTES_MAX) {
            return Err(Refusal::bad("A subscriber's name can have up to 1024 bytes"));
        }
        let headers = request.headers.as_ref().map(|it| &it.0[..]).unwrap_or_default();
        for (name, value) in headers {
            check_subscriber_header(name, value)?;
        }
        let headers =
            headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Ok(Subscriber { name: name.unwrap_or(url).to_owned(), url: url.to_owned(), headers })
    }
}

impl Alert {
    /// An alert as a client describes it, with that id if it names none.
    pub(super) fn checked(request: &AlertRequest<'_>, id: String) -> Result<Alert, Refusal> {
        let text = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let kind = match &*text(&request.r#type) {
            "" | "fixed" => AlertKind::Fixed,
            "progressive" => AlertKind::Progressive,
            _ => return Err(Refusal::bad("Alert type must be fixed or progressive")),
        };
        let direction = match &*text(&request.direction) {
            "" | "asc" => Direction::Asc,
            "desc" => Direction::Desc,
            _ => return Err(Refusal::bad("Alert direction must be asc or desc")),
        };
        let trigger = request.trigger.unwrap_or_default().0;
        let trigger = u64::try_from(trigger).ok().filter(|trigger| *trigger > 0);
        let trigger =
            trigger.ok_or_else(|| Refusal::bad("Alert trigger must be greater than 0"))?;
        let queue = text(&request.queue);
        check_name(&queue)?;
        let snooze = request.snooze.unwrap_or_default().0;
        let snooze_s = u64::try_from(snooze)
            .map_err(|_| Refusal::bad("Alert snooze must not be less than 0"))?;
        let id = Some(text(&request.id)).filter(|id| !id.is_empty()).unwrap_or(id);
        Ok(Alert { id, kind, direction, trigger, queue, snooze_s })
    }

    /// True if both would fire at the same times.
    pub(super) fn is_like(&self, other: &Alert) -> bool {
        (self.kind, self.direction, self.trigger, &self.queue)
            == (other.kind, other.direction, other.trigger, &other.queue)
    }
}

/// The id of an alert, of 24 digits as IronMQ's.
pub(super) fn new_alert_id() -> String {
    format!("{:024x}", fastrand::u128(..) >> 32)
}

/// Subscribers that can be served.
fn check_url(url: &str) -> Result<(), Refusal> {
    if url.is_empty() {
        return Err(Refusal::bad("A subscriber must have a url"));
    }
    if url.len() > SUBSCRIBER_URL_BYTES_MAX {
        return Err(Refusal::bad("A subscriber's url can have up to 4096 bytes"));
    }
    if let Some(SubscribedQueue(name)) = SubscribedQueue::of(url) {
        return check_name(&name);
    }
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    match &*scheme {
        "ironmq" => Err(Refusal::bad(
            "Of ironmq URLs only ironmq:///queue is supported: a queue of the same project",
        )),
        "ironworker" => Err(Refusal::bad("ironworker URLs are not supported")),
        _ => match Url::parse(url) {
            Ok(_) => Ok(()),
            Err(error) => Err(Refusal::bad(format!("A subscriber's url is not valid: {error}"))),
        },
    }
}

fn check_subscriber_header(name: &str, value: &str) -> Result<(), Refusal> {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_char) || value.chars().any(char::is_control) {
        return Err(Refusal::bad("A subscriber's header is not valid"));
    }
    if SERVER_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return Err(Refusal::bad(format!("Subscriber header {name} is not allowed")));
    }
    Ok(())
}

/// A request to create a queue or to change one.
#[derive(Clone, Copy)]
pub(super) struct QueueChange<'a> {
    pub request: &'a QueueRequest<'a>,
    /// Version 1.
    pub is_type_changeable: bool,
    /// PATCH: those that there are stay.
    pub adds_alerts: bool,
    pub by: SetBy<'a>,
}

/// The origin of a change of subscribers.
#[derive(Clone, Copy)]
pub(super) struct SetBy<'a> {
    pub is_v1: bool,
    pub project: &'a str,
    pub urls: &'a SqsOptions,
    pub request: &'a Request<'a>,
}

/// The settings of a queue that IronMQ creates.
pub(super) fn defaults() -> Settings {
    Settings {
        visibility_timeout_s: limits::ironmq::MESSAGE_TIMEOUT_S,
        retention_s: limits::ironmq::MESSAGE_EXPIRATION_S,
        ..Settings::default()
    }
}

/// Sets what a request names; on failure some may be set, so apply to a copy.
pub(super) fn apply(
    change: QueueChange<'_>,
    key: &QueueKey,
    is_new: bool,
    settings: &mut Settings,
    attributes: &mut BTreeMap<String, String>,
    iron: &mut IronSettings,
) -> Result<(), Refusal> {
    let request = change.request;
    let timeout_max = limits::ironmq::MESSAGE_TIMEOUT_MAX_S;
    if let Some(timeout) = bounded("message_timeout", request.message_timeout, 1, timeout_max)? {
        settings.visibility_timeout_s = timeout;
    }
    let expiration_max = limits::ironmq::MESSAGE_EXPIRATION_MAX_S;
    let expiration = bounded("message_expiration", request.message_expiration, 1, expiration_max)?;
    if let Some(expiration) = expiration {
        settings.retention_s = expiration;
    }
    iron.set_type(change, is_new)?;
    iron.set_push(change)?;
    if let Some(dead_letter) = &request.dead_letter {
        let name = dead_letter.queue_name.as_ref().map(Text::as_str);
        let max_max = limits::ironmq::MAX_RESERVATIONS_MAX;
        let max = bounded("max_reservations", dead_letter.max_reservations, 1, max_max)?;
        set_dead_letter(name, max, key, settings, attributes)?;
    }
    if let Some(alerts) = &request.alerts {
        iron.set_alerts(&alerts.0, change.adds_alerts)?;
    }
    check_together(key, settings, iron, request.push.is_some())?;
    iron.store(attributes)
}

/// An empty name takes the dead-letter queue away.
fn set_dead_letter(
    name: Option<&str>,
    max_reservations: Option<u32>,
    key: &QueueKey,
    settings: &mut Settings,
    attributes: &mut BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let current = settings.redrive.take();
    let name = match (name, &current) {
        (None, Some(current)) => current.name.clone(),
        (None, None) => return Err(Refusal::bad("dead_letter needs a queue_name")),
        (Some(name), _) => name.to_owned(),
    };
    if name.is_empty() {
        attributes.remove("RedrivePolicy");
        return Ok(());
    }
    check_name(&name)?;
    if name == key.name {
        return Err(Refusal::bad("A queue cannot be its own dead letter queue"));
    }
    let target = QueueKey::new(&key.region, &key.account, &name);
    let max_receive_count = max_reservations
        .or(current.map(|it| it.max_receive_count))
        .unwrap_or(limits::ironmq::MAX_RESERVATIONS);
    // As SQS shows it.
    let policy = serde_json::json!({
        "deadLetterTargetArn": target.to_string(),
        "maxReceiveCount": max_receive_count,
    });
    attributes.insert("RedrivePolicy".to_owned(), policy.to_string());
    let QueueKey { region, account, name } = target;
    settings.redrive = Some(Redrive { region, account, name, max_receive_count });
    Ok(())
}

/// Rules about several settings.
pub(super) fn check_together(
    key: &QueueKey,
    settings: &Settings,
    iron: &IronSettings,
    names_push: bool,
) -> Result<(), Refusal> {
    if iron.alerts.len() > limits::ironmq::ALERTS {
        return Err(Refusal::bad("A queue can have up to 5 alerts"));
    }
    let is_twice = |(number, alert): (usize, &Alert)| {
        iron.alerts.iter().take(number).any(|earlier| earlier.is_like(alert))
    };
    if iron.alerts.iter().enumerate().any(is_twice) {
        return Err(Refusal::bad("At least one new alert duplicates current queue alerts."));
    }
    if iron.alerts.iter().any(|alert| alert.queue == key.name) {
        return Err(Refusal::bad("An alert cannot go to its own queue"));
    }
    if !iron.is_push() {
        return match iron.push.subscribers.is_empty() {
            true => Ok(()),
            false => Err(Refusal::bad("Pull queues do not have subscribers")),
        };
    }
    if !iron.alerts.is_empty() {
        return Err(Refusal::bad("Push queues do not support alerts."));
    }
    if key.name.ends_with(".fifo") {
        return Err(Refusal::bad("FIFO queues cannot be push queues"));
    }
    let is_own = |it: &Subscriber| SubscribedQueue::of(&it.url).is_some_and(|it| it.0 == key.name);
    if iron.push.error_queue == key.name || iron.push.subscribers.iter().any(is_own) {
        return Err(Refusal::bad("A queue cannot post to itself"));
    }
    if settings.redrive.is_some() {
        return Err(Refusal::bad("Push queues do not support dead letter queues"));
    }
    match names_push && iron.push.subscribers.is_empty() {
        true => Err(Refusal::bad("A push queue must have at least one subscriber")),
        false => Ok(()),
    }
}

/// Subscribers are told apart by their names.
pub(super) fn unique(subscribers: Vec<Subscriber>) -> Result<Vec<Subscriber>, Refusal> {
    for (number, subscriber) in subscribers.iter().enumerate() {
        if subscribers.iter().take(number).any(|earlier| earlier.name == subscriber.name) {
            return Err(Refusal::bad("Two subscribers have the same name"));
        }
    }
    Ok(subscribers)
}

/// A queue may have any name that fits into URLs and logs.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    let is_allowed = (1..=limits::ironmq::QUEUE_NAME_BYTES).contains(&name.len())
        && !name.chars().any(char::is_control);
    match is_allowed {
        true => Ok(()),
        false => Err(Refusal::bad("Queue name must be 1 to 255 bytes without control characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_added_or_replaced_and_keep_their_ids() {
        let text = |text: &'static str| Some(Text::from(text));
        let asked = |id, trigger| {
            let mut asked = AlertRequest::default();
            (asked.id, asked.queue) = (id, text("alerts"));
            asked.trigger = Some(millrace_wire::ironmq::Number(trigger));
            asked
        };
        let shown = |iron: &IronSettings| {
            iron.alerts.iter().map(|it| (it.id.clone(), it.trigger)).collect::<Vec<_>>()
        };
        let mut iron = IronSettings::default();
        iron.set_alerts(&[asked(None, 1), asked(text("b"), 2)], true).unwrap();
        let first = iron.alerts[0].id.clone();
        assert_eq!(first.len(), 24);

        iron.set_alerts(&[asked(text("b"), 3), asked(text("c"), 4)], true).unwrap();
        let expected = [(first.clone(), 1), ("b".to_owned(), 3), ("c".to_owned(), 4)];
        assert_eq!(shown(&iron), expected);
        iron.set_alerts(&[asked(None, 4), asked(None, 1)], false).unwrap();
        assert_eq!(shown(&iron), [("c".to_owned(), 4), (first, 1)]);
    }

    #[test]
    fn subscribers_are_http_endpoints_or_queues_of_the_project() {
        let name = |url| SubscribedQueue::of(url).map(|it| it.0.into_owned());
        assert_eq!(name("ironmq:///a%20b%2Fc"), Some("a b/c".to_owned()));
        for url in ["http://h/x?y", "https://h:1", "ironmq:///a%20b"] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
        let too_long = format!("http://h/{}", "x".repeat(SUBSCRIBER_URL_BYTES_MAX));
        let refused = ["", "x", "ftp://h", "ironmq:///", "ironmq:///a/b", "ironmq://p:t@h/q"];
        for url in refused.into_iter().chain(["ironworker://p:t@h/c", "IRONMQ:///q", &too_long]) {
            assert_eq!(check_url(url).map_err(|it| it.status), Err(400), "{url}");
        }
    }
}
