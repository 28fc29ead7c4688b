use super::*;

fn queue(kind: Kind, given: &[(&str, &str)]) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.settings.kind = kind;
    attributes.set(given.iter().copied()).unwrap();
    attributes
}

#[test]
fn an_attribute_that_needs_another_is_compared_alone() {
    let scope = ("DeduplicationScope", "messageGroup");
    let fifo = queue(Kind::Fifo, &[scope, ("FifoThroughputLimit", "perMessageGroupId")]);
    assert!(fifo.has("FifoThroughputLimit", "perMessageGroupId"));
    assert!(!fifo.has("FifoThroughputLimit", "perQueue"));
    assert!(!fifo.has("FifoThroughputLimit", "other"));

    let period = "KmsDataKeyReusePeriodSeconds";
    let encrypted = queue(Kind::Standard, &[("KmsMasterKeyId", "k"), (period, "60")]);
    assert!(encrypted.has(period, "60"));
    assert!(!encrypted.has(period, "300"));
    assert!(queue(Kind::Standard, &[(period, "60")]).has(period, "60"), "kept by neither");
}

#[test]
fn policies_are_compared_as_documents() {
    let policy = r#"{"redrivePermission":"denyAll"}"#;
    let dead = queue(Kind::Standard, &[("RedriveAllowPolicy", policy)]);

    assert!(dead.has("RedriveAllowPolicy", r#" { "redrivePermission": "denyAll" } "#));
    assert!(!dead.has("RedriveAllowPolicy", r#"{"redrivePermission":"allowAll"}"#));
    assert!(!dead.has("RedriveAllowPolicy", ""));
    let redrive = |count: &str| {
        let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
        format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":{count}}}")
    };
    let source = queue(Kind::Standard, &[("RedrivePolicy", &redrive("3"))]);
    assert!(source.has("RedrivePolicy", &redrive("\"3\"")), "the count may be a text");
    assert!(!source.has("RedrivePolicy", &redrive("4")));
}

#[test]
fn numbers_are_digits_within_their_limits() {
    let is_taken = |name: &str, value: &str| {
        let mut attributes = Attributes::default();
        let set = attributes.set([("KmsMasterKeyId", "k"), (name, value)].into_iter());
        assert!(set.is_err() || attributes.value(name).as_deref() == Some(value));
        set.is_ok()
    };
    for (name, least, most) in [
        ("VisibilityTimeout", 0, 43_200),
        ("MaximumMessageSize", 1_024, 1_048_576),
        ("MessageRetentionPeriod", 60, 1_209_600),
        ("DelaySeconds", 0, 900),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("KmsDataKeyReusePeriodSeconds", 60, 86_400_i64),
    ] {
        for (number, expected) in
            [(least, true), (most, true), (least - 1, false), (most + 1, false)]
        {
            assert_eq!(is_taken(name, &number.to_string()), expected, "{name} {number}");
        }
        for text in ["", "x", "+60", "60 ", "60.0", "1e3"] {
            assert!(!is_taken(name, text), "{name} {text}");
        }
    }
}

#[test]
fn attributes_of_fifo_queues_are_of_no_others() {
    for (name, value) in [
        ("FifoQueue", "true"),
        ("ContentBasedDeduplication", "true"),
        ("DeduplicationScope", "messageGroup"),
        ("FifoThroughputLimit", "perQueue"),
    ] {
        let code = |kind, value: &str| {
            let mut attributes = queue(kind, &[]);
            attributes.set([(name, value)].into_iter()).err().map(|error| error.code)
        };
        assert_eq!(code(Kind::Fifo, value), None, "{name}");
        assert_eq!(code(Kind::Fifo, "other"), Some("InvalidAttributeValue"), "{name}");
        assert_eq!(code(Kind::Standard, value), Some("InvalidAttributeName"), "{name}");
        assert_eq!(queue(Kind::Standard, &[]).value(name), None, "{name}");
    }
    let mut fifo = queue(Kind::Fifo, &[("ContentBasedDeduplication", "TRUE")]);
    let values = ["FifoQueue", "ContentBasedDeduplication", "DeduplicationScope"];
    assert_eq!(values.map(|name| fifo.value(name).unwrap()), ["true", "true", "queue"]);
    assert_eq!(fifo.value("FifoThroughputLimit").as_deref(), Some("perQueue"));
    assert!(fifo.set([("FifoQueue", "false")].into_iter()).is_err(), "it stays one");
    fifo.set([("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue")].into_iter())
        .unwrap();
    let scope = ("DeduplicationScope", "messageGroup");
    fifo.set([scope, ("FifoThroughputLimit", "perMessageGroupId")].into_iter()).unwrap();
    let refused = fifo.set([("DeduplicationScope", "queue")].into_iter()).unwrap_err();
    assert!(refused.message.contains("DeduplicationScope"), "{}", refused.message);
    assert_eq!(fifo.value("FifoThroughputLimit").as_deref(), Some("perMessageGroupId"));
}

#[test]
fn messages_are_encrypted_in_one_way_at_a_time() {
    let (key, sse) = ("KmsMasterKeyId", "SqsManagedSseEnabled");
    let period = "KmsDataKeyReusePeriodSeconds";
    let shown = |attributes: &Attributes| [key, sse, period].map(|name| attributes.value(name));
    let some = |text: &str| Some(text.to_owned());

    let mut standard = queue(Kind::Standard, &[]);
    assert_eq!(shown(&standard), [None, some("true"), None]);
    standard.set([(key, "k")].into_iter()).unwrap();
    assert_eq!(shown(&standard), [some("k"), some("false"), some("300")]);
    standard.set([(sse, "false"), (period, "60")].into_iter()).unwrap();
    for on in ["true", "True"] {
        let refused = standard.clone().set([("DelaySeconds", "1"), (sse, on)].into_iter());
        assert_eq!(refused.unwrap_err().code, "InvalidAttributeName");
    }
    standard.set([(key, ""), (sse, "true")].into_iter()).unwrap();
    assert_eq!(shown(&standard), [None, some("true"), None], "the period goes with the key");
    let other = ("ContentBasedDeduplication", "true");
    assert_eq!(shown(&queue(Kind::Fifo, &[(key, "k"), other]))[1], some("false"));
    let long = "k".repeat(limits::KMS_KEY_ID_BYTES);
    assert!(standard.set([(key, &*long)].into_iter()).is_ok());
    assert!(standard.set([(key, &*format!("{long}k"))].into_iter()).is_err());
}

#[test]
fn documents_are_checked_and_go_when_they_are_empty() {
    let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
    let redrive = format!("{{\"deadLetterTargetArn\":\"{arn}\",\"maxReceiveCount\":3}}");
    let statement = r#"{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}"#;
    for (name, document) in [
        ("Policy", &*format!("{{\"Statement\":[{statement}]}}")),
        ("RedrivePolicy", &redrive),
        ("RedriveAllowPolicy", r#"{"redrivePermission":"denyAll"}"#),
    ] {
        let mut attributes = queue(Kind::Standard, &[(name, document)]);
        assert_eq!(attributes.value(name).as_deref(), Some(document));
        assert_eq!(attributes.settings.redrive.is_some(), name == "RedrivePolicy");
        assert!(attributes.has(name, document) && !attributes.has(name, ""), "{name}");
        assert!(attributes.set([(name, "x")].into_iter()).is_err(), "{name}");
        attributes.set([(name, "")].into_iter()).unwrap();
        assert_eq!((attributes.value(name), attributes.settings.redrive), (None, None));
    }
}

#[test]
fn names_are_known_and_some_are_only_read() {
    assert!(NAMES.iter().all(|name| is_known(name)) && is_known("All") && !is_known("all"));
    let read_only: Vec<&str> = NAMES.into_iter().filter(|name| is_read_only(name)).collect();
    assert_eq!(read_only, NAMES[..6]);
    let mut attributes = Attributes::default();
    for name in [read_only[0], "Other", "All"] {
        let refused = attributes.set([(name, "1")].into_iter()).unwrap_err();
        assert_eq!(refused.code, "InvalidAttributeName", "{name}");
    }
}

#[test]
fn throughput_per_group_says_what_it_needs() {
    let mut fifo = queue(Kind::Fifo, &[]);
    let limit = ("FifoThroughputLimit", "perMessageGroupId");

    let refusal = fifo.set([limit].into_iter()).unwrap_err();

    assert_eq!(refusal.code, "InvalidAttributeValue");
    assert_eq!(
        refusal.message,
        "Invalid value for the parameter FifoThroughputLimit. Reason: To set \
         FifoThroughputLimit to perMessageGroupId, the DeduplicationScope must be messageGroup."
    );
}
