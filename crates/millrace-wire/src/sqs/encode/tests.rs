use bytes::Bytes;

use super::*;

const ID: &str = "11111111-2222-3333-4444-555555555555";

fn encoded(answer: &Answer, action: &str, protocol: Protocol) -> String {
    let mut out = Vec::new();
    encode(answer, action, protocol, ID, &mut out);
    String::from_utf8(out).unwrap()
}

fn in_xml(action: &str, result: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><{action}Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">\
         {result}<ResponseMetadata><RequestId>{ID}</RequestId></ResponseMetadata></{action}Response>"
    )
}

fn in_query_json(action: &str, result: &str) -> String {
    format!("{{\"{action}Response\":{{{result}\"ResponseMetadata\":{{\"RequestId\":\"{ID}\"}}}}}}")
}

fn sent(id: Option<&str>) -> SentMessage {
    SentMessage {
        id: id.map(str::to_owned),
        message_id: *b"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
        md5_of_message_body: [0xab; 16],
        md5_of_message_attributes: None,
        md5_of_message_system_attributes: None,
        sequence_number: None,
    }
}

#[test]
fn void_is_an_empty_object_and_has_no_result_element() {
    let void = Answer::Void;

    assert_eq!(encoded(&void, "DeleteMessage", Protocol::Json), "{}");
    assert_eq!(encoded(&void, "DeleteMessage", Protocol::Query), in_xml("DeleteMessage", ""));
    assert_eq!(
        encoded(&void, "DeleteMessage", Protocol::QueryAsJson),
        in_query_json("DeleteMessage", "")
    );
}

#[test]
fn send_message_shows_what_it_has() {
    let plain = Answer::SendMessage(sent(None));
    let full = Answer::SendMessage(SentMessage {
        md5_of_message_attributes: Some([1; 16]),
        md5_of_message_system_attributes: Some([2; 16]),
        sequence_number: Some(18_849_496_460_467_696_128),
        ..sent(None)
    });

    assert_eq!(
        encoded(&plain, "SendMessage", Protocol::Json),
        r#"{"MessageId":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","MD5OfMessageBody":"abababababababababababababababab"}"#
    );
    assert_eq!(
        encoded(&full, "SendMessage", Protocol::Json),
        r#"{"MessageId":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","MD5OfMessageBody":"abababababababababababababababab","MD5OfMessageAttributes":"01010101010101010101010101010101","MD5OfMessageSystemAttributes":"02020202020202020202020202020202","SequenceNumber":"18849496460467696128"}"#
    );
    assert_eq!(
        encoded(&plain, "SendMessage", Protocol::Query),
        in_xml(
            "SendMessage",
            "<SendMessageResult><MessageId>aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee</MessageId>\
             <MD5OfMessageBody>abababababababababababababababab</MD5OfMessageBody></SendMessageResult>"
        )
    );
    assert_eq!(
        encoded(&plain, "SendMessage", Protocol::QueryAsJson),
        in_query_json(
            "SendMessage",
            r#""SendMessageResult":{"MessageId":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","MD5OfMessageBody":"abababababababababababababababab","MD5OfMessageAttributes":null,"MD5OfMessageSystemAttributes":null,"SequenceNumber":null},"#
        )
    );
}

#[test]
fn sequence_numbers_have_twenty_digits() {
    assert_eq!(&sequence_digits(42), b"00000000000000000042");
    assert_eq!(&sequence_digits(99_999_999_999_999_999_999), b"99999999999999999999");
}

#[test]
fn batches_group_their_entries_and_omit_what_is_empty() {
    let failed = FailedEntry {
        id: "b".to_owned(),
        code: "InvalidParameterValue",
        message: "no & no".into(),
        sender_fault: true,
    };
    let mixed = Answer::SendMessageBatch(BatchAnswer {
        successful: vec![sent(Some("a"))],
        failed: vec![failed],
    });
    let good = Answer::DeleteMessageBatch(BatchAnswer {
        successful: vec!["a".to_owned(), "b".to_owned()],
        failed: vec![],
    });

    assert_eq!(
        encoded(&mixed, "SendMessageBatch", Protocol::Json),
        r#"{"Successful":[{"Id":"a","MessageId":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","MD5OfMessageBody":"abababababababababababababababab"}],"Failed":[{"Id":"b","Code":"InvalidParameterValue","Message":"no & no","SenderFault":true}]}"#
    );
    assert_eq!(
        encoded(&mixed, "SendMessageBatch", Protocol::Query),
        in_xml(
            "SendMessageBatch",
            "<SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</Id>\
             <MessageId>aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee</MessageId>\
             <MD5OfMessageBody>abababababababababababababababab</MD5OfMessageBody></SendMessageBatchResultEntry>\
             <BatchResultErrorEntry><Id>b</Id><Code>InvalidParameterValue</Code><Message>no &amp; no</Message>\
             <SenderFault>true</SenderFault></BatchResultErrorEntry></SendMessageBatchResult>"
        )
    );
    assert_eq!(
        encoded(&good, "DeleteMessageBatch", Protocol::Json),
        r#"{"Successful":[{"Id":"a"},{"Id":"b"}]}"#
    );
    assert_eq!(
        encoded(&good, "DeleteMessageBatch", Protocol::Query),
        in_xml(
            "DeleteMessageBatch",
            "<DeleteMessageBatchResult><DeleteMessageBatchResultEntry><Id>a</Id></DeleteMessageBatchResultEntry>\
             <DeleteMessageBatchResultEntry><Id>b</Id></DeleteMessageBatchResultEntry></DeleteMessageBatchResult>"
        )
    );
}

fn received() -> ReceivedMessage {
    ReceivedMessage {
        message_id: *b"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
        receipt_handle: "AQEB/+=".to_owned(),
        md5_of_body: [0xcd; 16],
        body: Bytes::from_static("\"h\u{e9}\"\r\n<&>\\".as_bytes()),
        attributes: vec![("SentTimestamp", "1".into())],
        md5_of_message_attributes: Some([3; 16]),
        message_attributes: vec![
            ReceivedAttribute {
                name: Bytes::from_static(b"k"),
                data_type: Bytes::from_static(b"String"),
                value: Bytes::from_static(b"v"),
            },
            ReceivedAttribute {
                name: Bytes::from_static(b"b"),
                data_type: Bytes::from_static(b"Binary.png"),
                value: Bytes::from_static(b"\x00\xff"),
            },
        ],
    }
}

#[test]
fn receive_message_shows_messages_in_all_renderings() {
    let answer = Answer::ReceiveMessage { messages: vec![received()] };

    assert_eq!(
        encoded(&answer, "ReceiveMessage", Protocol::Json),
        r#"{"Messages":[{"MessageId":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","ReceiptHandle":"AQEB/+=","MD5OfBody":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","Body":"\"hé\"\r\n<&>\\","Attributes":{"SentTimestamp":"1"},"MD5OfMessageAttributes":"03030303030303030303030303030303","MessageAttributes":{"k":{"StringValue":"v","DataType":"String"},"b":{"BinaryValue":"AP8=","DataType":"Binary.png"}}}]}"#
    );
    assert_eq!(
        encoded(&answer, "ReceiveMessage", Protocol::Query),
        in_xml(
            "ReceiveMessage",
            "<ReceiveMessageResult><Message><MessageId>aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee</MessageId>\
             <ReceiptHandle>AQEB/+=</ReceiptHandle><MD5OfBody>cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd</MD5OfBody>\
             <Body>&quot;h\u{e9}&quot;&#xD;\n&lt;&amp;&gt;\\</Body>\
             <Attribute><Name>SentTimestamp</Name><Value>1</Value></Attribute>\
             <MD5OfMessageAttributes>03030303030303030303030303030303</MD5OfMessageAttributes>\
             <MessageAttribute><Name>k</Name><Value><StringValue>v</StringValue><DataType>String</DataType></Value></MessageAttribute>\
             <MessageAttribute><Name>b</Name><Value><BinaryValue>AP8=</BinaryValue><DataType>Binary.png</DataType></Value></MessageAttribute>\
             </Message></ReceiveMessageResult>"
        )
    );
    assert_eq!(
        encoded(&answer, "ReceiveMessage", Protocol::QueryAsJson),
        in_query_json(
            "ReceiveMessage",
            r#""ReceiveMessageResult":{"messages":[{"MessageId":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","ReceiptHandle":"AQEB/+=","MD5OfBody":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","Body":"\"hé\"\r\n<&>\\","Attributes":[{"Name":"SentTimestamp","Value":"1"}],"MD5OfMessageAttributes":"03030303030303030303030303030303","MessageAttributes":[{"Name":"k","Value":{"StringValue":"v","DataType":"String"}},{"Name":"b","Value":{"BinaryValue":"AP8=","DataType":"Binary.png"}}]}]},"#
        )
    );
}

#[test]
fn an_empty_receive_has_an_empty_result() {
    let answer = Answer::ReceiveMessage { messages: vec![] };

    assert_eq!(encoded(&answer, "ReceiveMessage", Protocol::Json), "{}");
    assert_eq!(
        encoded(&answer, "ReceiveMessage", Protocol::Query),
        in_xml("ReceiveMessage", "<ReceiveMessageResult/>")
    );
    assert_eq!(
        encoded(&answer, "ReceiveMessage", Protocol::QueryAsJson),
        in_query_json("ReceiveMessage", r#""ReceiveMessageResult":{"messages":null},"#)
    );
}

#[test]
fn a_plain_message_shows_no_attributes() {
    let plain = ReceivedMessage {
        attributes: vec![],
        md5_of_message_attributes: None,
        message_attributes: vec![],
        ..received()
    };
    let answer = Answer::ReceiveMessage { messages: vec![plain] };

    let json = encoded(&answer, "ReceiveMessage", Protocol::Json);
    assert!(json.ends_with(r#""Body":"\"hé\"\r\n<&>\\"}]}"#), "{json}");
    let xml = encoded(&answer, "ReceiveMessage", Protocol::Query);
    assert!(xml.contains("</Body></Message></ReceiveMessageResult>"), "{xml}");
    let query_json = encoded(&answer, "ReceiveMessage", Protocol::QueryAsJson);
    let absent = r#""Attributes":null,"MD5OfMessageAttributes":null,"MessageAttributes":null}]},"#;
    assert!(query_json.contains(absent), "{query_json}");
}

#[test]
fn only_dead_letter_sources_are_listed_even_if_there_are_none() {
    let sources = Answer::ListDeadLetterSourceQueues { queue_urls: vec![], next_token: None };
    let queues = Answer::ListQueues { queue_urls: vec![], next_token: None };
    let paged = Answer::ListQueues {
        queue_urls: vec!["http://h/1/a".to_owned(), "http://h/1/b".to_owned()],
        next_token: Some("t".to_owned()),
    };

    let json = Protocol::Json;
    assert_eq!(encoded(&sources, "ListDeadLetterSourceQueues", json), r#"{"queueUrls":[]}"#);
    assert_eq!(encoded(&queues, "ListQueues", json), "{}");
    let last =
        Answer::ListDeadLetterSourceQueues { queue_urls: vec![], next_token: Some("t".to_owned()) };
    assert_eq!(
        encoded(&last, "ListDeadLetterSourceQueues", json),
        r#"{"queueUrls":[],"NextToken":"t"}"#
    );
    assert_eq!(
        encoded(&paged, "ListQueues", json),
        r#"{"QueueUrls":["http://h/1/a","http://h/1/b"],"NextToken":"t"}"#
    );
    assert_eq!(
        encoded(&paged, "ListQueues", Protocol::Query),
        in_xml(
            "ListQueues",
            "<ListQueuesResult><QueueUrl>http://h/1/a</QueueUrl><QueueUrl>http://h/1/b</QueueUrl>\
             <NextToken>t</NextToken></ListQueuesResult>"
        )
    );
}

#[test]
fn maps_are_objects_in_json_and_pairs_in_xml() {
    let attributes = Answer::GetQueueAttributes {
        attributes: vec![("QueueArn", "arn".to_owned()), ("DelaySeconds", "0".to_owned())],
    };
    let tags = Answer::ListQueueTags { tags: vec![("k\"".to_owned(), String::new())] };

    assert_eq!(
        encoded(&attributes, "GetQueueAttributes", Protocol::Json),
        r#"{"Attributes":{"QueueArn":"arn","DelaySeconds":"0"}}"#
    );
    assert_eq!(encoded(&tags, "ListQueueTags", Protocol::Json), r#"{"Tags":{"k\"":""}}"#);
    assert_eq!(
        encoded(&tags, "ListQueueTags", Protocol::Query),
        in_xml(
            "ListQueueTags",
            "<ListQueueTagsResult><Tag><Key>k&quot;</Key><Value></Value></Tag></ListQueueTagsResult>"
        )
    );
    assert_eq!(
        encoded(&attributes, "GetQueueAttributes", Protocol::QueryAsJson),
        in_query_json(
            "GetQueueAttributes",
            r#""GetQueueAttributesResult":{"Attributes":[{"Name":"QueueArn","Value":"arn"},{"Name":"DelaySeconds","Value":"0"}]},"#
        )
    );
}

#[test]
fn move_tasks_have_numbers() {
    let task = MoveTaskResult {
        task_handle: None,
        status: "COMPLETED",
        source_arn: "arn:s".to_owned(),
        destination_arn: None,
        max_number_of_messages_per_second: Some(5),
        moved: 3,
        to_move: Some(3),
        failure_reason: None,
        started_timestamp: 1_700_000_000_000,
    };
    let answer = Answer::ListMessageMoveTasks { results: vec![task] };

    assert_eq!(
        encoded(&answer, "ListMessageMoveTasks", Protocol::Json),
        r#"{"Results":[{"Status":"COMPLETED","SourceArn":"arn:s","MaxNumberOfMessagesPerSecond":5,"ApproximateNumberOfMessagesMoved":3,"ApproximateNumberOfMessagesToMove":3,"StartedTimestamp":1700000000000}]}"#
    );
    let moved = Answer::CancelMessageMoveTask { moved: 7 };
    assert_eq!(
        encoded(&moved, "CancelMessageMoveTask", Protocol::Json),
        r#"{"ApproximateNumberOfMessagesMoved":7}"#
    );
}

#[test]
fn move_tasks_and_sources_have_elements() {
    let task = MoveTaskResult {
        task_handle: Some("h".to_owned()),
        status: "FAILED",
        source_arn: "arn:s".to_owned(),
        destination_arn: Some("arn:d".to_owned()),
        max_number_of_messages_per_second: None,
        moved: 3,
        to_move: None,
        failure_reason: Some("<r>".to_owned()),
        started_timestamp: 5,
    };
    let url = "http://h/1/a".to_owned();
    let next_token = Some("t".to_owned());
    let failed = FailedEntry {
        id: "b".to_owned(),
        code: "InternalError",
        message: "m".into(),
        sender_fault: false,
    };
    for (answer, action, xml, json) in [
        (
            Answer::ListMessageMoveTasks { results: vec![task] },
            "ListMessageMoveTasks",
            "<ListMessageMoveTasksResultEntry><TaskHandle>h</TaskHandle><Status>FAILED</Status>\
             <SourceArn>arn:s</SourceArn><DestinationArn>arn:d</DestinationArn>\
             <ApproximateNumberOfMessagesMoved>3</ApproximateNumberOfMessagesMoved>\
             <FailureReason>&lt;r&gt;</FailureReason><StartedTimestamp>5</StartedTimestamp>\
             </ListMessageMoveTasksResultEntry>",
            r#""Results":[{"TaskHandle":"h","Status":"FAILED","SourceArn":"arn:s","DestinationArn":"arn:d","MaxNumberOfMessagesPerSecond":null,"ApproximateNumberOfMessagesMoved":3,"ApproximateNumberOfMessagesToMove":null,"FailureReason":"<r>","StartedTimestamp":5}]"#,
        ),
        (
            Answer::StartMessageMoveTask { task_handle: "h".to_owned() },
            "StartMessageMoveTask",
            "<TaskHandle>h</TaskHandle>",
            r#""TaskHandle":"h""#,
        ),
        (
            Answer::ListDeadLetterSourceQueues { queue_urls: vec![url], next_token },
            "ListDeadLetterSourceQueues",
            "<QueueUrl>http://h/1/a</QueueUrl><NextToken>t</NextToken>",
            r#""queueUrls":["http://h/1/a"],"NextToken":"t""#,
        ),
        (
            Answer::ListQueues { queue_urls: vec![], next_token: None },
            "ListQueues",
            "",
            r#""queueUrls":null,"NextToken":null"#,
        ),
        (
            Answer::ListDeadLetterSourceQueues { queue_urls: vec![], next_token: None },
            "ListDeadLetterSourceQueues",
            "",
            r#""queueUrls":[],"NextToken":null"#,
        ),
        (
            Answer::GetQueueAttributes { attributes: vec![] },
            "GetQueueAttributes",
            "",
            r#""Attributes":null"#,
        ),
        (
            Answer::CancelMessageMoveTask { moved: 7 },
            "CancelMessageMoveTask",
            "<ApproximateNumberOfMessagesMoved>7</ApproximateNumberOfMessagesMoved>",
            r#""ApproximateNumberOfMessagesMoved":7"#,
        ),
        (
            Answer::ChangeMessageVisibilityBatch(BatchAnswer {
                successful: vec!["a".to_owned()],
                failed: vec![failed],
            }),
            "ChangeMessageVisibilityBatch",
            "<ChangeMessageVisibilityBatchResultEntry><Id>a</Id>\
             </ChangeMessageVisibilityBatchResultEntry><BatchResultErrorEntry><Id>b</Id>\
             <Code>InternalError</Code><Message>m</Message><SenderFault>false</SenderFault>\
             </BatchResultErrorEntry>",
            r#""Successful":[{"Id":"a"}],"Failed":[{"Id":"b","Code":"InternalError","Message":"m","SenderFault":false}]"#,
        ),
    ] {
        let result = match xml {
            "" => format!("<{action}Result/>"),
            _ => format!("<{action}Result>{xml}</{action}Result>"),
        };
        assert_eq!(encoded(&answer, action, Protocol::Query), in_xml(action, &result));
        let result = format!("\"{action}Result\":{{{json}}},");
        assert_eq!(encoded(&answer, action, Protocol::QueryAsJson), in_query_json(action, &result));
    }
}

#[test]
fn responses_carry_type_and_request_id() {
    let answer = Answer::CreateQueue { queue_url: "http://h/1/a".to_owned() };
    let response = response(&answer, "CreateQueue", Protocol::Json, ID);

    assert_eq!(response.status, 200);
    assert_eq!(response.content_type, "application/x-amz-json-1.0");
    assert_eq!(response.request_id, ID);
    assert_eq!(response.body, br#"{"QueueUrl":"http://h/1/a"}"#);
}

/// Growing a large answer copies it.
#[test]
fn answers_fit_the_room_that_is_made_for_them() {
    let plain = |_| ReceivedMessage { body: Bytes::from_static(&[b'a'; 2000]), ..received() };
    let attribute = |_| ReceivedAttribute {
        name: Bytes::from_static(&[b'n'; 256]),
        data_type: Bytes::from_static(b"Binary"),
        value: Bytes::from_static(&[0; 3000]),
    };
    let tall = move |_| ReceivedMessage {
        receipt_handle: "r".repeat(500),
        message_attributes: (0..3).map(attribute).collect(),
        ..received()
    };
    let ids = || (0..10).map(|number| number.to_string());
    let sent = ids().map(|id| sent(Some(&id))).collect();
    for answer in [
        Answer::ReceiveMessage { messages: (0..10).map(plain).collect() },
        Answer::ReceiveMessage { messages: (0..10).map(tall).collect() },
        Answer::SendMessageBatch(BatchAnswer { successful: sent, failed: vec![] }),
        Answer::DeleteMessageBatch(BatchAnswer { successful: ids().collect(), failed: vec![] }),
        Answer::CreateQueue { queue_url: "http://h/1/a".to_owned() },
    ] {
        let room = estimated_bytes(&answer);
        for protocol in [Protocol::Json, Protocol::Query] {
            let used = encoded(&answer, "ReceiveMessage", protocol).len();
            assert!((used..6000 + used * 3 / 2).contains(&room), "{used} of {room}");
        }
    }
}
