//! The JSON text that a notification is, members in Amazon's order.
//!
//! Subscriptions of a topic get the same text but for their ARN in the link that ends them. So it is
//! written once, in two parts, and digested once up to the ARN.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use millrace_broker::Attribute;
use millrace_core::instant_text::format_iso8601_ms;
use millrace_core::{SharedDigest, text};
use millrace_push::BoxFuture;
use millrace_wire::json_string;

use super::topic_attributes::SignatureVersion;
use super::window::sequence_text;

/// Signs notifications, with a key and a certificate that are made once and kept.
pub trait Sign: Send + Sync {
    /// The signature in base64; none if it cannot be made.
    fn sign(&self, version: SignatureVersion, text: &[u8]) -> Option<String>;

    /// The same on another thread: a signature takes a millisecond, in which a thread of requests
    /// answers twenty others.
    fn sign_aside(
        &self,
        version: SignatureVersion,
        text: Vec<u8>,
    ) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::ready(self.sign(version, &text)))
    }

    /// The path of the certificate on this server, which begins with a slash.
    fn certificate_path(&self) -> &str;

    /// The certificate.
    fn certificate_pem(&self) -> Option<&str> {
        None
    }

    /// Returns true if there is a key.
    fn is_ready(&self) -> bool {
        true
    }

    /// Makes the key. Errors are for people.
    fn make_ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A notification of one message, in the words of one protocol.
pub(super) struct Notification<'a> {
    pub message_id: &'a str,
    /// FIFO topics only.
    pub sequence: Option<u64>,
    pub topic: &'a str,
    pub subject: Option<&'a str>,
    pub message: &'a str,
    pub at_ms: u64,
    pub attributes: &'a [Attribute<'a>],
    /// First part of all links.
    pub origin: &'a str,
    /// None on FIFO topics.
    pub signature: Option<(&'a dyn Sign, SignatureVersion)>,
    /// The signature, if it was made before.
    pub signed: Option<&'a str>,
}

/// The text before and behind the ARN of the subscription.
pub(super) struct Envelope {
    head: Vec<u8>,
    tail: Vec<u8>,
    digest: SharedDigest,
}

impl Notification<'_> {
    pub(super) fn envelope(&self) -> Envelope {
        let mut head = Vec::with_capacity(self.message.len() + self.message.len() / 8 + 1024);
        let time = format_iso8601_ms(self.at_ms);
        let sequence = self.sequence.map(sequence_text);
        head.extend_from_slice(br#"{"Type":"Notification""#);
        put(&mut head, "MessageId", self.message_id);
        if let Some(sequence) = &sequence {
            put(&mut head, "SequenceNumber", sequence);
        }
        put(&mut head, "TopicArn", self.topic);
        if let Some(subject) = self.subject {
            put(&mut head, "Subject", subject);
        }
        put(&mut head, "Message", self.message);
        put(&mut head, "Timestamp", &time);
        if let Some((signer, version)) = self.signature
            && let Some(signature) = match self.signed {
                Some(signed) => Some(Cow::Borrowed(signed)),
                None => signer.sign(version, &self.string_to_sign(&time)).map(Cow::Owned),
            }
        {
            put(&mut head, "SignatureVersion", version.text());
            put(&mut head, "Signature", &signature);
            let url = format!("{}{}", self.origin, signer.certificate_path());
            put(&mut head, "SigningCertURL", &url);
        }
        put(&mut head, "UnsubscribeURL", &unsubscribe_url(self.origin, ""));
        // The quote comes behind the ARN.
        head.pop();
        let mut tail = vec![b'"'];
        self.put_attributes(&mut tail);
        tail.push(b'}');
        let [head, tail] = [head, tail].map(sendable);
        Envelope { digest: SharedDigest::of(&head), head, tail }
    }

    fn put_attributes(&self, out: &mut Vec<u8>) {
        if self.attributes.is_empty() {
            return;
        }
        out.extend_from_slice(br#","MessageAttributes":{"#);
        for (number, Attribute { name, data_type, value }) in self.attributes.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            json_string(out, name.as_bytes());
            out.extend_from_slice(br#":{"Type":"#);
            json_string(out, data_type.as_bytes());
            out.extend_from_slice(br#","Value":"#);
            match data_type.starts_with("Binary") {
                true => json_string(out, BASE64_STANDARD.encode(value).as_bytes()),
                false => json_string(out, value),
            }
            out.push(b'}');
        }
        out.push(b'}');
    }

    /// The text that the signature is of.
    pub(super) fn to_sign(&self) -> Vec<u8> {
        self.string_to_sign(&format_iso8601_ms(self.at_ms))
    }

    /// SNS developer guide, "Verifying the signatures of messages": names and values by lines, in
    /// order of name.
    fn string_to_sign(&self, time: &str) -> Vec<u8> {
        let members = [
            ("Message", Some(self.message)),
            ("MessageId", Some(self.message_id)),
            ("Subject", self.subject),
            ("Timestamp", Some(time)),
            ("TopicArn", Some(self.topic)),
            ("Type", Some("Notification")),
        ];
        lines(members)
    }
}

impl Envelope {
    /// Bytes for a subscription whose ARN has that many.
    pub(super) fn len(&self, arn: &str) -> usize {
        self.head.len() + arn.len() + self.tail.len()
    }

    /// Puts the text for a subscription in the place of what is in `out`. Returns its MD5.
    pub(super) fn write(&self, arn: &str, out: &mut Vec<u8>) -> [u8; 16] {
        out.clear();
        out.reserve(self.len(arn));
        out.extend_from_slice(&self.head);
        out.extend_from_slice(arn.as_bytes());
        out.extend_from_slice(&self.tail);
        self.digest.with(&[arn.as_bytes(), &self.tail])
    }
}

/// What an endpoint is asked to confirm: a subscription, or that one has ended.
pub(super) struct Confirmation<'a> {
    /// `SubscriptionConfirmation` or `UnsubscribeConfirmation`.
    pub kind: &'static str,
    pub message_id: &'a str,
    pub topic: &'a str,
    pub token: &'a str,
    pub at_ms: u64,
    pub origin: &'a str,
    pub signature: Option<(&'a dyn Sign, SignatureVersion)>,
}

impl Confirmation<'_> {
    pub(super) fn text(&self) -> Vec<u8> {
        let Confirmation { topic, token, origin, .. } = *self;
        let message = match self.kind {
            "UnsubscribeConfirmation" => format!(
                "You have chosen to deactivate subscription to the topic {topic}.\nTo cancel this \
                 operation and restore the subscription, visit the SubscribeURL included in this \
                 message."
            ),
            _ => format!(
                "You have chosen to subscribe to the topic {topic}.\nTo confirm the subscription, \
                 visit the SubscribeURL included in this message."
            ),
        };
        let time = format_iso8601_ms(self.at_ms);
        let url = format!("{origin}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}");
        let mut out = Vec::with_capacity(2048);
        out.extend_from_slice(b"{\"Type\":");
        json_string(&mut out, self.kind.as_bytes());
        put(&mut out, "MessageId", self.message_id);
        put(&mut out, "Token", token);
        put(&mut out, "TopicArn", topic);
        put(&mut out, "Message", &message);
        put(&mut out, "SubscribeURL", &url);
        put(&mut out, "Timestamp", &time);
        if let Some((signer, version)) = self.signature {
            let members = [
                ("Message", Some(&*message)),
                ("MessageId", Some(self.message_id)),
                ("SubscribeURL", Some(&*url)),
                ("Timestamp", Some(&*time)),
                ("Token", Some(token)),
                ("TopicArn", Some(topic)),
                ("Type", Some(self.kind)),
            ];
            if let Some(signature) = signer.sign(version, &lines(members)) {
                put(&mut out, "SignatureVersion", version.text());
                put(&mut out, "Signature", &signature);
                let url = format!("{origin}{}", signer.certificate_path());
                put(&mut out, "SigningCertURL", &url);
            }
        }
        out.push(b'}');
        out
    }
}

/// The link that ends a subscription.
fn unsubscribe_url(origin: &str, subscription: &str) -> String {
    format!("{origin}/?Action=Unsubscribe&SubscriptionArn={subscription}")
}

/// Escapes U+FFFE and U+FFFF, which JSON has and SQS refuses. Nothing but strings can hold them.
fn sendable(json: Vec<u8>) -> Vec<u8> {
    if !text::has_noncharacter(&json) {
        return json;
    }
    let json = String::from_utf8_lossy(&json);
    json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff").into_bytes()
}

/// Appends a member to others.
fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(b',');
    json_string(out, name.as_bytes());
    out.push(b':');
    json_string(out, value.as_bytes());
}

fn lines<const N: usize>(members: [(&str, Option<&str>); N]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in members {
        let Some(value) = value else { continue };
        for line in [name, value] {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use millrace_core::md5;

    use super::*;

    /// Remembers what it signed.
    #[derive(Default)]
    struct Pen(Mutex<String>);

    impl Sign for Pen {
        fn sign(&self, version: SignatureVersion, text: &[u8]) -> Option<String> {
            *self.0.lock().unwrap() = String::from_utf8(text.to_vec()).unwrap();
            Some(format!("signed-{}", version.text()))
        }

        fn certificate_path(&self) -> &str {
            "/cert.pem"
        }
    }

    const TOPIC: &str = "arn:aws:sns:us-east-1:000000000000:t";

    #[test]
    fn members_have_amazons_order() {
        let pen = Pen::default();
        let attributes = [
            Attribute { name: "b", data_type: "Binary", value: b"\x01" },
            Attribute { name: "n", data_type: "Number", value: b"7" },
        ];
        let notification = Notification {
            message_id: "id",
            sequence: None,
            topic: TOPIC,
            subject: Some("s"),
            message: "say \"hi\"",
            at_ms: 1_767_323_045_678,
            attributes: &attributes,
            origin: "http://h:1",
            signature: Some((&pen, SignatureVersion::Two)),
            signed: None,
        };

        let (envelope, mut text) = (notification.envelope(), Vec::new());
        let digest = envelope.write("ARN", &mut text);

        assert_eq!((digest, text.len()), (md5(&text), envelope.len("ARN")));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            concat!(
                r#"{"Type":"Notification","MessageId":"id","#,
                r#""TopicArn":"arn:aws:sns:us-east-1:000000000000:t","Subject":"s","#,
                r#""Message":"say \"hi\"","Timestamp":"2026-01-02T03:04:05.678Z","#,
                r#""SignatureVersion":"2","Signature":"signed-2","#,
                r#""SigningCertURL":"http://h:1/cert.pem","#,
                r#""UnsubscribeURL":"http://h:1/?Action=Unsubscribe&SubscriptionArn=ARN","#,
                r#""MessageAttributes":{"b":{"Type":"Binary","Value":"AQ=="},"#,
                r#""n":{"Type":"Number","Value":"7"}}}"#,
            )
        );
        assert_eq!(
            *pen.0.lock().unwrap(),
            format!(
                "Message\nsay \"hi\"\nMessageId\nid\nSubject\ns\nTimestamp\n\
                 2026-01-02T03:04:05.678Z\nTopicArn\n{TOPIC}\nType\nNotification\n"
            )
        );
    }

    #[test]
    fn a_fifo_topic_numbers_its_messages_and_signs_nothing() {
        let notification = Notification {
            message_id: "id",
            sequence: Some(5),
            topic: TOPIC,
            subject: None,
            message: "m",
            at_ms: 0,
            attributes: &[],
            origin: "http://h",
            signature: None,
            signed: None,
        };
        let mut text = Vec::new();

        notification.envelope().write("ARN", &mut text);

        assert_eq!(
            String::from_utf8(text).unwrap(),
            concat!(
                r#"{"Type":"Notification","MessageId":"id","SequenceNumber":"10000000000000000005","#,
                r#""TopicArn":"arn:aws:sns:us-east-1:000000000000:t","Message":"m","#,
                r#""Timestamp":"1970-01-01T00:00:00.000Z","#,
                r#""UnsubscribeURL":"http://h/?Action=Unsubscribe&SubscriptionArn=ARN"}"#,
            )
        );
    }

    #[test]
    fn confirmations_have_a_link_with_their_token() {
        let pen = Pen::default();
        let confirmation = Confirmation {
            kind: "SubscriptionConfirmation",
            message_id: "id",
            topic: TOPIC,
            token: "abc",
            at_ms: 0,
            origin: "http://h",
            signature: Some((&pen, SignatureVersion::One)),
        };

        let text = String::from_utf8(confirmation.text()).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();

        assert_eq!(
            parsed["SubscribeURL"],
            format!("http://h/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=abc")
        );
        assert_eq!(parsed["Signature"], "signed-1");
        let signed = pen.0.lock().unwrap();
        let names: Vec<&str> = signed.lines().collect();
        // The message has two lines.
        assert_eq!(names.len(), 15);
        assert_eq!([names[0], names[3], names[5]], ["Message", "MessageId", "SubscribeURL"]);
    }
}
