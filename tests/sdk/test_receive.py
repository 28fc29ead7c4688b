"""ReceiveMessage: its parameters, filters and what a received message carries."""

import pytest

from support.expect import refused
from support.wire import string

STANDARD_ATTRIBUTES = {
    "SenderId",
    "SentTimestamp",
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
}


@pytest.mark.parametrize("count", [0, 11, -1])
def test_message_count_is_bounded(api, url, count):
    message = (
        f"Value {count} for parameter MaxNumberOfMessages is invalid. "
        "Reason: Must be between 1 and 10, if provided."
    )

    refused(api, "ReceiveMessage", "InvalidParameterValue", message, QueueUrl=url, MaxNumberOfMessages=count)


@pytest.mark.parametrize("seconds", [21, -1])
def test_wait_is_bounded(api, url, seconds):
    message = (
        f"Value {seconds} for parameter WaitTimeSeconds is invalid. "
        "Reason: Must be >= 0 and <= 20, if provided."
    )

    refused(api, "ReceiveMessage", "InvalidParameterValue", message, QueueUrl=url, WaitTimeSeconds=seconds)


@pytest.mark.parametrize("seconds", [43201, -1])
def test_visibility_timeout_is_bounded(api, url, seconds):
    refused(api, "ReceiveMessage", "InvalidParameterValue", QueueUrl=url, VisibilityTimeout=seconds)


def test_one_message_is_the_default_and_ten_the_most(api, url):
    entries = [{"Id": f"id{n}", "MessageBody": f"m{n}"} for n in range(10)]
    for _ in range(2):
        api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    one = api.call("ReceiveMessage", QueueUrl=url)["Messages"]
    ten = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    rest = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]

    assert (len(one), len(ten), len(rest)) == (1, 10, 9)
    assert len({message["MessageId"] for message in one + ten + rest}) == 20


def test_nothing_optional_comes_unasked(api, url):
    api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes={"a": string("v")})

    (message,) = api.call("ReceiveMessage", QueueUrl=url)["Messages"]

    assert set(message) == {"MessageId", "ReceiptHandle", "Body", "MD5OfBody"}


SYSTEM_FILTERS = [
    ({"MessageSystemAttributeNames": ["All"]}, STANDARD_ATTRIBUTES),
    ({"AttributeNames": ["All"]}, STANDARD_ATTRIBUTES),
    ({"AttributeNames": ["SenderId"]}, {"SenderId"}),
    ({"MessageSystemAttributeNames": ["SentTimestamp"]}, {"SentTimestamp"}),
    (
        {"MessageSystemAttributeNames": ["SentTimestamp"], "AttributeNames": ["SenderId"]},
        {"SenderId", "SentTimestamp"},
    ),
    (
        {"MessageSystemAttributeNames": ["All"], "AttributeNames": ["SenderId"]},
        STANDARD_ATTRIBUTES,
    ),
    ({"AttributeNames": ["Foobar"]}, set()),
    ({"MessageSystemAttributeNames": ["MessageGroupId", "SequenceNumber"]}, set()),
]


@pytest.mark.parametrize(("asked", "expected"), SYSTEM_FILTERS, ids=range(len(SYSTEM_FILTERS)))
def test_system_attributes_are_filtered(api, url, asked, expected):
    api.call("SendMessage", QueueUrl=url, MessageBody="x")

    (message,) = api.call("ReceiveMessage", QueueUrl=url, **asked)["Messages"]

    assert set(message.get("Attributes", {})) == expected
    assert ("Attributes" in message) == bool(expected)


GREETING = {"Help.Me": string("Me"), "Hello": string("There"), "General": string("Kenobi")}
MESSAGE_FILTERS = [
    (["All"], {"Help.Me", "Hello", "General"}),
    (["*"], {"Help.Me", "Hello", "General"}),
    ([".*"], {"Help.Me", "Hello", "General"}),
    (["Hello", "General"], {"Hello", "General"}),
    (["Hel.*"], {"Help.Me", "Hello"}),
    (["Help"], set()),
    (["Help.*"], {"Help.Me"}),
    (["Hello", "Unknown"], {"Hello"}),
    (["Unknown"], set()),
    (["AWS.", "..foo"], set()),
    (["Hello", "Hel.*", "Hello"], {"Help.Me", "Hello"}),
]
DIGESTS = {
    frozenset(GREETING): "4c360f3fdafd970e05fae2f149d997f5",
    frozenset({"Hello", "General"}): "fca026605781cb4126a1e9044df24232",
    frozenset({"Hello"}): "a311262e065454b75da111d535b8dacd",
    frozenset({"Hello", "Help.Me"}): "83fee93c1bcd8b9a5a923ffacdc636c7",
}


@pytest.mark.parametrize(("names", "expected"), MESSAGE_FILTERS, ids=range(len(MESSAGE_FILTERS)))
def test_message_attributes_are_filtered_and_the_digest_covers_the_rest(api, url, names, expected):
    api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=GREETING)

    (message,) = api.call("ReceiveMessage", QueueUrl=url, MessageAttributeNames=names)["Messages"]

    assert message.get("MessageAttributes", {}) == {name: GREETING[name] for name in expected}
    assert ("MessageAttributes" in message) == bool(expected)
    if frozenset(expected) in DIGESTS:
        assert message["MD5OfMessageAttributes"] == DIGESTS[frozenset(expected)]
    if not expected:
        assert "MD5OfMessageAttributes" not in message


def test_timestamps_are_milliseconds_and_the_first_receive_stays(server, sqs, queue, receive):
    url = queue()
    sent_at = server.now() * 1000
    sqs.send_message(QueueUrl=url, MessageBody="x")
    server.advance(3)

    (first,) = receive(url, VisibilityTimeout=5)
    server.advance(6)
    (second,) = receive(url)

    sent = int(first["Attributes"]["SentTimestamp"])
    first_received = int(first["Attributes"]["ApproximateFirstReceiveTimestamp"])
    assert abs(sent - sent_at) < 5_000
    assert 3_000 <= first_received - sent < 8_000
    assert first["Attributes"]["ApproximateReceiveCount"] == "1"
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    for name in ("SentTimestamp", "ApproximateFirstReceiveTimestamp", "SenderId"):
        assert second["Attributes"][name] == first["Attributes"][name]


def test_fifo_attributes(sqs, fifo, receive):
    url = fifo()
    sent = sqs.send_message(QueueUrl=url, MessageBody="Test", MessageGroupId="g")

    (message,) = receive(url)

    assert set(message["Attributes"]) == STANDARD_ATTRIBUTES | {
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
    }
    assert message["Attributes"]["MessageGroupId"] == "g"
    assert message["Attributes"]["SequenceNumber"] == sent["SequenceNumber"]
    assert message["Attributes"]["MessageDeduplicationId"] == (
        "532eaabd9574880dbf76b9b8cc00832c20a6ec113d682299550d7a6e0f345e25"
    )


def test_attempt_id_is_ignored_on_a_standard_queue_when_well_formed(api, url):
    api.call("SendMessage", QueueUrl=url, MessageBody="x")

    answer = api.call("ReceiveMessage", QueueUrl=url, ReceiveRequestAttemptId="a")

    assert len(answer["Messages"]) == 1


def test_deep_backlog_comes_whole_and_each_message_once(sqs, queue):
    url = queue(VisibilityTimeout="43200")
    entries = [{"Id": f"id{n}", "MessageBody": "x"} for n in range(10)]
    for _ in range(300):
        sqs.send_message_batch(QueueUrl=url, Entries=entries)

    seen = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        seen += [message["MessageId"] for message in messages]

    assert len(seen) == len(set(seen)) == 3_000
