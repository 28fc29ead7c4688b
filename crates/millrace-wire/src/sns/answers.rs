//! The answers and the structures that they are made of, members in the order of Amazon's XML.

use std::collections::BTreeMap;

use super::requests::Tag;
use crate::{answers, structures};

answers! {
    /// An answer.
    pub Answer {
        /// Nothing to say.
        Done,
        /// Nothing to say, of the actions that have an element for it.
        Empty {},
        /// ConfirmSubscription and Subscribe.
        Subscription {
            subscription_arn: String = "SubscriptionArn",
        },
        CreateTopic {
            topic_arn: String = "TopicArn",
        },
        /// GetSubscriptionAttributes and GetTopicAttributes.
        Attributes {
            attributes: BTreeMap<String, String> = "Attributes",
        },
        GetDataProtectionPolicy {
            data_protection_policy: String = "DataProtectionPolicy",
        },
        /// ListSubscriptions and ListSubscriptionsByTopic.
        ListSubscriptions {
            subscriptions: Vec<ListedSubscription> = "Subscriptions",
            next_token: Option<String> = "NextToken",
        },
        ListTagsForResource {
            tags: Vec<Tag> = "Tags",
        },
        ListTopics {
            topics: Vec<ListedTopic> = "Topics",
            next_token: Option<String> = "NextToken",
        },
        Publish {
            message_id: String = "MessageId",
            sequence_number: Option<String> = "SequenceNumber",
        },
        PublishBatch {
            failed: Vec<FailedEntry> = "Failed",
            successful: Vec<PublishedEntry> = "Successful",
        },
    }
}

structures! {
    pub ListedTopic {
        topic_arn: String = "TopicArn",
    }

    pub ListedSubscription {
        subscription_arn: String = "SubscriptionArn",
        owner: String = "Owner",
        protocol: String = "Protocol",
        endpoint: String = "Endpoint",
        topic_arn: String = "TopicArn",
    }

    pub PublishedEntry {
        id: String = "Id",
        message_id: String = "MessageId",
        sequence_number: Option<String> = "SequenceNumber",
    }

    pub FailedEntry {
        id: String = "Id",
        code: String = "Code",
        message: Option<String> = "Message",
        sender_fault: bool = "SenderFault",
    }
}
