"""Receipt handles and DeleteMessage, on standard and FIFO queues. On the test clock."""

import pytest

from support.expect import refused

GARBAGE = ["garbage", "a" * 1025, "AQEB+/=", "\u00e9", "MQ==", "x y"]


def expired(handle):
    return f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."


@pytest.fixture
def received(sqs, receive):
    """Sends a message to a queue and receives it: its receipt handle."""

    def make(url, **parameters):
        group = {"MessageGroupId": "g"} if url.endswith(".fifo") else {}
        sqs.send_message(QueueUrl=url, MessageBody="x", **group)
        (message,) = receive(url, **parameters)
        return message["ReceiptHandle"]

    return make


@pytest.fixture(params=["standard", "fifo"])
def url(request, queue, fifo):
    return fifo() if request.param == "fifo" else queue()


def test_delete_is_idempotent(server, sqs, url, received, bodies, counts):
    handle = received(url)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert counts(url) == (0, 0, 0)
    server.advance(60)
    assert bodies(url) == []


def test_handles_are_opaque_short_and_new_with_every_receive(sqs, queue, receive):
    url = queue(VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="x")

    handles = [receive(url)[0]["ReceiptHandle"] for _ in range(5)]

    assert len(set(handles)) == 5
    assert all(0 < len(handle) <= 1024 for handle in handles)


@pytest.mark.parametrize("handle", GARBAGE)
@pytest.mark.parametrize("action", ["DeleteMessage", "ChangeMessageVisibility"])
def test_garbage_is_refused(api, url, action, handle):
    timeout = {"VisibilityTimeout": 1} if action == "ChangeMessageVisibility" else {}

    refused(api, action, "ReceiptHandleIsInvalid", None, 404, QueueUrl=url, ReceiptHandle=handle, **timeout)


def test_tampered_handle_is_refused(api, url, received):
    handle = received(url)
    middle = len(handle) // 2
    tampered = handle[:middle] + ("A" if handle[middle] != "A" else "B") + handle[middle + 1 :]

    refused(api, "DeleteMessage", "ReceiptHandleIsInvalid", None, 404, QueueUrl=url, ReceiptHandle=tampered)


def test_handle_of_another_queue_is_refused(api, queue, url, received, counts):
    other = queue()
    handle = received(other)

    refused(api, "DeleteMessage", "ReceiptHandleIsInvalid", None, 404, QueueUrl=url, ReceiptHandle=handle)

    assert counts(other) == (0, 1, 0)


def test_handle_of_an_earlier_queue_of_that_name_is_refused(api, sqs, new_name, received):
    name = new_name()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    handle = received(url)
    sqs.delete_queue(QueueUrl=url)
    sqs.create_queue(QueueName=name)

    refused(api, "DeleteMessage", "ReceiptHandleIsInvalid", None, 404, QueueUrl=url, ReceiptHandle=handle)


def test_standard_delete_works_after_the_deadline(server, sqs, queue, received, bodies):
    url = queue()
    handle = received(url, VisibilityTimeout=5)
    server.advance(6)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert bodies(url) == []


def test_standard_delete_works_for_a_visible_message(sqs, queue, received, bodies):
    url = queue()
    handle = received(url, VisibilityTimeout=0)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert bodies(url) == []


def test_standard_delete_works_with_an_earlier_handle(server, sqs, queue, received, receive):
    url = queue()
    earlier = received(url, VisibilityTimeout=5)
    server.advance(6)
    assert len(receive(url, VisibilityTimeout=5)) == 1

    sqs.delete_message(QueueUrl=url, ReceiptHandle=earlier)

    server.advance(6)
    assert receive(url) == []


@pytest.mark.parametrize("seconds", [0, 5])
def test_fifo_handle_expires_with_the_visibility(server, api, sqs, fifo, received, bodies, seconds):
    url = fifo()
    handle = received(url, VisibilityTimeout=seconds)
    server.advance(seconds + 1)
    given = {"QueueUrl": url, "ReceiptHandle": handle}

    refused(api, "DeleteMessage", "InvalidParameterValue", expired(handle), **given)

    assert bodies(url) == ["x"]


def test_fifo_handle_of_an_earlier_receive_is_refused(server, api, fifo, received, receive):
    url = fifo()
    earlier = received(url, VisibilityTimeout=5)
    server.advance(6)
    (message,) = receive(url)
    given = {"QueueUrl": url, "ReceiptHandle": earlier}

    refused(api, "DeleteMessage", "InvalidParameterValue", expired(earlier), **given)
    api.call("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_fifo_delete_works_while_an_extension_runs(server, sqs, fifo, received, counts):
    url = fifo()
    handle = received(url, VisibilityTimeout=5)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=50)
    server.advance(20)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert counts(url) == (0, 0, 0)


def test_delete_after_retention_succeeds(server, sqs, url, received, counts):
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": "60"})
    handle = received(url, VisibilityTimeout=600)
    server.advance(61)
    assert counts(url) == (0, 0, 0)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)


def test_fifo_batch_delete_reports_the_expired_handle(server, sqs, fifo, received):
    url = fifo()
    handle = received(url, VisibilityTimeout=5)
    server.advance(6)

    entries = [{"Id": "a", "ReceiptHandle": handle}]
    (failed,) = sqs.delete_message_batch(QueueUrl=url, Entries=entries)["Failed"]

    assert failed == {
        "Id": "a",
        "Code": "ReceiptHandleIsInvalid",
        "Message": "The receipt handle has expired",
        "SenderFault": True,
    }
