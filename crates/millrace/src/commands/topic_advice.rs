//! Advice about a call of SNS that failed, as a line behind the error's text.

use millrace_client::{CallError, CallErrorKind};

use super::advice::{MAY_BE_CONSOLE, MAY_SPEAK_TLS, most_similar, of_auth, of_transport};

/// Says where topics are listed and made, and which one may be meant; `arns` are those there are.
pub(super) fn of_missing_topic(
    topic: &str,
    region: &str,
    arns: &mut dyn Iterator<Item = &str>,
) -> String {
    let names = arns.filter_map(|arn| arn.rsplit(':').next());
    let similar = most_similar(topic, names);
    let question = similar.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    format!(
        "there is no topic {topic} here\n{question}asked for region {region}; `millrace topic list` \
         shows its topics, `millrace topic create {topic}` makes this one"
    )
}

/// Adds advice to the error of a call.
pub(super) fn of_call(mut error: CallError, action: &str, access_key: Option<&str>) -> CallError {
    let advice = match error.kind {
        CallErrorKind::Transport => of_transport(&error.message),
        CallErrorKind::Auth => of_auth(&error, access_key),
        CallErrorKind::Refused if error.code == "MethodNotAllowed" => {
            Some(MAY_BE_CONSOLE.to_owned())
        }
        CallErrorKind::Refused => of_refusal(&error.message, action).map(str::to_owned),
        CallErrorKind::Malformed if error.code == "not-http" => Some(MAY_SPEAK_TLS.to_owned()),
        _ => None,
    };
    if let Some(advice) = advice {
        error.message = format!("{}\n{advice}", error.message);
    }
    error
}

/// Says what to change about a request that a server refuses.
fn of_refusal(message: &str, action: &str) -> Option<&'static str> {
    Some(match () {
        () if message.contains("MessageGroupId parameter is required") => {
            "a FIFO topic needs a message group: give --group ID"
        }
        () if message.contains("MessageDeduplicationId provided explicitly") => {
            "give --deduplication ID, or make a topic that has ids made of the messages: millrace topic \
             create NAME.fifo --attribute ContentBasedDeduplication=true"
        }
        () if message.contains("Topic Name") => {
            "a name has 1 to 256 letters of ASCII, digits, hyphens and underscores; that of a FIFO topic \
             ends with .fifo"
        }
        () if message.contains("already exists with different") && action == "Subscribe" => {
            "millrace topic subscriptions shows it; to change what it has, end it with millrace topic \
             unsubscribe ARN and subscribe again"
        }
        () if message.contains("SubscriptionArn Reason") || message.contains("SubscriptionId") => {
            "millrace topic subscriptions shows the ARNs"
        }
        () if message.contains("No default entry") => {
            r#"with --by-protocol the message is like {"default":"…","sqs":"…"}"#
        }
        () if message.contains("can not be subscribed to standard") => {
            "messages get into a FIFO queue from a FIFO topic: millrace topic create NAME.fifo"
        }
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_topic_is_answered_with_the_one_that_is_meant() {
        let arn = |name| format!("arn:aws:sns:us-east-1:000000000000:{name}");
        let arns = [arn("orders"), arn("refunds")];

        let text = of_missing_topic("order", "us-east-1", &mut arns.iter().map(String::as_str));
        assert!(text.contains("no topic order here\ndid you mean orders? "), "{text}");
        let text = of_missing_topic("letters", "eu-west-1", &mut arns.iter().map(String::as_str));
        assert!(!text.contains("did you mean"), "{text}");
        assert!(text.contains("eu-west-1"), "{text}");
        assert!(text.contains("millrace topic create letters"), "{text}");
    }

    #[test]
    fn refusals_say_which_flag_to_give() {
        let refused = |text| CallError::new(CallErrorKind::Refused, "InvalidParameter", text);
        let text = "Invalid parameter: The MessageGroupId parameter is required for FIFO topics";
        assert!(of_call(refused(text), "Publish", None).message.ends_with("give --group ID"));
        assert_eq!(of_call(refused("other"), "Publish", None).message, "other");
    }
}
