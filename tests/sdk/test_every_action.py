"""Each of the 23 actions once, over raw HTTP, in both protocols: names, members, nesting."""

import base64
import re

import pytest

from support.expect import md5, md5_of_attributes

ACCOUNT = "000000000000"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def dead_letters(api, url, new_name):
    """A dead-letter queue of `url`: (its URL, its ARN)."""
    dead = api.call("CreateQueue", QueueName=new_name("dead"))["QueueUrl"]
    arn = attribute(api, dead, "QueueArn")
    policy = f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}'
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": policy})
    return dead, arn


def attribute(api, url, name):
    answer = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=[name])
    return answer.get("Attributes", {}).get(name)


def receive_one(api, url):
    (message,) = api.call("ReceiveMessage", QueueUrl=url)["Messages"]
    return message


def test_create_queue(api, new_name):
    name = new_name()

    answer = api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "3"}, tags={"team": "blue"})

    assert answer == {"QueueUrl": f"{api.endpoint}/{ACCOUNT}/{name}"}
    assert attribute(api, answer["QueueUrl"], "DelaySeconds") == "3"
    assert api.call("ListQueueTags", **answer) == {"Tags": {"team": "blue"}}


def test_get_queue_url(api, url):
    name = url.rpartition("/")[2]

    assert api.call("GetQueueUrl", QueueName=name) == {"QueueUrl": url}
    owned = api.call("GetQueueUrl", QueueName=name, QueueOwnerAWSAccountId=ACCOUNT)
    assert owned == {"QueueUrl": url}


def test_list_queues(api, url):
    name = url.rpartition("/")[2]

    assert api.call("ListQueues", QueueNamePrefix=name) == {"QueueUrls": [url]}
    assert api.call("ListQueues", QueueNamePrefix="no-such-prefix") == {}


def test_delete_queue(api, url):
    assert api.call("DeleteQueue", QueueUrl=url) == {}

    assert api.call("ListQueues", QueueNamePrefix=url.rpartition("/")[2]) == {}


def test_get_and_set_queue_attributes(api, url):
    changed = {"VisibilityTimeout": "77", "MaximumMessageSize": "2048"}

    assert api.call("SetQueueAttributes", QueueUrl=url, Attributes=changed) == {}

    answer = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=list(changed))
    assert answer == {"Attributes": changed}


def test_tags(api, url):
    assert api.call("TagQueue", QueueUrl=url, Tags={"a": "1", "b": ""}) == {}
    assert api.call("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "1", "b": ""}}
    assert api.call("UntagQueue", QueueUrl=url, TagKeys=["a", "b"]) == {}
    assert api.call("ListQueueTags", QueueUrl=url) == {}


def test_permissions(api, url):
    added = {"Label": "share", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}

    assert api.call("AddPermission", QueueUrl=url, **added) == {}
    assert '"share"' in attribute(api, url, "Policy")

    assert api.call("RemovePermission", QueueUrl=url, Label="share") == {}
    assert attribute(api, url, "Policy") is None


def test_send_and_receive_message(api, url):
    sent_attributes = {
        "text": {"DataType": "String", "StringValue": "h\u00e9 & <b>\r\n"},
        "bytes": {"DataType": "Binary.gz", "BinaryValue": base64.b64encode(b"\x00\xff").decode()},
    }
    trace = {
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    }

    sent = api.call(
        "SendMessage",
        QueueUrl=url,
        MessageBody="h\u00e9",
        MessageAttributes=sent_attributes,
        MessageSystemAttributes=trace,
    )
    (message,) = api.call(
        "ReceiveMessage",
        QueueUrl=url,
        MessageSystemAttributeNames=["AWSTraceHeader", "ApproximateReceiveCount"],
        MessageAttributeNames=["All"],
    )["Messages"]

    raw = sent_attributes | {"bytes": {"DataType": "Binary.gz", "BinaryValue": b"\x00\xff"}}
    digest = md5_of_attributes(raw)
    assert UUID.fullmatch(sent["MessageId"])
    assert sent == {
        "MessageId": sent["MessageId"],
        "MD5OfMessageBody": "33fcd01258e6ba07ef405dc9e721f3a7",
        "MD5OfMessageAttributes": digest,
        "MD5OfMessageSystemAttributes": md5_of_attributes(trace),
    }
    assert message == {
        "MessageId": sent["MessageId"],
        "ReceiptHandle": message["ReceiptHandle"],
        "Body": "h\u00e9",
        "MD5OfBody": "33fcd01258e6ba07ef405dc9e721f3a7",
        "MessageAttributes": sent_attributes,
        "MD5OfMessageAttributes": digest,
        "Attributes": {
            "AWSTraceHeader": trace["AWSTraceHeader"]["StringValue"],
            "ApproximateReceiveCount": "1",
        },
    }


def test_receive_message_from_an_empty_queue(api, url):
    assert api.call("ReceiveMessage", QueueUrl=url) == {}


def test_delete_message(api, url):
    api.call("SendMessage", QueueUrl=url, MessageBody="x")
    handle = receive_one(api, url)["ReceiptHandle"]

    assert api.call("DeleteMessage", QueueUrl=url, ReceiptHandle=handle) == {}

    assert attribute(api, url, "ApproximateNumberOfMessagesNotVisible") == "0"


def test_change_message_visibility(api, url):
    api.call("SendMessage", QueueUrl=url, MessageBody="x")
    handle = receive_one(api, url)["ReceiptHandle"]

    answer = api.call("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)

    assert answer == {}
    assert receive_one(api, url)["Body"] == "x"


def test_batches(api, url):
    entries = [{"Id": f"id-{n}", "MessageBody": f"body {n}"} for n in range(3)]
    entries[0]["MessageAttributes"] = {"k": {"DataType": "String", "StringValue": "x"}}
    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert "Failed" not in sent
    assert [entry["Id"] for entry in sent["Successful"]] == ["id-0", "id-1", "id-2"]
    assert sent["Successful"][0]["MD5OfMessageAttributes"] == "a45daa70926828a2f0a1db3418e6feb4"
    assert sent["Successful"][1] == {
        "Id": "id-1",
        "MessageId": sent["Successful"][1]["MessageId"],
        "MD5OfMessageBody": md5("body 1"),
    }

    messages = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    handles = [message["ReceiptHandle"] for message in messages]
    assert len(handles) == 3

    changes = [{"Id": f"c{n}", "ReceiptHandle": h, "VisibilityTimeout": 60} for n, h in enumerate(handles)]
    changed = api.call("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=changes)
    assert changed == {"Successful": [{"Id": "c0"}, {"Id": "c1"}, {"Id": "c2"}]}

    deletes = [{"Id": f"d{n}", "ReceiptHandle": h} for n, h in enumerate([*handles, "garbage"])]
    deleted = api.call("DeleteMessageBatch", QueueUrl=url, Entries=deletes)
    assert deleted["Successful"] == [{"Id": "d0"}, {"Id": "d1"}, {"Id": "d2"}]
    (failed,) = deleted["Failed"]
    assert failed["Message"]
    assert {**failed, "Message": ""} == {
        "Id": "d3",
        "SenderFault": True,
        "Code": "ReceiptHandleIsInvalid",
        "Message": "",
    }


def test_purge_queue(api, url):
    api.call("SendMessage", QueueUrl=url, MessageBody="x")

    assert api.call("PurgeQueue", QueueUrl=url) == {}

    assert attribute(api, url, "ApproximateNumberOfMessages") == "0"


def test_list_dead_letter_source_queues(api, url, dead_letters):
    dead, _ = dead_letters

    assert api.call("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": [url]}


def test_message_move_tasks(api, url, dead_letters):
    dead, dead_arn = dead_letters
    api.call("SendMessage", QueueUrl=dead, MessageBody="parked")
    destination = attribute(api, url, "QueueArn")

    started = api.call(
        "StartMessageMoveTask",
        SourceArn=dead_arn,
        DestinationArn=destination,
        MaxNumberOfMessagesPerSecond=1,
    )
    listed = api.call("ListMessageMoveTasks", SourceArn=dead_arn, MaxResults=10)["Results"]

    assert set(started) == {"TaskHandle"}
    assert len(listed) == 1
    assert listed[0]["SourceArn"] == dead_arn
    assert listed[0]["DestinationArn"] == destination
    assert listed[0]["MaxNumberOfMessagesPerSecond"] == 1
    assert listed[0]["ApproximateNumberOfMessagesToMove"] == 1
    assert isinstance(listed[0]["StartedTimestamp"], int)
    assert listed[0]["Status"] in ("RUNNING", "COMPLETED")


def test_cancel_message_move_task(api, url, dead_letters):
    dead, dead_arn = dead_letters
    for n in range(5):
        api.call("SendMessage", QueueUrl=dead, MessageBody=f"parked {n}")
    source = attribute(api, url, "QueueArn")
    task = api.call(
        "StartMessageMoveTask",
        SourceArn=dead_arn,
        DestinationArn=source,
        MaxNumberOfMessagesPerSecond=1,
    )

    cancelled = api.call("CancelMessageMoveTask", **task)

    assert set(cancelled) == {"ApproximateNumberOfMessagesMoved"}
    assert isinstance(cancelled["ApproximateNumberOfMessagesMoved"], int)
