"""Dead-letter queues: when messages go there, and whose they are. On the test clock."""

import json

import pytest


@pytest.fixture
def pair(sqs, queue, fifo, arn):
    """A source with its dead-letter queue: (source URL, dead-letter URL)."""

    def make(max_receive_count=1, kind="standard", **dead_attributes):
        create = fifo if kind == "fifo" else queue
        dead = create(**dead_attributes)
        policy = {"deadLetterTargetArn": arn(dead), "maxReceiveCount": max_receive_count}
        return create(RedrivePolicy=json.dumps(policy), VisibilityTimeout="10"), dead

    return make


def receive_and_let_expire(server, receive, url, times):
    for n in range(times):
        (message,) = receive(url)
        assert message["Attributes"]["ApproximateReceiveCount"] == str(n + 1)
        server.advance(11)


class TestRedrive:
    @pytest.mark.parametrize("count", [1, 3])
    def test_message_is_seen_max_receive_count_times(self, server, sqs, pair, receive, bodies, counts, count):
        source, dead = pair(count)
        sqs.send_message(QueueUrl=source, MessageBody="poison")

        receive_and_let_expire(server, receive, source, count)

        # Expiry alone moves nothing: it is the next receive that does.
        assert (counts(source), counts(dead)) == ((1, 0, 0), (0, 0, 0))
        assert receive(source) == []
        assert (counts(source), counts(dead)) == ((0, 0, 0), (1, 0, 0))
        assert bodies(dead) == ["poison"]

    def test_message_keeps_what_it_was(self, server, sqs, pair, receive, arn):
        source, dead = pair(1)
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
        given = {"a": {"DataType": "Binary.x", "BinaryValue": b"\x00\xff"}}
        sqs.send_message(
            QueueUrl=source,
            MessageBody="poison",
            MessageAttributes=given,
            MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": trace}},
        )
        (before,) = receive(source)
        server.advance(11)
        assert receive(source) == []

        (after,) = receive(dead)

        for name in ("MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"):
            assert after[name] == before[name], name
        for name in ("SentTimestamp", "SenderId", "AWSTraceHeader"):
            assert after["Attributes"][name] == before["Attributes"][name], name
        assert after["Attributes"]["ApproximateReceiveCount"] == "2"
        assert after["Attributes"]["DeadLetterQueueSourceArn"] == arn(source)
        assert "DeadLetterQueueSourceArn" not in before["Attributes"]

    @pytest.mark.parametrize("how", ["receive with zero", "change to zero"])
    def test_every_receive_counts_however_it_ended(self, sqs, pair, receive, bodies, how):
        source, dead = pair(2)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        for _ in range(2):
            if how == "receive with zero":
                assert len(receive(source, VisibilityTimeout=0)) == 1
                continue
            (message,) = receive(source)
            sqs.change_message_visibility(
                QueueUrl=source, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )

        assert receive(source) == []
        assert bodies(dead) == ["poison"]

    def test_deleted_message_is_not_redriven(self, server, sqs, pair, receive, counts):
        source, dead = pair(1)
        sqs.send_message(QueueUrl=source, MessageBody="x")
        (message,) = receive(source)
        sqs.delete_message(QueueUrl=source, ReceiptHandle=message["ReceiptHandle"])
        server.advance(11)

        assert receive(source) == []
        assert counts(dead) == (0, 0, 0)

    def test_one_receive_moves_the_poisoned_and_returns_the_good(self, server, sqs, pair, receive, bodies):
        source, dead = pair(1)
        for n in range(3):
            sqs.send_message(QueueUrl=source, MessageBody=f"poison {n}")
        assert len(receive(source)) == 3
        server.advance(11)
        sqs.send_message(QueueUrl=source, MessageBody="good")

        assert bodies(source) == ["good"]
        assert sorted(bodies(dead)) == ["poison 0", "poison 1", "poison 2"]

    def test_long_poll_on_the_dead_letter_queue_wakes(self, server, sqs, pair, receive, background):
        source, dead = pair(1)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        assert len(receive(source, VisibilityTimeout=0)) == 1
        poll = background(receive, dead, WaitTimeSeconds=20)

        assert receive(source) == []

        assert [message["Body"] for message in poll.result(timeout=5)] == ["poison"]

    def test_chain(self, server, sqs, queue, arn, receive, bodies):
        last = queue()
        middle = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(last), "maxReceiveCount": 2}))
        first = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(middle), "maxReceiveCount": 1}))
        sqs.send_message(QueueUrl=first, MessageBody="poison")

        assert len(receive(first, VisibilityTimeout=0)) == 1
        assert receive(first) == []
        assert len(receive(middle, VisibilityTimeout=0)) == 1
        assert receive(middle) == []

        assert bodies(last) == ["poison"]

    def test_each_queue_of_a_chain_delivers_before_it_moves_on(self, sqs, queue, arn, receive, bodies):
        last = queue()
        middle = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(last), "maxReceiveCount": 1}))
        first = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(middle), "maxReceiveCount": 1}))
        sqs.send_message(QueueUrl=first, MessageBody="poison")

        for url in (first, middle):
            assert len(receive(url, VisibilityTimeout=0)) == 1
            assert receive(url) == []

        assert bodies(last) == ["poison"]

    @pytest.mark.parametrize("kind", ["standard", "fifo"])
    def test_queues_that_are_each_others_deliver_in_turn(self, server, sqs, pair, arn, receive, counts, kind):
        one, other = pair(2, kind, VisibilityTimeout="10")
        policy = json.dumps({"deadLetterTargetArn": arn(one), "maxReceiveCount": 2})
        sqs.set_queue_attributes(QueueUrl=other, Attributes={"RedrivePolicy": policy})
        group = {"MessageGroupId": "g"} if kind == "fifo" else {}
        sqs.send_message(QueueUrl=one, MessageBody="poison", **group)
        receive_and_let_expire(server, receive, one, 2)

        for received, (url, next_url) in enumerate([(one, other), (other, one), (one, other)], start=3):
            assert receive(url) == []
            (message,) = receive(next_url)
            assert message["Attributes"]["ApproximateReceiveCount"] == str(received)
            assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn(url)
            server.advance(11)

        assert receive(other) == []
        sqs.delete_message(QueueUrl=one, ReceiptHandle=receive(one)[0]["ReceiptHandle"])
        assert (counts(one), counts(other)) == ((0, 0, 0), (0, 0, 0))

    @pytest.mark.parametrize("kind", ["standard", "fifo"])
    def test_queue_that_is_its_own_keeps_delivering(self, server, api, sqs, queue, fifo, arn, receive, kind):
        url = (fifo if kind == "fifo" else queue)(VisibilityTimeout="10")
        policy = {"deadLetterTargetArn": arn(url), "maxReceiveCount": 1}
        api.call("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})
        group = {"MessageGroupId": "g"} if kind == "fifo" else {}
        sqs.send_message(QueueUrl=url, MessageBody="x", **group)

        receive_and_let_expire(server, receive, url, 3)

        assert api.call("ListDeadLetterSourceQueues", QueueUrl=url)["queueUrls"] == [url]
        sqs.delete_message(QueueUrl=url, ReceiptHandle=receive(url)[0]["ReceiptHandle"])
        server.advance(11)
        assert receive(url) == []

    def test_standard_message_keeps_its_age(self, server, sqs, pair, receive, counts):
        source, dead = pair(1, MessageRetentionPeriod="100")
        sqs.send_message(QueueUrl=source, MessageBody="old")
        server.advance(60)
        assert len(receive(source, VisibilityTimeout=0)) == 1
        assert receive(source) == []
        assert counts(dead) == (1, 0, 0)

        server.advance(45)

        assert counts(dead) == (0, 0, 0)

    def test_fifo_message_leaves_its_group_free(self, server, sqs, pair, receive, bodies):
        source, dead = pair(1, "fifo")
        for name in ("first", "second"):
            sqs.send_message(QueueUrl=source, MessageBody=name, MessageGroupId="g")
        assert [m["Body"] for m in receive(source, MaxNumberOfMessages=1)] == ["first"]
        server.advance(11)

        assert bodies(source) == ["second"]
        (moved,) = receive(dead)
        assert moved["Body"] == "first"
        assert moved["Attributes"]["MessageGroupId"] == "g"

    def test_without_a_policy_messages_stay(self, server, sqs, queue, receive):
        url = queue(VisibilityTimeout="0")
        sqs.send_message(QueueUrl=url, MessageBody="x")

        for n in range(20):
            (message,) = receive(url)
            assert message["Attributes"]["ApproximateReceiveCount"] == str(n + 1)

    def test_dangling_target_loses_nothing(self, sqs, pair, receive, counts):
        source, dead = pair(1)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        assert len(receive(source, VisibilityTimeout=0)) == 1

        sqs.delete_queue(QueueUrl=dead)
        receive(source, VisibilityTimeout=0)

        assert counts(source) == (1, 0, 0)


class TestSources:
    def test_all_sources_are_listed(self, api, sqs, queue, arn):
        dead = queue()
        policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
        sources = [queue(RedrivePolicy=policy) for _ in range(5)]

        listed = api.call("ListDeadLetterSourceQueues", QueueUrl=dead)
        assert sorted(listed["queueUrls"]) == sorted(sources)

        paged, token = [], {}
        while True:
            page = api.call("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2, **token)
            paged += page["queueUrls"]
            if "NextToken" not in page:
                break
            token = {"NextToken": page["NextToken"]}
        assert sorted(paged) == sorted(sources)

    def test_no_sources_is_an_empty_list(self, json_api, queue):
        assert json_api.call("ListDeadLetterSourceQueues", QueueUrl=queue()) == {"queueUrls": []}

    def test_detached_source_is_not_listed(self, json_api, sqs, pair):
        source, dead = pair()

        sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": ""})

        assert json_api.call("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": []}
