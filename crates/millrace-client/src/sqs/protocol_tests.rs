//! Both protocols say the same, in both directions: what Millrace's server reads of our requests,
//! and what we read of its answers.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use millrace_wire::protocol;
use millrace_wire::query::Parameters;
use millrace_wire::sqs::{
    Answer, BatchAnswer, FailedEntry, ReceivedAttribute, ReceivedMessage, SentMessage, decode_json,
    decode_query,
};
use proptest::prelude::*;

use super::encode::Request;
use super::{Protocol, decode, encode};
use crate::message::{AttributeValue, MessageAttribute, Outgoing, ReceiptHandle};
use crate::peer::{ReceiveRequest, SystemAttributes, Visibility};

const URL: &str = "http://h:1/000000000000/q";
const BOTH: [Protocol; 2] = [Protocol::Json, Protocol::Query];

/// What needs escapes in one of the protocols, and what does not.
fn text() -> impl Strategy<Value = String> {
    r#"(\PC|[ &<>"'%+=\r\n\t]|&amp;|[a-z ]{1,20}){0,6}"#
}

fn byte_string() -> impl Strategy<Value = ByteString> {
    text().prop_map(ByteString::from)
}

fn attribute() -> impl Strategy<Value = MessageAttribute> {
    let value = prop_oneof![
        byte_string().prop_map(AttributeValue::Text),
        prop::collection::vec(any::<u8>(), 0..20)
            .prop_map(|bytes| AttributeValue::Binary(bytes.into())),
    ];
    (byte_string(), byte_string(), value).prop_map(|(name, data_type, value)| MessageAttribute {
        name,
        data_type,
        value,
    })
}

fn message() -> impl Strategy<Value = Outgoing> {
    let delay = prop::option::of((0..900_000u64).prop_map(Duration::from_millis));
    let optional = || prop::option::of(byte_string());
    let attributes = prop::collection::vec(attribute(), 0..4);
    (byte_string(), delay, optional(), optional(), attributes, optional()).prop_map(
        |(body, delay, group_id, deduplication_id, attributes, trace_header)| Outgoing {
            body,
            delay,
            group_id,
            deduplication_id,
            attributes,
            trace_header,
        },
    )
}

fn handles() -> impl Strategy<Value = Vec<ReceiptHandle>> {
    let handle =
        byte_string().prop_map(|token| ReceiptHandle { message_id: ByteString::new(), token });
    prop::collection::vec(handle, 1..10)
}

/// What the server reads of a request.
fn read(protocol: Protocol, request: &Request) -> String {
    let name = request.action.name();
    match protocol {
        Protocol::Json => format!("{:?}", decode_json(name, &request.body).unwrap()),
        Protocol::Query => {
            let parameters = Parameters::parse("", &request.body).unwrap();
            assert_eq!(parameters.get("Action"), Some(name));
            format!("{:?}", decode_query(name, &parameters).unwrap())
        }
    }
}

fn reads_equally(encode: impl Fn(Protocol) -> Request) {
    let [json, query] = BOTH.map(|protocol| read(protocol, &encode(protocol)));
    assert_eq!(json, query);
}

/// An answer of the server, and what is read of it.
fn answered<T>(answer: &Answer, action: &str, read: impl Fn(Protocol, &Bytes) -> T) -> [T; 2] {
    BOTH.map(|ours| {
        let theirs = match ours {
            Protocol::Json => protocol::Protocol::Json,
            Protocol::Query => protocol::Protocol::Query,
        };
        let mut body = Vec::new();
        millrace_wire::sqs::encode(answer, action, theirs, "request", &mut body);
        read(ours, &body.into())
    })
}

fn received() -> impl Strategy<Value = ReceivedMessage> {
    let attribute = (text(), text(), any::<bool>());
    let attributes = prop::collection::vec(attribute, 0..4);
    let system = prop::collection::vec(text(), 0..3);
    let handle = "[A-Za-z0-9+/=_-]{1,90}";
    (handle, text(), system, attributes).prop_map(|(receipt_handle, body, system, attributes)| {
        ReceivedMessage {
            message_id: *b"00000000-0000-0000-0000-000000000001",
            receipt_handle,
            md5_of_body: [7; 16],
            body: body.into(),
            attributes: system
                .into_iter()
                .map(|value| ("AWSTraceHeader", Cow::Owned(value)))
                .collect(),
            md5_of_message_attributes: None,
            message_attributes: attributes
                .into_iter()
                .map(|(name, value, is_binary)| ReceivedAttribute {
                    name: name.into(),
                    data_type: if is_binary { "Binary.x".into() } else { "String".into() },
                    value: value.into(),
                })
                .collect(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn server_reads_sends_equally(messages in prop::collection::vec(message(), 1..5)) {
        reads_equally(|protocol| encode::send(protocol, URL, &messages[0]));
        reads_equally(|protocol| encode::send_batch(protocol, URL, &messages));
    }

    #[test]
    fn server_reads_settlements_equally(handles in handles(), seconds in 0..50_000u64) {
        let changes: Vec<Visibility> = handles
            .iter()
            .map(|handle| Visibility {
                handle: handle.clone(),
                timeout: Duration::from_secs(seconds),
            })
            .collect();

        reads_equally(|protocol| encode::delete(protocol, URL, &handles[0]));
        reads_equally(|protocol| encode::delete_batch(protocol, URL, &handles));
        reads_equally(|protocol| encode::change_visibility(protocol, URL, &changes[0]));
        reads_equally(|protocol| encode::change_visibility_batch(protocol, URL, &changes));
    }

    #[test]
    fn received_messages_read_equally(messages in prop::collection::vec(received(), 0..4)) {
        let bodies: Vec<Bytes> = messages.iter().map(|message| message.body.clone()).collect();
        let answer = Answer::ReceiveMessage { messages };

        let [json, query] = answered(&answer, "ReceiveMessage", |protocol, body| {
            decode::received(protocol, body).unwrap()
        });

        let read: Vec<Bytes> = query.iter().map(|one| one.body.as_bytes().clone()).collect();
        prop_assert_eq!(read, bodies);
        prop_assert_eq!(json, query);
    }

    #[test]
    fn outcomes_of_batches_read_equally(fates in prop::collection::vec(any::<bool>(), 1..10), why in text()) {
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for (index, succeeds) in fates.iter().enumerate() {
            let id = index.to_string();
            if *succeeds {
                successful.push(SentMessage {
                    id: Some(id),
                    message_id: *b"00000000-0000-0000-0000-000000000001",
                    md5_of_message_body: [1; 16],
                    md5_of_message_attributes: None,
                    md5_of_message_system_attributes: None,
                    sequence_number: Some(index as u128),
                });
            } else {
                let message = Cow::Owned(why.clone());
                let sender_fault = index % 2 == 0;
                failed.push(FailedEntry { id, code: "InternalError", message, sender_fault });
            }
        }
        let answer = Answer::SendMessageBatch(BatchAnswer { successful, failed });

        let [json, query] = answered(&answer, "SendMessageBatch", |protocol, body| {
            decode::sent_batch(protocol, body, fates.len()).unwrap()
        });

        let succeeded: Vec<bool> = query.iter().map(Result::is_ok).collect();
        prop_assert_eq!(succeeded, fates);
        prop_assert_eq!(json, query);
    }
}

#[test]
fn server_reads_receives_and_questions_equally() {
    for (attributes, visibility) in
        [(SystemAttributes::All, None), (SystemAttributes::None, Some(Duration::from_secs(7)))]
    {
        let request =
            ReceiveRequest { max: 3, visibility, attributes, ..ReceiveRequest::default() };
        reads_equally(|protocol| encode::receive(protocol, URL, &request, request.wait));
    }
    reads_equally(|protocol| encode::queue_url(protocol, "a queue", None));
    reads_equally(|protocol| encode::queue_url(protocol, "a queue", Some("111111111111")));
    reads_equally(|protocol| encode::queue_attributes(protocol, URL, &["QueueArn", "Policy"]));
}

#[test]
fn single_answers_read_equally() {
    let url = Answer::GetQueueUrl { queue_url: URL.to_owned() };
    let [json, query] =
        answered(&url, "GetQueueUrl", |protocol, body| decode::queue_url(protocol, body).unwrap());
    assert_eq!((&*json, &*query), (URL, URL));

    let attributes = vec![("QueueArn", "arn:a:b".to_owned()), ("Policy", "{\"a\":1}".to_owned())];
    let attributes = Answer::GetQueueAttributes { attributes };
    let [json, query] = answered(&attributes, "GetQueueAttributes", |protocol, body| {
        decode::queue_attributes(protocol, body).unwrap()
    });
    assert_eq!(&*query[1].1, "{\"a\":1}");
    assert_eq!(json, query);
}
