use std::borrow::Cow;

use millrace_wire::sqs::{Blob, Text};

use super::*;

fn blob(text: &str) -> Blob<'_> {
    Blob(Cow::Borrowed(text.as_bytes()))
}

#[test]
fn forbidden_characters_are_found_anywhere() {
    for allowed in
        ["a", "\t\n\r ~", "\u{e9}\t\n\r ~", "\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}"]
    {
        assert!(is_allowed_text(allowed.as_bytes()), "{allowed:?}");
    }
    let long = "x".repeat(200);
    for forbidden in ["\0", "\u{b}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
        assert!(!is_allowed_text(format!("{long}{forbidden}").as_bytes()), "{forbidden:?}");
    }
    assert!(!is_allowed_text(&[b'a', 0xed, 0xa0, 0x80]), "lone surrogate");
}

fn settings(kind: Kind) -> Settings {
    Settings { kind, ..Settings::default() }
}

fn message(body: &str) -> SendMessage<'_> {
    SendMessage { message_body: Some(blob(body)), ..SendMessage::default() }
}

/// What is wrong with a message; none: nothing.
fn fault(message: &SendMessage<'_>, settings: &Settings) -> Option<String> {
    check(message, settings, Asked::Alone).err().map(|error| error.message.into_owned())
}

#[test]
fn a_message_has_a_body_of_a_bounded_size() {
    let standard = Settings { maximum_message_size_bytes: 1_024, ..settings(Kind::Standard) };
    assert!(fault(&SendMessage::default(), &standard).unwrap().contains("MessageBody"));
    assert!(fault(&message(""), &standard).unwrap().contains("MessageBody"));
    assert!(fault(&message("a\0"), &standard).is_some());
    let value = MessageAttributeValue {
        data_type: Some("String".into()),
        string_value: Some(blob("12345")),
        ..MessageAttributeValue::default()
    };
    let attributes = Some(MessageAttributes(vec![("name".into(), value)]));
    let sent = SendMessage { message_attributes: attributes, ..message("body") };
    assert_eq!(check(&sent, &standard, Asked::Alone).unwrap().size_bytes, 4 + 4 + 6 + 5);
    assert!(check_size(1_024, &standard, Asked::Alone).is_ok());
    for (sent, words) in [(Asked::Alone, "are invalid"), (Asked::InBatch, "cannot be validated")] {
        let refused = check_size(1_025, &standard, sent).unwrap_err();
        assert!(refused.message.contains(words), "{}", refused.message);
    }
}

#[test]
fn delays_are_of_standard_queues_and_bounded() {
    let delay = |kind, delay_s: i64| {
        let sent = SendMessage {
            delay_seconds: Some(delay_s),
            message_group_id: (kind == Kind::Fifo).then_some("g".into()),
            message_deduplication_id: (kind == Kind::Fifo).then_some("d".into()),
            ..message("x")
        };
        check(&sent, &settings(kind), Asked::Alone).map(|checked| checked.delay_s).ok()
    };

    assert_eq!([0, 900].map(|s| delay(Kind::Standard, s)), [Some(Some(0)), Some(Some(900))]);
    assert_eq!([-1, 901, i64::MAX].map(|s| delay(Kind::Standard, s)), [None; 3]);
    assert_eq!([0, 1].map(|s| delay(Kind::Fifo, s)), [Some(None), None]);
}

#[test]
fn ids_of_groups_and_deduplication_are_those_of_the_queues_kind() {
    let by_content = Settings { content_based_deduplication: true, ..settings(Kind::Fifo) };
    let (standard, fifo) = (settings(Kind::Standard), settings(Kind::Fifo));
    let is_taken = |settings: &Settings, group: Option<&str>, id: Option<&str>| {
        let sent = SendMessage {
            message_group_id: group.map(Into::into),
            message_deduplication_id: id.map(Into::into),
            ..message("x")
        };
        fault(&sent, settings).is_none()
    };

    for (settings, group, id, expected) in [
        (&standard, None, None, true),
        (&standard, Some("g"), None, true),
        (&standard, Some("g g"), None, false),
        (&standard, None, Some("d"), false),
        (&fifo, Some("g"), Some("d"), true),
        (&fifo, None, Some("d"), false),
        (&fifo, Some("g"), None, false),
        (&fifo, Some("g"), Some("d d"), false),
        (&by_content, Some("g"), None, true),
        (&by_content, Some("g"), Some("\u{e9}"), false),
        (&by_content, None, None, false),
    ] {
        assert_eq!(is_taken(settings, group, id), expected, "{group:?} {id:?}");
    }
    let long = |len: usize| "x".repeat(len);
    for (id, expected) in
        [("", false), ("!a~0", true), (&long(128), true), (&long(129), false), ("a\u{7f}", false)]
    {
        assert_eq!(check_id(id, "MessageGroupId").is_ok(), expected, "{id}");
    }
}

#[test]
fn attributes_are_few_named_well_and_of_a_known_type() {
    type Value<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a [u8]>);
    let is_taken = |given: &[Value<'_>]| {
        let mut attributes = Vec::new();
        for (name, kind, string, binary) in given {
            let value = MessageAttributeValue {
                data_type: (!kind.is_empty()).then(|| Text::from(*kind)),
                string_value: string.map(blob),
                binary_value: binary.map(<[u8]>::to_vec),
                ..MessageAttributeValue::default()
            };
            attributes.push((Text::from(*name), value));
        }
        check_attributes(&MessageAttributes(attributes)).is_ok()
    };
    let named = |name: &str| is_taken(&[(name, "String", Some("v"), None)]);
    let long = |len: usize| "x".repeat(len);

    for name in ["a", "A-b_c.d", "0", "awsome", &long(256)] {
        assert!(named(name), "{name}");
    }
    for name in ["", "a b", "a!", ".a", "a.", "a..b", "aws.a", "AWS.a", "Amazon.a", &long(257)]
        .into_iter()
        .chain(["\u{e9}", "a\u{661}"])
    {
        assert!(!named(name), "{name}");
    }
    let label = format!("String.{}", long(249));
    for (kind, string, binary, expected) in [
        ("String", Some("v"), None, true),
        ("String", Some("v"), Some(&b""[..]), true),
        ("String", Some("v"), Some(b"v"), false),
        ("String", Some(""), None, false),
        ("String", None, Some(b"v"), false),
        ("String", Some("\0"), None, false),
        ("String.label", Some("v"), None, true),
        ("String.", Some("v"), None, false),
        ("String.\0", Some("v"), None, false),
        ("string", Some("v"), None, false),
        ("", Some("v"), None, false),
        (&label, Some("v"), None, true),
        (&format!("{label}x"), Some("v"), None, false),
        ("Number", Some("1.5"), None, true),
        ("Number.int", Some("x"), None, false),
        ("Binary", None, Some(b"\0"), true),
        ("Binary", Some("v"), None, false),
        ("Binary.png", None, Some(b""), false),
    ] {
        assert_eq!(is_taken(&[("a", kind, string, binary)]), expected, "{kind} {string:?}");
    }
    let with_list = |count: usize| {
        let mut value = MessageAttributeValue {
            data_type: Some("String".into()),
            string_value: Some(blob("v")),
            ..MessageAttributeValue::default()
        };
        let list = || Some((0..count).map(|_| serde::de::IgnoredAny).collect());
        value.string_list_values = list();
        let of_strings = check_attribute("a", &value, "user").is_ok();
        (value.string_list_values, value.binary_list_values) = (None, list());
        [of_strings, check_attribute("a", &value, "user").is_ok()]
    };
    assert_eq!((with_list(0), with_list(1)), ([true; 2], [false; 2]));
    let names: Vec<String> = (0..11).map(|n| n.to_string()).collect();
    let many: Vec<_> = names.iter().map(|name| (&**name, "String", Some("v"), None)).collect();
    assert!(is_taken(&many[..10]) && !is_taken(&many));
    assert!(!is_taken(&[many[0], many[1], many[0]]), "names differ");
}

#[test]
fn what_others_send_is_checked_alike() {
    let with = |name, data_type, value: &'static str| Attribute {
        name,
        data_type,
        value: value.as_bytes(),
    };
    for good in [
        with("a", "String", "\t\u{e9}"),
        with("a", "Number.int", "-1.5e3"),
        with("a", "Binary", "\u{0}"),
    ] {
        assert!(is_sendable(b"x", &[good]), "{good:?}");
    }
    for bad in [
        with("a", "String", "\u{0}"),
        with("a", "String", ""),
        with("a", "String.\u{1}", "x"),
        with("a", "Number", "1e300"),
        with("AWS.a", "String", "x"),
    ] {
        assert!(!is_sendable(b"x", &[bad]), "{bad:?}");
    }
    assert!(is_sendable(b"x\r\n", &[]));
    for body in ["", "\u{0}", "a\u{b}", "\u{ffff}"] {
        assert!(!is_sendable(body.as_bytes(), &[]), "{body:?}");
    }
}

#[test]
fn the_trace_header_is_the_only_system_attribute() {
    let is_taken = |name: &str, kind: &str, header: &str| {
        let value = MessageAttributeValue {
            data_type: Some(kind.into()),
            string_value: Some(blob(header)),
            ..MessageAttributeValue::default()
        };
        let given = MessageAttributes(vec![(name.into(), value)]);
        check_system_attributes(&given).is_ok_and(|found| found == Some(header))
    };
    let long = "x".repeat(TRACE_HEADER_BYTES);

    assert!(is_taken("AWSTraceHeader", "String", "Root=1"));
    assert!(is_taken("AWSTraceHeader", "String", &long));
    assert!(!is_taken("AWSTraceHeader", "String", &format!("{long}x")));
    assert!(!is_taken("AWSTraceHeader", "String.x", "Root=1"));
    assert!(!is_taken("AWSTraceHeader", "Number", "1"));
    assert!(!is_taken("SenderId", "String", "x"));
}

#[test]
fn the_first_forbidden_character_is_named() {
    for (body, number) in [
        (&b"a\x01\x02"[..], 0x1),
        (b"\xc3\xa9\0\xff", 0x0),
        ("\u{10000}\u{fffe}".as_bytes(), 0xfffe),
        (b"a\xed\xa0\x80\x01", 0xd800),
        (b"\xed\xbf\xbf", 0xdfff),
        (b"a\xff\x01", 0xff),
        (b"a\xed\xa0", 0xed),
        (b"\t\n\r \x0b", 0xb),
    ] {
        assert_eq!(first_forbidden(body), number, "{body:x?}");
    }
}

#[test]
fn numbers_are_recognised_as_aws_does() {
    for number in [
        "1",
        "-1.5",
        "1e126",
        "1e-128",
        "0e-999",
        "0.0001",
        "+3",
        "12345678901234567890123456789012345678000",
        " 5 ",
        ".5",
    ] {
        assert!(is_number(number.as_bytes()), "{number}");
    }
    for text in [
        "",
        ".",
        "+",
        "x",
        "inf",
        "NaN",
        "1e127",
        "1e-129",
        "1.2.3",
        "0x10",
        "123456789012345678901234567890123456789",
        "1.000000000000000000000000000000000000001",
        "1e",
        "e5",
        "--1",
        "5 5",
        "1.1e126",
    ] {
        assert!(!is_number(text.as_bytes()), "{text}");
    }
}
