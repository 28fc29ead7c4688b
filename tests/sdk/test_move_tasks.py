"""Message move tasks: dead-letter queues emptied back. On the test clock."""

import base64
import json
import time

import pytest

from support.expect import refused
from support.waiting import eventually

NO_SOURCE = "The resource that you specified for the SourceArn parameter doesn't exist."
NO_DESTINATION = "The resource that you specified for the DestinationArn parameter doesn't exist."


@pytest.fixture
def dead(queue):
    return queue()


@pytest.fixture
def source_of(queue, fifo, arn):
    def make(dead, **attributes):
        create = fifo if dead.endswith(".fifo") else queue
        policy = {"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1}
        return create(RedrivePolicy=json.dumps(policy), **attributes)

    return make


@pytest.fixture
def park(sqs, receive):
    """Sends messages to a source and lets them be redriven to its dead-letter queue."""

    def into_dead_letters(source, *names):
        for name in names:
            group = {"MessageGroupId": "g"} if source.endswith(".fifo") else {}
            sqs.send_message(QueueUrl=source, MessageBody=name, **group)
        for start in range(0, len(names), 10):
            assert len(receive(source, VisibilityTimeout=0)) == len(names[start : start + 10])
        assert receive(source) == []

    return into_dead_letters


@pytest.fixture
def tasks(sqs):
    def of(source_arn, results=10):
        return sqs.list_message_move_tasks(SourceArn=source_arn, MaxResults=results).get("Results", [])

    return of


@pytest.fixture
def finished(server, tasks):
    """Waits for the newest task of a source to end: its entry. Moves the clock for slow ones."""

    def wait(source_arn, advance_s=0.2):
        for _ in range(600):
            task = tasks(source_arn)[0]
            if task["Status"] not in ("RUNNING", "CANCELLING"):
                return task
            server.advance(advance_s)
        raise AssertionError(f"the task does not end: {task}")

    return wait


def test_messages_go_back_to_where_they_came_from(server, sqs, dead, source_of, park, arn, finished, bodies):
    one, two = source_of(dead), source_of(dead)
    park(one, "a1", "a2")
    park(two, "b1")

    started = sqs.start_message_move_task(SourceArn=arn(dead))
    task = finished(arn(dead))

    assert started["TaskHandle"]
    assert task["Status"] == "COMPLETED"
    assert task["SourceArn"] == arn(dead)
    assert task["ApproximateNumberOfMessagesMoved"] == 3
    assert task["ApproximateNumberOfMessagesToMove"] == 3
    assert abs(task["StartedTimestamp"] - server.now() * 1000) < 300_000
    for absent in ("TaskHandle", "DestinationArn", "MaxNumberOfMessagesPerSecond", "FailureReason"):
        assert absent not in task
    assert sorted(bodies(one)) == ["a1", "a2"]
    assert bodies(two) == ["b1"]
    assert bodies(dead) == []


def test_messages_go_to_a_given_destination(sqs, queue, dead, source_of, park, arn, finished, bodies):
    source, destination = source_of(dead), queue()
    park(source, "x")

    sqs.start_message_move_task(SourceArn=arn(dead), DestinationArn=arn(destination))
    task = finished(arn(dead))

    assert (task["Status"], task["DestinationArn"]) == ("COMPLETED", arn(destination))
    assert bodies(destination) == ["x"]
    assert bodies(source) == []


def test_message_that_came_from_no_queue_ends_the_task(sqs, dead, source_of, park, arn, finished, bodies):
    source = source_of(dead)
    park(source, "x")
    sqs.send_message(QueueUrl=dead, MessageBody="straight")

    sqs.start_message_move_task(SourceArn=arn(dead))
    task = finished(arn(dead))

    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert task["ApproximateNumberOfMessagesMoved"] == 1
    assert bodies(source) == ["x"]
    assert bodies(dead) == ["straight"]


@pytest.mark.parametrize("wrong", ["", "queue"])
def test_arns_have_a_form(api, dead, source_of, arn, wrong):
    source_of(dead)
    form = "You must use this format to specify the {}: arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
    code = "InvalidParameterValue"

    refused(api, "StartMessageMoveTask", code, form.format("DestinationArn"), SourceArn=arn(dead), DestinationArn=wrong)
    if wrong:
        refused(api, "StartMessageMoveTask", code, form.format("SourceArn"), SourceArn=wrong)
        refused(api, "ListMessageMoveTasks", code, form.format("SourceArn"), SourceArn=wrong)


def test_moved_messages_are_new_ones(server, sqs, dead, source_of, park, arn, finished, receive):
    source = source_of(dead)
    park(source, "x")
    (before,) = receive(dead, VisibilityTimeout=0)
    server.advance(100)

    sqs.start_message_move_task(SourceArn=arn(dead))
    finished(arn(dead))
    (after,) = receive(source)

    assert after["Body"] == before["Body"]
    assert after["MessageId"] != before["MessageId"]
    assert after["Attributes"]["ApproximateReceiveCount"] == "1"
    moved_ms = int(after["Attributes"]["SentTimestamp"]) - int(before["Attributes"]["SentTimestamp"])
    assert moved_ms >= 100_000


def test_moved_messages_can_be_redriven_again(sqs, dead, source_of, park, arn, finished, receive, bodies):
    source = source_of(dead)
    park(source, "x")
    sqs.start_message_move_task(SourceArn=arn(dead))
    finished(arn(dead))

    assert len(receive(source, VisibilityTimeout=0)) == 1
    assert receive(source) == []
    assert bodies(dead) == ["x"]


def test_attributes_move_along(sqs, dead, source_of, arn, finished, receive):
    source = source_of(dead)
    given = {"a": {"DataType": "String", "StringValue": "v"}}
    sqs.send_message(QueueUrl=dead, MessageBody="x", MessageAttributes=given)

    sqs.start_message_move_task(SourceArn=arn(dead), DestinationArn=arn(source))
    finished(arn(dead))

    (message,) = receive(source)
    assert message["MessageAttributes"] == given


def test_fifo_dead_letters_move_back_in_order(sqs, fifo, source_of, park, arn, finished, bodies):
    dead = fifo()
    source = source_of(dead)
    park(source, "1")
    park(source, "2")
    park(source, "3")

    sqs.start_message_move_task(SourceArn=arn(dead))
    task = finished(arn(dead))

    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 3)
    assert bodies(source) == ["1", "2", "3"]


def test_rate_is_kept(server, sqs, dead, source_of, arn, tasks, counts):
    source = source_of(dead)
    for n in range(0, 100, 10):
        entries = [{"Id": str(m), "MessageBody": str(n + m)} for m in range(10)]
        assert "Failed" not in sqs.send_message_batch(QueueUrl=dead, Entries=entries)

    began = time.monotonic()
    sqs.start_message_move_task(
        SourceArn=arn(dead), DestinationArn=arn(source), MaxNumberOfMessagesPerSecond=1
    )
    (task,) = tasks(arn(dead))

    assert task["Status"] == "RUNNING"
    assert task["TaskHandle"]
    assert task["MaxNumberOfMessagesPerSecond"] == 1
    assert task["ApproximateNumberOfMessagesToMove"] == 100
    assert task["ApproximateNumberOfMessagesMoved"] <= 1 + time.monotonic() - began
    # So far that the real seconds which this test takes hardly count beside it.
    server.advance(60)
    moved = eventually(lambda: (moved := counts(source)[0]) >= 60 and moved, "60 are moved")
    assert moved <= 60 + time.monotonic() - began + 2


def test_only_one_task_runs_for_a_source(api, sqs, dead, source_of, arn):
    source = source_of(dead)
    for n in range(20):
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
    slow = {"DestinationArn": arn(source), "MaxNumberOfMessagesPerSecond": 1}
    task = api.call("StartMessageMoveTask", SourceArn=arn(dead), **slow)
    message = (
        "There is already a task running. "
        "Only one active task is allowed for a source queue arn at a given time."
    )

    refused(api, "StartMessageMoveTask", "InvalidParameterValue", message, SourceArn=arn(dead))

    api.call("CancelMessageMoveTask", **task)


def test_cancelled_task_leaves_what_was_moved(server, sqs, dead, source_of, arn, finished, counts):
    source = source_of(dead)
    for n in range(20):
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
    task = sqs.start_message_move_task(
        SourceArn=arn(dead), DestinationArn=arn(source), MaxNumberOfMessagesPerSecond=1
    )
    server.advance(3)

    cancelled = sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])

    ended = finished(arn(dead))
    assert ended["Status"] == "CANCELLED"
    assert ended["ApproximateNumberOfMessagesMoved"] >= cancelled["ApproximateNumberOfMessagesMoved"]
    assert counts(source)[0] == ended["ApproximateNumberOfMessagesMoved"] < 20
    assert counts(source)[0] + counts(dead)[0] == 20
    server.advance(60)
    assert counts(source)[0] + counts(dead)[0] == 20


def test_deleted_destination_fails_the_task(server, sqs, queue, dead, source_of, arn, finished):
    source_of(dead)
    destination = queue()
    for n in range(20):
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
    sqs.start_message_move_task(
        SourceArn=arn(dead), DestinationArn=arn(destination), MaxNumberOfMessagesPerSecond=1
    )

    sqs.delete_queue(QueueUrl=destination)
    task = finished(arn(dead), advance_s=1)

    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_history_is_newest_first_and_one_by_default(server, sqs, dead, source_of, arn, finished, tasks):
    source = source_of(dead)
    for n in range(3):
        server.advance(1)
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
        sqs.start_message_move_task(
            SourceArn=arn(dead), DestinationArn=arn(source), MaxNumberOfMessagesPerSecond=500 - n
        )
        finished(arn(dead))

    rates = [task["MaxNumberOfMessagesPerSecond"] for task in tasks(arn(dead))]
    assert rates == [498, 499, 500]
    assert len(sqs.list_message_move_tasks(SourceArn=arn(dead))["Results"]) == 1
    assert len(tasks(arn(dead), results=2)) == 2


def test_source_must_be_a_dead_letter_queue(api, queue, arn):
    words = "Source queue must be configured as a Dead Letter Queue."
    refused(api, "StartMessageMoveTask", "InvalidParameterValue", words, SourceArn=arn(queue()))


def test_missing_queues_are_a_404(api, dead, source_of, arn):
    source_of(dead)
    nowhere = "arn:aws:sqs:us-east-1:000000000000:no-such-queue"
    code = "ResourceNotFoundException"

    refused(api, "StartMessageMoveTask", code, NO_SOURCE, 404, SourceArn=nowhere)
    refused(api, "ListMessageMoveTasks", code, NO_SOURCE, 404, SourceArn=nowhere)
    given = {"SourceArn": arn(dead), "DestinationArn": nowhere}
    refused(api, "StartMessageMoveTask", code, NO_DESTINATION, 404, **given)


@pytest.mark.parametrize("rate", [0, 501, -1])
def test_rate_is_bounded(api, dead, source_of, arn, rate):
    source_of(dead)
    given = {"SourceArn": arn(dead), "MaxNumberOfMessagesPerSecond": rate}

    refused(api, "StartMessageMoveTask", "InvalidParameterValue", **given)


def test_undecodable_handle_is_refused(api):
    words = "Value for parameter TaskHandle is invalid."
    refused(api, "CancelMessageMoveTask", "InvalidParameterValue", words, TaskHandle="no handle at all")


def test_unknown_task_is_a_404(api, dead, source_of, arn):
    source_of(dead)
    parts = {"taskId": "10ebcd8b-0d6d-4dba-8c0a-000000000000", "sourceArn": arn(dead)}
    handle = base64.b64encode(json.dumps(parts).encode()).decode()
    code, words = "ResourceNotFoundException", "Task does not exist."

    refused(api, "CancelMessageMoveTask", code, words, 404, TaskHandle=handle)


def test_list_without_tasks_is_empty(api, dead, source_of, arn):
    source_of(dead)

    assert api.call("ListMessageMoveTasks", SourceArn=arn(dead)).get("Results", []) == []
