"""Digests against vectors recorded on AWS, and against an independent implementation."""

import base64
import random

import pytest

from support.expect import md5, md5_of_attributes
from support.wire import string


TRACEPARENT = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
VECTORS = [
    ({"k": string("x")}, "a45daa70926828a2f0a1db3418e6feb4"),
    ({"Foo": string("Bar")}, "ae7155c6026991b6d54b11589678bf9c"),
    ({"MyAttribute": string("foobar")}, "adb59cd4678ea5a855436b949cd07ab6"),
    ({"timestamp": string("1493147359900", "Number")}, "235c5c510d26fb653d073faed50ae77c"),
    ({"attr1": string("99.12", "Number")}, "d302007e9aa062660afc85fd0a482472"),
    (
        {"Help.Me": string("Me"), "Hello": string("There"), "General": string("Kenobi")},
        "4c360f3fdafd970e05fae2f149d997f5",
    ),
    ({"attr1": {"DataType": "Binary", "BinaryValue": TRACEPARENT}}, "8cbe4db156db8a94db8b801b7addb984"),
    ({"a": string("v", "String.custom")}, "0e72954688717b3edb33ccee06593222"),
]


def encoded(attributes):
    """For raw HTTP: bytes as base64 text."""
    return {
        name: value | {"BinaryValue": base64.b64encode(value["BinaryValue"]).decode()}
        if "BinaryValue" in value
        else value
        for name, value in attributes.items()
    }


@pytest.mark.parametrize(("attributes", "digest"), VECTORS, ids=lambda value: str(value)[:24])
def test_attribute_vectors(api, url, attributes, digest):
    assert md5_of_attributes(attributes) == digest

    sent = api.call("SendMessage", QueueUrl=url, MessageBody="x", MessageAttributes=encoded(attributes))
    (message,) = api.call("ReceiveMessage", QueueUrl=url, MessageAttributeNames=["All"])["Messages"]

    assert sent["MD5OfMessageAttributes"] == digest
    assert message["MD5OfMessageAttributes"] == digest


@pytest.mark.parametrize(
    ("body", "digest"),
    [("h\u00e9", "33fcd01258e6ba07ef405dc9e721f3a7"), ("Test", "0cbc6611f5540bd0809a388dc95a615b")],
)
def test_body_vectors(api, url, body, digest):
    assert api.call("SendMessage", QueueUrl=url, MessageBody=body)["MD5OfMessageBody"] == digest
    assert api.call("ReceiveMessage", QueueUrl=url)["Messages"][0]["MD5OfBody"] == digest


def test_random_attributes_agree_with_the_definition(sqs, queue, receive):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    url = queue()
    for _ in range(50):
        attributes = {}
        for _ in range(rng.randint(1, 10)):
            name = "".join(rng.choices("abzAZ09_-", k=rng.randint(1, 30)))
            label = "".join(rng.choices(["", "", ".x", ".a-b_C.9"], k=1))
            kind = rng.choice(["String", "Number", "Binary"])
            if kind == "Binary":
                value = {"BinaryValue": rng.randbytes(rng.randint(1, 100))}
            elif kind == "Number":
                value = {"StringValue": str(rng.randint(-(10**9), 10**9) / 8)}
            else:
                value = {"StringValue": "".join(rng.choices("a\u00e9\u2603\U0001f600\r\n", k=9))}
            attributes[name] = {"DataType": kind + label} | value
        body = "".join(rng.choices("a\u00e9\u2603\U0001f600\r\n\t<&", k=rng.randint(1, 200)))

        sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        (message,) = receive(url)

        assert sent["MD5OfMessageBody"] == message["MD5OfBody"] == md5(body)
        assert sent["MD5OfMessageAttributes"] == md5_of_attributes(attributes)
        assert message["MD5OfMessageAttributes"] == md5_of_attributes(attributes)
        assert message["MessageAttributes"] == attributes
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
