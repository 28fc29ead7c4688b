"""An SDK of the Query generation (botocore up to 1.31.80) does everything that it can.

It posts forms to queue URLs and reads XML; all 23 actions are called once.
"""

import json

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

ACTIONS = {
    "AddPermission",
    "CancelMessageMoveTask",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "DeleteMessage",
    "DeleteMessageBatch",
    "DeleteQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueues",
    "ListQueueTags",
    "PurgeQueue",
    "ReceiveMessage",
    "RemovePermission",
    "SendMessage",
    "SendMessageBatch",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
}


def test_this_sdk_speaks_query():
    model = boto3.client("sqs", region_name="us-east-1").meta.service_model

    assert model.metadata["protocol"] == "query"
    assert set(model.operation_names) == ACTIONS


def test_queues(sqs, new_name):
    name = new_name()
    url = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "0"}, tags={"a": "1"})["QueueUrl"]

    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "5", "DelaySeconds": "1"})
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout", "DelaySeconds"])
    assert got["Attributes"] == {"VisibilityTimeout": "5", "DelaySeconds": "1"}
    sqs.tag_queue(QueueUrl=url, Tags={"b": "2"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"b": "2"}
    sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=["1" * 12], Actions=["SendMessage"])
    sqs.remove_permission(QueueUrl=url, Label="l")
    sqs.purge_queue(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)


def test_messages(sqs, queue):
    url = queue()
    attributes = {
        "text": {"DataType": "String", "StringValue": "h\u00e9 \r\n<&>"},
        "bytes": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
        "number": {"DataType": "Number.int", "StringValue": "42"},
    }
    body = "tab\t return\r\n <&> \u2603 \U0001f600"

    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    (message,) = sqs.receive_message(
        QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"], WaitTimeSeconds=1
    )["Messages"]

    assert message["MessageId"] == sent["MessageId"]
    assert message["Body"] == body
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    handle = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=60)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_batches(sqs, queue):
    url = queue()
    entries = [{"Id": f"id{n}", "MessageBody": f"m{n}"} for n in range(10)]

    sent = sqs.send_message_batch(QueueUrl=url, Entries=[*entries[:9], {"Id": "bad", "MessageBody": "\x01"}])
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    handles = [message["ReceiptHandle"] for message in messages]
    changes = [{"Id": str(n), "ReceiptHandle": h, "VisibilityTimeout": 9} for n, h in enumerate(handles)]
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=changes)
    deletes = [{"Id": str(n), "ReceiptHandle": h} for n, h in enumerate([*handles, "garbage"])]
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=deletes)

    assert len(sent["Successful"]) == 9
    assert sent["Failed"][0]["Code"] == "InvalidMessageContents"
    assert len(changed["Successful"]) == 9
    assert len(deleted["Successful"]) == 9
    assert deleted["Failed"][0]["SenderFault"] is True


def test_fifo(sqs, fifo):
    url = fifo()
    for body in ("1", "2", "1"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")

    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]

    assert [message["Body"] for message in messages] == ["1", "2"]
    assert {message["Attributes"]["MessageGroupId"] for message in messages} == {"g"}


def test_dead_letters_and_move_tasks(sqs, queue, arn):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
    source = queue(RedrivePolicy=policy)
    sqs.send_message(QueueUrl=source, MessageBody="poison")
    assert len(sqs.receive_message(QueueUrl=source, VisibilityTimeout=0)["Messages"]) == 1
    assert "Messages" not in sqs.receive_message(QueueUrl=source)
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]

    sqs.start_message_move_task(SourceArn=arn(dead))
    (message,) = sqs.receive_message(QueueUrl=source, WaitTimeSeconds=5)["Messages"]
    (task,) = sqs.list_message_move_tasks(SourceArn=arn(dead))["Results"]

    assert message["Body"] == "poison"
    assert task["SourceArn"] == arn(dead)
    assert isinstance(task["StartedTimestamp"], int)


def test_cancel_move_task(sqs, queue, arn):
    dead = queue()
    source = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1}))
    for n in range(10):
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
    task = sqs.start_message_move_task(
        SourceArn=arn(dead), DestinationArn=arn(source), MaxNumberOfMessagesPerSecond=1
    )

    cancelled = sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])

    assert 0 <= cancelled["ApproximateNumberOfMessagesMoved"] < 10


def test_errors_have_the_codes_of_that_time(sqs, queue):
    url = queue()

    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as missing:
        sqs.send_message(QueueUrl=f"{url}-none", MessageBody="x")
    assert missing.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert missing.value.response["Error"]["Type"] == "Sender"
    assert missing.value.response["Error"]["Message"].endswith("for this wsdl version.")

    with pytest.raises(ClientError) as invalid:
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=11)
    assert invalid.value.response["Error"]["Code"] == "InvalidParameterValue"

    with pytest.raises(sqs.exceptions.EmptyBatchRequest):
        sqs.delete_message_batch(QueueUrl=url, Entries=[])


def test_signatures_of_version_2(make_server):
    keys = '[[credentials]]\naccess_key = "AKIDONE"\nsecret_key = "secret-one"\naccount = "111111111111"\n'
    server = make_server(config=keys, test=False)

    def client(secret):
        config = Config(signature_version="v2", retries={"max_attempts": 0})
        keys = {"aws_access_key_id": "AKIDONE", "aws_secret_access_key": secret}
        return boto3.client("sqs", region_name="us-east-1", endpoint_url=server.endpoint, config=config, **keys)

    sqs = client("secret-one")
    url = sqs.create_queue(QueueName="signed")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="h\u00e4 +&=~ *")
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "h\u00e4 +&=~ *"
    with pytest.raises(ClientError) as raised:
        client("wrong").list_queues()
    assert raised.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
