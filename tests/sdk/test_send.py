"""SendMessage: bodies, delays, groups and ids; what is refused with which words, what the answer says."""

import pytest

from support.expect import md5, refused
from support.wire import received

GROUP_RULE = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


# Bodies


BODIES = [
    "Test",
    " ",
    "  spaces around  ",
    "tab\tline\nreturn\rboth\r\nend",
    "\r",
    "<a href=\"x\">&amp; 'quoted' ]]></a>",
    '{"json": "\\u0000 as text"}',
    "\ud7ff\ue000\ufffd",
    "\U00010000\U0010ffff",
    "emoji \U0001f600 and combining e\u0301",
    "\u0085\u2028\u2029\u00a0\u200b\ufeff",
    "a=1&b=%20+c",
    "x" * 70_000,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_body_comes_back_unchanged(api, url, body):
    sent = api.call("SendMessage", QueueUrl=url, MessageBody=body)
    message = received(api, url)

    assert message["Body"] == body
    assert sent["MD5OfMessageBody"] == message["MD5OfBody"] == md5(body)


@pytest.mark.parametrize("body", BODIES[:8], ids=range(8))
def test_body_sent_by_one_protocol_is_received_by_the_other(json_api, query_api, queue, body):
    url = queue()

    for sender, receiver in ((json_api, query_api), (query_api, json_api)):
        sender.call("SendMessage", QueueUrl=url, MessageBody=body)
        message = received(receiver, url)
        assert (message["Body"], message["MD5OfBody"]) == (body, md5(body))
        receiver.call("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize("character", ["\0", "\x01", "\x08", "\x0b", "\x0c", "\x1f", "\ufffe", "\uffff"])
def test_characters_outside_xml_are_refused(api, url, character):
    words = (
        f"Invalid binary character '#x{ord(character):X}' was found in the message body, the set of allowed "
        "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]."
    )
    refused(api, "SendMessage", "InvalidMessageContents", words, QueueUrl=url, MessageBody=f"a{character}b")


@pytest.mark.parametrize("body", ["\ud800", "a\udfffb"])
def test_lone_surrogates_are_refused(json_api, queue, body):
    refused(json_api, "SendMessage", "InvalidMessageContents", QueueUrl=queue(), MessageBody=body)


@pytest.mark.parametrize("given", [{}, {"MessageBody": ""}])
def test_missing_or_empty_body_is_refused(api, url, given):
    message = "The request must contain the parameter MessageBody."

    refused(api, "SendMessage", "MissingParameter", message, QueueUrl=url, **given)


# Delays


@pytest.mark.parametrize("delay", [901, -1])
def test_delay_is_bounded(api, url, delay):
    message = (
        f"Value {delay} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
    )
    given = {"QueueUrl": url, "MessageBody": "x", "DelaySeconds": delay}

    refused(api, "SendMessage", "InvalidParameterValue", message, **given)


def test_fifo_message_has_no_delay_of_its_own(api, fifo_url):
    given = {"QueueUrl": fifo_url, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    message = (
        "Value 2 for parameter DelaySeconds is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )

    refused(api, "SendMessage", "InvalidParameterValue", message, **given, DelaySeconds=2)
    api.call("SendMessage", **given, DelaySeconds=0)


# Groups and deduplication ids


def test_fifo_send_needs_a_group(api, fifo_url):
    message = "The request must contain the parameter MessageGroupId."
    given = {"QueueUrl": fifo_url, "MessageBody": "x", "MessageDeduplicationId": "d"}

    refused(api, "SendMessage", "MissingParameter", message, **given)


def test_fifo_send_needs_a_deduplication_id(api, fifo_url):
    message = (
        "The queue should either have ContentBasedDeduplication enabled "
        "or MessageDeduplicationId provided explicitly"
    )
    given = {"QueueUrl": fifo_url, "MessageBody": "x", "MessageGroupId": "g"}

    refused(api, "SendMessage", "InvalidParameterValue", message, **given)


@pytest.mark.parametrize("value", ["a" * 129, "with space", "\u00e9", "new\nline"])
@pytest.mark.parametrize("parameter", ["MessageGroupId", "MessageDeduplicationId"])
def test_fifo_ids_are_checked(api, fifo_url, parameter, value):
    given = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} | {parameter: value}
    message = f"Value {value} for parameter {parameter} is invalid. Reason: {parameter} {GROUP_RULE}"

    refused(api, "SendMessage", "InvalidParameterValue", message, QueueUrl=fifo_url, MessageBody="x", **given)


@pytest.mark.parametrize("parameter", ["MessageGroupId", "MessageDeduplicationId"])
def test_empty_fifo_id_is_not_a_missing_one(json_api, fifo, parameter):
    given = {"QueueUrl": fifo(), "MessageBody": "x", "MessageGroupId": "g", parameter: ""}
    message = f"Value  for parameter {parameter} is invalid. Reason: {parameter} {GROUP_RULE}"

    refused(json_api, "SendMessage", "InvalidParameterValue", message, **given)


@pytest.mark.parametrize("value", ["a" * 129, "with space"])
def test_group_of_a_standard_queue_is_checked_too(api, url, value):
    message = f"Value {value} for parameter MessageGroupId is invalid. Reason: MessageGroupId {GROUP_RULE}"
    given = {"QueueUrl": url, "MessageBody": "x", "MessageGroupId": value}

    refused(api, "SendMessage", "InvalidParameterValue", message, **given)


@pytest.mark.parametrize("value", [PUNCTUATION, "a" * 128])
def test_every_punctuation_character_is_allowed_in_ids(api, fifo_url, value):
    api.call(
        "SendMessage", QueueUrl=fifo_url, MessageBody="x", MessageGroupId=value, MessageDeduplicationId=value
    )

    got = received(api, fifo_url)["Attributes"]
    assert got["MessageGroupId"] == got["MessageDeduplicationId"] == value


def test_standard_queue_takes_no_deduplication_id(api, url):
    message = (
        "Value d for parameter MessageDeduplicationId is invalid. "
        "Reason: The request includes a parameter that is not valid for this queue type."
    )
    given = {"QueueUrl": url, "MessageBody": "x", "MessageDeduplicationId": "d"}

    refused(api, "SendMessage", "InvalidParameterValue", message, **given)


def test_standard_queue_keeps_a_group(api, url):
    sent = api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageGroupId="tenant-1")

    assert "SequenceNumber" not in sent
    assert received(api, url)["Attributes"]["MessageGroupId"] == "tenant-1"


# The answer


def test_answer_has_digests_only_of_what_was_sent(api, url, fifo_url):
    plain = api.call("SendMessage", QueueUrl=url, MessageBody="Test")
    fifo = api.call(
        "SendMessage", QueueUrl=fifo_url, MessageBody="Test", MessageGroupId="g", MessageDeduplicationId="d"
    )

    assert set(plain) == {"MessageId", "MD5OfMessageBody"}
    assert set(fifo) == {"MessageId", "MD5OfMessageBody", "SequenceNumber"}
    assert plain["MD5OfMessageBody"] == "0cbc6611f5540bd0809a388dc95a615b"
    assert fifo["SequenceNumber"].isdecimal() and len(fifo["SequenceNumber"]) == 20


def test_unknown_members_are_ignored(json_api, new_name):
    url = json_api.call("CreateQueue", QueueName=new_name(), Unknown={"a": [1, None]})["QueueUrl"]

    sent = json_api.call("SendMessage", QueueUrl=url, MessageBody="x", Extra=1, DelaySeconds=None)

    assert received(json_api, url)["MessageId"] == sent["MessageId"]
