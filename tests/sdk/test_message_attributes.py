"""Message attributes and system attributes of a send: what is accepted, what is refused with which words."""

import base64

import pytest

from support.expect import PREFIX, refused
from support.wire import received, string

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


@pytest.mark.parametrize("name", ["a", "A_b-c.d", "attr.1", "n" * 256, "AWSome", "1"])
def test_attribute_name_is_accepted(api, url, name):
    given = {name: string("v")}

    api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=given)

    assert received(api, url)["MessageAttributes"] == given


BAD_ATTRIBUTE_NAMES = [
    "a!", 'a"', "a\u00a7", "a(", "a?", "a b", "aWs.x", "AWS.x", "AMAZON.x", "amazon.x",
    ".a", "a.", "n" * 257, "attr.1\u00f8\u00df\u00e4", "\u00f6ther", "\u0661",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_ATTRIBUTE_NAMES)
def test_attribute_name_is_refused(api, url, name):
    given = {"QueueUrl": url, "MessageBody": "x", "MessageAttributes": {name: string("v")}}

    refused(api, "SendMessage", "InvalidParameterValue", **given)


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

    code = PREFIX + "UnsupportedOperation" if case == "string list" else "InvalidParameterValue"
    refused(api, "SendMessage", code, QueueUrl=url, MessageBody="x", MessageAttributes=given)


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


def test_empty_attribute_value_has_its_own_words(json_api, queue):
    message = "Message (user) attribute 'empty' must contain a non-empty value of type 'String'."
    given = {"QueueUrl": queue(), "MessageBody": "x", "MessageAttributes": {"empty": string("")}}

    refused(json_api, "SendMessage", "InvalidParameterValue", message, **given)


def test_ten_attributes_and_no_more(api, url):
    ten = {f"a{n}": string("v") for n in range(10)}

    api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=ten)
    assert received(api, url)["MessageAttributes"] == ten
    given = {"QueueUrl": url, "MessageBody": "x", "MessageAttributes": ten | {"a10": string("v")}}

    refused(api, "SendMessage", "InvalidParameterValue", **given)


# System attributes


TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def test_trace_header_attribute(api, url):
    trace = {"AWSTraceHeader": string(TRACE)}

    sent = api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageSystemAttributes=trace)

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
    message = {"QueueUrl": url, "MessageBody": "x", "MessageSystemAttributes": given}
    refused(api, "SendMessage", "InvalidParameterValue", **message)
