"""`--test`: one HTTP call moves every deadline. What only the clock can show in reasonable time."""

import json

import pytest

from support.expect import PREFIX, refused
from support.wire import JsonApi


def advance(server, body):
    return server.http("POST", "/_millrace/clock/advance", body, {"Content-Type": "application/json"})


@pytest.mark.parametrize("body", ["", "{", "{}", '{"seconds": "x"}', '{"seconds": -1}', '{"seconds": null}'])
def test_bad_advance_is_refused(server, body):
    assert advance(server, body)[0] == 400


def test_fractions_of_a_second(server, sqs, queue, bodies):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=600)

    server.advance(599.5)
    server.advance(0.5)

    assert bodies(url) == ["x"]


class TestDelay:
    def test_message_delay(self, server, sqs, queue, bodies, counts):
        url = queue()
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=900)
        assert (counts(url), bodies(url)) == ((0, 0, 1), [])

        server.advance(890)
        assert (counts(url), bodies(url)) == ((0, 0, 1), [])

        server.advance(11)
        assert counts(url) == (1, 0, 0)
        assert bodies(url) == ["x"]

    def test_queue_delay_and_its_override(self, server, sqs, queue, bodies):
        url = queue(DelaySeconds="100")
        sqs.send_message(QueueUrl=url, MessageBody="queue")
        sqs.send_message(QueueUrl=url, MessageBody="sooner", DelaySeconds=10)
        sqs.send_message(QueueUrl=url, MessageBody="now", DelaySeconds=0)

        assert bodies(url) == ["now"]
        server.advance(11)
        assert bodies(url) == ["sooner"]
        server.advance(90)
        assert sorted(bodies(url, VisibilityTimeout=0)) in (["queue"], ["now", "queue", "sooner"])

    def test_changed_queue_delay_leaves_waiting_messages_alone(self, server, sqs, queue, bodies):
        url = queue(DelaySeconds="100")
        sqs.send_message(QueueUrl=url, MessageBody="x")

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})
        assert bodies(url) == []

        server.advance(101)
        assert bodies(url) == ["x"]

    def test_batch_entries_have_their_own_delay(self, server, sqs, queue, bodies):
        url = queue()
        entries = [{"Id": str(n), "MessageBody": str(n), "DelaySeconds": n * 100} for n in range(3)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)

        assert bodies(url) == ["0"]
        server.advance(101)
        assert "1" in bodies(url)
        server.advance(100)
        assert "2" in bodies(url)


class TestRetention:
    @pytest.mark.parametrize("state", ["ready", "delayed", "in flight"])
    def test_message_ends_with_its_retention_in_any_state(self, server, sqs, queue, receive, counts, state):
        url = queue(MessageRetentionPeriod="60", VisibilityTimeout="43200")
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=900 if state == "delayed" else 0)
        if state == "in flight":
            assert len(receive(url)) == 1

        server.advance(50)
        assert sum(counts(url)) == 1

        server.advance(11)
        assert counts(url) == (0, 0, 0)
        assert receive(url) == []

    def test_default_is_four_days(self, server, sqs, queue, counts):
        url = queue()
        sqs.send_message(QueueUrl=url, MessageBody="x")

        server.advance(4 * 86_400 - 60)
        assert counts(url) == (1, 0, 0)

        server.advance(61)
        assert counts(url) == (0, 0, 0)

    @pytest.mark.parametrize(("period", "left"), [("60", 0), ("1209600", 1)])
    def test_changed_retention_reaches_existing_messages(self, server, sqs, queue, counts, period, left):
        url = queue(MessageRetentionPeriod="600")
        sqs.send_message(QueueUrl=url, MessageBody="x")
        server.advance(500)

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": period})
        server.advance(200)

        assert sum(counts(url)) == left

    def test_expired_messages_unlock_their_group(self, server, sqs, fifo, receive, bodies):
        url = fifo(MessageRetentionPeriod="60", VisibilityTimeout="43200")
        sqs.send_message(QueueUrl=url, MessageBody="old", MessageGroupId="g")
        assert len(receive(url)) == 1
        server.advance(30)
        sqs.send_message(QueueUrl=url, MessageBody="young", MessageGroupId="g")
        assert bodies(url) == []

        server.advance(31)

        assert bodies(url) == ["young"]


def test_deduplication_window(server, sqs, fifo, counts):
    url = fifo()
    given = {"QueueUrl": url, "MessageBody": "x", "MessageGroupId": "g"}
    first = sqs.send_message(**given)["MessageId"]
    server.advance(290)
    assert sqs.send_message(**given)["MessageId"] == first

    server.advance(11)

    assert sqs.send_message(**given)["MessageId"] != first
    assert counts(url) == (2, 0, 0)


def test_purge_cool_down(make_server):
    server = make_server(args=["--strict"])
    json_api = JsonApi(server.endpoint)
    url = json_api.call("CreateQueue", QueueName="purged")["QueueUrl"]
    json_api.call("PurgeQueue", QueueUrl=url)
    server.advance(50)
    refused(json_api, "PurgeQueue", PREFIX + "PurgeQueueInProgress", None, 403, QueueUrl=url)

    server.advance(11)

    json_api.call("PurgeQueue", QueueUrl=url)


def test_move_task_gives_new_timestamps_and_keeps_its_pace(server, sqs, queue, arn, receive):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
    source = queue(RedrivePolicy=policy)
    for n in range(5):
        sqs.send_message(QueueUrl=dead, MessageBody=str(n))
    server.advance(1_000)
    started_at = server.now()

    sqs.start_message_move_task(
        SourceArn=arn(dead), DestinationArn=arn(source), MaxNumberOfMessagesPerSecond=1
    )
    messages = []
    for _ in range(100):
        messages += receive(source)
        if len(messages) == 5:
            break
        server.advance(0.5)

    assert len(messages) == 5
    for message in messages:
        assert int(message["Attributes"]["SentTimestamp"]) >= (started_at - 5) * 1000
    assert server.now() - started_at >= 2


def test_twelve_hours_pass_in_one_call(server, sqs, queue, receive, bodies):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert len(receive(url, VisibilityTimeout=43_200)) == 1
    assert bodies(url) == []

    server.advance(43_201)

    assert bodies(url) == ["x"]
