//! Times of a single message, which version 1 posts with it: how long its reservations last, and
//! when it is not wanted any more. Kept as attributes of the message; version 3 has neither.

use millrace_broker::{Content, Incoming, SharedQueue};
use millrace_core::{Timestamp, limits};
use millrace_wire::ironmq::Posted;

use super::refusal::{Refusal, bounded};
use super::{IronMq, messages};

/// Seconds of a reservation.
const TIMEOUT: &str = "IronMQ.Timeout";
/// Epoch milliseconds.
const EXPIRES: &str = "IronMQ.Expires";

/// The times that a message has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnTimes {
    pub timeout_s: Option<u32>,
    expires: Option<Timestamp>,
}

impl OwnTimes {
    /// Those of a message that is posted now.
    pub(super) fn posted(message: &Posted<'_>, now: Timestamp) -> Result<OwnTimes, Refusal> {
        let timeout_max = limits::ironmq::MESSAGE_TIMEOUT_MAX_S;
        let expires_max = limits::ironmq::MESSAGE_EXPIRATION_MAX_S;
        let expires_in = bounded("expires_in", message.expires_in, 1, expires_max)?;
        Ok(OwnTimes {
            timeout_s: bounded("timeout", message.timeout, 1, timeout_max)?,
            expires: expires_in.map(|seconds| now.plus_seconds(u64::from(seconds))),
        })
    }

    /// Those of a stored message.
    pub(super) fn of(content: &Content) -> OwnTimes {
        let mut times = OwnTimes::default();
        for [name, _, value] in content.attributes() {
            let number = || str::from_utf8(value).ok()?.parse::<u64>().ok();
            if name == TIMEOUT.as_bytes() {
                // A reservation is made longer as SQS does it: up to 12 hours.
                let allowed = number().filter(|it| limits::VISIBILITY_TIMEOUT_S.contains(it));
                times.timeout_s = allowed.and_then(|seconds| u32::try_from(seconds).ok());
            } else if name == EXPIRES.as_bytes() {
                times.expires = number().map(Timestamp);
            }
        }
        times
    }

    /// Names and values of the attributes.
    pub(super) fn attributes(self) -> impl Iterator<Item = (String, String)> {
        let timeout = self.timeout_s.map(|seconds| (TIMEOUT.to_owned(), seconds.to_string()));
        let expires = self.expires.map(|at| (EXPIRES.to_owned(), at.0.to_string()));
        timeout.into_iter().chain(expires)
    }

    /// True once nobody wants the message any more.
    pub(super) fn is_over(self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl IronMq {
    /// Deletes those of reserved messages that are over, and returns the others.
    pub(super) async fn drop_expired(
        &self,
        queue: &SharedQueue,
        incoming: Vec<Incoming>,
    ) -> Result<Vec<Incoming>, Refusal> {
        let now = self.shards.now();
        let is_over = |message: &Incoming| OwnTimes::of(&message.content).is_over(now);
        if !incoming.iter().any(is_over) {
            return Ok(incoming);
        }
        let (expired, kept): (Vec<_>, Vec<_>) = incoming.into_iter().partition(is_over);
        queue.delete(&messages::handles(&self.shards, &expired)).await?;
        Ok(kept)
    }

    /// Gives reservations the length that their messages ask for. What they have already is from
    /// the request that reserves them.
    pub(super) async fn keep_own_timeouts(
        &self,
        queue: &SharedQueue,
        incoming: &[Incoming],
    ) -> Result<(), Refusal> {
        let change = |message: &Incoming| {
            let timeout_s = OwnTimes::of(&message.content).timeout_s?;
            Some((self.shards.open_receipt_handle(&message.receipt_handle)?, timeout_s))
        };
        let changes: Vec<_> = incoming.iter().filter_map(change).collect();
        if !changes.is_empty() {
            queue.change_visibility(&changes).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_broker::{Attribute, NewContent};
    use millrace_wire::ironmq::Number;

    use super::*;

    #[test]
    fn times_come_back_from_the_attributes_of_a_message() {
        let now = Timestamp(1_000);
        let message =
            Posted { timeout: Some(Number(90)), expires_in: Some(Number(5)), ..Posted::default() };
        let times = OwnTimes::posted(&message, now).unwrap();
        let attributes: Vec<(String, String)> = times.attributes().collect();
        let attributes = attributes.iter().map(|(name, value)| Attribute {
            name,
            data_type: "Number",
            value: value.as_bytes(),
        });
        let mut stored = Vec::new();
        NewContent { attributes: attributes.collect(), ..NewContent::default() }
            .encode(&mut stored);
        let content = Content::decode(Default::default(), stored.into()).unwrap();

        assert_eq!(OwnTimes::of(&content), times);
        assert!(!times.is_over(Timestamp(5_999)) && times.is_over(Timestamp(6_000)));
        assert_eq!(OwnTimes::posted(&Posted::default(), now), Ok(OwnTimes::default()));
        let zero = Posted { timeout: Some(Number(0)), ..Posted::default() };
        assert_eq!(OwnTimes::posted(&zero, now), Ok(OwnTimes::default()));
    }
}
