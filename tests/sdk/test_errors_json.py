"""Errors in the JSON protocol: both names, the right statuses, malformed requests."""

import json

import pytest

from support.expect import NO_QUEUE, refused
from support.wire import JSON_TYPE, json_error, request


def test_error_carries_both_names(json_api):
    given = {"QueueUrl": f"{json_api.endpoint}/000000000000/none", "MessageBody": "x"}

    error = refused(json_api, "SendMessage", NO_QUEUE, "The specified queue does not exist.", **given)
    headers = error.answer.headers

    assert error.shape == "com.amazonaws.sqs#QueueDoesNotExist"
    assert headers["x-amzn-query-error"] == f"{NO_QUEUE};Sender"
    assert headers["Content-Type"] == JSON_TYPE
    assert len(headers["x-amzn-RequestId"]) == 36
    assert headers["Date"]


NAMESPACES = [
    ("SendMessage", {"MessageBody": "x", "DelaySeconds": 901}, "com.amazon.coral.service#InvalidParameterValueException"),
    ("SendMessage", {}, "com.amazon.coral.service#MissingRequiredParameterException"),
    ("SendMessage", {"MessageBody": "\x01"}, "com.amazonaws.sqs#InvalidMessageContents"),
    ("SendMessageBatch", {"Entries": []}, "com.amazonaws.sqs#EmptyBatchRequest"),
    ("DeleteMessage", {"ReceiptHandle": "x"}, "com.amazonaws.sqs#ReceiptHandleIsInvalid"),
    ("SetQueueAttributes", {"Attributes": {"X": "1"}}, "com.amazonaws.sqs#InvalidAttributeName"),
    ("SetQueueAttributes", {"Attributes": {"DelaySeconds": "x"}}, "com.amazonaws.sqs#InvalidAttributeValue"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "given", "shape"), NAMESPACES, ids=lambda v: str(v)[-30:])
def test_type_names_the_shape_in_its_namespace(json_api, queue, action, given, shape):
    answer = json_api.post(action, {"QueueUrl": queue()} | given)

    assert json_error(answer).shape == shape
    assert json_error(answer).message


def test_sdk_sees_typed_exceptions_and_legacy_codes(sqs, queue):
    url = queue()
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as missing:
        sqs.get_queue_url(QueueName="none")
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="x")
    with pytest.raises(sqs.exceptions.EmptyBatchRequest):
        sqs.delete_message_batch(QueueUrl=url, Entries=[])
    with pytest.raises(sqs.exceptions.QueueNameExists):
        name = url.rpartition("/")[2]
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "7"})

    error = missing.value.response["Error"]
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert error["QueryErrorCode"] == "QueueDoesNotExist"
    assert error["Type"] == "Sender"
    assert missing.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


BROKEN = ["", "{", "[]", "text", '"text"', "null", '{"QueueUrl": }', '{"a":"\\x"}', "{} {}", b"\xff\xfe"]


@pytest.mark.parametrize("body", BROKEN, ids=str)
def test_broken_body_is_refused(json_api, body):
    answer = json_api.post("SendMessage", body)

    assert answer.status == 400
    shape = json_error(answer).shape.rpartition("#")[2]
    if body in ("", "null"):
        assert shape in ("SerializationException", "MissingRequiredParameterException")
    else:
        assert shape == "SerializationException"


WRONG_TYPES = [
    ("SendMessage", {"MessageBody": 1}),
    ("SendMessage", {"MessageBody": ["x"]}),
    ("SendMessage", {"MessageBody": "x", "DelaySeconds": "soon"}),
    ("SendMessage", {"MessageBody": "x", "DelaySeconds": {}}),
    ("SendMessage", {"MessageBody": "x", "MessageAttributes": []}),
    ("SendMessageBatch", {"Entries": {}}),
    ("ReceiveMessage", {"MaxNumberOfMessages": "many"}),
    ("ReceiveMessage", {"MessageAttributeNames": "All"}),
    ("SetQueueAttributes", {"Attributes": "x"}),
    (
        "SendMessage",
        {"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "*"}}},
    ),
]


@pytest.mark.parametrize(("action", "given"), WRONG_TYPES, ids=str)
def test_wrong_type_is_refused(json_api, queue, action, given):
    answer = json_api.post(action, {"QueueUrl": queue()} | given)

    assert answer.status == 400
    assert json_error(answer).shape.endswith("#SerializationException")


@pytest.mark.parametrize("target", ["AmazonSQS.NoSuchAction", "AmazonSQS.", "AmazonSQS"])
def test_unknown_action_is_refused(server, target):
    answer = request(server.endpoint, "POST", "/", "{}", {"Content-Type": JSON_TYPE, "X-Amz-Target": target})

    assert answer.status in (400, 404)
    assert json_error(answer).shape.endswith("#UnknownOperationException")


@pytest.mark.parametrize(
    ("action", "given", "shape", "status"),
    [
        ("DeleteMessage", {"ReceiptHandle": "garbage"}, "ReceiptHandleIsInvalid", 404),
        ("ListMessageMoveTasks", {"SourceArn": "arn:aws:sqs:us-east-1:000000000000:none"}, "ResourceNotFoundException", 404),
        ("ListQueueTags", {"QueueUrl": "http://a/1/none"}, "InvalidAddress", 404),
        ("ListQueueTags", {"QueueUrl": "http://a/000000000000/none"}, "QueueDoesNotExist", 400),
    ],
)
def test_status_of_the_query_protocol_is_for_clients_of_it(json_api, queue, action, given, shape, status):
    given = {"QueueUrl": queue()} | given
    for mode, expected in [("true", status), ("True", status), ("false", 400)]:
        answer = json_api.post(action, given, x_amzn_query_mode=mode)

        assert answer.status == expected, mode
        error = json_error(answer)
        assert error.shape == f"com.amazonaws.sqs#{shape}"
        assert error.code.rpartition(".")[2] in (shape, "NonExistentQueue")


REQUIRED = [
    ("SendMessage", "QueueUrl"),
    ("ReceiveMessage", "QueueUrl"),
    ("DeleteMessage", "QueueUrl"),
    ("ListQueueTags", "QueueUrl"),
    ("CancelMessageMoveTask", "TaskHandle"),
    ("StartMessageMoveTask", "SourceArn"),
    ("ListMessageMoveTasks", "SourceArn"),
]


@pytest.mark.parametrize(("action", "name"), REQUIRED)
def test_required_parameter(api, action, name):
    refused(api, action, "MissingParameter", f"The request must contain the parameter {name}.")


@pytest.mark.parametrize("given", [{}, {"QueueName": ""}], ids=["none", "empty"])
def test_queue_name_is_needed(api, given):
    message = "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
    refused(api, "GetQueueUrl", "InvalidParameterValue", message, **given)
    message = "Queue name cannot be empty" if given else message
    refused(api, "CreateQueue", "InvalidParameterValue", message, **given)


def test_missing_handle_is_named(api, queue):
    words = "The request must contain the parameter {}."
    url = queue()

    for given in ({}, {"ReceiptHandle": ""}):
        message = words.format("MessageHandle")
        refused(api, "DeleteMessage", "MissingParameter", message, QueueUrl=url, **given)
        given |= {"VisibilityTimeout": 1}
        message = words.format("ReceiptHandle")
        refused(api, "ChangeMessageVisibility", "MissingParameter", message, QueueUrl=url, **given)


@pytest.mark.parametrize("content_type", [JSON_TYPE, f"{JSON_TYPE}; charset=utf-8", f"{JSON_TYPE.upper()}"])
def test_content_type_may_carry_a_suffix(json_api, queue, content_type):
    answer = json_api.post("GetQueueAttributes", {"QueueUrl": queue()}, Content_Type=content_type)

    assert answer.status == 200


def test_success_has_the_headers_that_sdks_read(json_api):
    answer = json_api.post("ListQueues", {"QueueNamePrefix": "none"})

    assert answer.status == 200
    assert answer.headers["Content-Type"] == JSON_TYPE
    assert len(answer.headers["x-amzn-RequestId"]) == 36
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    assert answer.headers["Date"].endswith("GMT")


def test_void_action_answers_nothing_or_an_empty_object(json_api, queue):
    answer = json_api.post("DeleteQueue", {"QueueUrl": queue()})

    assert answer.status == 200
    assert answer.body in (b"", b"{}")


def test_members_may_be_null(json_api, queue):
    body = {"QueueUrl": queue(), "MaxNumberOfMessages": None, "MessageAttributeNames": None}

    assert json_api.post("ReceiveMessage", body).status == 200


def test_deeply_nested_body_is_refused_not_fatal(json_api, server):
    deep = '{"QueueUrl":"x","Extra":' + "[" * 100_000 + "]" * 100_000 + "}"

    assert json_api.post("SendMessage", deep).status == 400
    assert server.get("/health")[0] == 200


def test_text_that_is_no_number_is_named(json_api, queue):
    answer = json_api.post("ReceiveMessage", {"QueueUrl": queue(), "MaxNumberOfMessages": "many"})

    error = json_error(answer)
    assert (error.status, error.message) == (400, "STRING_VALUE can not be converted to an Integer")


def test_numbers_may_come_as_text(json_api, queue):
    body = {"QueueUrl": queue(), "MessageBody": "x", "DelaySeconds": "0"}

    assert json_api.post("SendMessage", json.dumps(body)).status == 200
