//! Names and ARNs of topics and subscriptions.
//!
//! ```text
//! arn:PARTITION:sns:REGION:ACCOUNT:NAME          topic
//! arn:PARTITION:sns:REGION:ACCOUNT:NAME:UUID     subscription
//! ```

use millrace_core::{Arn, QueueKey, is_account, is_plain_name, limits, partition};
use millrace_wire::ApiError;

use super::error;

/// SNS: characters of a topic's name, `.fifo` included.
const NAME_CHARS: usize = 256;

/// The parts of an ARN of SNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnsArn<'a> {
    pub region: &'a str,
    pub account: &'a str,
    pub name: &'a str,
    /// The last part of a subscription's ARN.
    pub subscription: Option<&'a str>,
}

impl<'a> SnsArn<'a> {
    /// Takes an ARN apart. `parameter` is the name of what holds it.
    pub(super) fn parse(text: &'a str, parameter: &str) -> Result<SnsArn<'a>, ApiError> {
        let parts: Vec<&str> = text.splitn(8, ':').collect();
        match *parts.as_slice() {
            ["arn", _, "sns", region, account, name] => {
                Ok(SnsArn { region, account, name, subscription: None })
            }
            ["arn", _, "sns", region, account, name, id] => {
                Ok(SnsArn { region, account, name, subscription: Some(id) })
            }
            ref parts if parts.len() < 6 => Err(error::short_arn(parameter, parts.len())),
            _ => Err(error::invalid_parameter(parameter)),
        }
    }
}

/// The ARN of a topic.
pub(super) fn topic_arn(region: &str, account: &str, name: &str) -> String {
    format!("arn:{}:sns:{region}:{account}:{name}", partition(region))
}

/// The beginning of the ARNs of an account's topics in a region.
pub(super) fn topic_prefix(region: &str, account: &str) -> String {
    topic_arn(region, account, "")
}

/// The queue of an ARN, which need not exist but has to be one that could. Each queue has one ARN.
pub(super) fn queue_of_arn(text: &str) -> Option<QueueKey> {
    let queue = Arn::parse(text)?.queue()?;
    let stem = queue.name.strip_suffix(".fifo").unwrap_or(&queue.name);
    let is_sound = is_account(&queue.account)
        && !stem.is_empty()
        && queue.name.len() <= limits::QUEUE_NAME_CHARS
        && is_plain_name(stem)
        && queue.to_string() == text;
    is_sound.then_some(queue)
}

/// Returns true if a topic may have that name. Names of FIFO topics, and no others, end in `.fifo`.
pub(super) fn is_topic_name(name: &str, is_fifo: bool) -> bool {
    let stem = if is_fifo { name.strip_suffix(".fifo").unwrap_or_default() } else { name };
    !stem.is_empty() && name.len() <= NAME_CHARS && is_plain_name(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_are_taken_apart() {
        fn parse(text: &str) -> Result<SnsArn<'_>, ApiError> {
            SnsArn::parse(text, "TopicArn")
        }
        let topic =
            SnsArn { region: "us-east-1", account: "000000000000", name: "t", subscription: None };
        let arn = topic_arn("us-east-1", "000000000000", "t");

        assert_eq!(parse(&arn), Ok(topic));
        let subscription = SnsArn { subscription: Some("id"), ..topic };
        assert_eq!(parse(&format!("{arn}:id")), Ok(subscription));
        assert_eq!(topic_arn("cn-north-1", "1", "t"), "arn:aws-cn:sns:cn-north-1:1:t");

        for (text, message) in [
            ("", "TopicArn Reason: An ARN must have at least 6 elements, not 1"),
            ("a:b:c:d:e", "TopicArn Reason: An ARN must have at least 6 elements, not 5"),
            ("arn:aws:sqs:us-east-1:000000000000:t", "TopicArn"),
            ("urn:aws:sns:us-east-1:000000000000:t", "TopicArn"),
            ("arn:aws:sns:us-east-1:000000000000:t:id:x", "TopicArn"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.message, format!("Invalid parameter: {message}"), "{text}");
        }
    }

    #[test]
    fn a_queue_has_one_arn() {
        let long = "q".repeat(80);
        for name in ["q", "a_-9.fifo", &long] {
            let queue = queue_of_arn(&format!("arn:aws:sqs:us-east-1:000000000000:{name}"));
            assert_eq!(queue.unwrap().name, name);
        }
        assert!(queue_of_arn("arn:aws-cn:sqs:cn-north-1:000000000000:q").is_some());
        for text in [
            "arn:aws:sqs:us-east-1:000000000000:",
            "arn:aws:sqs:us-east-1:000000000000:.fifo",
            "arn:aws:sqs:us-east-1:000000000000:q:x",
            "arn:aws:sqs:us-east-1:000000000000:a b",
            "arn:aws:sqs:us-east-1:000000000000:q\0",
            "arn:aws:sqs:us-east-1:sns:q",
            "arn:aws:sqs::000000000000:q",
            "arn:aws-cn:sqs:us-east-1:000000000000:q",
            "arn:aws:sns:us-east-1:000000000000:q",
            &format!("arn:aws:sqs:us-east-1:000000000000:{long}q"),
        ] {
            assert_eq!(queue_of_arn(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_are_bounded_and_say_if_a_topic_is_fifo() {
        let long = "x".repeat(256);
        let long_fifo = format!("{}.fifo", &long[..251]);
        for (name, is_fifo) in
            [("aZ_-9", false), (&*long, false), ("a.fifo", true), (&*long_fifo, true)]
        {
            assert!(is_topic_name(name, is_fifo) && !is_topic_name(name, !is_fifo), "{name}");
        }
        for name in ["", ".fifo", "a b", "a.b", &format!("{long}x"), &format!("x{long_fifo}")] {
            assert!(!is_topic_name(name, false) && !is_topic_name(name, true), "{name}");
        }
    }
}
