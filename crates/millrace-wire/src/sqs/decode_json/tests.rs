use proptest::prelude::*;

use super::*;

fn send<'a>(body: &'a str) -> crate::sqs::SendMessage<'a> {
    match decode_json("SendMessage", body.as_bytes()).unwrap() {
        Action::SendMessage(send) => send,
        other => panic!("{other:?}"),
    }
}

fn code(action: &str, body: &str) -> &'static str {
    decode_json(action, body.as_bytes()).unwrap_err().shape
}

/// Whether the quicker decoder takes it; if so, both must say the same.
fn is_hot(action: &str, body: &str) -> bool {
    let Some((quick, general)) = decode_twice(action, body.as_bytes()) else { return false };
    assert_eq!(general.unwrap(), quick, "{body}");
    true
}

#[test]
fn what_sdks_write_is_decoded_without_the_general_decoder() {
    for (action, body) in [
        (
            "SendMessage",
            r#"{"QueueUrl":"http://q/1/a","MessageBody":"{\"a\": \"\u00e9\ud83d\ude00\\\"}\n"}"#,
        ),
        (
            "SendMessage",
            r#"{"MessageBody": "b", "DelaySeconds": 0, "MessageAttributes": {"n": {"DataType": "String", "StringValue": "v"}}, "QueueUrl": "u"}"#,
        ),
        ("SendMessage", r#"{"MessageBody":"b","MessageGroupId":"g","MessageDeduplicationId":"d"}"#),
        (
            "SendMessageBatch",
            r#"{"QueueUrl":"u","Entries":[{"Id":"0","MessageBody":"é"},{"Id":"1","MessageBody":""}]}"#,
        ),
        (
            "ReceiveMessage",
            r#"{"QueueUrl":"u","MaxNumberOfMessages":10,"WaitTimeSeconds":20,"VisibilityTimeout":43200,"AttributeNames":["All"],"MessageAttributeNames":[]}"#,
        ),
        ("DeleteMessage", "{ \"QueueUrl\" : \"u\" ,\n\"ReceiptHandle\":\"r\" }\n"),
        ("DeleteMessageBatch", r#"{"QueueUrl":"u","Entries":[{"Id":"0","ReceiptHandle":"r"}]}"#),
        (
            "ChangeMessageVisibility",
            r#"{"QueueUrl":"u","ReceiptHandle":"r","VisibilityTimeout":-1}"#,
        ),
        ("SendMessage", r#"{"DelaySeconds":999999999999999999}"#),
        ("SendMessage", "{\"DelaySeconds\":\r\n\t-0 }"),
        ("SendMessage", "{}"),
    ] {
        assert!(is_hot(action, body), "{body}");
    }
}

#[test]
fn control_characters_in_strings_are_escaped_or_refused() {
    for body in [
        "\"a\nb\"",
        "\"\\\"\t\"",
        "\"\\\\\", \"DelaySeconds\": \"\r\"",
        "\"b\", \"MessageAttributes\": {\"n\": {\"StringValue\": \"\u{1}\"}}",
        "\"\u{1f}\"",
    ] {
        let body = format!("{{\"MessageBody\": {body}}}");
        assert_eq!(code("SendMessage", &body), "SerializationException", "{body:?}");
    }
    for body in ["\n\"\u{7f}\"\t", "\"\\n\\u0009\"\r\n", "\"\\\"\"\n", "\n\"a b\""] {
        let body = format!("{{\"MessageBody\": {body}}}");
        assert!(Action::from_json("SendMessage", body.as_bytes()).is_ok(), "{body:?}");
    }
}

#[test]
fn refusals_speak_of_json() {
    for (action, body) in [("SendMessage", "\"b\""), ("SendMessageBatch", r#"{"Entries":["b"]}"#)] {
        let refusal = decode_json(action, body.as_bytes()).unwrap_err();
        assert!(refusal.message.contains("expected an object"), "{}", refusal.message);
    }
}

#[test]
fn refusals_name_what_was_expected() {
    for (action, body, expected) in [
        ("SendMessage", r#"{"QueueUrl":1}"#, "a string"),
        ("SendMessage", r#"{"MessageBody":1}"#, "a string"),
        ("SendMessage", r#"{"DelaySeconds":[]}"#, "an integer"),
        ("SendMessage", r#"{"MessageAttributes":1}"#, "an object of message attributes"),
        ("SendMessage", r#"{"MessageAttributes":{"a":1}}"#, "an object"),
        ("SendMessageBatch", r#"{"Entries":1}"#, "a list"),
        ("ReceiveMessage", r#"{"AttributeNames":1}"#, "a list of strings"),
        ("CreateQueue", r#"{"Attributes":1}"#, "an object of strings"),
        ("CreateQueue", r#"{"Attributes":{"a":[]}}"#, "a string"),
        ("TagQueue", r#"{"Tags":1}"#, "an object of strings"),
    ] {
        let refusal = decode_json(action, body.as_bytes()).unwrap_err();
        let expected = format!("expected {expected} at line 1");
        assert!(refusal.message.contains(&expected), "{body}: {}", refusal.message);
    }
}

#[test]
fn of_pairs_of_the_same_name_the_last_counts() {
    let body = r#"{"Attributes":{"a":"1","b":"2","a":"3"}}"#;
    let Ok(Action::CreateQueue(create)) = decode_json("CreateQueue", body.as_bytes()) else {
        panic!()
    };
    assert_eq!(create.attributes.unwrap().get("a"), Some("3"));
}

#[test]
fn what_is_out_of_the_ordinary_is_left_to_the_general_decoder() {
    for body in [
        "",
        "[]",
        "{",
        "{}x",
        r#"{"QueueUrl":"u",}"#,
        r#"{"QueueUrl":null}"#,
        r#"{"QueueUrl":"u","QueueUrl":"u"}"#,
        r#"{"Queue\u0055rl":"u"}"#,
        r#"{"Other":1}"#,
        r#"{"MessageBody":"\ud800"}"#,
        r#"{"MessageBody":"\ud800\u0041"}"#,
        r#"{"MessageBody":"\x"}"#,
        r#"{"MessageBody":"\u12"}"#,
        r#"{"MessageBody":"\u00g0"}"#,
        r#"{"MessageBody":"\ud83d\ug000"}"#,
        r#"{"MessageBody":"\"#,
        "{\"MessageBody\":\"\n\"}",
        "{\"MessageBody\":\"\\ta\u{1}}",
        r#"{"DelaySeconds":"5"}"#,
        r#"{"DelaySeconds":5.0}"#,
        r#"{"DelaySeconds":5E0}"#,
        r#"{"DelaySeconds":"#,
        r#"{"DelaySeconds":-"#,
        r#"{"DelaySeconds":5 5}"#,
        r#"{"DelaySeconds":00}"#,
        r#"{"DelaySeconds":-05}"#,
        r#"{"DelaySeconds":5e0}"#,
        r#"{"DelaySeconds":05}"#,
        r#"{"DelaySeconds":- 5}"#,
        r#"{"DelaySeconds":-}"#,
        r#"{"DelaySeconds":1000000000000000000}"#,
        r#"{"DelaySeconds":9999999999999999999}"#,
        r#"{"DelaySeconds":-99999999999999999999}"#,
        r#"{"MessageAttributes":null}"#,
        r#"{"MessageAttributes":{"a"}}"#,
    ] {
        assert!(decode_twice("SendMessage", body.as_bytes()).is_none(), "{body}");
    }
    assert!(decode_twice("SendMessage", b"{\"QueueUrl\":\"\xff\"}").is_none());
    let entries = |count: usize| format!("{{\"Entries\":[{}{{}}]}}", "{},".repeat(count - 1));
    assert!(is_hot("DeleteMessageBatch", &entries(10)));
    assert!(decode_twice("DeleteMessageBatch", entries(11).as_bytes()).is_none());
    assert!(decode_twice("DeleteMessageBatch", br#"{"Entries":[]}"#).is_none());
}

/// Wherever blocks and chunks of the quick decoder begin and end.
#[test]
fn escapes_may_stand_anywhere() {
    for (escape, meaning) in [
        (r#"\""#, "\""),
        (r"\\", "\\"),
        (r"\/", "/"),
        (r"\u00e9", "é"),
        (r"\uFb01", "\u{fb01}"),
        (r"\uD83D\ude00", "😀"),
        (r"\u0000\u0000", "\0\0"),
    ] {
        for (before, between) in (0..70).flat_map(|before| [(before, 0), (before, 45)]) {
            let (before, between) = ("a".repeat(before), "b".repeat(between));
            let raw = format!("{before}{escape}{between}\\t{escape}");
            let body = format!("{{\"MessageBody\":\"{raw}\"}}");

            assert!(is_hot("SendMessage", &body), "{body}");
            let expected = format!("{before}{meaning}{between}\t{meaning}");
            let decoded = send(&body).message_body.unwrap();
            assert_eq!(decoded.as_str(), Some(&*expected), "{body}");
        }
    }
}

proptest! {
    #[test]
    fn both_decoders_agree_on_all_texts(
        text in r#"(\PC|["\\/\x00-\x1f]|[a-z ]{0,70}){0,8}"#,
        is_ascii in any::<bool>(),
    ) {
        let mut body = serde_json::json!({ "MessageBody": text, "QueueUrl": text }).to_string();
        if is_ascii {
            let units = body.encode_utf16().map(|unit| match u8::try_from(unit) {
                Ok(byte) if byte < 0x80 => char::from(byte).to_string(),
                _ => format!("\\u{unit:04X}"),
            });
            body = units.collect();
        }
        prop_assert!(is_hot("SendMessage", &body));
        let decoded = send(&body).message_body.unwrap();
        prop_assert_eq!(decoded.as_str(), Some(text.as_str()));
    }
}

/// What the quicker decoder takes of a request with one byte more, fewer or changed means the
/// same to both; it may not take what the other refuses.
#[test]
fn slightly_wrong_requests_are_the_same_to_both() {
    let edits = b"{}[]\":,\\/u0195eE-+.n \n\x01\x7f\x80\xc3\xff";
    for (action, body) in [
        (
            "SendMessage",
            r#"{"QueueUrl":"u","MessageBody":"a\"\ud83d\ude00é","DelaySeconds":-12,"MessageAttributes":{"n":{"StringValue":"\t"}}}"#,
        ),
        (
            "SendMessageBatch",
            r#"{"Entries":[{"Id":"0","DelaySeconds":0},{"Id":"1"}],"QueueUrl":"u"}"#,
        ),
        ("ReceiveMessage", r#"{"WaitTimeSeconds":10, "AttributeNames":["All"],"QueueUrl":"u"}"#),
        ("DeleteMessageBatch", r#"{"QueueUrl":"u","Entries":[{"ReceiptHandle":"\u00e9"}]}"#),
        ("DeleteMessage", r#"{"ReceiptHandle":"r"}"#),
        ("ChangeMessageVisibility", r#"{"VisibilityTimeout":100}"#),
    ] {
        let body = body.as_bytes();
        let mut taken = 0;
        let mut check = |changed: &[u8]| {
            let Some((quick, general)) = decode_twice(action, changed) else { return };
            taken += 1;
            assert_eq!(general.as_ref(), Ok(&quick), "{}", String::from_utf8_lossy(changed));
        };
        for at in 0..=body.len() {
            let (before, behind) = body.split_at(at);
            check(before);
            check(&[before, behind.get(1..).unwrap_or_default()].concat());
            for edit in edits {
                check(&[before, &[*edit], behind].concat());
                check(&[before, &[*edit], behind.get(1..).unwrap_or_default()].concat());
            }
        }
        assert!(taken > body.len(), "{action}: {taken}");
    }
}

#[test]
fn an_empty_body_is_an_empty_object() {
    for body in ["", " \n", "{}"] {
        assert!(send(body).queue_url.is_none());
    }
}

#[test]
fn null_counts_as_absent_and_unknown_members_are_ignored() {
    let body = r#"{"QueueUrl":null,"DelaySeconds":null,"MessageAttributes":{"a":null,"b":{"StringValue":null,"BinaryValue":null}},"Other":[{"x":[1,{}]}]}"#;
    let send = send(body);

    assert!(send.queue_url.is_none());
    assert!(send.delay_seconds.is_none());
    let attributes = send.message_attributes.unwrap().0;
    assert_eq!(attributes.len(), 1);
    assert_eq!(attributes[0].0, "b");
    assert!(attributes[0].1.binary_value.is_none());
    assert!(matches!(
        decode_json("SendMessageBatch", br#"{"Entries":null}"#),
        Ok(Action::SendMessageBatch(batch)) if batch.entries.is_none()
    ));
}

#[test]
fn the_value_of_a_tag_may_not_be_null() {
    for (action, body) in [
        ("TagQueue", r#"{"QueueUrl":"u","Tags":{"a":"1","b":null}}"#),
        ("CreateQueue", r#"{"QueueName":"q","tags":{"b":null}}"#),
    ] {
        let refusal = decode_json(action, body.as_bytes()).unwrap_err();
        assert_eq!(refusal.shape, "InvalidParameterValueException", "{action}");
        assert_eq!(refusal.message, "the parameter 'value' may not be null");
    }
    for body in [r#"{"Tags":null}"#, r#"{"Tags":{"a":""}}"#] {
        assert!(decode_json("TagQueue", body.as_bytes()).is_ok(), "{body}");
    }
}

#[test]
fn integers_may_be_strings() {
    for (text, expected) in [("5", 5), ("\"5\"", 5), ("-1", -1), ("5.0", 5)] {
        let body = format!("{{\"DelaySeconds\":{text}}}");
        assert_eq!(send(&body).delay_seconds, Some(expected), "{text}");
    }
    let (exact, inexact) = ("9007199254740992.0", "9007199254740994.0");
    let body = format!("{{\"DelaySeconds\":{exact}}}");
    assert_eq!(send(&body).delay_seconds, Some(1 << 53));
    let below = "-9007199254740994.0";
    for text in
        ["\"x\"", "\"\"", "true", "[]", "1.5", inexact, below, "1e300", "18446744073709551615"]
    {
        let body = format!("{{\"DelaySeconds\":{text}}}");
        assert_eq!(code("SendMessage", &body), "SerializationException", "{text}");
    }
    let refusal = decode_json("SendMessage", br#"{"DelaySeconds":"soon"}"#).unwrap_err();
    assert_eq!(refusal.message, "STRING_VALUE can not be converted to an Integer");
}

#[test]
fn lone_surrogates_and_bad_utf8_leave_a_body_that_is_not_text() {
    let body = send(r#"{"MessageBody":"a\ud800b"}"#).message_body.unwrap();
    assert_eq!(body.as_str(), None);

    let raw = b"{\"MessageBody\":\"a\xffb\"}";
    let Ok(Action::SendMessage(send)) = decode_json("SendMessage", raw) else { panic!() };
    assert_eq!(send.message_body.unwrap().as_bytes(), b"a\xffb");
}

#[test]
fn map_values_may_be_numbers_and_truth_values_elsewhere_text_is_text() {
    let body = r#"{"QueueName":"q","Attributes":{"b":30,"a":true,"c":"x","d":null,"e":-1,"f":1.5,"g":false},"tags":{"k":""}}"#;
    let Ok(Action::CreateQueue(create)) = decode_json("CreateQueue", body.as_bytes()) else {
        panic!()
    };
    let attributes = create.attributes.unwrap();
    let pairs: Vec<_> = attributes.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();

    assert_eq!(
        pairs,
        [("b", "30"), ("a", "true"), ("c", "x"), ("e", "-1"), ("f", "1.5"), ("g", "false")]
    );
    assert_eq!(create.tags.unwrap().get("k"), Some(""));
    assert_eq!(code("CreateQueue", r#"{"QueueName":1}"#), "SerializationException");
    assert_eq!(code("CreateQueue", r#"{"Attributes":{"a":{}}}"#), "SerializationException");
}

#[test]
fn what_is_no_object_is_refused() {
    for body in ["[]", "null", "\"\"", "{", "{}x", "{\"QueueUrl\":}", "[\"url\"]"] {
        assert_eq!(code("SendMessage", body), "SerializationException", "{body}");
    }
    for body in [r#"{"Entries":[["id"]]}"#, r#"{"Entries":{}}"#, r#"{"Entries":[null]}"#] {
        assert_eq!(code("SendMessageBatch", body), "SerializationException", "{body}");
    }
    let attribute = r#"{"MessageAttributes":{"a":["String"]}}"#;
    assert_eq!(code("SendMessage", attribute), "SerializationException");
    let base64 = r#"{"MessageAttributes":{"a":{"BinaryValue":"*"}}}"#;
    assert_eq!(code("SendMessage", base64), "SerializationException");
}

#[test]
fn collections_are_bounded() {
    let entries = |count: usize| format!("{{\"Entries\":[{}{{}}]}}", "{},".repeat(count - 1));
    assert!(decode_json("DeleteMessageBatch", entries(1000).as_bytes()).is_ok());
    assert_eq!(code("DeleteMessageBatch", &entries(1001)), "SerializationException");

    let keys = |count: usize| format!("{{\"TagKeys\":[{}\"a\"]}}", "\"a\",".repeat(count - 1));
    assert!(decode_json("UntagQueue", keys(1000).as_bytes()).is_ok());
    assert_eq!(code("UntagQueue", &keys(1001)), "SerializationException");

    let attributes = |count: usize| {
        format!("{{\"MessageAttributes\":{{{}\"z\":{{}}}}}}", "\"a\":{},".repeat(count - 1))
    };
    let pairs =
        |count: usize| format!("{{\"Tags\":{{{}\"z\":\"\"}}}}", "\"a\":\"\",".repeat(count - 1));
    assert!(decode_json("TagQueue", pairs(1000).as_bytes()).is_ok());
    assert_eq!(code("TagQueue", &pairs(1001)), "SerializationException");

    assert_eq!(send(&attributes(100)).message_attributes.unwrap().0.len(), 100);
    assert_eq!(code("SendMessage", &attributes(101)), "SerializationException");
}

#[test]
fn deep_nesting_of_unknown_members_is_harmless() {
    let body = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));

    let _ = decode_json("SendMessage", body.as_bytes());
}

#[test]
fn messages_do_not_echo_large_values() {
    let text = "é".repeat(1000);
    for body in [format!("{{\"DelaySeconds\":[\"{text}\"]}}"), format!("{{\"QueueUrl\":{{\"{text}")]
    {
        let error = decode_json("SendMessage", body.as_bytes()).unwrap_err();
        assert!(error.message.len() <= 200, "{}", error.message);
    }
    let body = format!("{{\"Attributes\":\"{text}\"}}");
    let error = decode_json("CreateQueue", body.as_bytes()).unwrap_err();
    assert!((190..=200).contains(&error.message.len()), "{}", error.message);
}

#[test]
fn unknown_actions_are_unknown_operations() {
    let error = decode_json("Nope", b"{}").unwrap_err();

    assert_eq!((error.shape, error.status), ("UnknownOperationException", 404));
}
