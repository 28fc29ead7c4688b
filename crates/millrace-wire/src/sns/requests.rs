//! The requests and the structures that they are made of.

use std::collections::BTreeMap;

use crate::codec::Blob;
use crate::{actions, structures};

actions! {
    /// A request.
    pub Action {
        AddPermission(AddPermission),
        ConfirmSubscription(ConfirmSubscription),
        CreateTopic(CreateTopic),
        DeleteTopic(TopicOnly),
        GetDataProtectionPolicy(ResourceOnly),
        GetSubscriptionAttributes(SubscriptionOnly),
        GetTopicAttributes(TopicOnly),
        ListSubscriptions(ListSubscriptions),
        ListSubscriptionsByTopic(ListSubscriptions),
        ListTagsForResource(ResourceOnly),
        ListTopics(ListTopics),
        Publish(Box<Publish>),
        PublishBatch(PublishBatch),
        PutDataProtectionPolicy(PutDataProtectionPolicy),
        RemovePermission(RemovePermission),
        SetSubscriptionAttributes(SetSubscriptionAttributes),
        SetTopicAttributes(SetTopicAttributes),
        Subscribe(Subscribe),
        TagResource(TagResource),
        Unsubscribe(SubscriptionOnly),
        UntagResource(UntagResource),
    }
}

/// The names of the actions.
pub const ACTIONS: [&str; Action::NAMES.len()] = Action::NAMES;

structures! {
    pub Tag {
        key: String = "Key",
        value: String = "Value",
    }

    /// DeleteTopic, GetTopicAttributes.
    pub TopicOnly {
        topic_arn: Option<String> = "TopicArn",
    }

    /// GetSubscriptionAttributes, Unsubscribe.
    pub SubscriptionOnly {
        subscription_arn: Option<String> = "SubscriptionArn",
    }

    /// GetDataProtectionPolicy, ListTagsForResource.
    pub ResourceOnly {
        resource_arn: Option<String> = "ResourceArn",
    }

    pub CreateTopic {
        name: Option<String> = "Name",
        attributes: BTreeMap<String, String> = "Attributes",
        tags: Vec<Tag> = "Tags",
        data_protection_policy: Option<String> = "DataProtectionPolicy",
    }

    pub SetTopicAttributes {
        topic_arn: Option<String> = "TopicArn",
        name: Option<String> = "AttributeName",
        value: Option<String> = "AttributeValue",
    }

    pub ListTopics {
        next_token: Option<String> = "NextToken",
    }

    pub Subscribe {
        topic_arn: Option<String> = "TopicArn",
        protocol: Option<String> = "Protocol",
        endpoint: Option<String> = "Endpoint",
        attributes: BTreeMap<String, String> = "Attributes",
        return_subscription_arn: Option<bool> = "ReturnSubscriptionArn",
    }

    pub ConfirmSubscription {
        topic_arn: Option<String> = "TopicArn",
        token: Option<String> = "Token",
        authenticate_on_unsubscribe: Option<String> = "AuthenticateOnUnsubscribe",
    }

    pub SetSubscriptionAttributes {
        subscription_arn: Option<String> = "SubscriptionArn",
        name: Option<String> = "AttributeName",
        value: Option<String> = "AttributeValue",
    }

    /// ListSubscriptions, which has no topic, and ListSubscriptionsByTopic.
    pub ListSubscriptions {
        topic_arn: Option<String> = "TopicArn",
        next_token: Option<String> = "NextToken",
    }

    pub Publish {
        topic_arn: Option<String> = "TopicArn",
        target_arn: Option<String> = "TargetArn",
        phone_number: Option<String> = "PhoneNumber",
        message: Option<String> = "Message",
        subject: Option<String> = "Subject",
        message_structure: Option<String> = "MessageStructure",
        message_attributes: BTreeMap<String, MessageAttributeValue> =
            "MessageAttributes".keyed("Name", "Value"),
        message_deduplication_id: Option<String> = "MessageDeduplicationId",
        message_group_id: Option<String> = "MessageGroupId",
    }

    pub PublishBatch {
        topic_arn: Option<String> = "TopicArn",
        entries: Vec<PublishBatchEntry> = "PublishBatchRequestEntries",
    }

    pub PublishBatchEntry {
        id: Option<String> = "Id",
        message: Option<String> = "Message",
        subject: Option<String> = "Subject",
        message_structure: Option<String> = "MessageStructure",
        message_attributes: BTreeMap<String, MessageAttributeValue> =
            "MessageAttributes".keyed("Name", "Value"),
        message_deduplication_id: Option<String> = "MessageDeduplicationId",
        message_group_id: Option<String> = "MessageGroupId",
    }

    pub MessageAttributeValue {
        data_type: Option<String> = "DataType",
        string_value: Option<String> = "StringValue",
        binary_value: Option<Blob> = "BinaryValue",
    }

    pub AddPermission {
        topic_arn: Option<String> = "TopicArn",
        label: Option<String> = "Label",
        accounts: Vec<String> = "AWSAccountId",
        actions: Vec<String> = "ActionName",
    }

    pub RemovePermission {
        topic_arn: Option<String> = "TopicArn",
        label: Option<String> = "Label",
    }

    pub TagResource {
        resource_arn: Option<String> = "ResourceArn",
        tags: Vec<Tag> = "Tags",
    }

    pub UntagResource {
        resource_arn: Option<String> = "ResourceArn",
        tag_keys: Vec<String> = "TagKeys",
    }

    pub PutDataProtectionPolicy {
        resource_arn: Option<String> = "ResourceArn",
        data_protection_policy: Option<String> = "DataProtectionPolicy",
    }
}
