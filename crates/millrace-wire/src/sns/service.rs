//! Amazon SNS as requests show it.

use crate::protocol::{NOTHING, ServiceMetadata};

/// The service.
pub static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "sns",
    title: "SNS",
    scope: "sns",
    versions: &["2010-03-31"],
    clue_actions: &[
        "AddPermission",
        "ConfirmSubscription",
        "CreateTopic",
        "DeleteTopic",
        "GetTopicAttributes",
        "ListSubscriptions",
        "ListTopics",
        "Publish",
        "PublishBatch",
        "RemovePermission",
        "Subscribe",
        "Unsubscribe",
    ],
    // Links in notifications have nothing else that shows the service.
    clue_parameters: &["TopicArn", "SubscriptionArn"],
    xml_namespace: "http://sns.amazonaws.com/doc/2010-03-31/",
    ..NOTHING
};
