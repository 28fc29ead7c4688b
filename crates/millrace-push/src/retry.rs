//! The delivery policy of a topic or subscription: how often a failed delivery is repeated, and
//! when. Pure: texts come in, delays and texts go out.
//!
//! ```text
//! attempt   1 | 2 …          | …              | …                        | …               | none
//! before it   | no delay     | minDelayTarget | from min to max, by the  | maxDelayTarget  |
//!             | numNoDelay…  | numMinDelay…   | back-off function        | numMaxDelay…    |
//!             └──────────────────────── numRetries in all ──────────────────────────────┘
//! ```

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

/// The highest number of retries, and of seconds: SNS developer guide, "Message delivery retries".
const RETRIES_MAX: u32 = 100;
const DELAY_S_MAX: u32 = 3600;
/// All delays of a policy together.
const TOTAL_S_MAX: u64 = 3600;

/// The content type of deliveries for which no policy says another.
pub const CONTENT_TYPE: &str = "text/plain; charset=UTF-8";
const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// Says why a delivery policy is refused. Its text follows `DeliveryPolicy: ` in SNS's errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("failed to parse JSON.")]
    NotJson,
    #[error("Unexpected JSON member: {0}")]
    UnknownMember(String),
    #[error("{member} must be {wanted}")]
    WrongType { member: String, wanted: &'static str },
    #[error("{member} must be greater than or equal to {least}")]
    TooSmall { member: String, least: String },
    #[error("{member} must be less than or equal to {most}")]
    TooLarge { member: String, most: String },
}

/// The shape of the delays between the second and the fourth phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Each step grows by more than the one before.
    Arithmetic,
    /// Each step is twice the one before.
    Exponential,
    /// Each delay is the same multiple of the one before.
    Geometric,
    /// All steps are the same.
    #[default]
    Linear,
}

impl Backoff {
    const ALL: [Backoff; 4] =
        [Backoff::Arithmetic, Backoff::Exponential, Backoff::Geometric, Backoff::Linear];

    fn name(self) -> &'static str {
        match self {
            Backoff::Arithmetic => "arithmetic",
            Backoff::Exponential => "exponential",
            Backoff::Geometric => "geometric",
            Backoff::Linear => "linear",
        }
    }

    /// The delay before retry `step` (from 0) of `steps`: the first is `min_s`, the last `max_s`.
    fn delay_s(self, step: u32, steps: u32, min_s: u32, max_s: u32) -> u32 {
        let Some(last) = steps.checked_sub(1).filter(|last| *last > 0) else { return min_s };
        let (step, last) = (f64::from(step.min(last)), f64::from(last));
        let (min, max) = (f64::from(min_s), f64::from(max_s));
        let part = match self {
            Backoff::Arithmetic => step * (step + 1.0) / (last * (last + 1.0)),
            // The doubling alone decides the shape; beyond 60 steps the start of it rounds to nothing.
            Backoff::Exponential => (step.exp2() - 1.0) / (last.exp2() - 1.0),
            Backoff::Linear => step / last,
            Backoff::Geometric => {
                return (min * (max / min).powf(step / last)).round() as u32;
            }
        };
        (min + (max - min) * part).round() as u32
    }
}

/// How often a delivery is repeated, and when: `healthyRetryPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    min_delay_s: u32,
    max_delay_s: u32,
    retries: u32,
    no_delay_retries: u32,
    min_delay_retries: u32,
    max_delay_retries: u32,
    backoff: Backoff,
}

impl Default for RetryPolicy {
    /// SNS's own: three retries, 20 seconds apart.
    fn default() -> RetryPolicy {
        RetryPolicy::every(3, 20)
    }
}

impl RetryPolicy {
    /// `retries` retries, each `delay_s` after the failure before it. For policies that are not
    /// SNS's: no limit is checked.
    pub fn every(retries: u32, delay_s: u32) -> RetryPolicy {
        RetryPolicy {
            min_delay_s: delay_s,
            max_delay_s: delay_s,
            retries,
            no_delay_retries: 0,
            min_delay_retries: 0,
            max_delay_retries: 0,
            backoff: Backoff::Linear,
        }
    }

    /// How long to wait after a failure before attempt number `attempt`, where the first is 1.
    /// `None` if there is no such attempt: the delivery has failed.
    pub fn delay_before(&self, attempt: u32) -> Option<Duration> {
        match attempt.checked_sub(2) {
            None => Some(Duration::ZERO),
            Some(retry) => self.retry_delay_s(retry).map(|s| Duration::from_secs(u64::from(s))),
        }
    }

    /// The delay before retry number `retry`, from 0.
    fn retry_delay_s(&self, retry: u32) -> Option<u32> {
        let backoff_begins = self.no_delay_retries.saturating_add(self.min_delay_retries);
        let backoff_ends = self.retries.saturating_sub(self.max_delay_retries);
        Some(match retry {
            _ if retry >= self.retries => return None,
            _ if retry < self.no_delay_retries => 0,
            _ if retry < backoff_begins => self.min_delay_s,
            _ if retry >= backoff_ends => self.max_delay_s,
            _ => {
                let steps = backoff_ends - backoff_begins;
                let step = retry - backoff_begins;
                self.backoff.delay_s(step, steps, self.min_delay_s, self.max_delay_s)
            }
        })
    }

    fn parse(member: &str, value: &Value) -> Result<RetryPolicy, PolicyError> {
        let object = object(member, value)?;
        let known = [
            "minDelayTarget",
            "maxDelayTarget",
            "numRetries",
            "numMaxDelayRetries",
            "numNoDelayRetries",
            "numMinDelayRetries",
            "backoffFunction",
        ];
        refuse_others(object, &known)?;
        let number = |name: &str, least: u32, most: u32, default: u32| {
            integer(&format!("{member}.{name}"), object.get(name), least, most, default)
        };
        let own = RetryPolicy::default();
        let policy = RetryPolicy {
            min_delay_s: number("minDelayTarget", 1, DELAY_S_MAX, own.min_delay_s)?,
            max_delay_s: number("maxDelayTarget", 1, DELAY_S_MAX, own.max_delay_s)?,
            retries: number("numRetries", 0, RETRIES_MAX, own.retries)?,
            no_delay_retries: number("numNoDelayRetries", 0, RETRIES_MAX, 0)?,
            min_delay_retries: number("numMinDelayRetries", 0, RETRIES_MAX, 0)?,
            max_delay_retries: number("numMaxDelayRetries", 0, RETRIES_MAX, 0)?,
            backoff: backoff(&format!("{member}.backoffFunction"), object.get("backoffFunction"))?,
        };
        policy.check(member)?;
        Ok(policy)
    }

    /// What no member says alone.
    fn check(&self, member: &str) -> Result<(), PolicyError> {
        if self.max_delay_s < self.min_delay_s {
            return Err(PolicyError::TooSmall {
                member: format!("{member}.maxDelayTarget"),
                least: format!("{member}.minDelayTarget"),
            });
        }
        let phases = self.no_delay_retries + self.min_delay_retries + self.max_delay_retries;
        if phases > self.retries {
            return Err(PolicyError::TooSmall {
                member: format!("{member}.numRetries"),
                least: "the retries of all phases".to_owned(),
            });
        }
        let delays = (0..self.retries).filter_map(|retry| self.retry_delay_s(retry));
        if delays.map(u64::from).sum::<u64>() > TOTAL_S_MAX {
            return Err(PolicyError::TooLarge {
                member: format!("the total delay of {member}"),
                most: format!("{TOTAL_S_MAX} seconds"),
            });
        }
        Ok(())
    }

    fn to_json(self) -> RetryJson {
        RetryJson {
            min_delay_target: self.min_delay_s,
            max_delay_target: self.max_delay_s,
            num_retries: self.retries,
            num_max_delay_retries: self.max_delay_retries,
            num_no_delay_retries: self.no_delay_retries,
            num_min_delay_retries: self.min_delay_retries,
            backoff_function: self.backoff.name(),
        }
    }
}

/// The members of a policy that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Given {
    retry: Option<RetryPolicy>,
    max_receives_per_second: Option<u32>,
    content_type: Option<String>,
}

/// A topic's delivery policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPolicy {
    given: Given,
    disable_subscription_overrides: bool,
}

/// A subscription's delivery policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPolicy {
    given: Given,
}

/// The policy by which deliveries of one subscription are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryPolicy {
    pub retry: RetryPolicy,
    /// Deliveries a second; `None` sets no limit.
    pub max_receives_per_second: Option<u32>,
    pub content_type: String,
}

impl Default for DeliveryPolicy {
    fn default() -> DeliveryPolicy {
        DeliveryPolicy::of(&TopicPolicy::default(), &SubscriptionPolicy::default())
    }
}

impl TopicPolicy {
    /// Reads the topic attribute `DeliveryPolicy`. An empty text is no policy.
    ///
    /// # Errors
    ///
    /// With the text that is to follow `DeliveryPolicy: `.
    pub fn parse(text: &str) -> Result<TopicPolicy, PolicyError> {
        let Some(policy) = read(text)? else { return Ok(TopicPolicy::default()) };
        refuse_others(&policy, &["http"])?;
        let Some(http) = present(&policy, "http") else { return Ok(TopicPolicy::default()) };
        let http = object("http", http)?;
        let known = [
            "defaultHealthyRetryPolicy",
            "defaultSicklyRetryPolicy",
            "disableSubscriptionOverrides",
            "defaultThrottlePolicy",
            "defaultRequestPolicy",
        ];
        refuse_others(http, &known)?;
        Ok(TopicPolicy {
            given: Given::parse(http, "http.default", ["Healthy", "Throttle", "Request"])?,
            disable_subscription_overrides: match present(http, "disableSubscriptionOverrides") {
                None => false,
                Some(Value::Bool(is_disabled)) => *is_disabled,
                Some(_) => return Err(wrong("http.disableSubscriptionOverrides", "a boolean")),
            },
        })
    }

    /// The topic attribute `EffectiveDeliveryPolicy`.
    pub fn effective_json(&self) -> String {
        let effective = DeliveryPolicy::of(self, &SubscriptionPolicy::default());
        let http = TopicJson {
            default_healthy_retry_policy: effective.retry.to_json(),
            disable_subscription_overrides: self.disable_subscription_overrides,
            default_throttle_policy: throttle_json(&effective),
            default_request_policy: request_json(&effective),
        };
        text(&HttpJson { http })
    }
}

impl SubscriptionPolicy {
    /// Reads the subscription attribute `DeliveryPolicy`. An empty text is no policy.
    ///
    /// # Errors
    ///
    /// With the text that is to follow `DeliveryPolicy: `.
    pub fn parse(text: &str) -> Result<SubscriptionPolicy, PolicyError> {
        let Some(policy) = read(text)? else { return Ok(SubscriptionPolicy::default()) };
        let known = [
            "healthyRetryPolicy",
            "sicklyRetryPolicy",
            "throttlePolicy",
            "requestPolicy",
            "guaranteed",
        ];
        refuse_others(&policy, &known)?;
        Ok(SubscriptionPolicy {
            given: Given::parse(&policy, "", ["healthy", "throttle", "request"])?,
        })
    }
}

impl DeliveryPolicy {
    /// A subscription's members go before those of its topic, unless the topic forbids that.
    pub fn of(topic: &TopicPolicy, subscription: &SubscriptionPolicy) -> DeliveryPolicy {
        let nothing = Given::default();
        let first = match topic.disable_subscription_overrides {
            true => &nothing,
            false => &subscription.given,
        };
        let then = &topic.given;
        let content_type = first.content_type.as_ref().or(then.content_type.as_ref());
        DeliveryPolicy {
            retry: first.retry.or(then.retry).unwrap_or_default(),
            max_receives_per_second: first.max_receives_per_second.or(then.max_receives_per_second),
            content_type: content_type.map_or_else(|| CONTENT_TYPE.to_owned(), String::clone),
        }
    }

    /// The subscription attribute `EffectiveDeliveryPolicy`.
    pub fn effective_json(&self) -> String {
        text(&SubscriptionJson {
            healthy_retry_policy: self.retry.to_json(),
            sickly_retry_policy: None,
            throttle_policy: throttle_json(self),
            request_policy: request_json(self),
            guaranteed: false,
        })
    }
}

impl Given {
    /// Reads the three members, which are called `{prefix}{names}RetryPolicy` and so on.
    fn parse(
        from: &Map<String, Value>,
        prefix: &str,
        [healthy, throttle, request]: [&str; 3],
    ) -> Result<Given, PolicyError> {
        let member = |kind: &str, rest: &str| {
            let path = format!("{prefix}{kind}{rest}");
            let value = present(from, path.rsplit('.').next().unwrap_or_default());
            value.map(|value| (path, value))
        };
        let mut given = Given::default();
        if let Some((path, value)) = member(healthy, "RetryPolicy") {
            given.retry = Some(RetryPolicy::parse(&path, value)?);
        }
        if let Some((path, value)) = member(throttle, "Policy") {
            let throttle = object(&path, value)?;
            refuse_others(throttle, &["maxReceivesPerSecond"])?;
            if let Some(value) = present(throttle, "maxReceivesPerSecond") {
                let path = format!("{path}.maxReceivesPerSecond");
                given.max_receives_per_second = Some(integer(&path, Some(value), 1, u32::MAX, 1)?);
            }
        }
        if let Some((path, value)) = member(request, "Policy") {
            let request = object(&path, value)?;
            refuse_others(request, &["headerContentType"])?;
            if let Some(value) = present(request, "headerContentType") {
                let path = format!("{path}.headerContentType");
                given.content_type = Some(content_type(&path, value)?);
            }
        }
        Ok(given)
    }
}

/// The members in the order in which the service writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryJson {
    min_delay_target: u32,
    max_delay_target: u32,
    num_retries: u32,
    num_max_delay_retries: u32,
    num_no_delay_retries: u32,
    num_min_delay_retries: u32,
    backoff_function: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThrottleJson {
    max_receives_per_second: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestJson<'a> {
    header_content_type: &'a str,
}

#[derive(Serialize)]
struct HttpJson<'a> {
    http: TopicJson<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicJson<'a> {
    default_healthy_retry_policy: RetryJson,
    disable_subscription_overrides: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_throttle_policy: Option<ThrottleJson>,
    default_request_policy: RequestJson<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionJson<'a> {
    healthy_retry_policy: RetryJson,
    sickly_retry_policy: Option<RetryJson>,
    throttle_policy: Option<ThrottleJson>,
    request_policy: RequestJson<'a>,
    guaranteed: bool,
}

fn throttle_json(policy: &DeliveryPolicy) -> Option<ThrottleJson> {
    policy
        .max_receives_per_second
        .map(|max_receives_per_second| ThrottleJson { max_receives_per_second })
}

fn request_json(policy: &DeliveryPolicy) -> RequestJson<'_> {
    RequestJson { header_content_type: &policy.content_type }
}

/// Structs of numbers and texts cannot fail to be written.
fn text(json: &impl Serialize) -> String {
    serde_json::to_string(json).unwrap_or_default()
}

/// The object that a text is; `None` if the text is empty.
fn read(text: &str) -> Result<Option<Map<String, Value>>, PolicyError> {
    if text.is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) | Err(_) => Err(PolicyError::NotJson),
    }
}

/// A member that is there and not null.
fn present<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn object<'a>(member: &str, value: &'a Value) -> Result<&'a Map<String, Value>, PolicyError> {
    value.as_object().ok_or_else(|| wrong(member, "an object"))
}

fn refuse_others(object: &Map<String, Value>, known: &[&str]) -> Result<(), PolicyError> {
    let is_other = |name: &&String| !known.contains(&name.as_str());
    match object.keys().find(is_other) {
        Some(name) => Err(PolicyError::UnknownMember(name.clone())),
        None => Ok(()),
    }
}

fn integer(
    member: &str,
    value: Option<&Value>,
    least: u32,
    most: u32,
    default: u32,
) -> Result<u32, PolicyError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(default) };
    let number = value.as_i64().ok_or_else(|| wrong(member, "an integer"))?;
    let member = || member.to_owned();
    match u32::try_from(number) {
        Ok(number) if number > most => {
            Err(PolicyError::TooLarge { member: member(), most: most.to_string() })
        }
        Ok(number) if number >= least => Ok(number),
        Err(_) if number > i64::from(most) => {
            Err(PolicyError::TooLarge { member: member(), most: most.to_string() })
        }
        Ok(_) | Err(_) => Err(PolicyError::TooSmall { member: member(), least: least.to_string() }),
    }
}

fn backoff(member: &str, value: Option<&Value>) -> Result<Backoff, PolicyError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Backoff::Linear) };
    let named = |backoff: &&Backoff| value.as_str() == Some(backoff.name());
    let found = Backoff::ALL.iter().find(named).copied();
    found.ok_or_else(|| wrong(member, "arithmetic, exponential, geometric or linear"))
}

fn content_type(member: &str, value: &Value) -> Result<String, PolicyError> {
    let is_header = |text: &&str| {
        (1..=CONTENT_TYPE_BYTES_MAX).contains(&text.len())
            && text.trim().len() == text.len()
            && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
    };
    let text = value.as_str().filter(is_header);
    text.map(str::to_owned).ok_or_else(|| wrong(member, "a content type"))
}

fn wrong(member: &str, wanted: &'static str) -> PolicyError {
    PolicyError::WrongType { member: member.to_owned(), wanted }
}

#[cfg(test)]
mod tests;
