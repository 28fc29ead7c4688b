"""Sizes, counted as AWS counts them: bytes of body, attribute names, types and values."""

import base64

import pytest

from support.expect import PREFIX, refused
from support.wire import received

LIMIT = 1_048_576
TOO_LONG = f"One or more parameters are invalid. Reason: Message must be shorter than {LIMIT} bytes."


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u2603", "\U0001f600"])
def test_body_of_exactly_the_limit_and_one_byte_more(api, url, character):
    width = len(character.encode())
    body = character * (LIMIT // width)
    body += "a" * (LIMIT - len(body.encode()))

    api.call("SendMessage", QueueUrl=url, MessageBody=body)
    assert received(api, url)["Body"] == body

    refused(api, "SendMessage", "InvalidParameterValue", TOO_LONG, QueueUrl=url, MessageBody=body + "a")


ATTRIBUTES = [
    {"k": {"DataType": "String", "StringValue": "x"}},
    {"name": {"DataType": "Number.custom", "StringValue": "12"}},
    {"of-signs": {"DataType": "String", "StringValue": "\u2603"}},
    {"b": {"DataType": "Binary", "BinaryValue": base64.b64encode(bytes(1000)).decode()}},
]


@pytest.mark.parametrize("given", ATTRIBUTES, ids=lambda given: next(iter(given)))
def test_attributes_count(api, url, given):
    ((name, value),) = given.items()
    content = value.get("StringValue", "").encode() or base64.b64decode(value["BinaryValue"])
    size = len(name.encode()) + len(value["DataType"].encode()) + len(content)
    body = "a" * (LIMIT - size)

    api.call("SendMessage", QueueUrl=url, MessageBody=body, MessageAttributes=given)
    assert received(api, url)["MessageAttributes"] == given

    longer = {"QueueUrl": url, "MessageBody": body + "a", "MessageAttributes": given}
    refused(api, "SendMessage", "InvalidParameterValue", TOO_LONG, **longer)


def test_system_attributes_do_not_count(api, url):
    trace = {
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    }

    api.call("SendMessage", QueueUrl=url, MessageBody="a" * LIMIT, MessageSystemAttributes=trace)

    assert len(received(api, url)["Body"]) == LIMIT


def test_maximum_message_size_of_the_queue(api, url):
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    words = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
    given = {"QueueUrl": url, "MessageAttributes": {"k": {"DataType": "String", "StringValue": "x"}}}

    api.call("SendMessage", QueueUrl=url, MessageBody="a" * 1024)
    refused(api, "SendMessage", "InvalidParameterValue", words, QueueUrl=url, MessageBody="a" * 1025)
    api.call("SendMessage", MessageBody="a" * 1016, **given)
    refused(api, "SendMessage", "InvalidParameterValue", words, MessageBody="a" * 1017, **given)


def test_batch_of_exactly_the_limit_and_one_byte_more(api, url):
    half = LIMIT // 2
    entries = [{"Id": "a", "MessageBody": "a" * half}, {"Id": "b", "MessageBody": "b" * half}]
    words = f"Batch requests cannot be longer than {LIMIT} bytes. You have sent {LIMIT + 1} bytes."

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert [result["Id"] for result in sent["Successful"]] == ["a", "b"]

    entries[1]["MessageBody"] += "b"
    code = PREFIX + "BatchRequestTooLong"
    refused(api, "SendMessageBatch", code, words, QueueUrl=url, Entries=entries)


def test_batch_limit_counts_attributes(api, url):
    given = {"k": {"DataType": "String", "StringValue": "x"}}
    entries = [{"Id": "a", "MessageBody": "a" * (LIMIT - 8), "MessageAttributes": given}]
    assert "Failed" not in api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    entries.append({"Id": "b", "MessageBody": "b"})
    code = PREFIX + "BatchRequestTooLong"
    refused(api, "SendMessageBatch", code, QueueUrl=url, Entries=entries)


def test_batch_limit_ignores_the_queues_own(api, url):
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    entries = [{"Id": f"id{n}", "MessageBody": "a" * 1024} for n in range(10)]

    assert "Failed" not in api.call("SendMessageBatch", QueueUrl=url, Entries=entries)


def test_ten_large_messages_come_in_one_receive(api, url):
    for n in range(10):
        api.call("SendMessage", QueueUrl=url, MessageBody=str(n) * (LIMIT - 10))

    got = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]

    assert sorted(message["Body"][0] for message in got) == list("0123456789")
    assert {len(message["Body"]) for message in got} == {LIMIT - 10}


def test_body_that_grows_sixfold_in_json_is_accepted(json_api, queue):
    """JSON escapes of non-ASCII text are up to six times its size; the limit is on the text."""
    url = queue()
    body = "\u00e9" * (LIMIT // 2)

    json_api.call("SendMessage", QueueUrl=url, MessageBody=body)  # json.dumps escapes each.

    assert received(json_api, url)["Body"] == body


def test_request_far_above_every_limit_is_refused_without_being_fatal(server, json_api):
    try:
        answer = json_api.post("SendMessage", b'{"MessageBody":"' + b"a" * 40_000_000 + b'"}')
        assert 400 <= answer.status < 500
    except ConnectionError:
        pass  # The server may hang up before it has read what it will not take.

    assert server.get("/health")[0] == 200


class TestInFlight:
    """The limit is 120,000 messages; configured lower here to be reached."""

    @pytest.fixture
    def server(self, make_server):
        return make_server(config="[limits]\nin_flight = 20\n")

    def fill(self, api, name, **attributes):
        url = api.call("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"]
        for n in range(30):
            group = {"MessageGroupId": f"g{n}"} if name.endswith(".fifo") else {}
            api.call("SendMessage", QueueUrl=url, MessageBody=str(n), **group)
        for _ in range(2):
            got = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
            assert len(got) == 10
        return url, got

    def test_short_poll_is_refused_and_long_poll_is_empty(self, api):
        url, messages = self.fill(api, "plain")

        refused(api, "ReceiveMessage", "OverLimit", None, 403, QueueUrl=url)
        assert api.call("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1) == {}

        api.call("DeleteMessage", QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
        assert len(api.call("ReceiveMessage", QueueUrl=url)["Messages"]) == 1

    def test_fifo_queue_is_just_empty(self, api):
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        url, _ = self.fill(api, "f.fifo", **fifo)

        assert api.call("ReceiveMessage", QueueUrl=url) == {}
