"""Everything outlives the process: a drain by SIGTERM and a SIGKILL alike.

With `--durability os` a killed process loses nothing that it had written; only a machine crash
could. The test clock starts again at the wall clock after a restart, so no test relies on it
across one.
"""

import json

import pytest

from support.polls import OpenPoll, let_park
from support.sdk import sdk_client
from support.server import Server


@pytest.fixture(params=["stop", "kill"])
def how(request):
    return request.param


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def sqs(server):
    return sdk_client(server)


@pytest.fixture
def create(sqs):
    def queue(name, **attributes):
        if name.endswith(".fifo"):
            attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} | attributes
        return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    return queue


def test_exit_code_of_a_drain_is_zero(server):
    assert server.stop() == 0


def test_queues_attributes_and_tags(server, sqs, create, attributes, how):
    dead = create("dead")
    dead_arn = attributes(dead)["QueueArn"]
    full = create(
        "full",
        DelaySeconds="1",
        VisibilityTimeout="77",
        MessageRetentionPeriod="1000",
        MaximumMessageSize="2048",
        ReceiveMessageWaitTimeSeconds="3",
        RedrivePolicy=json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 7}),
        KmsMasterKeyId="alias/key",
    )
    sqs.add_permission(QueueUrl=full, Label="l", AWSAccountIds=["1" * 12], Actions=["SendMessage"])
    fifo = create("f.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    sqs.tag_queue(QueueUrl=full, Tags={"a": "\u00e9", "b": ""})
    gone = create("gone")
    sqs.delete_queue(QueueUrl=gone)
    before = {url: attributes(url) for url in (dead, full, fifo)}

    server.restart(how)

    assert {url: attributes(url) for url in (dead, full, fifo)} == before
    assert sqs.list_queue_tags(QueueUrl=full)["Tags"] == {"a": "\u00e9", "b": ""}
    assert sorted(sqs.list_queues()["QueueUrls"]) == sorted([dead, full, fifo])
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [full]


def test_messages_in_every_state(server, sqs, create, attributes, receive, bodies, how):
    url = create("q")
    typed = {
        "text": {"DataType": "String.x", "StringValue": "h\u00e9\r\n"},
        "bytes": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
    }
    trace = {
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    }
    sqs.send_message(QueueUrl=url, MessageBody="in flight")
    (in_flight,) = receive(url, VisibilityTimeout=600)
    sqs.send_message(QueueUrl=url, MessageBody="deleted")
    (deleted,) = receive(url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=deleted["ReceiptHandle"])
    sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=600)
    sqs.send_message(
        QueueUrl=url, MessageBody="ready", MessageAttributes=typed, MessageSystemAttributes=trace
    )
    (before,) = receive(url, VisibilityTimeout=0)

    server.restart(how)

    counts = attributes(url)
    assert counts["ApproximateNumberOfMessagesDelayed"] == "1"
    (after,) = [m for m in receive(url) if m["Body"] == "ready"]
    for name in ("MessageId", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"):
        assert after[name] == before[name]
    for name in ("SentTimestamp", "SenderId", "AWSTraceHeader"):
        assert after["Attributes"][name] == before["Attributes"][name]
    server.advance(601)
    assert {"in flight", "delayed", "ready"} == set(bodies(url))
    assert in_flight["MessageId"]


def test_clean_stop_keeps_receives(server, sqs, create, attributes, receive, bodies):
    """Receives of standard queues are journaled without waiting; a drain waits for them."""
    url = create("q")
    for n in range(5):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    got = receive(url, VisibilityTimeout=600)
    assert len(got) == 5

    server.restart("stop")

    assert bodies(url) == []
    counts = attributes(url)
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "5"
    server.advance(601)
    assert {m["Attributes"]["ApproximateReceiveCount"] for m in receive(url)} == {"2"}


def test_receipt_handles(server, sqs, create, receive, bodies, how):
    for name in ("q", "q.fifo"):
        url = create(name)
        group = {"MessageGroupId": "g"} if name.endswith(".fifo") else {}
        sqs.send_message(QueueUrl=url, MessageBody="x", **group)
        (message,) = receive(url, VisibilityTimeout=600)
        create(f"behind-{name}")  # Its record stands behind that of the receive.

        server.restart(how)

        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=900
        )
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        server.advance(901)
        assert bodies(url) == []


def test_delete_outlives_a_forgotten_receive(server, sqs, create, receive, bodies):
    """A crash may forget a receive of a standard queue, never what its handle then does."""
    url = create("q")
    for n in range(10):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    got = receive(url, VisibilityTimeout=600)
    server.restart("kill")

    deletes = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(got)]
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=deletes)

    assert len(deleted["Successful"]) == 10
    server.restart("kill")
    server.advance(601)
    assert bodies(url) == []


def test_visibility_changes(server, sqs, create, receive, bodies, how):
    url = create("q", VisibilityTimeout="30")
    sqs.send_message(QueueUrl=url, MessageBody="longer")
    (message,) = receive(url)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=500)

    server.restart(how)

    server.advance(400)
    assert bodies(url) == []
    server.advance(101)
    assert bodies(url) == ["longer"]


def test_first_receive_time_and_count_of_fifo(server, sqs, create, receive, how):
    url = create("q.fifo")
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g")
    for _ in range(3):
        (before,) = receive(url, VisibilityTimeout=0)

    server.restart(how)

    (after,) = receive(url)
    assert before["Attributes"]["ApproximateReceiveCount"] == "3"
    assert after["Attributes"]["ApproximateReceiveCount"] == "4"
    for name in ("ApproximateFirstReceiveTimestamp", "SequenceNumber", "MessageDeduplicationId"):
        assert after["Attributes"][name] == before["Attributes"][name]


def test_fifo_locks_and_order(server, sqs, create, receive, bodies, how):
    url = create("q.fifo")
    for n in range(6):
        sqs.send_message(QueueUrl=url, MessageBody=f"locked {n}", MessageGroupId="locked")
    locked = receive(url, MaxNumberOfMessages=2, VisibilityTimeout=600)
    for n in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=f"free {n}", MessageGroupId="free")

    server.restart(how)

    assert bodies(url) == ["free 0", "free 1", "free 2"]
    for message in locked:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert bodies(url) == [f"locked {n}" for n in range(2, 6)]


def test_deduplication_memory(server, sqs, create, receive, how):
    url = create("q.fifo")
    kept = sqs.send_message(QueueUrl=url, MessageBody="kept", MessageGroupId="g")
    deleted = sqs.send_message(QueueUrl=url, MessageBody="deleted", MessageGroupId="h")
    for message in receive(url):
        if message["Body"] == "deleted":
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    server.restart(how)

    for body, group, first in (("kept", "g", kept), ("deleted", "h", deleted)):
        again = sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group)
        assert again["MessageId"] == first["MessageId"]
        assert again["SequenceNumber"] == first["SequenceNumber"]
    server.advance(301)
    later = sqs.send_message(QueueUrl=url, MessageBody="kept", MessageGroupId="g")
    assert later["MessageId"] != kept["MessageId"]


def test_sequence_numbers_go_on_rising(server, sqs, create, how):
    url = create("q.fifo")
    before = sqs.send_message(QueueUrl=url, MessageBody="1", MessageGroupId="g")["SequenceNumber"]

    server.restart(how)

    after = sqs.send_message(QueueUrl=url, MessageBody="2", MessageGroupId="g")["SequenceNumber"]
    assert int(after) > int(before)


def test_purge_and_deletes_stay_done(server, sqs, create, receive, bodies, how):
    purged, emptied = create("purged"), create("emptied")
    entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(10)]
    for url in (purged, emptied):
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    sqs.purge_queue(QueueUrl=purged)
    sqs.send_message(QueueUrl=purged, MessageBody="after")
    handles = [m["ReceiptHandle"] for m in receive(emptied)]
    deletes = [{"Id": str(n), "ReceiptHandle": h} for n, h in enumerate(handles)]
    assert len(sqs.delete_message_batch(QueueUrl=emptied, Entries=deletes)["Successful"]) == 10

    server.restart(how)

    server.advance(60)
    assert bodies(purged) == ["after"]
    assert bodies(emptied) == []


def test_dead_letters_keep_their_origin(server, sqs, create, attributes, receive, bodies, how):
    dead = create("dead")
    dead_arn = attributes(dead)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    source = create("source", RedrivePolicy=policy)
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison")
    assert len(receive(source, VisibilityTimeout=0)) == 1
    assert receive(source) == []
    # Receives are not waited for. This is, and so is what stands before it in the journal.
    sqs.tag_queue(QueueUrl=source, Tags={"is": "committed"})

    server.restart(how)

    assert bodies(source) == []
    (message,) = receive(dead, VisibilityTimeout=0)
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["DeadLetterQueueSourceArn"].endswith(":source")
    sqs.start_message_move_task(SourceArn=dead_arn)
    (back,) = receive(source, WaitTimeSeconds=10)
    assert back["Body"] == "poison"


def test_move_task_goes_on(server, sqs, create, attributes, bodies, how):
    dead = create("dead")
    dead_arn = attributes(dead)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    source = create("source", RedrivePolicy=policy)
    for n in range(10):
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
    sqs.start_message_move_task(
        SourceArn=dead_arn,
        DestinationArn=attributes(source)["QueueArn"],
        MaxNumberOfMessagesPerSecond=1,
    )

    server.restart(how)

    got = []
    for _ in range(200):
        got += bodies(source, VisibilityTimeout=43_200)
        (task,) = sqs.list_message_move_tasks(SourceArn=dead_arn)["Results"]
        if task["Status"] != "RUNNING":
            break
        server.advance(0.5)
    got += bodies(source)
    assert task["Status"] == "COMPLETED"
    assert sorted(got) == list("0123456789")


def test_drain_answers_parked_polls(server, create):
    url = create("q")
    polls = [OpenPoll(server.endpoint, url) for _ in range(3)]
    for poll in polls:
        poll.wait_until_read()
    let_park()

    assert server.stop() == 0

    for poll in polls:
        assert poll.bodies() == []
        poll.close()


def test_twenty_restarts_lose_nothing(server, sqs, create, bodies):
    url = create("q")
    for n in range(20):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
        server.restart("kill" if n % 2 else "stop")

    got = set()
    while messages := bodies(url):
        got |= set(messages)
    assert got == {str(n) for n in range(20)}


@pytest.mark.parametrize("is_removed", [False, True])
def test_second_server_on_the_same_data_is_refused(make_server, is_removed):
    server = make_server()
    if is_removed:
        (server.data / "journal" / "lock").unlink()
    second = Server(server.directory / "second")
    second.data = server.data
    second.spawn()

    try:
        assert second.process.wait(20) != 0
        assert f"{server.data}/journal is in use by another process" in second.log.read_text()
    finally:
        second.kill()
    assert server.get("/health")[0] == 200


def test_memory_mode_forgets(make_server):
    server = make_server(durability="memory")
    sqs = sdk_client(server)
    sqs.create_queue(QueueName="q")

    server.restart("kill")

    assert "QueueUrls" not in sqs.list_queues()
