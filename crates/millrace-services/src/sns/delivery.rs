//! Attributes of a message in the hidden queue of an HTTP subscription.
//!
//! The hidden queue of a subscription is `QueueKey::hidden("sns", UUID)`, where UUID is the last part
//! of the subscription's ARN. Each message is one delivery. Its body is that of the POST, complete;
//! the rest of the request is in the attributes that are named here, all of them of type String.

use millrace_broker::{Attribute, Content};

/// The names of the attributes, in the order in which they are stored.
const NAMES: [&str; 5] = ["id", "raw", "subscription", "topic", "type"];

/// The kinds of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    Notification,
    SubscriptionConfirmation,
    UnsubscribeConfirmation,
}

impl DeliveryKind {
    /// The value of `x-amz-sns-message-type` and of the member `Type`.
    pub fn name(self) -> &'static str {
        match self {
            DeliveryKind::Notification => "Notification",
            DeliveryKind::SubscriptionConfirmation => "SubscriptionConfirmation",
            DeliveryKind::UnsubscribeConfirmation => "UnsubscribeConfirmation",
        }
    }

    fn named(name: &str) -> Option<DeliveryKind> {
        let all = [
            DeliveryKind::Notification,
            DeliveryKind::SubscriptionConfirmation,
            DeliveryKind::UnsubscribeConfirmation,
        ];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// One delivery, apart from its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    pub kind: DeliveryKind,
    /// `x-amz-sns-message-id`.
    pub message_id: &'a str,
    /// `x-amz-sns-topic-arn`.
    pub topic: &'a str,
    /// `x-amz-sns-subscription-arn`, which a SubscriptionConfirmation leaves out.
    pub subscription: &'a str,
    /// `x-amz-sns-rawdelivery`: the body is the message alone.
    pub is_raw: bool,
}

impl<'a> Delivery<'a> {
    /// The attributes to store, in ascending order of name.
    pub fn attributes(&self) -> Vec<Attribute<'a>> {
        let is_raw = if self.is_raw { "true" } else { "false" };
        let values = [self.message_id, is_raw, self.subscription, self.topic, self.kind.name()];
        let attribute = |(name, value): (&'static str, &'a str)| Attribute {
            name,
            data_type: "String",
            value: value.as_bytes(),
        };
        NAMES.into_iter().zip(values).map(attribute).collect()
    }

    /// Reads the attributes of a stored message; `None` if it is no delivery.
    pub fn of(content: &'a Content) -> Option<Delivery<'a>> {
        let mut values = [""; NAMES.len()];
        for [name, _, value] in content.attributes() {
            let place = NAMES.iter().position(|known| known.as_bytes() == name)?;
            *values.get_mut(place)? = str::from_utf8(value).ok()?;
        }
        let [message_id, is_raw, subscription, topic, kind] = values;
        let (kind, is_raw) = (DeliveryKind::named(kind)?, is_raw == "true");
        Some(Delivery { kind, message_id, topic, subscription, is_raw })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_broker::NewContent;
    use millrace_engine::ContentVersion;

    use super::*;

    #[test]
    fn a_delivery_reads_back_as_it_was_stored() {
        let delivery = Delivery {
            kind: DeliveryKind::UnsubscribeConfirmation,
            message_id: "id",
            topic: "t",
            subscription: "t:s",
            is_raw: true,
        };
        let stored = |attributes| {
            let mut stored = Vec::new();
            NewContent { body: b"x", attributes, ..NewContent::default() }.encode(&mut stored);
            Content::decode(ContentVersion::Plain, Bytes::from(stored)).unwrap()
        };

        assert!(delivery.attributes().is_sorted_by_key(|it| it.name));
        assert_eq!(Delivery::of(&stored(delivery.attributes())), Some(delivery));
        assert_eq!(Delivery::of(&stored(Vec::new())), None);
        let other = vec![Attribute { name: "other", data_type: "String", value: b"x" }];
        assert_eq!(Delivery::of(&stored(other)), None);
    }
}
