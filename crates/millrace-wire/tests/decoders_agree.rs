//! The decoders, two of JSON and one of Query parameters, make the same of the same logical
//! request.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_wire::query::Parameters;
use millrace_wire::sqs::{Action, decode_json, decode_query};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A member of a request, in a form that both protocols can be made from.
#[derive(Clone, Debug)]
enum Member {
    Text(&'static str, String),
    Integer(&'static str, i64),
    /// JSON name, Query name.
    List(&'static str, &'static str, Vec<String>),
    /// JSON name, Query name, Query name of the key.
    Pairs(&'static str, &'static str, &'static str, Vec<(String, String)>),
    /// JSON name, Query name.
    Attributes(&'static str, &'static str, Vec<(String, Attribute)>),
    /// Query name; `Entries` in JSON.
    Entries(&'static str, Vec<Vec<Member>>),
}

#[derive(Clone, Debug)]
struct Attribute {
    data_type: Option<String>,
    string: Option<String>,
    binary: Option<Vec<u8>>,
    has_lists: bool,
}

fn to_json(members: &[Member]) -> Value {
    let mut object = Map::new();
    for member in members {
        let (name, value) = match member {
            Member::Text(name, text) => (*name, json!(text)),
            Member::Integer(name, number) => (*name, json!(number)),
            Member::List(name, _, texts) => (*name, json!(texts)),
            Member::Pairs(name, _, _, pairs) => {
                (*name, Value::Object(pairs.iter().map(|(k, v)| (k.clone(), json!(v))).collect()))
            }
            Member::Attributes(name, _, attributes) => {
                let value = |attribute: &Attribute| {
                    json!({
                        "DataType": attribute.data_type,
                        "StringValue": attribute.string,
                        "BinaryValue": attribute.binary.as_ref().map(|bytes| STANDARD.encode(bytes)),
                        "StringListValues": attribute.has_lists.then(|| vec!["a"]),
                        "BinaryListValues": null,
                    })
                };
                let pairs = attributes.iter().map(|(name, each)| (name.clone(), value(each)));
                (*name, Value::Object(pairs.collect()))
            }
            Member::Entries(_, entries) => {
                ("Entries", entries.iter().map(|entry| to_json(entry)).collect())
            }
        };
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// `scatter` numbers the elements of lists: ascending with gaps.
fn to_form(members: &[Member], prefix: &str, scatter: usize, form: &mut Vec<(String, Vec<u8>)>) {
    let number = |index: usize| 1 + index * (1 + scatter % 7);
    for member in members {
        match member {
            Member::Text(name, text) => form.push((format!("{prefix}{name}"), text.clone().into())),
            Member::Integer(name, integer) => {
                form.push((format!("{prefix}{name}"), integer.to_string().into()));
            }
            Member::List(_, name, texts) => {
                for (index, text) in texts.iter().enumerate() {
                    form.push((format!("{prefix}{name}.{}", number(index)), text.clone().into()));
                }
            }
            Member::Pairs(_, name, key_name, pairs) => {
                for (index, (key, value)) in pairs.iter().enumerate() {
                    let element = format!("{prefix}{name}.{}", number(index));
                    form.push((format!("{element}.{key_name}"), key.clone().into()));
                    form.push((format!("{element}.Value"), value.clone().into()));
                }
            }
            Member::Attributes(_, name, attributes) => {
                for (index, (attribute_name, attribute)) in attributes.iter().enumerate() {
                    let element = format!("{prefix}{name}.{}", number(index));
                    form.push((format!("{element}.Name"), attribute_name.clone().into()));
                    if let Some(data_type) = &attribute.data_type {
                        form.push((format!("{element}.Value.DataType"), data_type.clone().into()));
                    }
                    if let Some(text) = &attribute.string {
                        form.push((format!("{element}.Value.StringValue"), text.clone().into()));
                    }
                    if let Some(bytes) = &attribute.binary {
                        let encoded = STANDARD.encode(bytes).into();
                        form.push((format!("{element}.Value.BinaryValue"), encoded));
                    }
                    if attribute.has_lists {
                        form.push((format!("{element}.Value.StringListValue.1"), b"a".to_vec()));
                    }
                }
            }
            Member::Entries(name, entries) => {
                if entries.is_empty() {
                    form.push((format!("{prefix}{name}"), Vec::new()));
                }
                for (index, entry) in entries.iter().enumerate() {
                    let element = format!("{prefix}{name}.{}.", number(index));
                    to_form(entry, &element, scatter, form);
                }
            }
        }
    }
}

fn urlencoded(form: &[(String, Vec<u8>)]) -> String {
    let encode = |bytes: &[u8]| {
        let mut text = String::new();
        for byte in bytes {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
                    text.push(char::from(*byte));
                }
                b' ' => text.push('+'),
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
        text
    };
    let pairs: Vec<_> = form
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name.as_bytes()), encode(value)))
        .collect();
    pairs.join("&")
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,6}",
        "[\\x00-\\x20\"\\\\&=+%é]{0,8}",
        "http://h:1/000000000000/q[0-9]"
    ]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 1..12)
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let map = prop::collection::btree_map(text(), text(), 1..12);
    map.prop_map(|map| map.into_iter().collect())
}

fn attributes() -> impl Strategy<Value = Vec<(String, Attribute)>> {
    let attribute = (
        prop::option::of(text()),
        prop::option::of(text()),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        any::<bool>(),
    )
        .prop_map(|(data_type, string, binary, has_lists)| Attribute {
            data_type,
            string,
            binary,
            has_lists,
        });
    let map = prop::collection::btree_map(text(), attribute, 1..12);
    map.prop_map(|map| map.into_iter().collect())
}

/// Which kind of member, without a value.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text(&'static str),
    Integer(&'static str),
    List(&'static str, &'static str),
    Pairs(&'static str, &'static str, &'static str),
    Attributes(&'static str, &'static str),
    Entries(&'static str, &'static [Kind]),
}

fn member(kind: Kind) -> BoxedStrategy<Member> {
    match kind {
        Kind::Text(name) => text().prop_map(move |text| Member::Text(name, text)).boxed(),
        Kind::Integer(name) => {
            any::<i64>().prop_map(move |number| Member::Integer(name, number)).boxed()
        }
        Kind::List(name, query) => {
            texts().prop_map(move |texts| Member::List(name, query, texts)).boxed()
        }
        Kind::Pairs(name, query, key) => {
            pairs().prop_map(move |pairs| Member::Pairs(name, query, key, pairs)).boxed()
        }
        Kind::Attributes(name, query) => {
            attributes().prop_map(move |each| Member::Attributes(name, query, each)).boxed()
        }
        Kind::Entries(query, kinds) => {
            // An entry without any member cannot be said in the Query protocol.
            let entry = members(kinds).prop_map(|mut entry| {
                if entry.is_empty() {
                    entry.push(Member::Text("Id", "x".to_owned()));
                }
                entry
            });
            prop::collection::vec(entry, 0..12)
                .prop_map(move |entries| Member::Entries(query, entries))
                .boxed()
        }
    }
}

/// Any of the members, in the order of the model.
fn members(kinds: &'static [Kind]) -> BoxedStrategy<Vec<Member>> {
    let each: Vec<_> = kinds.iter().map(|kind| prop::option::of(member(*kind))).collect();
    each.prop_map(|members| members.into_iter().flatten().collect()).boxed()
}

const URL: Kind = Kind::Text("QueueUrl");
const ATTRIBUTES: Kind = Kind::Pairs("Attributes", "Attribute", "Name");
const HANDLE: Kind = Kind::Text("ReceiptHandle");
const SEND: &[Kind] = &[
    Kind::Text("Id"),
    Kind::Text("MessageBody"),
    Kind::Integer("DelaySeconds"),
    Kind::Attributes("MessageAttributes", "MessageAttribute"),
    Kind::Attributes("MessageSystemAttributes", "MessageSystemAttribute"),
    Kind::Text("MessageDeduplicationId"),
    Kind::Text("MessageGroupId"),
];

const ACTIONS: &[(&str, &[Kind])] = &[
    (
        "AddPermission",
        &[
            URL,
            Kind::Text("Label"),
            Kind::List("AWSAccountIds", "AWSAccountId"),
            Kind::List("Actions", "ActionName"),
        ],
    ),
    ("CancelMessageMoveTask", &[Kind::Text("TaskHandle")]),
    ("ChangeMessageVisibility", &[URL, HANDLE, Kind::Integer("VisibilityTimeout")]),
    (
        "ChangeMessageVisibilityBatch",
        &[
            URL,
            Kind::Entries(
                "ChangeMessageVisibilityBatchRequestEntry",
                &[Kind::Text("Id"), HANDLE, Kind::Integer("VisibilityTimeout")],
            ),
        ],
    ),
    ("CreateQueue", &[Kind::Text("QueueName"), ATTRIBUTES, Kind::Pairs("tags", "Tag", "Key")]),
    ("DeleteMessage", &[URL, HANDLE]),
    (
        "DeleteMessageBatch",
        &[URL, Kind::Entries("DeleteMessageBatchRequestEntry", &[Kind::Text("Id"), HANDLE])],
    ),
    ("DeleteQueue", &[URL]),
    ("GetQueueAttributes", &[URL, Kind::List("AttributeNames", "AttributeName")]),
    ("GetQueueUrl", &[Kind::Text("QueueName"), Kind::Text("QueueOwnerAWSAccountId")]),
    ("ListDeadLetterSourceQueues", &[URL, Kind::Text("NextToken"), Kind::Integer("MaxResults")]),
    ("ListMessageMoveTasks", &[Kind::Text("SourceArn"), Kind::Integer("MaxResults")]),
    ("ListQueueTags", &[URL]),
    (
        "ListQueues",
        &[Kind::Text("QueueNamePrefix"), Kind::Text("NextToken"), Kind::Integer("MaxResults")],
    ),
    ("PurgeQueue", &[URL]),
    (
        "ReceiveMessage",
        &[
            URL,
            Kind::List("AttributeNames", "AttributeName"),
            Kind::List("MessageSystemAttributeNames", "MessageSystemAttributeName"),
            Kind::List("MessageAttributeNames", "MessageAttributeName"),
            Kind::Integer("MaxNumberOfMessages"),
            Kind::Integer("VisibilityTimeout"),
            Kind::Integer("WaitTimeSeconds"),
            Kind::Text("ReceiveRequestAttemptId"),
        ],
    ),
    ("RemovePermission", &[URL, Kind::Text("Label")]),
    ("SendMessage", SEND),
    ("SendMessageBatch", &[URL, Kind::Entries("SendMessageBatchRequestEntry", SEND)]),
    ("SetQueueAttributes", &[URL, ATTRIBUTES]),
    (
        "StartMessageMoveTask",
        &[
            Kind::Text("SourceArn"),
            Kind::Text("DestinationArn"),
            Kind::Integer("MaxNumberOfMessagesPerSecond"),
        ],
    ),
    ("TagQueue", &[URL, Kind::Pairs("Tags", "Tag", "Key")]),
    ("UntagQueue", &[URL, Kind::List("TagKeys", "TagKey")]),
];

fn hash(seed: u64, name: &str) -> u64 {
    // Knuth's multiplier.
    let mix = |hash: u64, byte| hash.wrapping_mul(6_364_136_223_846_793_005) ^ u64::from(byte);
    name.bytes().fold(seed, |hash: u64, byte| mix(hash, byte).rotate_left(23))
}

fn request() -> impl Strategy<Value = (&'static str, Vec<Member>)> {
    prop::sample::select(ACTIONS)
        .prop_flat_map(|(action, kinds)| members(kinds).prop_map(move |each| (action, each)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_protocols_mean_the_same(
        (action, members) in request(),
        scatter in 0_usize..100,
        seed in any::<u64>(),
        split in any::<prop::sample::Index>(),
    ) {
        let body = to_json(&members).to_string();
        let mut form = Vec::new();
        to_form(&members, "", scatter, &mut form);
        // The order of parameters does not matter, nor whether they are in the URL or the body.
        form.sort_by_cached_key(|(name, _)| hash(seed, name));
        let (in_url, in_body) = form.split_at(split.index(form.len() + 1));
        let (in_url, in_body) = (urlencoded(in_url), urlencoded(in_body));
        let parameters = Parameters::parse(&in_url, in_body.as_bytes()).unwrap();

        // Members that nobody knows are for the general decoder, with all that is around them.
        let mut unusual = to_json(&members);
        unusual["Other"] = json!([{"QueueUrl": 1}]);
        let unusual = serde_json::to_string_pretty(&unusual).unwrap();

        let from_json = decode_json(action, body.as_bytes()).unwrap();
        let from_unusual_json = decode_json(action, unusual.as_bytes()).unwrap();
        let from_query = decode_query(action, &parameters).unwrap();

        let meaning = format!("{from_json:?}");
        prop_assert_eq!(&meaning, &format!("{from_query:?}"), "{} {}", action, body);
        prop_assert_eq!(&meaning, &format!("{from_unusual_json:?}"), "{} {}", action, unusual);
    }
}

#[test]
fn all_actions_are_tried() {
    assert!(ACTIONS.iter().map(|(name, _)| *name).eq(millrace_wire::sqs::ACTIONS));
}

#[test]
fn text_is_borrowed_from_the_request() {
    let body = br#"{"QueueUrl":"u","MessageBody":"plain"}"#;
    let Action::SendMessage(send) = decode_json("SendMessage", body).unwrap() else { panic!() };

    assert!(matches!(send.queue_url.unwrap().0, Cow::Borrowed("u")));
    assert!(matches!(send.message_body.unwrap().0, Cow::Borrowed(b"plain")));
}
