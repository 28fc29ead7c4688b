"""PurgeQueue and DeleteQueue."""

import pytest

from support.expect import NO_QUEUE, PREFIX, refused
from support.wire import JsonApi, QueryApi


def test_purge_drops_ready_delayed_and_in_flight(server, sqs, queue, receive, counts):
    url = queue()
    for n in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=f"m{n}")
    assert len(receive(url, MaxNumberOfMessages=1)) == 1
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=60)
    assert counts(url) == (2, 1, 1)

    sqs.purge_queue(QueueUrl=url)

    assert counts(url) == (0, 0, 0)
    server.advance(120)
    assert receive(url) == []


def test_queue_works_on_after_a_purge(sqs, queue, bodies):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="before")
    sqs.purge_queue(QueueUrl=url)

    sqs.send_message(QueueUrl=url, MessageBody="after")

    assert bodies(url) == ["after"]


def test_purge_unlocks_fifo_groups(sqs, fifo, bodies):
    url = fifo()
    sqs.send_message(QueueUrl=url, MessageBody="1", MessageGroupId="g")
    assert bodies(url) == ["1"]

    sqs.purge_queue(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="2", MessageGroupId="g")

    assert bodies(url) == ["2"]


def test_delete_of_a_purged_message_does_no_harm(sqs, queue, receive, bodies):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url)
    sqs.purge_queue(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="new")

    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert bodies(url) == ["new"]


def test_purges_may_follow_each_other(api, url, counts):
    for _ in range(2):
        api.call("SendMessage", QueueUrl=url, MessageBody="x")
        api.call("PurgeQueue", QueueUrl=url)
        assert counts(url) == (0, 0, 0)


STRICT = [
    {"args": ["--strict"]},
    {"config": "strict = true\n[limits]\npurge_cool_down = false\nrecreate_cool_down = false\n"},
    {"config": "[limits]\npurge_cool_down = true\nrecreate_cool_down = true\n"},
]


@pytest.mark.parametrize("options", STRICT)
@pytest.mark.parametrize("dialect", [JsonApi, QueryApi])
def test_second_purge_within_a_minute_is_refused_if_wanted(make_server, dialect, options):
    server = make_server(**options)
    api = dialect(server.endpoint)
    url = api.call("CreateQueue", QueueName="purged")["QueueUrl"]
    api.call("PurgeQueue", QueueUrl=url)
    message = "Only one PurgeQueue operation on purged is allowed every 60 seconds."

    refused(api, "PurgeQueue", PREFIX + "PurgeQueueInProgress", message, 403, QueueUrl=url)

    server.advance(61)
    api.call("PurgeQueue", QueueUrl=url)


def test_delete_removes_a_queue_with_its_messages(api, new_name):
    name = new_name()
    url = api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "1"})["QueueUrl"]
    api.call("SendMessage", QueueUrl=url, MessageBody="x", DelaySeconds=0)

    api.call("DeleteQueue", QueueUrl=url)

    refused(api, "GetQueueUrl", NO_QUEUE, QueueName=name)
    refused(api, "SendMessage", NO_QUEUE, QueueUrl=url, MessageBody="x")
    refused(api, "DeleteQueue", NO_QUEUE, QueueUrl=url)


def test_name_can_be_used_again_at_once_and_nothing_is_left(api, new_name):
    name = new_name()
    url = api.call("CreateQueue", QueueName=name, tags={"a": "b"})["QueueUrl"]
    api.call("SendMessage", QueueUrl=url, MessageBody="x")
    api.call("DeleteQueue", QueueUrl=url)

    again = api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "5"})

    assert again["QueueUrl"] == url
    assert api.call("ReceiveMessage", QueueUrl=url) == {}
    assert api.call("ListQueueTags", QueueUrl=url) == {}


@pytest.mark.parametrize("options", STRICT)
def test_rule_of_sixty_seconds_can_be_switched_on(make_server, options):
    server = make_server(**options)
    api = JsonApi(server.endpoint)
    url = api.call("CreateQueue", QueueName="again")["QueueUrl"]
    api.call("DeleteQueue", QueueUrl=url)
    message = (
        "You must wait 60 seconds after deleting a queue before you can create another with the same name."
    )

    refused(api, "CreateQueue", PREFIX + "QueueDeletedRecently", message, QueueName="again")

    server.advance(61)
    api.call("CreateQueue", QueueName="again")


@pytest.mark.parametrize("action", ["PurgeQueue", "DeleteQueue"])
def test_queue_url_is_needed(api, action):
    refused(api, action, "MissingParameter", "The request must contain the parameter QueueUrl.")
