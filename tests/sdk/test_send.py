"""SendMessage: what is accepted, what is refused with which words, what the answer says."""

import base64

import pytest

from support.expect import md5, refused
from support.wire import ApiError

FIFO = {"FifoQueue": "true"}
GROUP_RULE = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


@pytest.fixture
def url(api, new_name):
    return api.call("CreateQueue", QueueName=new_name())["QueueUrl"]


@pytest.fixture
def fifo_url(api, new_name):
    name = new_name(suffix=".fifo")
    return api.call("CreateQueue", QueueName=name, Attributes=FIFO)["QueueUrl"]


def received(api, url, **parameters):
    asked = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    (message,) = api.call("ReceiveMessage", QueueUrl=url, **(asked | parameters))["Messages"]
    return message


def string(value, data_type="String"):
    return {"DataType": data_type, "StringValue": value}


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
def test_body_sent_by_one_protocol_is_received_by_the_other(json_api, query_api, new_name, body):
    url = json_api.call("CreateQueue", QueueName=new_name())["QueueUrl"]

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
def test_lone_surrogates_are_refused(json_api, new_name, body):
    url = json_api.call("CreateQueue", QueueName=new_name())["QueueUrl"]

    refused(json_api, "SendMessage", "InvalidMessageContents", QueueUrl=url, MessageBody=body)


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

    refused(
        api,
        "SendMessage",
        "InvalidParameterValue",
        message,
        QueueUrl=url,
        MessageBody="x",
        DelaySeconds=delay,
    )


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

    refused(
        api,
        "SendMessage",
        "MissingParameter",
        message,
        QueueUrl=fifo_url,
        MessageBody="x",
        MessageDeduplicationId="d",
    )


def test_fifo_send_needs_a_deduplication_id(api, fifo_url):
    message = (
        "The queue should either have ContentBasedDeduplication enabled "
        "or MessageDeduplicationId provided explicitly"
    )

    refused(
        api,
        "SendMessage",
        "InvalidParameterValue",
        message,
        QueueUrl=fifo_url,
        MessageBody="x",
        MessageGroupId="g",
    )


@pytest.mark.parametrize("value", ["a" * 129, "with space", "\u00e9", "new\nline"])
@pytest.mark.parametrize("parameter", ["MessageGroupId", "MessageDeduplicationId"])
def test_fifo_ids_are_checked(api, fifo_url, parameter, value):
    given = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} | {parameter: value}
    message = f"Value {value} for parameter {parameter} is invalid. Reason: {parameter} {GROUP_RULE}"

    refused(api, "SendMessage", "InvalidParameterValue", message, QueueUrl=fifo_url, MessageBody="x", **given)


@pytest.mark.parametrize("parameter", ["MessageGroupId", "MessageDeduplicationId"])
def test_empty_fifo_id_is_not_a_missing_one(json_api, new_name, parameter):
    name = new_name(suffix=".fifo")
    url = json_api.call("CreateQueue", QueueName=name, Attributes=FIFO)["QueueUrl"]
    given = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} | {parameter: ""}
    message = f"Value  for parameter {parameter} is invalid. Reason: {parameter} {GROUP_RULE}"

    refused(json_api, "SendMessage", "InvalidParameterValue", message, QueueUrl=url, MessageBody="x", **given)


@pytest.mark.parametrize("value", ["a" * 129, "with space"])
def test_group_of_a_standard_queue_is_checked_too(api, url, value):
    message = f"Value {value} for parameter MessageGroupId is invalid. Reason: MessageGroupId {GROUP_RULE}"

    refused(
        api,
        "SendMessage",
        "InvalidParameterValue",
        message,
        QueueUrl=url,
        MessageBody="x",
        MessageGroupId=value,
    )


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

    refused(
        api,
        "SendMessage",
        "InvalidParameterValue",
        message,
        QueueUrl=url,
        MessageBody="x",
        MessageDeduplicationId="d",
    )


def test_standard_queue_keeps_a_group(api, url):
    sent = api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageGroupId="tenant-1")

    assert "SequenceNumber" not in sent
    assert received(api, url)["Attributes"]["MessageGroupId"] == "tenant-1"


# Message attributes


ATTRIBUTES = [
    string("value"),
    string("h\u00e9 \u2603 \U0001f600 <&>\"'\r\n\t"),
    string("v", "String.custom"),
    string("1", "String.a.b-c_D9"),
    string("v", "String.application/json; charset=utf-8"),
    string("0", "Number"),
    string("-1.50", "Number"),
    string("007", "Number"),
    string("1e3", "Number"),
    string("99.12", "Number.float"),
    string("123456789012345678901234567890.12345678", "Number"),
    string("1" + "0" * 40, "Number"),
    {"DataType": "Binary", "BinaryValue": base64.b64encode(bytes(range(256))).decode()},
    {"DataType": "Binary.png", "BinaryValue": base64.b64encode(b"\0").decode()},
]


@pytest.mark.parametrize("value", ATTRIBUTES, ids=range(len(ATTRIBUTES)))
def test_attribute_comes_back_as_it_was_sent(api, url, value):
    given = {"name": value}

    sent = api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=given)
    message = received(api, url)

    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


@pytest.mark.parametrize("name", ["a", "A_b-c.d", "attr.1\u00f8\u00df\u00e4", "n" * 256, "AWSome", "1"])
def test_attribute_name_is_accepted(api, url, name):
    given = {name: string("v")}

    api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=given)

    assert received(api, url)["MessageAttributes"] == given


BAD_ATTRIBUTE_NAMES = [
    "a!", 'a"', "a\u00a7", "a(", "a?", "a b", "aWs.x", "AWS.x", "AMAZON.x", "amazon.x",
    ".a", "a.", "n" * 257,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_ATTRIBUTE_NAMES)
def test_attribute_name_is_refused(api, url, name):
    given = {name: string("v")}

    refused(
        api, "SendMessage", "InvalidParameterValue", QueueUrl=url, MessageBody="x", MessageAttributes=given
    )


BAD_ATTRIBUTES = {
    "no type": {"StringValue": "v"},
    "empty type": string("v", ""),
    "unknown type": string("v", "Text"),
    "type in wrong case": string("v", "string"),
    "prefix without dot": string("v", "Strings"),
    "type too long": string("v", "String." + "x" * 250),
    "forbidden character in type": string("v", "String.a\x01"),
    "not a number": string("12x", "Number"),
    "too small a number": string("1e-129", "Number"),
    "empty number": string("", "Number"),
    "no value": {"DataType": "String"},
    "no binary": {"DataType": "Binary"},
    "text as binary": string("v", "Binary"),
    "forbidden character": string("a\x01b"),
    "string list": {"DataType": "String", "StringListValues": ["a"]},
}


@pytest.mark.parametrize("case", BAD_ATTRIBUTES)
def test_bad_attribute_is_refused(api, url, case):
    given = {"name": BAD_ATTRIBUTES[case]}

    with pytest.raises(ApiError) as caught:
        api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=given)

    assert caught.value.status == 400
    codes = {"InvalidParameterValue"}
    if case == "string list":
        codes = {"InvalidParameterValue", "AWS.SimpleQueueService.UnsupportedOperation"}
    assert caught.value.code in codes


ATTRIBUTE_WORDS = [
    ("", string("v"), "The request must contain non-empty message attribute name."),
    ("a", {"StringValue": "v"}, "The request must contain non-empty message attribute type."),
    ("a", string("v", ""), "The request must contain non-empty message attribute type."),
    (
        "a",
        string("v", "Text"),
        "The type of message (user) attribute 'a' is invalid. You must use only the following supported type "
        "prefixes: Binary, Number, String.",
    ),
]


@pytest.mark.parametrize(("name", "value", "words"), ATTRIBUTE_WORDS, ids=range(len(ATTRIBUTE_WORDS)))
def test_bad_attribute_name_and_type_have_their_words(api, url, name, value, words):
    given = {"QueueUrl": url, "MessageBody": "x", "MessageAttributes": {name: value}}

    refused(api, "SendMessage", "InvalidParameterValue", words, **given)


def test_empty_attribute_value_has_its_own_words(json_api, new_name):
    url = json_api.call("CreateQueue", QueueName=new_name())["QueueUrl"]
    message = "Message (user) attribute 'empty' must contain a non-empty value of type 'String'."

    refused(
        json_api,
        "SendMessage",
        "InvalidParameterValue",
        message,
        QueueUrl=url,
        MessageBody="x",
        MessageAttributes={"empty": string("")},
    )


def test_ten_attributes_and_no_more(api, url):
    ten = {f"a{n}": string("v") for n in range(10)}

    api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=ten)
    assert received(api, url)["MessageAttributes"] == ten

    refused(
        api,
        "SendMessage",
        "InvalidParameterValue",
        QueueUrl=url,
        MessageBody="x",
        MessageAttributes=ten | {"a10": string("v")},
    )


# System attributes


TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def test_trace_header_attribute(api, url):
    sent = api.call(
        "SendMessage",
        QueueUrl=url,
        MessageBody="x",
        MessageSystemAttributes={"AWSTraceHeader": string(TRACE)},
    )

    assert sent["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
    assert received(api, url)["Attributes"]["AWSTraceHeader"] == TRACE


def test_trace_header_of_the_request_is_kept_unless_given(api, url):
    body = {"QueueUrl": url, "MessageBody": "x"}

    assert api.post("SendMessage", body, X_Amzn_Trace_Id=TRACE).status == 200
    message = received(api, url)
    assert message["Attributes"]["AWSTraceHeader"] == TRACE
    api.call("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    explicit = {"MessageSystemAttributes": {"AWSTraceHeader": string("Root=explicit")}}
    assert api.post("SendMessage", body | explicit, X_Amzn_Trace_Id=TRACE).status == 200
    assert received(api, url)["Attributes"]["AWSTraceHeader"] == "Root=explicit"


@pytest.mark.parametrize(
    "given",
    [
        {"Other": string("v")},
        {"AWSTraceHeader": string("1", "Number")},
        {"AWSTraceHeader": {"DataType": "Binary", "BinaryValue": "AA=="}},
    ],
)
def test_other_system_attributes_are_refused(api, url, given):
    refused(
        api,
        "SendMessage",
        "InvalidParameterValue",
        QueueUrl=url,
        MessageBody="x",
        MessageSystemAttributes=given,
    )


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
